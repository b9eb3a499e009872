"""What a whole block does to the state of the wait counters, worked out once.

A block does the same to every state: ages grow by `shifts`, what is at `limits` or beyond falls away, `own`
comes in front. So a block is summed up once, the fixed point runs over summaries, and a candidate that
differs in one block pays for that block. The same summary tells what a block demands of its entry: pairs
(limit, mask), "mask must not be open with an age below limit". Faults inside a block show when it is
summed up.
"""

from __future__ import annotations

from msgspec import Struct

from asmevo.analysis.events import Effect, Lanes, effect_of, union
from asmevo.analysis.wait_state import Demand, Identities, LaneState, State, against, top, trimmed
from asmevo.program.instruction import Instruction
from asmevo.target import Target


class Summary(Struct):
    """What a block does to a state; all lists are by lane. See the module's text."""

    limits: list[int]
    shifts: list[int]
    own: list[LaneState]
    issued: list[int]
    reopened: list[int]
    demands: list[Demand]
    orders: list[Demand]
    faults: list[int]
    events: list[tuple[int, Effect]]


def sum_up(instructions: tuple[Instruction, ...], target: Target, lanes: Lanes, identities: Identities) -> Summary:
    """The summary of a block."""
    builder = _Builder(lanes, identities)
    for place, instruction in enumerate(instructions):
        builder.add(place, instruction.id, effect_of(instruction.decoded, target))
    return builder.finish()


def after(state: State, summary: Summary, lanes: Lanes) -> State:
    """The state behind a block that is entered with `state`."""
    result = []
    for lane, before in enumerate(state):
        own = summary.own[lane]
        limit = summary.limits[lane]
        if not before or limit <= 0:
            result.append(own)
            continue
        kept = before[:limit]
        if not lanes.lanes[lane].in_order:
            result.append(((own[0] if own else 0) | kept[0],))
            continue
        shift = summary.shifts[lane]
        if shift:
            gone = ~summary.issued[lane]
            kept = own + (0,) * (shift - len(own)) + tuple(mask & gone for mask in kept)
        result.append(trimmed(kept))
    return tuple(result)


class _Builder:
    """Sums up a block in one pass over its instructions.

    `touched` and `written` only grow, and a demand is noted when the limit of a lane changes, so a later
    (lower) limit repeats earlier touches; that is harmless, since the higher limit has them as well.
    """

    def __init__(self, lanes: Lanes, identities: Identities) -> None:
        self.lanes = lanes.lanes
        self.identities = identities
        count = len(self.lanes)
        self.tops = [top(lane.in_order, lane.maximum) for lane in self.lanes]
        self.limits = list(self.tops)
        self.shifts = [0] * count
        self.own: list[list[int]] = [[] for _ in range(count)]
        self.issued = [0] * count
        self.reopened = [0] * count
        self.extra = [0] * count
        self.demands: list[Demand] = [{} for _ in range(count)]
        self.orders: list[Demand] = [{} for _ in range(count)]
        self.faults: list[int] = []
        self.events: list[tuple[int, Effect]] = []
        self.touched = self.written = self.ordered = 0
        self.open_results = self.open_sources = 0

    def add(self, place: int, id_: int, effect: Effect) -> None:
        if effect.is_plain:  # most are, and these only touch
            if effect.touches & self.open_results or effect.writes & self.open_sources:
                self._find_fault(place, effect)
            self.touched |= effect.touches
            self.written |= effect.writes
            return
        self.events.append((place, effect))
        if not effect.is_call:
            self._limit(effect)
        self._touch(place, effect)
        self.ordered |= effect.orders
        if effect.is_call:
            self._limit(effect)
        for issue in effect.issues:
            self._issue(issue.lane, issue.opened | self.identities.identity(id_, issue.opened), effect.reopened)

    def _touch(self, place: int, effect: Effect) -> None:
        touched = effect.touches | effect.forbids
        reopened = effect.reopened
        if (touched | reopened) & self.open_results or effect.writes & self.open_sources:
            self._find_fault(place, effect)
        self.touched |= touched
        self.written |= effect.writes
        if reopened:
            own = effect.issues[0].lane
            for lane in range(len(self.lanes)):
                if lane != own:
                    self.extra[lane] |= reopened

    def _find_fault(self, place: int, effect: Effect) -> None:
        own = {issue.lane for issue in effect.issues}
        for number, masks in enumerate(self.own):
            if masks and union(masks) & against(self.lanes[number].sources, effect, number in own):
                self.faults.append(place)
                return

    def _limit(self, effect: Effect) -> None:
        for lane, value in effect.limits:
            self._note(lane)
            self.limits[lane] = min(self.limits[lane], value - self.shifts[lane])
            del self.own[lane][value:]
        if effect.limits:
            self._reopen()

    def _reopen(self) -> None:
        self.open_results = self.open_sources = 0
        for lane, masks in zip(self.lanes, self.own, strict=True):
            if lane.sources:
                self.open_sources |= union(masks)
            else:
                self.open_results |= union(masks)

    def _issue(self, number: int, opened: int, reopened: int) -> None:
        lane, masks = self.lanes[number], self.own[number]
        if lane.in_order:
            self._note(number)
            self.shifts[number] += 1
            self.issued[number] |= opened
            self.reopened[number] |= reopened
            for age in range(len(masks)):
                masks[age] &= ~opened
            masks.insert(0, opened)
            del masks[lane.maximum :]
        elif masks:
            masks[0] |= opened
        else:
            masks.append(opened)
        if lane.sources:
            self.open_sources |= opened
        else:
            self.open_results |= opened

    def _note(self, number: int) -> None:
        limit = min(self.limits[number], self.tops[number] - self.shifts[number])
        if limit <= 0:
            return
        base = self.written if self.lanes[number].sources else self.touched
        mask = (base | self.extra[number]) & ~self.reopened[number]
        if mask:
            # What was touched under this limit before a later event reopened it stays demanded.
            self.demands[number][limit] = self.demands[number].get(limit, 0) | mask
        if self.ordered:
            self.orders[number][limit] = self.ordered

    def finish(self) -> Summary:
        for number, lane in enumerate(self.lanes):
            self._note(number)
            if lane.in_order:
                self.limits[number] = min(self.limits[number], lane.maximum - self.shifts[number])
        return Summary(
            limits=self.limits,
            shifts=self.shifts,
            own=[trimmed(tuple(masks)) for masks in self.own],
            issued=self.issued,
            reopened=self.reopened,
            demands=self.demands,
            orders=self.orders,
            faults=self.faults,
            events=self.events,
        )
