"""The incremental form of an estimate: what a change of some blocks does to a kernel's cycles.

The stretches of the path (loops, and the code between them) that hold no changed block take as long as before. A
changed stretch is simulated on its own, as a loop that starts with nothing in flight, and so is the stretch that it
replaces, once; the difference is added to the parent's estimate. Where a lone wave goes straight through, it is walked
through little more than the change (`straight_walk`). What this leaves out is what a change does across the
ends of its stretch: a load that is now waited for behind the loop, say. So it is for looking through many candidates;
those that matter get a whole estimate.
"""

from __future__ import annotations

from asmevo.program.instruction import Decoded
from asmevo.program.kernel import Block, Kernel
from asmevo.timing.estimate import code_of, estimate, rounds, simulate, stretch_cycles
from asmevo.timing.path import Stretch, TripCounts, layout_of, path_of
from asmevo.timing.scenarios import Memory, machine_for
from asmevo.timing.straight_walk import StraightWalk

_Code = tuple[Decoded, ...]


class ChangedWindow:
    """Estimates versions of a kernel that differ from it in some blocks; blocks and branches stay where they are.

    `cycles` are the kernel's own, for `waves` waves on the SIMD. Other arguments and errors as those of `estimate`.
    """

    def __init__(self, kernel: Kernel, *, waves: int = 1, trip_count: TripCounts = None, memory: Memory = "l2") -> None:
        self.cycles = estimate(kernel, waves=waves, trip_count=trip_count, memory=memory).cycles
        self._kernel, self._waves, self._trip_count = kernel, waves, trip_count
        self._machine = machine_for(kernel.target, kernel.wave_size, memory)
        self._path = path_of(kernel)
        self._alone: dict[tuple[int, _Code], float] = {}
        self._straight: dict[int, StraightWalk] = {}

    def predict(self, version: Kernel) -> float:
        """Cycles of a version. Raises ValueError for one with other blocks."""
        if len(version.blocks) != len(self._kernel.blocks):
            raise ValueError(f"{len(version.blocks)} blocks instead of {len(self._kernel.blocks)}")
        total = self.cycles
        changed = {n for n, pair in enumerate(zip(self._kernel.blocks, version.blocks, strict=True)) if _differ(*pair)}
        for place, stretch in enumerate(self._path):
            if not changed.isdisjoint(stretch.blocks):
                before, now = _code(self._kernel, stretch), _code(version, stretch)
                total += self._cycles(version, place, now) - self._cycles(self._kernel, place, before)
        return total

    def _cycles(self, kernel: Kernel, place: int, code: _Code) -> float:
        """Cycles of a stretch alone, until the last wave has left it."""
        if (place, code) not in self._alone:
            stretch = self._path[place]
            straight = stretch.loop is None and self._waves == 1
            simulated = self._of_straight if straight else self._of_loop
            self._alone[place, code] = simulated(kernel, place)
        return self._alone[place, code]

    def _of_straight(self, kernel: Kernel, place: int) -> float:
        """Of a lone wave in a stretch that it goes through once each time: it walks what changed."""
        stretch = self._path[place]
        instructions, taken, _ = code_of(kernel, stretch)
        if place not in self._straight:
            own, own_taken, _ = code_of(self._kernel, stretch)
            self._straight[place] = StraightWalk(self._machine, own, own_taken, layout_of(self._kernel))
        return rounds(stretch, self._trip_count) * self._straight[place].cycles_of(
            instructions, taken, layout_of(kernel)
        )

    def _of_loop(self, kernel: Kernel, place: int) -> float:
        stretch = self._path[place]
        log = simulate(kernel, self._machine, (stretch,), self._waves, self._trip_count).logs[0]
        return max(stretch_cycles(stretch, log, number, self._trip_count) for number in range(self._waves))


def _differ(before: Block, now: Block) -> bool:
    if before is now:
        return False
    pairs = zip(before.instructions, now.instructions, strict=False)
    return len(before.instructions) != len(now.instructions) or any(a.decoded is not b.decoded for a, b in pairs)


def _code(kernel: Kernel, stretch: Stretch) -> _Code:
    return tuple(i.decoded for block in stretch.blocks for i in kernel.blocks[block].instructions)
