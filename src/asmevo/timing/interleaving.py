"""Who goes first: the order in which the waves of one SIMD issue, in the trace and in the model.

All issues of a SIMD are put in the order of their traced cycles. Each two neighbours of different waves are a question:
did the one issue before the other, or both in one cycle (to different units)? The model is right if it says the same.
Neighbours whose times were both given (waits) are no question. Only neighbours are asked, for issues that lie far apart
are in the right order in any model.

The noise floor asks a second capture of the same code object the same questions, waves matched in the order of their
start. It holds what no model is to blame for, that waves start at other distances in each run; the model is told
the starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from asmevo.timing.agreement import Share
from asmevo.timing.replay import Replayed


class Event(NamedTuple):
    """One issue of one wave (by its number in the capture)."""

    cycle: int
    wave: int
    place: int


def neighbours(waves: Sequence[Replayed]) -> Iterator[tuple[Event, Event]]:
    """Issues of different waves of a SIMD that follow each other in the trace, not both given."""
    for simd in sorted({wave.wave.simd for wave in waves}):
        events = sorted(
            Event(issue.cycle, number, place)
            for number, wave in enumerate(waves)
            if wave.wave.simd == simd
            for place, issue in enumerate(wave.wave.issues)
        )
        for one, other in pairwise(events):
            given = one.place in waves[one.wave].given and other.place in waves[other.wave].given
            if one.wave != other.wave and not given:
                yield one, other


def order_share(waves: Sequence[Replayed]) -> Share:
    """Neighbours that the model issues in the traced order; `close` those not the wrong way round."""
    return _agreeing(waves, lambda event: waves[event.wave].issued[event.place])


def order_floor(first: Sequence[Replayed], second: Sequence[Replayed]) -> Share:
    """Neighbours of the first capture that the second issues in the same order."""
    same = {
        number
        for number, (one, other) in enumerate(zip(first, second, strict=False))
        if [each.offset for each in one.wave.issues] == [each.offset for each in other.wave.issues]
        and one.wave.simd == other.wave.simd
    }

    def time(event: Event) -> int | None:
        return second[event.wave].wave.issues[event.place].cycle if event.wave in same else None

    return _agreeing(first, time)


def _agreeing(waves: Sequence[Replayed], time: Callable[[Event], int | None]) -> Share:
    count = exact = close = 0
    for one, other in neighbours(waves):
        before, behind = time(one), time(other)
        if before is None or behind is None:
            continue
        traced, said = other.cycle - one.cycle, behind - before
        count += 1
        exact += _sign(traced) == _sign(said)
        close += _sign(traced) * _sign(said) >= 0
    return Share(count, exact, close)


def _sign(distance: int) -> int:
    return (distance > 0) - (distance < 0)
