"""Scalar registers as masks of lanes: which are all ones or all zeros in every wave alike, and which have a lane.

Compilers keep a uniform condition as a mask of lanes, all ones or all zeros, and ask `mask & EXEC`. The result is no
uniform value (lanes may be missing in a wave), but it is zero in all waves or in none, as long as every wave has a lane
in EXEC. Sets of register units, wave-wide registers whole, join is intersection of each:

    masks   all ones or all zeros, the same in all waves: a choice between -1 and 0 on a uniform SCC, and logic of such
    zeros   zero in all waves or in none: EXEC and (or and not) a mask while EXEC has a lane; SCC says the same of it
    lanes   at least one bit is set: EXEC at launch, copies of it, what s_..._saveexec keeps of it, and `or` with such

Transfer. What writes a register, or half of one, takes it out of all sets; the operations above put it in again.
Masks and zeros need waves that come by together (a choice made on one side of a divergent branch is not the same in
all), lanes are each wave's own affair.
"""

from __future__ import annotations

from typing import NamedTuple

from asmevo.program.instruction import Decoded, Operand
from asmevo.program.registers import EXEC_MASK, SGPR_MASK, VCC_MASK, units_of

_LOGIC = frozenset({"mov", "not", "and", "or", "xor", "nand", "nor", "xnor", "andn2", "orn2", "and_not1", "or_not1"})
_ASKS = frozenset({"and", "andn2", "and_not1"})
_CONSTANTS = ("-1", "0")
_PAIRED = 64  # lanes of a wave whose masks take two registers
_EVEN = sum(1 << unit for unit in list(units_of(SGPR_MASK))[::2]) | (VCC_MASK & -VCC_MASK) | (EXEC_MASK & -EXEC_MASK)


class LaneMasks(NamedTuple):
    """The sets at one point; see the module."""

    masks: int = 0
    zeros: int = 0
    lanes: int = EXEC_MASK

    def __and__(self, other: LaneMasks) -> LaneMasks:
        return LaneMasks(self.masks & other.masks, self.zeros & other.zeros, self.lanes & other.lanes)

    def behind(self, decoded: Decoded, wave_size: int, *, together: bool, scc: bool) -> tuple[LaneMasks, bool]:
        """The sets behind an instruction, and whether it sets SCC alike in all waves for the sake of a mask.

        `together`: all waves come by here; `scc`: SCC is the same in all of them in front of it.
        """
        written = decoded.writes
        whole = written
        if wave_size == _PAIRED:
            whole |= (written & _EVEN) << 1 | (written >> 1) & _EVEN
        masks, zeros, lanes = self.masks & ~whole, self.zeros & ~whole, self.lanes & ~whole
        name, _, width = decoded.mnemonic.removeprefix("s_").rpartition("_")
        operands = decoded.operands
        if "salu" not in decoded.flags or width != f"b{wave_size}" or not operands or operands[0].registers is None:
            return LaneMasks(masks, zeros, lanes), False
        result, sources = operands[0].registers.mask, operands[1:]
        if self._has_lanes(name, sources):
            lanes |= result
        asks = together and name in _ASKS and self._asks(name, sources)
        if asks:
            zeros |= result
        logical = name in _LOGIC and all(self._is_mask(each) for each in sources)
        chosen = name == "cselect" and scc and all(each.text in _CONSTANTS for each in sources)
        if together and (logical or chosen):
            masks |= result
            zeros |= result
        return LaneMasks(masks, zeros, lanes), asks

    def _is_mask(self, operand: Operand) -> bool:
        held = operand.registers
        return operand.text in _CONSTANTS if held is None else held.mask & self.masks == held.mask

    def _asks(self, name: str, sources: tuple[Operand, ...]) -> bool:
        """Whether it is EXEC and a mask; EXEC is the one that is taken as it is."""
        whole = [bool(s.registers and s.registers.mask & EXEC_MASK) for s in sources]
        first = whole[0] and self._is_mask(sources[1])
        second = name == "and" and whole[1] and self._is_mask(sources[0])
        return bool(self.lanes & EXEC_MASK) and (first or second)

    def _has_lanes(self, name: str, sources: tuple[Operand, ...]) -> bool:
        """Whether the operation's result has a bit set for certain."""
        if name.endswith("_saveexec"):
            return bool(self.lanes & EXEC_MASK)
        full = [
            each.text == "-1" if each.registers is None else each.registers.mask & self.lanes == each.registers.mask
            for each in sources
        ]
        return (name == "mov" and full[0]) or (name == "or" and any(full))
