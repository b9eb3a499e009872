"""Register pressure and register use: how many registers a kernel needs at each point, and how many it has.

Pressure at an instruction is the number of registers that hold values the lanes at work still need
(`Liveness`, the sets `current`): those live in front of it, or those live behind it together with its
results, whichever are more; a result that nobody reads needs a register all the same. VCC, EXEC and the
like are no numbered registers and are not counted.

Use is what the encodings name: the highest index of each file plus one. The allocation is what the
descriptor asks for, rounded as the hardware does it.
"""

from __future__ import annotations

from functools import lru_cache

from msgspec import Struct

from asmevo.analysis.liveness import Liveness
from asmevo.program.descriptor import KernelDescriptor
from asmevo.program.instruction import Decoded, Instruction
from asmevo.program.kernel import Kernel
from asmevo.program.register_counts import encoded_vgprs, register_counts
from asmevo.program.registers import AGPR_MASK, SGPR_MASK, VGPR_MASK, RegisterFile
from asmevo.target import Target


class Pressure(Struct, frozen=True):
    """Live registers of each file at one instruction."""

    instruction: Instruction
    vgprs: int
    agprs: int
    sgprs: int


class PressureProfile(Struct, frozen=True):
    """Pressure at every instruction, in the order of the code; the maxima name the first place."""

    points: tuple[Pressure, ...]

    def maximum(self, file: RegisterFile) -> Pressure | None:
        """Where most registers of VGPR, AGPR or SGPR are live; None for an empty kernel.

        Raises KeyError for other files.
        """
        key = {
            RegisterFile.VGPR: lambda point: point.vgprs,
            RegisterFile.AGPR: lambda point: point.agprs,
            RegisterFile.SGPR: lambda point: point.sgprs,
        }[file]
        return max(self.points, key=key, default=None)


def pressure_profile(kernel: Kernel, liveness: Liveness | None = None) -> PressureProfile:
    """The profile of a kernel. `liveness` may be handed over if the caller has it."""
    live = liveness if liveness is not None else Liveness(kernel)
    named = _named_registers(kernel)
    points: list[Pressure] = []
    for block in kernel.blocks:
        states = live.states(block.index)
        for place, instruction in enumerate(block.instructions):
            before = states[place].current & named
            behind = (states[place + 1].current | instruction.writes) & named
            points.append(_pressure(instruction, before, behind))
    return PressureProfile(tuple(points))


def _named_registers(kernel: Kernel) -> int:
    """Where liveness assumes the worst it names registers that the kernel does not even have."""
    named = 0
    for instruction in kernel.instructions:
        named |= instruction.reads | instruction.writes
    return named


def _pressure(instruction: Instruction, before: int, behind: int) -> Pressure:
    def most(file_mask: int) -> int:
        return max((before & file_mask).bit_count(), (behind & file_mask).bit_count())

    return Pressure(instruction, most(VGPR_MASK), most(AGPR_MASK), most(SGPR_MASK))


class RegisterUse(Struct, frozen=True):
    """Registers that the code names (`vgprs` = highest index + 1), 0 where it names none of the file.

    `sgprs` leaves VCC and the other named ones out.
    """

    vgprs: int
    agprs: int
    sgprs: int

    def total_vgprs(self, target: Target) -> int:
        """What a wave needs of the vector registers that decide occupancy.

        In a unified file AGPRs start behind the VGPRs at a multiple of the accum_offset granule; in
        separate files the larger one counts.
        """
        kind = target.vgpr.agprs.value
        if kind == "unified" and self.agprs:
            return _round_up(self.vgprs, target.vgpr.accum_offset_granule.value) + self.agprs
        return max(self.vgprs, self.agprs)


class Allocation(Struct, frozen=True):
    """What a descriptor gives a wave. `vgprs` and `agprs` are the indices that may be named.

    `total_vgprs` is the encoded count of vector registers, `allocated_vgprs` the same rounded up to what
    the hardware hands out. `sgprs` counts VCC and the other extras; where every wave has the same number
    it is that.
    """

    vgprs: int
    agprs: int
    sgprs: int
    total_vgprs: int
    allocated_vgprs: int


def register_use(kernel: Kernel) -> RegisterUse:
    """The registers that a kernel's encodings name. Indexed accesses count with the printed register."""
    named = [_ends(decoded) for decoded in {instruction.decoded for instruction in kernel.instructions}]
    vgprs, agprs, sgprs = map(max, zip((0, 0, 0), *named, strict=True))
    return RegisterUse(vgprs, agprs, sgprs)


@lru_cache(maxsize=1 << 14)
def _ends(decoded: Decoded) -> tuple[int, int, int]:
    """One behind the highest VGPR, AGPR and SGPR that an encoding names."""
    files = (RegisterFile.VGPR, RegisterFile.AGPR, RegisterFile.SGPR)
    spans = [each.registers for each in decoded.operands if each.registers is not None]
    vgprs, agprs, sgprs = (max((s.first + s.count for s in spans if s.file is file), default=0) for file in files)
    return vgprs, agprs, sgprs


def allocation(target: Target, wave_size: int, descriptor: KernelDescriptor) -> Allocation:
    """What the descriptor of a kernel gives each wave."""
    total = encoded_vgprs(descriptor, target, wave_size)
    counts = register_counts(descriptor, target, wave_size)
    allocated = _round_up(total, target.vgpr_granule(wave_size))
    return Allocation(counts.vgprs, counts.agprs, counts.sgprs, total, allocated)


def _round_up(value: int, granule: int) -> int:
    return -(-value // granule) * granule
