"""How many registers a descriptor asks for, in both directions.

A descriptor counts in granules. Vector registers of a unified file (gfx90a on) are the VGPRs, up to the next granule
of accum_offset, and the AGPRs behind them; in separate files (gfx908) one number counts for both. Where every wave gets
the same number of SGPRs the descriptor says nothing of them.
"""

from __future__ import annotations

from msgspec import Struct

from asmevo.program.descriptor import KernelDescriptor
from asmevo.target import Target


class RegisterCounts(Struct, frozen=True):
    """Registers of each file that the code of a wave may name; SGPRs with VCC and the other extras."""

    vgprs: int
    agprs: int
    sgprs: int


def encoded_vgprs(descriptor: KernelDescriptor, target: Target, wave_size: int) -> int:
    """Vector registers that the descriptor's granules stand for, those of both kinds in a unified file."""
    return (descriptor.field("granulated_vgpr_count") + 1) * target.vgpr_encoding_granule(wave_size)


def register_counts(descriptor: KernelDescriptor, target: Target, wave_size: int) -> RegisterCounts:
    """What a descriptor gives the code of a wave."""
    total = encoded_vgprs(descriptor, target, wave_size)
    kind = target.vgpr.agprs.value
    vgprs, agprs = min(total, target.vgpr.max_addressable.value), 0
    if kind == "separate":
        agprs = vgprs
    elif kind == "unified":
        offset = (descriptor.field("accum_offset_encoded") + 1) * target.vgpr.accum_offset_granule.value
        vgprs, agprs = min(offset, total), max(0, total - offset)
    return RegisterCounts(vgprs, agprs, _sgprs(descriptor, target))


def with_register_counts(
    descriptor: KernelDescriptor, counts: RegisterCounts, target: Target, wave_size: int
) -> KernelDescriptor:
    """The descriptor that asks for at least these numbers, and for no granule more.

    Raises ValueError for numbers that the target does not have.
    """
    if counts.vgprs > target.vgpr.max_addressable.value:
        raise ValueError(f"{target.name} has no {counts.vgprs} VGPRs a wave")
    kind = target.vgpr.agprs.value
    if kind == "none" and counts.agprs:
        raise ValueError(f"{target.name} has no AGPRs")
    total = max(counts.vgprs, counts.agprs)
    if kind == "unified":
        granule = target.vgpr.accum_offset_granule.value
        offset = max(_rounded(counts.vgprs, granule), granule)
        descriptor = descriptor.with_field("accum_offset_encoded", offset // granule - 1)
        total = offset + counts.agprs if counts.agprs else counts.vgprs
    granules = max(_granules(total, target.vgpr_encoding_granule(wave_size)), 1)
    descriptor = descriptor.with_field("granulated_vgpr_count", granules - 1)
    if target.sgpr.fixed_allocation.value or counts.sgprs == _sgprs(descriptor, target):
        return descriptor
    granules = max(_granules(counts.sgprs, target.sgpr.encoding_granule.value), 1)
    return descriptor.with_field("granulated_sgpr_count", granules - 1)


def _sgprs(descriptor: KernelDescriptor, target: Target) -> int:
    if target.sgpr.fixed_allocation.value:
        return target.sgpr.fixed_allocation.value
    return (descriptor.field("granulated_sgpr_count") + 1) * target.sgpr.encoding_granule.value


def _granules(count: int, granule: int) -> int:
    return -(-count // granule)


def _rounded(count: int, granule: int) -> int:
    return _granules(count, granule) * granule
