"""Which vector registers may differ from lane to lane because of work-item ids or the lane's number, at every point.

Lattice: a set of vector register units; join is union. At the entry it is what holds work-item ids. Transfer: what an
instruction writes is in the set if it reads a unit of the set, or asks for the lane's number. Else it leaves the set
where all lanes that the code began with are on (`item_flow`); with fewer the others keep what they had.

Only what flows through vector registers is followed: not what lanes are left behind by a branch, nor memory that other
lanes wrote. The set holds nothing that does not differ but for arithmetic (v0 - v0), as far as entries are right.
"""

from __future__ import annotations

from functools import cache, cached_property

from msgspec import Struct

from asmevo.analysis.control_flow import ControlFlow
from asmevo.analysis.events import union
from asmevo.analysis.forward import entry_states
from asmevo.program.dual_halves import halves_of
from asmevo.program.instruction import Decoded, Instruction
from asmevo.program.kernel import Kernel
from asmevo.program.registers import VECTOR_MASK

_LANE_NUMBER = "v_mbcnt_"


class LaneDependence(Struct, frozen=True, dict=True):
    """The analysis of one kernel or function; `at_entry` is the set where its code begins."""

    kernel: Kernel
    flow: ControlFlow
    at_entry: int

    def differs(self, block: int, instruction: Instruction) -> bool:
        """Whether an instruction of a block may read what differs from lane to lane."""
        divergent = self._entries.get(block, 0)
        for each in self.kernel.blocks[block].instructions:
            if each is instruction:
                break
            divergent = self._behind(each, divergent)
        return bool(instruction.reads & divergent)

    @cached_property
    def _entries(self) -> dict[int, int]:
        return entry_states(self.flow, self.at_entry, self._through, lambda one, two: two if one is None else one | two)

    @cached_property
    def _whole(self) -> frozenset[int]:
        from asmevo.analysis.item_flow import ItemFlow  # few kernels ask

        return ItemFlow(self.kernel, self.flow, 0).with_all_lanes

    def _through(self, block: int, divergent: int) -> int:
        for instruction in self.kernel.blocks[block].instructions:
            divergent = self._behind(instruction, divergent)
        return divergent

    def _behind(self, instruction: Instruction, divergent: int) -> int:
        if not instruction.writes & VECTOR_MASK:
            return divergent
        asks = instruction.mnemonic.startswith(_LANE_NUMBER)
        found = divergent
        for reads, written in _flows(instruction.decoded):
            if reads & divergent or asks:
                found |= written
            elif instruction.id in self._whole:
                found &= ~written
        return found


@cache
def _flows(decoded: Decoded) -> tuple[tuple[int, int], ...]:
    """What is read for which vector registers; the halves of a dual instruction each for themselves."""
    if not decoded.mnemonic.startswith("v_dual_"):
        return ((decoded.reads, decoded.writes & VECTOR_MASK),)
    return tuple(
        (half.reads, union(each.registers.mask for each in half.operands if each.written and each.registers))
        for half in halves_of(decoded)
    )
