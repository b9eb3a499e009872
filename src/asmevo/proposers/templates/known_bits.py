"""What is certain of the bits of a register that a place in a block reads (`prover.written_bits`).

Within a block the last writer decides, if EXEC is the same at both places, since a lane that was off there has another
value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from asmevo.analysis.liveness import Liveness
from asmevo.program.kernel import Kernel
from asmevo.program.registers import EXEC_MASK, VECTOR_MASK, units_of
from asmevo.prover.written_bits import WrittenBits

if TYPE_CHECKING:
    from asmevo.proposers.templates.block_index import BlockIndex

_BEFORE = -1


class KnownBits:
    """Answers for one kernel."""

    def __init__(self, kernel: Kernel, liveness: Liveness) -> None:
        self._written = WrittenBits(kernel, liveness)

    def zeros(self, index: BlockIndex, place: int, unit: int) -> int:
        """The bits that are certainly 0 in what a place reads of a unit."""
        writer = index.reaching(place, unit)
        if writer == _BEFORE:
            return self._written.zeros_at_entries(unit)
        if VECTOR_MASK >> unit & 1 and any(
            index.reaching(place, each) != index.reaching(writer, each) for each in units_of(EXEC_MASK)
        ):
            return 0
        return self._written.zeros_of(index.block, writer, unit)
