"""A block's data flow as the matcher asks for it: who wrote what an instruction reads, and who reads what it wrote.

Places are indices into the block's instructions. Writers and readers of each register unit are listed once; a
question is then a search in a sorted list. `BEFORE` stands for whatever a register held when the block was entered.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator
from functools import cached_property

from asmevo.analysis.liveness import Liveness, LiveState
from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Block, Kernel
from asmevo.program.registers import units_of
from asmevo.proposers.templates.known_bits import KnownBits

BEFORE = -1
_HINTS = ("_e32", "_e64")


def base_mnemonic(mnemonic: str) -> str:
    """A mnemonic without the hint of its encoding's size."""
    return mnemonic[:-4] if mnemonic.endswith(_HINTS) else mnemonic


class BlockIndex:
    """One block of a kernel, indexed."""

    def __init__(self, kernel: Kernel, block: Block, liveness: Liveness, known_bits: KnownBits) -> None:
        self.kernel = kernel
        self.block = block
        self._known_bits = known_bits
        self.code: tuple[Instruction, ...] = block.instructions
        self._liveness = liveness
        self._writers: dict[int, list[int]] = {}
        self._readers: dict[int, list[int]] = {}
        self._places: dict[str, list[int]] = {}
        for place, instruction in enumerate(self.code):
            for name in {instruction.mnemonic, base_mnemonic(instruction.mnemonic)}:
                self._places.setdefault(name, []).append(place)
            for unit in units_of(instruction.writes):
                self._writers.setdefault(unit, []).append(place)
            for unit in units_of(instruction.reads):
                self._readers.setdefault(unit, []).append(place)

    def places(self, mnemonic: str) -> list[int]:
        """Where instructions of this name stand; without _e32 or _e64 those of both sizes."""
        return self._places.get(mnemonic, [])

    def reaching(self, place: int, unit: int, skipped: Collection[int] = ()) -> int:
        """The last writer of a unit in front of a place, not counting some places; BEFORE if there is none."""
        writers = self._writers.get(unit, [])
        for index in range(bisect_left(writers, place) - 1, -1, -1):
            if writers[index] not in skipped:
                return writers[index]
        return BEFORE

    def uses(self, place: int, unit: int) -> Iterator[int]:
        """The readers of what an instruction wrote into a unit."""
        readers = self._readers.get(unit, [])
        last = self._next_writer(place, unit)
        for reader in readers[bisect_right(readers, place) :]:
            if last is not None and reader > last:
                return
            yield reader

    def survives(self, place: int, unit: int) -> bool:
        """Whether what an instruction wrote may be read behind the block."""
        return self._next_writer(place, unit) is None and bool(self.live_out >> unit & 1)

    def _next_writer(self, place: int, unit: int) -> int | None:
        writers = self._writers.get(unit, [])
        index = bisect_right(writers, place)
        return writers[index] if index < len(writers) else None

    def needed_behind(self, place: int) -> int:
        """Units that an instruction at a place may not overwrite: scalar ones, and vector ones in lanes of EXEC."""
        return self._states[place + 1].current

    def held_behind(self, place: int) -> int:
        """Units that hold something in any lane behind an instruction."""
        return self._states[place + 1].any_lane

    def zeros(self, place: int, unit: int) -> int:
        """The bits that are certainly 0 in what a place reads of a unit."""
        return self._known_bits.zeros(self, place, unit)

    @cached_property
    def live_out(self) -> int:
        """Units that may be read behind the block."""
        return self._liveness.live_out(self.block.index)

    @cached_property
    def _states(self) -> list[LiveState]:
        return self._liveness.states(self.block.index)

    @cached_property
    def named(self) -> int:
        """Units that the kernel mentions anywhere."""
        mask = 0
        for instruction in self.kernel.instructions:
            mask |= instruction.reads | instruction.writes
        return mask
