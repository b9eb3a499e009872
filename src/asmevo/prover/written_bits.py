"""Bits that are certainly 0 in a register: whether an address is a multiple of 8, a factor below 2**24.

A block is run on symbols (`lifting`), and the bits of a result that are certainly 0 follow from its term. What a block
finds in a register is known if the whole kernel writes it in one place only and nobody can read it before that: then
it is what that place wrote.

    fact      a register unit and the bits that are 0 wherever it is read from outside of the block that writes it
    why       nobody reads the unit in a lane in which that place has not written it yet: liveness, which counts the
              lanes that EXEC switches off, would show the unit live where a launch begins. So a reader sees what the
              place wrote when it ran in that lane last, whatever the block that holds it was entered with
    nothing   is said of a kernel with calls, unknown instructions or indexed writes: they may write anything
"""

from __future__ import annotations

from functools import cached_property

from asmevo.analysis.liveness import Liveness
from asmevo.analysis.memory import SPACES
from asmevo.program.kernel import Block, Kernel
from asmevo.program.registers import VECTOR_MASK, units_of
from asmevo.prover.carries import WORD
from asmevo.prover.floating import FloatPolicy
from asmevo.prover.lifting import Lifter
from asmevo.prover.normalise import Builder
from asmevo.prover.state import NotLiftedError, State
from asmevo.prover.terms import Term, Terms

_WRITES_ANYTHING = frozenset({"unknown", "unlisted_def", "indexed_def", "call"})


class WrittenBits:
    """Answers for one kernel; each block is run once, when it is first asked about."""

    def __init__(self, kernel: Kernel, liveness: Liveness) -> None:
        self._kernel = kernel
        self._liveness = liveness
        self._build = Builder(Terms(), kernel.wave_size)
        self._lifter = Lifter(self._build, kernel, FloatPolicy.EXACT)
        self._written: dict[int, dict[tuple[int, int], Term]] = {}

    def zeros_of(self, block: Block, place: int, unit: int) -> int:
        """The bits that are certainly 0 in what an instruction writes, in the lanes in which it does."""
        if block.index not in self._written:
            self._written[block.index] = self._run(block)
        found = self._written[block.index].get((place, unit))
        return 0 if found is None else self._build.zeros(found)

    def zeros_at_entries(self, unit: int) -> int:
        """The bits that are certainly 0 wherever a block reads what it was entered with."""
        if any(self._liveness.live_in(block) >> unit & 1 for block in self._entries):
            return 0
        writer = self._only_writers.get(unit)
        return 0 if writer is None else self.zeros_of(self._kernel.blocks[writer[0]], writer[1], unit)

    @cached_property
    def _entries(self) -> tuple[int, ...]:
        """The blocks in which a launch may begin; all of them where that cannot be told."""
        offsets = self._kernel.entry_offsets[1:]
        others = [self._kernel.block_at(each) for each in offsets if each < self._kernel.code_size()]
        known = [each for each in others if each is not None]
        return (0, *known) if len(known) == len(others) else tuple(range(len(self._kernel.blocks)))

    @cached_property
    def _only_writers(self) -> dict[int, tuple[int, int] | None]:
        """The (block, place) that writes a unit; None where there are several."""
        found: dict[int, tuple[int, int] | None] = {}
        for block in self._kernel.blocks:
            for place, instruction in enumerate(block.instructions):
                if not _WRITES_ANYTHING.isdisjoint(instruction.flags):
                    return {}
                for each in units_of(instruction.writes):
                    found[each] = None if each in found else (block.index, place)
        return found

    def _run(self, block: Block) -> dict[tuple[int, int], Term]:
        """What each instruction of a block writes, in lanes that are on; up to what has no meaning."""
        build = self._build
        symbol = build.terms.symbol
        state = State(
            lambda unit: symbol(("entry", block.index, unit), WORD, bool(VECTOR_MASK >> unit & 1)),
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
