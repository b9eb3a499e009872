"""Which scalar registers hold the same value in all waves of a workgroup, and which branches go the same way in all.

Lattice at a point: a set of register units (SGPRs, VCC, SCC, M0) known to be uniform; join is intersection. At the
entry of a kernel these are the pointers and preloaded arguments among the user SGPRs, and the workgroup's id.

Transfer. A scalar ALU instruction's results are uniform if all that it reads is; its operation is a function of that
alone (those that ask the machine, s_get..., s_movrel..., are not taken). A scalar load through the kernel argument
pointer brings the same to every wave: nobody writes that segment while a kernel runs. Everything else that writes a
unit takes it out of the set. EXEC is never uniform: lanes may be missing in the last wave.

Control. A conditional branch is uniform if it tests SCC or VCC and that is uniform at its end of the block (of VCC it
is enough that it is zero in all or in none, of EXEC that every wave has a lane, see `lane_masks`). Waves part
at every other one until the blocks that every way on from it to an end must pass (its post-dominators): what lies
between is its region, the branch's own block with it where a way leads back there. Waves go through a region a
different number of times and by different ways, so nothing written there is uniform, there or behind. Taking writes out
can make more branches divergent, which makes more regions; both only grow, until nothing changes.

Soundness. By induction over the blocks outside of all regions in the order of execution: all waves come by the same
ones, with the same values in the units of the set. Where control cannot be followed (calls, jumps to no label, no way
to an end) everything is divergent.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

from msgspec import Struct

from asmevo.analysis.control_flow import ControlFlow, Exit
from asmevo.analysis.forward import entry_states
from asmevo.analysis.lane_masks import LaneMasks
from asmevo.analysis.memory import MemoryKind, memory_effect
from asmevo.program.instruction import Decoded
from asmevo.program.kernel import Kernel
from asmevo.program.registers import EXEC_MASK, SCC_MASK, UNIT_COUNT, VCC_MASK, VECTOR_MASK, RegisterFile, RegisterSpan

_ON_SCC = ("s_cbranch_scc0", "s_cbranch_scc1")
_ON_VCC = ("s_cbranch_vccz", "s_cbranch_vccnz")
_ON_EXEC = ("s_cbranch_execz", "s_cbranch_execnz")
_ASK_THE_MACHINE = ("s_get", "s_movrel", "s_sendmsg", "s_ttrace", "s_alloc_vgpr", "s_barrier")
_POINTERS = ("user_sgpr_kernarg_segment_ptr", "user_sgpr_dispatch_ptr")
_PRELOADED = "kernarg_preload"
_WORKGROUP_IDS = tuple(f"system_sgpr_workgroup_id_{axis}" for axis in "xyz")
_TTMP_WITH_IDS = (7, 9)  # y and z in one, x
_FIRST_POINTER = 1 << UNIT_COUNT


class _Known(NamedTuple):
    """Uniform units (and intact pointers) at a point, and what is known of masks there."""

    units: int
    masks: LaneMasks = LaneMasks()


def _both(first: _Known | None, second: _Known) -> _Known:
    """What holds on either of two ways; None is a way not seen yet."""
    return second if first is None else _Known(first.units & second.units, first.masks & second.masks)


class Uniformity(Struct, frozen=True, dict=True):
    """The analysis of one kernel (an entry; functions are called with registers that nobody knows)."""

    kernel: Kernel

    @cached_property
    def flow(self) -> ControlFlow:
        """The kernel's control flow."""
        return ControlFlow(self.kernel)

    @cached_property
    def divergent_blocks(self) -> frozenset[int]:
        """Blocks that waves of a workgroup may go through differently often, or in another order with others."""
        everywhere = frozenset(range(len(self.kernel.blocks)))
        if not self._can_be_followed:
            return everywhere
        divergent: frozenset[int] = frozenset()
        while True:
            more = divergent
            for block, known in self._entries(divergent).items():
                if len(self.flow.successors[block]) > 1 and not self._branches_alike(block, known, divergent):
                    region = self._region(block)
                    more |= everywhere if region is None else region
            if more == divergent:
                return divergent
            divergent = more

    @property
    def _can_be_followed(self) -> bool:
        exits = {self.flow.exits[block] for block in self.flow.reachable}
        calls = any("call" in instruction.flags for instruction in self.kernel.instructions)
        return self.kernel.is_entry and self.kernel.descriptor is not None and exits <= {None, Exit.ENDS} and not calls

    def _entries(self, divergent: frozenset[int]) -> dict[int, _Known]:
        """What is known at the entry of each block."""
        return entry_states(
            self.flow, self._at_launch, lambda block, known: self._behind(block, known, divergent), _both
        )

    def _behind(self, block: int, known: _Known, divergent: frozenset[int]) -> _Known:
        for decoded in self._scalar_code[block]:
            known = self._after(decoded, known, block not in divergent)
        return known

    @cached_property
    def _scalar_code(self) -> list[list[Decoded]]:
        """By block, the instructions that write anything but vector registers."""
        return [
            [each.decoded for each in block.instructions if each.writes & ~VECTOR_MASK] for block in self.kernel.blocks
        ]

    def _after(self, decoded: Decoded, known: _Known, together: bool) -> _Known:
        """What is known behind an instruction."""
        scc = bool(known.units & SCC_MASK)
        masks, asked = known.masks.behind(decoded, self.kernel.wave_size, together=together, scc=scc)
        units = known.units & ~decoded.writes
        units &= ~sum(bit for bit, pointer in self._pointers.items() if decoded.writes & pointer)
        if together and self._is_uniform(decoded, known.units):
            units |= decoded.writes & ~EXEC_MASK
        return _Known(units | (SCC_MASK if asked else 0), masks)

    def _is_uniform(self, decoded: Decoded, units: int) -> bool:
        if decoded.reads & ~units:
            return False
        if "smem" in decoded.flags:
            intact = [pointer for bit, pointer in self._pointers.items() if units & bit]
            return decoded.mnemonic.startswith("s_load_") and any(decoded.reads & each == each for each in intact)
        plain = memory_effect(decoded).kind is MemoryKind.NONE and not decoded.mnemonic.startswith(_ASK_THE_MACHINE)
        return "salu" in decoded.flags and plain

    @cached_property
    def _pointers(self) -> dict[int, int]:
        """Registers that point to what nobody writes, by the bit that says that they still do."""
        found = {}
        for number, (_, units) in enumerate(self._inputs(_POINTERS)):
            found[_FIRST_POINTER << number] = units
        return found

    def _inputs(self, names: tuple[str, ...]) -> list[tuple[str, int]]:
        assert self.kernel.descriptor is not None
        return [
            (name, RegisterSpan(RegisterFile.SGPR, first, count).mask)
            for name, first, count in self.kernel.descriptor.user_sgprs()
            if name in names
        ]

    @cached_property
    def _at_launch(self) -> _Known:
        """What is known at the entry of the kernel; a bit of the units for each pointer."""
        descriptor = self.kernel.descriptor
        assert descriptor is not None
        units = sum(self._pointers) | sum(mask for _, mask in self._inputs((*_POINTERS, _PRELOADED)))
        if self.kernel.target.abi.workgroup_ids.value == "ttmp":
            return _Known(units | sum(RegisterSpan(RegisterFile.TTMP, number).mask for number in _TTMP_WITH_IDS))
        ids = sum(descriptor.field(name) for name in _WORKGROUP_IDS)
        first = descriptor.field("user_sgpr_count")
        return _Known(units | (RegisterSpan(RegisterFile.SGPR, first, ids).mask if ids else 0))

    def _branches_alike(self, block: int, known: _Known, divergent: frozenset[int]) -> bool:
        branch = self.kernel.blocks[block].instructions[-1]
        behind = self._behind(block, known, divergent)
        if branch.mnemonic in _ON_SCC:
            return bool(behind.units & SCC_MASK)
        if branch.mnemonic in _ON_EXEC:
            return behind.masks.lanes & EXEC_MASK == EXEC_MASK
        tested = branch.reads & VCC_MASK
        alike = tested & ~behind.units == 0 or tested & ~behind.masks.zeros == 0
        return branch.mnemonic in _ON_VCC and bool(tested) and alike

    def _region(self, block: int) -> frozenset[int] | None:
        """Blocks on ways from a branch before all of them meet again; None if some way meets no end."""
        ends = frozenset(index for index in self.flow.reachable if self.flow.exits[index] is Exit.ENDS)
        around = self._reached(block, frozenset())
        if not around & ends:
            return None
        meeting = {m for m in around if m != block and not self._reached(block, frozenset({m})) & (ends - {m})}
        return self._reached(block, frozenset(meeting)) - meeting

    def _reached(self, block: int, closed: frozenset[int]) -> frozenset[int]:
        """Blocks that some way from the end of a block comes to without passing the closed ones."""
        found: set[int] = set()
        waiting = list(self.flow.successors[block])
        while waiting:
            each = waiting.pop()
            if each not in found and each not in closed:
                found.add(each)
                waiting += self.flow.successors[each]
        return frozenset(found)
