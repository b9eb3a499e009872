"""Where code may read a register that nobody wrote: what the compiled engine has to watch at run time.

A forward analysis over the blocks. Lattice: sets of register units that have certainly been written, ordered by
inclusion; paths meet by intersection; every block starts from all units and only loses some. Transfer: an
instruction adds the units it writes, whatever EXEC is, as the reference engine counts them. At the entry it is what
the launch sets. Where code jumps to addresses (calls, returns), any block may be next, so each starts with the
entry's set, which holds everywhere because a written register stays written. So it is where waves start inside
a block (`entry` None).

Soundness: the set before an instruction is a subset of what has been written on any path to it. So an instruction
whose reads all lie in it never reads an unwritten register, and needs no check. For the others, the few units in
question ("watched") are tracked by a byte each: every instruction that writes one marks it. Most kernels have none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from asmevo.emulator.code import Step
from asmevo.program.instruction import Decoded
from asmevo.program.registers import EXEC_MASK, M0_MASK, MODE_MASK, NAMED_SPANS, SCC_MASK, UNIT_COUNT
from asmevo.semantics.expression import Control
from asmevo.semantics.operands import bit_list, source_position

_ALL = (1 << UNIT_COUNT) - 1
# EXEC and MODE are set by the launch; M0 and FLAT_SCRATCH are inputs that many instructions have and few use.
_NEVER_POISON = EXEC_MASK | MODE_MASK | M0_MASK | NAMED_SPANS["flat_scratch"].mask

_PACKED, _PACKED_MOVE, _PAIR_BITS = "v_pk_", "v_pk_mov_b32", 64


def used_units(decoded: Decoded) -> int:
    """The units whose values an instruction uses. A destination that only keeps its old value is no use of it."""
    reads = decoded.reads & ~_unchosen_units(decoded)
    return reads & ~decoded.writes & ~_NEVER_POISON | reads & decoded.writes & SCC_MASK


def _unchosen_units(decoded: Decoded) -> int:
    """Registers of pairs that a packed 32-bit operation names and does not read.

    `op_sel` chooses the register of each pair for the low result, `op_sel_hi` for the high one; v_pk_mov_b32 takes one
    register of each source, by `op_sel`. Compilers let the other register of a pair be anything.
    """
    if not decoded.mnemonic.startswith(_PACKED):
        return 0
    named = read = 0
    for index, operand in enumerate(decoded.operands):
        if operand.registers is None or not operand.read:
            continue
        mask = operand.registers.mask
        named |= mask
        if operand.registers.bits != _PAIR_BITS:
            read |= mask
            continue
        low = mask & -mask
        for half in _chosen_halves(decoded, source_position(decoded, index)):
            read |= mask ^ low if half else low
    return named & ~read


def _chosen_halves(decoded: Decoded, position: int) -> tuple[int, ...]:
    low = (*bit_list(decoded, "op_sel"), 0, 0, 0)[position]
    if decoded.mnemonic.startswith(_PACKED_MOVE):
        return (low,)
    return (low, (bit_list(decoded, "op_sel_hi") or (1, 1, 1))[position])


class UnwrittenReads:
    """The analysis of `blocks` (rows of steps); `behind` and `branch` give the blocks that follow each, if any."""

    def __init__(
        self,
        blocks: Sequence[Sequence[Step]],
        successors: Sequence[Sequence[int]],
        entry: int | None,
        start: int,
    ) -> None:
        self._blocks = blocks
        self._before = self._solved(successors, entry, start)
        self.uncertain: Mapping[int, int] = self._found()
        self.watched = 0
        for units in self.uncertain.values():
            self.watched |= units

    def _solved(self, successors: Sequence[Sequence[int]], entry: int | None, start: int) -> list[int]:
        """The certain units before each block."""
        if entry is None or any(step.meaning.control is Control.JUMP for block in self._blocks for step in block):
            return [start] * len(self._blocks)
        writes = [0] * len(self._blocks)
        for number, block in enumerate(self._blocks):
            for step in block:
                writes[number] |= step.instruction.decoded.writes
        before = [_ALL] * len(self._blocks)
        before[entry] = start
        waiting = [entry]
        while waiting:
            number = waiting.pop()
            after = before[number] | writes[number]
            for other in successors[number]:
                met = before[other] & after
                if met != before[other]:
                    before[other] = met
                    waiting.append(other)
        return before

    def _found(self) -> dict[int, int]:
        found = {}
        for number, block in enumerate(self._blocks):
            certain = self._before[number]
            for step in block:
                decoded = step.instruction.decoded
                missing = used_units(decoded) & ~certain
                if missing:
                    found[step.place] = missing
                certain |= decoded.writes
        return found

    def certain(self, block: int, place: int) -> int:
        """The units that have certainly been written before the instruction `place` of a block."""
        units = self._before[block]
        for step in self._blocks[block]:
            if step.place == place:
                break
            units |= step.instruction.decoded.writes
        return units & ~self.watched
