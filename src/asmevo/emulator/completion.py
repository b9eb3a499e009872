"""When accesses reach memory: the order that hardware keeps, and chance for everything else.

An access that was issued goes to memory at some time up to the wait that proves it done. Which one is next is drawn,
but three things keep their order within a wave: events that one counter counts in order, LDS operations, and vector
memory accesses that meet in a byte range (one path to the cache, in issue order). So a store may be overtaken by a
later load from elsewhere, scalar loads come in any order, and the last of a row of loads never comes first.
"""

from __future__ import annotations

import random
from typing import Any

from asmevo.analysis.events import Lanes
from asmevo.emulator.in_flight import UnderWay
from asmevo.emulator.late_access import Request
from asmevo.emulator.races import LOCAL, Touch
from asmevo.emulator.wave import Wave

_EAGERNESS = (0.02, 0.2, 0.7)
"""The chance that one more access completes when the wave comes to a memory instruction or a block; one is drawn
for each wave, so that some waves see everything at the last moment and others nearly at once."""


class Outstanding:
    """Accesses of one wave that have not reached memory, in the order of their issue."""

    def __init__(self, wave: Wave, lanes: Lanes, random: random.Random) -> None:
        self.wave = wave
        self.lanes = lanes
        self.random = random
        self.items: list[UnderWay] = []
        self.eagerness = random.choice(_EAGERNESS)

    def add(self, item: UnderWay) -> None:
        """Takes an access in."""
        self.items.append(item)

    def some(self) -> None:
        """Completes a few, by chance."""
        while self.items and self.random.random() < self.eagerness:
            self.complete(self.random.choice(self.items))

    def complete(self, item: UnderWay) -> None:
        """Completes an access, and before it those that hardware does not let it overtake. May be done already."""
        if item.late is None:
            return
        place = self.items.index(item)
        due = [item]
        for earlier in reversed(self.items[:place]):
            if any(self._keeps_order(earlier, later) for later in due):
                due.append(earlier)
        for each in reversed(due):
            self.items.remove(each)
            self._run(each)

    def everything(self) -> None:
        """Completes all, in order."""
        while self.items:
            self._run(self.items.pop(0))

    def _run(self, item: UnderWay) -> None:
        """A fault is reported at the place of the access."""
        late, item.late = item.late, None
        assert late is not None
        place, self.wave.place = self.wave.place, item.step.place
        for _ in late:
            pass
        self.wave.place = place

    def _keeps_order(self, earlier: UnderWay, later: UnderWay) -> bool:
        if any(lane in later.lanes and self.lanes.lanes[lane].in_order for lane in earlier.lanes):
            return True
        return any(_meet(a, b) for a in earlier.touches for b in later.touches)


def _meet(a: Touch, b: Touch) -> bool:
    """Whether two accesses of one wave take the same way and touch the same stretch."""
    if not a.way & b.way or a.arena is not b.arena:
        return False
    if a.way & b.way & LOCAL:
        return True
    return bool(a.index.size and b.index.size) and not (a.index.max() < b.index.min() or b.index.max() < a.index.min())


def requests_of(late: Any) -> tuple[Request, ...]:
    """Runs the first half of a memory instruction."""
    found: tuple[Request, ...] = next(late)
    return found
