"""What each wait is for: the backward half of the wait-counter analysis.

Lattice and join are those of demands (`wait_state`), the transfer turns that of the forward analysis round: a
touch demands, an event lowers the thresholds of its lane by one, a wait for n cuts them to n. A wait that
drops ages n and beyond could as well drop ages m and beyond, m > n, if nothing that it drops at an age in
between is demanded behind it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterator

from msgspec import Struct

from asmevo.analysis.control_flow import Exit
from asmevo.analysis.events import MARKS, UNIT_MASK, Effect, effect_of, guards_hazard, union
from asmevo.analysis.wait_counters import CALLERS, WaitAnalysis
from asmevo.analysis.wait_state import Demand, against, lowered, merge_demands, top
from asmevo.analysis.wait_summary import Summary


class WaitNeed(Struct, frozen=True):
    """What one wait instruction is for, one counter.

    `present` is the value in the code. `needed` is the largest value that leaves every fact alone that
    something later relies on, memory order as other waves see it included; None if none is needed at all. Points of
    order ask for all that they could (`quiet_points` says where less would do).
    `needed_for_registers` leaves memory order out: it is what `check_waits` holds a kernel to. Each wait is
    judged with all others as they are: weaken one, then ask again.
    `first_consumer` is the instruction that first relies on it, in breadth-first order of blocks.
    `guards_hazard`: the instruction may break up a hazard by being there; then `needed` is `present`. So it is for a
    counter that this analysis does not follow (xcnt, see `replay`): nothing is said of such a wait.
    """

    instruction: int
    counter: str
    present: int
    needed: int | None
    needed_for_registers: int | None
    first_consumer: int | None
    guards_hazard: bool = False

    @property
    def is_redundant(self) -> bool:
        """Whether the counter may be left out of this wait."""
        return self.needed is None

    @property
    def slack(self) -> int | None:
        """By how much the value may be raised; None if without limit."""
        return None if self.needed is None else self.needed - self.present


def wait_requirements(analysis: WaitAnalysis, blocks: Container[int] | None = None) -> tuple[WaitNeed, ...]:
    """For each wait and each counter it looks at, what is needed of it; in order of the code.

    `blocks` are the indices of those whose waits are asked for, None for all; the answers do not depend on it.
    """
    return _Backward(analysis).requirements(blocks)


def is_redundant(analysis: WaitAnalysis, wait: int) -> bool:
    """Whether a wait instruction (an id) may go, all others staying as they are; False for other ids."""
    needs = [need for need in wait_requirements(analysis) if need.instruction == wait]
    return bool(needs) and all(need.is_redundant for need in needs)


class _Backward:
    """The demands of one kernel."""

    def __init__(self, analysis: WaitAnalysis) -> None:
        self.analysis = analysis
        self.kernel = analysis.kernel
        self.target = analysis.target
        self.lanes = analysis.lanes
        # Each lane with the threshold that every open thing is below.
        self.tops = [(lane, top(lane.in_order, lane.maximum)) for lane in self.lanes.lanes]
        self.flow = analysis.flow
        self.summaries = analysis.summaries

    def requirements(self, blocks: Container[int] | None) -> tuple[WaitNeed, ...]:
        asked = [
            block
            for block, summary in enumerate(self.summaries)
            if self.analysis.entries[block] is not None
            and (blocks is None or block in blocks)
            and any(effect.waits for _, effect in summary.events)
        ]
        if not asked:
            return ()
        strict = self._demands(with_order=True)
        registers = self._demands(with_order=False)
        found: list[WaitNeed] = []
        for block in asked:
            found += self._needs_in(block, strict[block], registers[block])
        return tuple(found)

    def _demands(self, *, with_order: bool) -> list[list[Demand]]:
        """What each block's end demands, by lane."""
        flow = self.flow
        behind: list[list[Demand]] = [self._at_exit(block) for block in range(len(self.kernel.blocks))]
        waiting = deque([*reversed(flow.reverse_postorder), *flow.unreachable])
        queued = set(waiting)
        while waiting:
            block = waiting.popleft()
            queued.discard(block)
            front = self._in_front(behind[block], self.summaries[block], with_order)
            for before in flow.predecessors[block]:
                if merge_demands(behind[before], front) and before not in queued:
                    waiting.append(before)
                    queued.add(before)
        return behind

    def _at_exit(self, block: int) -> list[Demand]:
        if self.analysis.is_callee and self.flow.exits[block] is Exit.INDIRECT:
            return [
                {top(lane.in_order, lane.maximum): CALLERS} if lane.settled_by_calls else {}
                for lane in self.lanes.lanes
            ]
        return [{} for _ in self.lanes.lanes]

    def _in_front(self, behind: list[Demand], summary: Summary, with_order: bool) -> list[Demand]:
        result = []
        for lane, demand in enumerate(behind):
            limit, shift, kept = summary.limits[lane], summary.shifts[lane], ~summary.reopened[lane]
            front = dict(summary.demands[lane])
            if with_order:
                for threshold, mask in summary.orders[lane].items():
                    front[threshold] = front.get(threshold, 0) | mask
            for threshold, mask in demand.items():
                lower = min(limit, threshold - shift)
                if lower > 0 and mask & kept:
                    front[lower] = front.get(lower, 0) | (mask & kept)
            result.append(front)
        return result

    def _needs_in(self, block: int, strict: list[Demand], registers: list[Demand]) -> Iterator[WaitNeed]:
        instructions = self.kernel.blocks[block].instructions
        dropped = {
            instruction.id: [list(masks) for masks in state]
            for instruction, effect, state in self.analysis.state_before_each(block)
            if effect.is_wait
        }
        first = next((place for place, each in enumerate(instructions) if each.id in dropped), len(instructions))
        found: list[WaitNeed] = []
        both = [([dict(d) for d in strict], True), ([dict(d) for d in registers], False)]
        touched = written = 0  # by the plain instructions since the last event; no threshold changes between them
        for place in reversed(range(first, len(instructions))):
            instruction = instructions[place]
            effect = effect_of(instruction.decoded, self.target)
            if effect.is_plain:
                touched |= effect.touches
                written |= effect.writes
                continue
            for demands, _ in both:
                self._demand_units(demands, touched, written)
            touched = written = 0
            if effect.is_wait:
                state = dropped[instruction.id]
                found += [
                    self._need(block, place, counter, value, state, both[0][0], both[1][0])
                    for counter, value in reversed(effect.waits)
                ]
            for demands, with_order in both:
                self._step_back(demands, effect, with_order)
        yield from reversed(found)

    def _step_back(self, demands: list[Demand], effect: Effect, with_order: bool) -> None:
        for issue in effect.issues:
            if self.lanes.lanes[issue.lane].in_order:
                kept = ~effect.reopened
                behind = demands[issue.lane].items()
                demands[issue.lane] = {at - 1: mask & kept for at, mask in behind if at > 1}
        if not effect.is_call:
            self._touch_back(demands, effect, with_order)
        for lane, value in effect.limits:
            demands[lane] = lowered(demands[lane], value)
        if effect.is_call:
            self._touch_back(demands, effect, with_order)

    def _demand_units(self, demands: list[Demand], touched: int, written: int) -> None:
        """What plain instructions touch must not be open, whatever its age."""
        for demand, (lane, highest) in zip(demands, self.tops, strict=True):
            asked = written if lane.sources else touched
            if asked:
                demand[highest] = demand.get(highest, 0) | asked

    def _touch_back(self, demands: list[Demand], effect: Effect, with_order: bool) -> None:
        own = {issue.lane for issue in effect.issues}
        orders = effect.orders if with_order else 0
        of_others = {sources: against(sources, effect, False) | orders for sources in (False, True)}
        for number, (demand, (lane, highest)) in enumerate(zip(demands, self.tops, strict=True)):
            asked = against(lane.sources, effect, True) | orders if number in own else of_others[lane.sources]
            if asked:
                demand[highest] = demand.get(highest, 0) | asked

    def _need(
        self,
        block: int,
        place: int,
        counter: str,
        present: int,
        state: list[list[int]],
        strict: list[Demand],
        registers: list[Demand],
    ) -> WaitNeed:
        wait = self.kernel.blocks[block].instructions[place]
        if counter not in self.lanes.of_counter:
            return WaitNeed(wait.id, counter, present, present, present, None)
        needed, things = self._weakest(counter, present, state, strict)
        for_registers, _ = self._weakest(counter, present, state, registers)
        consumer = None if needed is None else self._first_consumer(block, place, counter, things)
        guards = guards_hazard(wait.decoded, self.target)
        needed = present if guards else needed
        return WaitNeed(wait.id, counter, present, needed, for_registers, consumer, guards)

    def _weakest(
        self, counter: str, present: int, state: list[list[int]], demands: list[Demand]
    ) -> tuple[int | None, int]:
        """The largest sufficient value, and the things that ask for it; (None, 0) if nothing does."""
        needed, things = None, 0
        for lane in self.lanes.of_counter.get(counter, ()):
            in_order = self.lanes.lanes[lane].in_order
            for age in range(present if in_order else 0, len(state[lane])):
                if not in_order and present:
                    break
                asked = self._with_identities(
                    union(mask for threshold, mask in demands[lane].items() if threshold > age)
                )
                hit = state[lane][age] & asked
                if hit:
                    things |= hit if needed is None or age <= needed else 0
                    needed = age if needed is None else min(needed, age)
                    break
        return needed, things

    def _with_identities(self, asked: int) -> int:
        """A demand for a mark is one for all instructions that bear it."""
        whole = asked
        for mark in MARKS:
            if asked & mark:
                whole |= self.analysis.shared.identities.of_mark[mark]
        return whole

    def _first_consumer(self, block: int, place: int, counter: str, things: int) -> int | None:
        marks = sum(mark for mark in MARKS if things & (mark | self.analysis.shared.identities.of_mark[mark]))
        units = things & UNIT_MASK
        waiting: deque[tuple[int, int]] = deque([(block, place + 1)])
        seen: set[int] = set()
        while waiting:
            at, start = waiting.popleft()
            for instruction in self.kernel.blocks[at].instructions[start:]:
                effect = effect_of(instruction.decoded, self.target)
                touched = effect.touches | effect.reopened | effect.writes
                if touched & units or (effect.forbids | effect.orders) & marks:
                    return instruction.id
            for following in self.flow.successors[at]:
                if following not in seen:
                    seen.add(following)
                    waiting.append((following, 0))
        return None
