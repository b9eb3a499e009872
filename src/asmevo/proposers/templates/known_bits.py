"""What is certain of the bits of a register: whether an address is a multiple of 8, a factor below 2**24.

A block is run on symbols (`prover.lifting`), and the bits of a value that are certainly 0 follow from its term. What a
block finds in a register is known if the whole kernel writes it in one place only and nobody can read it before that:
then it is what that place wrote. Within a block the last writer decides, if EXEC is the same at both places, since a
lane that was off there has another value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from asmevo.analysis.liveness import Liveness
from asmevo.analysis.memory import SPACES
from asmevo.program.kernel import Block, Kernel
from asmevo.program.registers import EXEC_MASK, VECTOR_MASK, units_of
from asmevo.prover import FloatPolicy
from asmevo.prover.lifting import Lifter
from asmevo.prover.normalise import Builder
from asmevo.prover.state import NotLiftedError, State
from asmevo.prover.terms import Term, Terms

if TYPE_CHECKING:
    from asmevo.proposers.templates.block_index import BlockIndex

_BEFORE = -1


class KnownBits:
    """Answers for one kernel; each block is run once, when it is first asked about."""

    def __init__(self, kernel: Kernel, liveness: Liveness) -> None:
        self._kernel = kernel
        self._liveness = liveness
        self._build = Builder(Terms(), kernel.wave_size)
        self._lifter = Lifter(self._build, kernel, FloatPolicy.EXACT)
        self._written: dict[int, dict[tuple[int, int], Term]] = {}
        self._only_writers: dict[int, tuple[int, int] | None] | None = None

    def zeros(self, index: BlockIndex, place: int, unit: int) -> int:
        """The bits that are certainly 0 in what a place reads of a unit."""
        writer = index.reaching(place, unit)
        if writer == _BEFORE:
            found = self._from_outside(unit)
        elif VECTOR_MASK >> unit & 1 and any(
            index.reaching(place, each) != index.reaching(writer, each) for each in units_of(EXEC_MASK)
        ):
            found = None
        else:
            found = self._value(index.block, writer, unit)
        return 0 if found is None else self._build.zeros(found)

    def _from_outside(self, unit: int) -> Term | None:
        if self._liveness.live_in(0) >> unit & 1:
            return None
        if self._only_writers is None:
            self._only_writers = {}
            for block in self._kernel.blocks:
                for place, instruction in enumerate(block.instructions):
                    for each in units_of(instruction.writes):
                        seen = each in self._only_writers
                        self._only_writers[each] = None if seen else (block.index, place)
        writer = self._only_writers.get(unit)
        return None if writer is None else self._value(self._kernel.blocks[writer[0]], writer[1], unit)

    def _value(self, block: Block, place: int, unit: int) -> Term | None:
        if block.index not in self._written:
            self._written[block.index] = self._run(block)
        return self._written[block.index].get((place, unit))

    def _run(self, block: Block) -> dict[tuple[int, int], Term]:
        """What each instruction of a block writes, in lanes that are on; up to what has no meaning."""
        build = self._build
        symbol = build.terms.symbol
        state = State(
            lambda unit: symbol(("entry", block.index, unit), 32, bool(VECTOR_MASK >> unit & 1)),
            memory={space: symbol(("memory", block.index, space), 0, False) for space in SPACES},
        )
        found: dict[tuple[int, int], Term] = {}
        for place, instruction in enumerate(block.instructions):
            enabled = self._lifter.exec_bit(state)
            try:
                self._lifter.run(instruction, state)
            except NotLiftedError:
                break
            for unit in units_of(instruction.writes):
                term = state.unit(unit)
                found[place, unit] = build.under(term, enabled) if VECTOR_MASK >> unit & 1 else term
        return found
