"""What a simulation remembers of each stretch: the passes of every wave, and whether a loop has become steady.

A loop is steady when the durations of its last iterations repeat with a period of at most `_LONGEST_PERIOD` for every
wave.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from asmevo.timing.costs import Cause
from asmevo.timing.steps import Step

_LONGEST_PERIOD = 3

StallKey = tuple[int, int, Cause]
"""Slot that waited, slot it waited for (-1: none), why."""


class Pass(Struct):
    """One wave's way through a stretch once: when it entered and left, and its stalls."""

    start: int
    end: int
    stalls: dict[StallKey, int]

    @property
    def cycles(self) -> int:
        return self.end - self.start


class StretchLog(Struct):
    """All passes of all waves through one stretch. `period` is set when a loop became steady, `longest_held` when one
    asks how many cycles of a pass hold the unit that is needed longest.
    """

    steps: list[Step]
    repeats: bool
    limit: int
    passes: list[list[Pass]]
    leave_after: int | None = None
    period: int = 0
    longest_held: int | None = None


def steady_period(passes: Sequence[Sequence[Pass]]) -> int:
    """The number of iterations after which all waves' durations repeat, 0 if they do not (yet)."""
    fewest = min(map(len, passes))
    for period in range(1, _LONGEST_PERIOD + 1):
        if fewest > 2 * period and all(_repeats(own, period) for own in passes):
            totals = {sum(each.cycles for each in own[-period:]) for own in passes}
            if len(totals) == 1:
                return period
    return 0


def _repeats(own: Sequence[Pass], period: int) -> bool:
    recent = own[-2 * period :]
    return all(recent[place].cycles == recent[place + period].cycles for place in range(period))
