"""How many VGPRs a version of a kernel may name, and the descriptor that gives them to it.

A wave is given registers in granules, and a SIMD holds a whole number of waves: between two occupancy steps lie
registers that cost nothing. A kernel with 56 VGPRs of which a SIMD of 512 holds 8 waves may as well name 64. What
bounds the step is the number of waves that the kernel has now, whatever limits it (LDS that is asked for at launch is
not known; the answer is then on the safe side).

In a unified file the AGPRs begin behind the VGPRs, at a multiple of the accum_offset granule, so more VGPRs move them
up, and both together count. AGPRs that the descriptor gives but nobody names are rounding: Triton's 124 VGPRs and 4
AGPRs are 124 VGPRs in granules of 8, and asking for 128 and 4 would cost a step.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from asmevo.analysis.occupancy import occupancy
from asmevo.analysis.pressure import register_use
from asmevo.analysis.unseen_registers import unseen_uses
from asmevo.program.descriptor import KernelDescriptor
from asmevo.program.kernel import Block, Kernel
from asmevo.program.register_counts import RegisterCounts, register_counts, with_register_counts


def vgpr_room(kernel: Kernel) -> int:
    """How many VGPRs a kernel may name without fewer waves on a SIMD; of a function, what it names."""
    named = register_use(kernel).vgprs
    if kernel.descriptor is None:
        return named
    waves, least = waves_by_vgprs(kernel), occupancy(kernel).waves
    most = range(kernel.target.vgpr.max_addressable.value, named, -1)
    return next((vgprs for vgprs in most if waves(vgprs) >= least), named)


def waves_by_vgprs(kernel: Kernel) -> Callable[[int], int]:
    """Waves on a SIMD of a kernel that is given another number of VGPRs and is the same in all else."""
    target, size = kernel.target, kernel.wave_size
    others = min(limit.waves for limit in occupancy(kernel).limits if limit.resource != "VGPRs")
    use = replace(register_use(kernel), agprs=_needed(kernel).agprs)
    return lambda vgprs: min(others, target.waves_for_vgprs(replace(use, vgprs=vgprs).total_vgprs(target), size))


def descriptor_with(kernel: Kernel, vgprs: int) -> KernelDescriptor:
    """The kernel's descriptor with another number of VGPRs. Raises ValueError where the target has not so many."""
    assert kernel.descriptor is not None
    return with_register_counts(
        kernel.descriptor, replace(_needed(kernel), vgprs=vgprs), kernel.target, kernel.wave_size
    )


def roomier_descriptor(kernel: Kernel, blocks: tuple[Block, ...]) -> KernelDescriptor | None:
    """A descriptor for a version that names more VGPRs than the kernel's own gives; None where that one will do."""
    if kernel.descriptor is None:
        return None
    given = register_counts(kernel.descriptor, kernel.target, kernel.wave_size)
    named = register_use(kernel.with_blocks(blocks)).vgprs
    return descriptor_with(kernel, named) if named > given.vgprs else None


def _needed(kernel: Kernel) -> RegisterCounts:
    """What the descriptor gives, without AGPRs that only come from rounding."""
    assert kernel.descriptor is not None
    given = register_counts(kernel.descriptor, kernel.target, kernel.wave_size)
    if next(unseen_uses(kernel), None) is not None:
        return given
    return replace(given, agprs=register_use(kernel).agprs)
