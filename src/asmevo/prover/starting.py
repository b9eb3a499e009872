"""What registers and memory hold where a comparison starts: at the launch, or in front of one block.

Both versions start from one launch. Work-item ids have no more bits than `work_items` says, and EXEC has all lanes if
all waves of the launch are whole. In front of a block it has if `analysis.full_exec` shows it for either version.
"""

from __future__ import annotations

from asmevo.analysis.full_exec import FullExec
from asmevo.analysis.memory import GLOBAL, SCALAR, SPACES
from asmevo.program.kernel import Kernel
from asmevo.program.registers import VECTOR_MASK
from asmevo.prover.carries import WORD
from asmevo.prover.normalise import Builder
from asmevo.prover.numbers import ones
from asmevo.prover.terms import AT_CUT, Term
from asmevo.prover.work_items import work_item_bits


class Starting:
    """Values at the start of both versions of one kernel."""

    def __init__(self, build: Builder, before: Kernel, after: Kernel) -> None:
        self.build = build
        self._known_bits = work_item_bits(before, after)
        self._full = (FullExec(before), FullExec(after))

    def memory(self) -> dict[str, Term]:
        """The memory spaces where a launch enters."""
        memory = {space: self.build.terms.symbol(("initial", space), 0, False) for space in SPACES}
        memory[SCALAR] = memory[GLOBAL]  # as long as nothing is stored, both show the same bytes
        return memory

    def symbol(self, unit: int) -> Term:
        """What a register holds of which nothing is known."""
        return self.build.terms.symbol(("entry", unit), WORD, bool(VECTOR_MASK >> unit & 1))

    def launched(self, unit: int) -> Term:
        """What a register holds where a launch enters."""
        if self._full[0].launched >> unit & 1:
            return self._all_lanes
        bits = self._known_bits.get(unit)
        if bits is None:
            return self.symbol(unit)
        return self.build.extended(self.build.terms.symbol(("entry", unit), bits, True), WORD)

    def in_block(self, index: int, unit: int, absent: int = 0) -> Term:
        """What a register holds in front of a block that both versions have; it has none of the `absent` bits."""
        if all(each.places(index) & each.lanes >> unit & 1 for each in self._full):
            return self._all_lanes
        if not absent:
            return self.symbol(unit)
        return self.build.terms.symbol((AT_CUT, index, 0, unit, absent), WORD, bool(VECTOR_MASK >> unit & 1))

    @property
    def _all_lanes(self) -> Term:
        return self.build.const(WORD, ones(WORD))
