"""Where EXEC has all lanes: there a vector write defines its whole register, and no lane looks on from outside.

A vector instruction leaves the lanes that EXEC switches off as they were, so what a matrix instruction or a lane read
makes of a register hangs on values that were in it long before. Under a full EXEC there are no such lanes.

    state     the scalar register units (SGPRs, VCC, EXEC) all of whose bits are certainly ones; join is intersection
    entry     EXEC where a launch enters, if all its waves are whole (`Kernel.whole_waves`); nothing else
    transfer  what is written is taken out; then, unit by unit, its result is put in again if the operation is
                  a move (or a choice)      of -1, or of a unit (of both units) in the state
                  a | b, a | ~b             and a is in the state, or b is (of `|`)
                  a & b                     and both are
                  ..._saveexec d            EXEC to d, and then the operation on EXEC
              calls, unknown instructions and indexed writes take everything out

Greatest fixed point over all paths, from the entries on. Why it is sound: each row holds of single bits, whatever the
other half of a pair is; hardware changes EXEC in no other way than by instructions that write it (traps give it back);
and a block that no entry reaches is no place that code comes to, for which nothing is said here.

Whether all waves are whole is a matter of the launch. A wave lacks lanes from the start where the workgroup is no
multiple of the wave, or where the last workgroup of a grid is cut off. The code object rules out both if its note asks
for one workgroup size (`.reqd_workgroup_size`, a multiple of the wave) and for whole workgroups
(`.uniform_work_group_size`): launches that do otherwise break its contract. A largest size
(`.max_flat_workgroup_size`) rules out nothing, as any smaller one may be launched. So there the user has to say it
(`asmevo optimize --whole-waves`).
"""

from __future__ import annotations

import re
from functools import cached_property, lru_cache

from msgspec import Struct

from asmevo.analysis.control_flow import ControlFlow
from asmevo.analysis.forward import entry_states
from asmevo.program.instruction import Decoded, Instruction, Operand
from asmevo.program.kernel import Kernel
from asmevo.program.registers import EXEC_MASK, NAMED_SPANS, VECTOR_MASK

_FORGETS = frozenset({"unknown", "unlisted_def", "call", "return", "indexed_def"})
_OPERATION = re.compile(r"s_(mov|cselect|or|orn2|or_not1|and)(_saveexec)?_b(?:32|64)$")
_EXEC_LO = NAMED_SPANS["exec"].base_unit
_PAIRED = 64  # lanes of a wave whose masks take two registers
_ONES = "-1"


class FullExec(Struct, frozen=True, dict=True):
    """The analysis of one kernel."""

    kernel: Kernel

    def places(self, block: int) -> int:
        """Bit `n`: EXEC has all lanes in front of the block's instruction `n`; the bit behind the last: behind it."""
        code = self.kernel.blocks[block].instructions
        state = self._entries.get(block)
        if state is None:
            return 0
        state = self._at(block, state)
        full = start = 0
        for place, decoded in _scalar_writes(code):
            if self._is_full(state):
                full |= (2 << place) - (1 << start)
            state, start = _behind(decoded, state), place + 1
        return full | ((2 << len(code)) - (1 << start) if self._is_full(state) else 0)

    @cached_property
    def lanes(self) -> int:
        """EXEC as far as the wave has lanes."""
        return EXEC_MASK if self.kernel.wave_size == _PAIRED else 1 << _EXEC_LO

    def _is_full(self, state: int) -> bool:
        return state & self.lanes == self.lanes

    @cached_property
    def launched(self) -> int:
        """The state where a launch enters."""
        return self.lanes if self.kernel.whole_waves and self.kernel.is_entry else 0

    @cached_property
    def _launch_blocks(self) -> frozenset[int | None]:
        return frozenset(self.kernel.block_at(offset) for offset in self.kernel.entry_offsets[1:])

    def _at(self, block: int, state: int) -> int:
        """What holds in front of a block if this is known from the paths to it: launches may enter there, too."""
        return state & self.launched if block in self._launch_blocks else state

    @cached_property
    def _entries(self) -> dict[int, int]:
        blocks = self.kernel.blocks
        if not self.launched and not any(_fills_exec(block.instructions) for block in blocks):
            return {}

        def through(block: int, state: int) -> int:
            state = self._at(block, state)
            for _, decoded in _scalar_writes(blocks[block].instructions):
                state = _behind(decoded, state)
            return state

        return entry_states(
            ControlFlow(self.kernel), self.launched, through, lambda known, new: new if known is None else known & new
        )


@lru_cache(maxsize=1 << 12)
def _scalar_writes(code: tuple[Instruction, ...]) -> tuple[tuple[int, Decoded], ...]:
    """(place, instruction) of all that writes scalar registers, or may; versions share most of their blocks."""
    return tuple(
        (place, each.decoded)
        for place, each in enumerate(code)
        if each.decoded.writes & ~VECTOR_MASK or not _FORGETS.isdisjoint(each.decoded.flags)
    )


def _fills_exec(code: tuple[Instruction, ...]) -> bool:
    """Whether some instruction writes EXEC and names -1: without one no EXEC becomes full but at the launch."""
    return any(
        decoded.writes & EXEC_MASK and any(each.text == _ONES for each in decoded.operands)
        for _, decoded in _scalar_writes(code)
    )


def _behind(decoded: Decoded, state: int) -> int:
    """The state behind an instruction."""
    if not _FORGETS.isdisjoint(decoded.flags):
        return 0
    kept = state & ~decoded.writes
    operation = _OPERATION.match(decoded.mnemonic)
    into = decoded.operands[0].registers if operation is not None and decoded.operands else None
    if operation is None or into is None:
        return kept
    sources = [_ones(each, into.count, state) for each in decoded.operands[1:]]
    base = into.base_unit
    if operation[2]:
        saved = state >> _EXEC_LO & (1 << into.count) - 1
        kept |= saved << base
        sources.append(saved)
        base = _EXEC_LO
    return kept | _result(operation[1], sources) << base


def _ones(operand: Operand, count: int, state: int) -> int:
    """Bit `n`: word `n` of an operand of `count` words is all ones."""
    everything = (1 << count) - 1
    if operand.registers is None:
        return everything if operand.text == _ONES else 0
    return state >> operand.registers.base_unit & everything


def _result(operation: str, sources: list[int]) -> int:
    """The words of a result that are all ones, from those of its sources."""
    if operation in ("and", "cselect"):
        return sources[0] & sources[1]
    return sources[0] | sources[1] if operation == "or" else sources[0]
