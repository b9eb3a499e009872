"""What one wave has under way, as far as its waits prove: the counters' side of the asynchronous mode.

Each memory access or message that is issued stands in a queue for every event it adds to a counter (a *lane* of
`analysis.events`: events that finish in the order of their issue, or one kind that does not). Nothing is known to be
done before a wait says so: one for n settles all but the n youngest of an in-order queue, and the whole of another
queue only when n is 0. An access is settled when it stands in no queue any more; until then its destination is
unknown, and so, for events that read registers late, may be its sources. FLAT stands in two queues, so it takes both
counters.

Luck plays no part in this: a register is unknown on a path that has not waited for it, however early the access may
have completed. Which counters there are and what keeps order are the target's facts; nothing here joins paths or
looks ahead, in contrast to `analysis.wait_counters`. In particular a call settles nothing: the callee's own waits run.

Not modelled: `xcnt` (address translation on gfx1250) and the interlocks that expert scheduling mode switches off.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from asmevo.analysis.events import UNIT_MASK, Effect, Lanes
from asmevo.emulator.code import Step
from asmevo.program.registers import register_names

if TYPE_CHECKING:
    from asmevo.emulator.races import Touch


class UnderWay(Struct, eq=False):
    """An access that was issued. `results` and `sources` are register units that must be left alone.

    `open_in` are the queues it still stands in. `late` does to memory and registers what is left to do, None when
    that is done; `touches` are the bytes concerned, `accesses` their numbers in `races`.
    """

    step: Step
    lanes: tuple[int, ...]
    results: int
    sources: int
    late: Iterator[Any] | None = None
    open_in: set[int] = field(default_factory=set)
    touches: tuple[Touch, ...] = ()
    accesses: tuple[int, ...] = ()


class Misuse(Struct, frozen=True):
    """A register that is touched while `culprit` has it; `units` as in `program.registers`."""

    culprit: UnderWay
    units: int
    is_read_late: bool
    waits: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        """Words that go behind "reads" or "overwrites"."""
        what = "may still be read by" if self.is_read_late else "is still under way from"
        waits = " and ".join(f"{counter} <= {most}" for counter, most in self.waits)
        return f"{register_names(self.units)}, which {what} {named(self.culprit.step)}; wait for {waits} in between"


def named(step: Step) -> str:
    """An instruction for messages."""
    line = f", line {step.instruction.line}" if step.instruction.line is not None else ""
    return f"instruction {step.instruction.id} `{step.instruction.text}`{line}"


class Flight:
    """Everything one wave has under way."""

    def __init__(self, lanes: Lanes) -> None:
        self.lanes = lanes
        self.queues: list[deque[UnderWay]] = [deque() for _ in lanes.lanes]
        self.results = 0
        self.sources = 0

    def issue(self, item: UnderWay, effect: Effect) -> list[UnderWay]:
        """Takes an access in. Gives what a full counter proves done: the hardware would have held this one back."""
        settled: list[UnderWay] = []
        for event in effect.issues:
            queue, lane = self.queues[event.lane], self.lanes.lanes[event.lane]
            queue.append(item)
            item.open_in.add(event.lane)
            if lane.in_order:
                settled += self._leave(event.lane, lane.maximum)
        self._sum_up()
        return settled

    def wait(self, limits: tuple[tuple[int, int], ...]) -> list[UnderWay]:
        """What a wait for at most so many open events in each queue settles, oldest first."""
        settled: list[UnderWay] = []
        for lane, most in limits:
            settled += self._leave(lane, most)
        if settled:
            self._sum_up()
        return settled

    def _leave(self, lane: int, most: int) -> list[UnderWay]:
        queue, settled = self.queues[lane], []
        while len(queue) > most:
            item = queue.popleft()
            item.open_in.discard(lane)
            if not item.open_in:
                settled.append(item)
        return settled

    def _sum_up(self) -> None:
        self.results = self.sources = 0
        for queue in self.queues:
            for item in queue:
                self.results |= item.results
                self.sources |= item.sources

    def misuse(self, effect: Effect) -> Misuse | None:
        """The youngest access that an instruction must not meet; None if there is none."""
        touched = effect.touches & self.results
        written = effect.writes & self.sources
        reopened = effect.reopened & self.results
        if not touched | written | reopened:
            return None
        own = effect.issues[0].lane if reopened else None
        for item in reversed(self._items()):
            units = item.results & effect.touches
            if own is not None and item.lanes != (own,):
                units |= item.results & effect.reopened
            if units:
                return Misuse(item, units, False, self._waits(item))
            if item.sources & effect.writes:
                return Misuse(item, item.sources & effect.writes, True, self._waits(item))
        return None

    def touches(self, touched: int, written: int) -> bool:
        """Whether anything under way forbids to touch and to write these units."""
        return bool(touched & self.results or written & self.sources)

    def _items(self) -> list[UnderWay]:
        return list(dict.fromkeys(item for queue in self.queues for item in queue))

    def _waits(self, item: UnderWay) -> tuple[tuple[str, int], ...]:
        """(counter, largest value) that would settle an access here."""
        found = []
        for lane in sorted(item.open_in):
            queue, facts = self.queues[lane], self.lanes.lanes[lane]
            younger = len(queue) - 1 - queue.index(item)
            found.append((facts.counter, younger if facts.in_order else 0))
        return tuple(found)


def under_way(step: Step, effect: Effect, lanes: Lanes) -> UnderWay:
    """An access as it is issued."""
    results = sources = 0
    for event in effect.issues:
        units = event.opened & UNIT_MASK
        if lanes.lanes[event.lane].sources:
            sources |= units
        else:
            results |= units
    return UnderWay(step, tuple(event.lane for event in effect.issues), results, sources)
