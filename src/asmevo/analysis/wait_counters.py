"""Wait counters over a whole kernel: which registers may still be under way where, what each wait is for.

Lattice. Counters are split into lanes (see `events`). In a lane every open thing (a register unit, a mark,
the identity of an instruction) has an *age*: a lower bound, over all paths, for the number of younger events
in its lane. A state is, lane by lane, a tuple of masks: bit u in `state[lane][age]`. Smaller age is worse
(needs a lower wait), absent is best. Join: union with the smaller age. Each thing stands in one place only,
so a chain of growing states is short.

Transfer.  issue        in order: everything in the lane ages by one, the new things get age 0
                        out of order: the new things get age 0, nothing ages
           wait for n   in order: what has age n or more is gone; out of order: all is gone if n = 0
           full counter what has as many younger ones as the counter can hold is gone: the hardware would
                        not have issued the last one before
           call         all gone but stores: LLVM's convention is that a callee waits for everything at
                        its entry, and for everything but stores before it returns

Soundness. An event under way with age a has at least a younger ones of its lane under way with it (they
cannot finish first), so the counter shows at least a + 1. A wait for n <= a excludes that. Since a is the
least over all paths, what the state calls done is done on every path.

A block does the same to every state: ages grow by `shifts`, what is at `limits` or beyond falls away, `own`
comes in front. So a block is summed up once, the fixed point runs over summaries, and a candidate that
differs in one block pays for that block. The same summary tells what a block demands of its entry: pairs
(limit, mask), "mask must not be open with an age below limit". Faults inside a block show when it is
summed up.

Backward, the same pairs say what a wait is for. *Demand* maps a thing to a threshold: if it is open here
with an age below the threshold, then somewhere later, before other waits have settled it, it is touched.
Join is the larger threshold. A wait that drops ages n and beyond could as well drop ages m and beyond,
m > n, if nothing that it drops at an age in between is demanded there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from asmevo.analysis.control_flow import ControlFlow, Exit
from asmevo.analysis.events import (
    FIRST_IDENTITY,
    MARK_MASK,
    MARKS,
    UNIT_MASK,
    Effect,
    Lanes,
    Mark,
    effect_of,
    guards_hazard,
    lanes_of,
    union,
)
from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Kernel
from asmevo.program.registers import SGPR_MASK, VCC_MASK, VECTOR_MASK
from asmevo.target import Target

LaneState = tuple[int, ...]
"""Masks by age."""
State = tuple[LaneState, ...]
"""Lane states by lane."""
Demand = dict[int, int]
"""Masks by threshold, one lane."""

_Points = dict[int, frozenset[int]]
"""For instructions at which memory order matters, the accesses that may be under way there; all by id."""

_BLOCKS_KEPT = 4096
_CALLERS = VECTOR_MASK | SGPR_MASK | VCC_MASK
_LDS_DMA = int(Mark.LDS_DMA)  # plain, since operations on enumerations are slow


@dataclass(frozen=True, slots=True)
class Hazard:
    """Something that may be under way where it must not be.

    `opened`: the units and marks concerned, all in `lane`; `age` is the largest counter value that would have
    been low enough right before `consumer` (0: only zero helps). `producer` is None for what a caller left.
    """

    consumer: int
    block: int
    lane: int
    opened: int
    age: int
    producer: int | None


@dataclass(frozen=True, slots=True)
class Witness:
    """How a hazard comes about: blocks from the producer to the consumer, and the closest wait on the way.

    `wait` is the id of the wait that came nearest to settle it, `found` its value; `needed` the largest value
    there that would do. All None if no wait on the path looks at the counter; then `needed` is the age.
    """

    path: tuple[int, ...]
    wait: int | None
    found: int | None
    needed: int


@dataclass(frozen=True, slots=True)
class WaitNeed:
    """What one wait instruction is for, one counter.

    `present` is the value in the code. `needed` is the largest value that leaves every fact alone that
    something later relies on, memory order as other waves see it included; None if none is needed at all.
    `needed_for_registers` leaves memory order out: it is what `check_waits` holds a kernel to. Each wait is
    judged with all others as they are: weaken one, then ask again.
    `first_consumer` is the instruction that first relies on it, in breadth-first order of blocks.
    `guards_hazard`: the instruction may break up a hazard by being there; then `needed` is `present`.
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


@dataclass(slots=True)
class _Summary:
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


@dataclass(slots=True)
class _Shared:
    """What the analyses of a kernel and its candidates have in common."""

    summaries: dict[tuple[Instruction, ...], _Summary] = field(default_factory=dict)
    identities: dict[int, int] = field(default_factory=dict)
    names: list[int] = field(default_factory=list)
    of_mark: dict[int, int] = field(default_factory=lambda: dict.fromkeys(MARKS, 0))
    points: dict[tuple[tuple[Instruction, ...], State], _Points] = field(default_factory=dict)

    def trim(self) -> None:
        """Forgets blocks of long gone candidates; what is still needed is summed up again."""
        if len(self.summaries) > _BLOCKS_KEPT:
            self.summaries.clear()
            self.points.clear()

    def identity(self, id_: int, opened: int) -> int:
        """The bit of an instruction, with what it opens noted by mark."""
        bit = self.identities.get(id_)
        if bit is None:
            bit = self.identities[id_] = 1 << (FIRST_IDENTITY + len(self.names))
            self.names.append(id_)
        marks = opened & MARK_MASK
        while marks:
            low = marks & -marks
            self.of_mark[low] |= bit
            marks ^= low
        return bit

    def ids_in(self, mask: int) -> list[int]:
        """Ids of the instructions whose bits are set, in order of their numbers."""
        mask >>= FIRST_IDENTITY
        found = []
        while mask:
            low = mask & -mask
            found.append(self.names[low.bit_length() - 1])
            mask ^= low
        return sorted(found)


class Walk:
    """One state carried through instructions, one by one; `state` is by lane, then by age."""

    def __init__(self, lanes: Lanes, shared: _Shared, state: State) -> None:
        self.lanes = lanes.lanes
        self.shared = shared
        self.state = [list(masks) for masks in state]

    def step(self, instruction: Instruction, effect: Effect) -> None:
        for lane, value in effect.limits:
            del self.state[lane][value:]
        for issue in effect.issues:
            masks = self.state[issue.lane]
            new = issue.opened | self.shared.identity(instruction.id, issue.opened)
            if not self.lanes[issue.lane].in_order:
                self.state[issue.lane] = [new | (masks[0] if masks else 0)]
                continue
            for age in range(len(masks)):
                masks[age] &= ~new
            masks.insert(0, new)
            del masks[self.lanes[issue.lane].maximum :]

    def conflicts(self, effect: Effect) -> Iterator[tuple[int, int, int]]:
        """(lane, age, mask) of what is open in front of an instruction and must not be; once a lane."""
        settled = {lane: value for lane, value in effect.limits if not effect.is_call}
        own = {issue.lane for issue in effect.issues}
        for number, masks in enumerate(self.state):
            if not masks:
                continue
            against = _against(self.lanes[number].sources, effect, number in own)
            touched = [(age, mask & against) for age, mask in enumerate(masks[: settled.get(number)])]
            hits = [(age, mask) for age, mask in touched if mask]
            if hits:
                whole = 0
                for _, mask in hits:
                    whole |= mask
                yield number, hits[0][0], whole

    def strangers(self, marks: int, allowed: frozenset[int]) -> Iterator[tuple[int, int]]:
        """(lane, age) of accesses of these kinds under way that are not allowed; the youngest of a lane."""
        concerned = 0
        for mark in MARKS:
            if mark & marks:
                concerned |= self.shared.of_mark[mark]
        for number, masks in enumerate(self.state):
            for age, mask in enumerate(masks):
                if mask & concerned and not allowed.issuperset(self.shared.ids_in(mask & concerned)):
                    yield number, age
                    break


def _against(sources: bool, effect: Effect, own_lane: bool) -> int:
    """What an effect must not find open in a lane."""
    if sources:
        return effect.writes
    return effect.touches | effect.forbids | (0 if own_lane else effect.reopened)


class WaitAnalysis:
    """The analysis of one kernel.

    `parent` is the analysis of the kernel it was made from (or any earlier candidate): blocks with the same
    instructions are not looked at again. Reading the results is lazy; making the object costs nothing.
    """

    def __init__(self, kernel: Kernel, parent: WaitAnalysis | None = None) -> None:
        self.kernel = kernel
        self.target: Target = kernel.target
        self.lanes = lanes_of(kernel.target)
        self._shared: _Shared = _Shared() if parent is None else parent._shared
        self._shared.trim()

    @cached_property
    def flow(self) -> ControlFlow:
        """The kernel's control flow."""
        return ControlFlow(self.kernel)

    @cached_property
    def is_callee(self) -> bool:
        """Whether this is a function that returns, so that LLVM's convention for calls binds it."""
        return not self.kernel.is_entry and Exit.INDIRECT in self.flow.exits

    # --- forward ------------------------------------------------------------------------------------------

    @cached_property
    def _summaries(self) -> list[_Summary]:
        known = self._shared.summaries
        found = []
        for block in self.kernel.blocks:
            summary = known.get(block.instructions)
            if summary is None:
                summary = known[block.instructions] = self._sum_up(block.instructions)
            found.append(summary)
        return found

    def _sum_up(self, instructions: tuple[Instruction, ...]) -> _Summary:
        builder = _Builder(self.lanes, self._shared)
        target = self.target
        for place, instruction in enumerate(instructions):
            builder.add(place, instruction.id, effect_of(instruction.decoded, target))
        return builder.finish()

    @cached_property
    def entries(self) -> tuple[State | None, ...]:
        """The state in front of each block; None for blocks that nothing reaches."""
        flow = self.flow
        order = list(flow.reverse_postorder)
        if flow.has_indirect:
            order += [block for block in flow.unreachable if not flow.predecessors[block]]
        states: list[State | None] = [None] * len(self.kernel.blocks)
        for block in order:
            if block == 0 or not flow.predecessors[block]:
                states[block] = self._at_entry(block)
        waiting, queued = deque(order), set(order)
        while waiting:
            block = waiting.popleft()
            queued.discard(block)
            state = states[block]
            if state is None:
                continue
            after = self._after(state, self._summaries[block])
            for following in flow.successors[block]:
                joined = _join(states[following], after)
                if joined != states[following]:
                    states[following] = joined
                    if following not in queued:
                        waiting.append(following)
                        queued.add(following)
        return tuple(states)

    def _at_entry(self, block: int) -> State:
        if block == 0 and self.is_callee:
            open_ = (_CALLERS | int(Mark.CALLER),)
            return tuple(open_ if lane.settled_by_calls else () for lane in self.lanes.lanes)
        return tuple(() for _ in self.lanes.lanes)

    def _after(self, state: State, summary: _Summary) -> State:
        result = []
        for lane, before in enumerate(state):
            own = summary.own[lane]
            limit = summary.limits[lane]
            if not before or limit <= 0:
                result.append(own)
                continue
            kept = before[:limit]
            if not self.lanes.lanes[lane].in_order:
                result.append(((own[0] if own else 0) | kept[0],))
                continue
            shift = summary.shifts[lane]
            if shift:
                gone = ~summary.issued[lane]
                kept = own + (0,) * (shift - len(own)) + tuple(mask & gone for mask in kept)
            result.append(_trimmed(kept))
        return tuple(result)

    def state_after(self, block: int) -> State | None:
        """The state behind a block's last instruction; None for blocks that nothing reaches."""
        state = self.entries[block]
        return None if state is None else self._after(state, self._summaries[block])

    @cached_property
    def hazards(self) -> tuple[Hazard, ...]:
        """Everything that may be under way where it must not be, in the order of the code."""
        found: list[Hazard] = []
        for block, state in enumerate(self.entries):
            if state is not None and (self._summaries[block].faults or self._refuses(block, state)):
                found += self._hazards_in(block, state)
        return tuple(found)

    def _refuses(self, block: int, state: State) -> bool:
        for masks, demands in zip(state, self._summaries[block].demands, strict=True):
            if not masks:
                continue
            for limit, against in demands.items():
                for mask in masks[:limit]:
                    if mask & against:
                        return True
        return False

    def _hazards_in(self, block: int, state: State) -> Iterator[Hazard]:
        walk = Walk(self.lanes, self._shared, state)
        for instruction in self.kernel.blocks[block].instructions:
            effect = effect_of(instruction.decoded, self.target)
            for lane, age, mask in walk.conflicts(effect):
                opened = mask & (UNIT_MASK | MARK_MASK)
                producer = self._producer(walk.state[lane][age], opened)
                yield Hazard(instruction.id, block, lane, opened, age, producer)
            walk.step(instruction, effect)

    def _producer(self, mask: int, opened: int) -> int | None:
        """The instruction of this age that opened (some of) the units and marks."""
        for id_ in reversed(self._shared.ids_in(mask)):
            instruction = self.kernel.by_id.get(id_)
            if instruction is None:
                continue
            for issue in effect_of(instruction.decoded, self.target).issues:
                if issue.opened & opened & mask:
                    return id_
        return None

    def walk(self, block: int) -> Walk:
        """A walk that starts in front of a block. Raises ValueError for a block that nothing reaches."""
        state = self.entries[block]
        if state is None:
            raise ValueError(f"nothing reaches block {block}")
        return Walk(self.lanes, self._shared, state)

    def state_before_each(self, block: int) -> Iterator[tuple[Instruction, Effect, list[list[int]]]]:
        """Instructions of a block with effect and state in front (valid until the next step)."""
        if self.entries[block] is None:
            return
        walk = self.walk(block)
        for instruction in self.kernel.blocks[block].instructions:
            effect = effect_of(instruction.decoded, self.target)
            yield instruction, effect, walk.state
            walk.step(instruction, effect)

    def order_points(self) -> dict[int, frozenset[int]]:
        """For each instruction at which memory order matters, the accesses that may be under way there.

        A candidate that has an access here which its parent had not lets other waves see another order.
        """
        found: dict[int, frozenset[int]] = {}
        for block, state in enumerate(self.entries):
            if state is not None and any(effect.orders for _, effect in self._summaries[block].events):
                key = (self.kernel.blocks[block].instructions, state)
                points = self._shared.points.get(key)
                if points is None:
                    points = self._shared.points[key] = self._points_in(block)
                found.update(points)
        return found

    def _points_in(self, block: int) -> dict[int, frozenset[int]]:
        return {
            instruction.id: frozenset(self.under_way(state, effect.orders))
            for instruction, effect, state in self.state_before_each(block)
            if effect.orders
        }

    @property
    def hazard_guards(self) -> frozenset[int]:
        """Ids of waits that may be there to break up a hazard."""
        waits = (instruction for instruction, effect in self._events() if effect.is_wait)
        return frozenset(wait.id for wait in waits if guards_hazard(wait.decoded, self.target))

    def _events(self) -> Iterator[tuple[Instruction, Effect]]:
        """The instructions that do more than touch registers, in the order of the code."""
        for block, summary in zip(self.kernel.blocks, self._summaries, strict=True):
            for place, effect in summary.events:
                yield block.instructions[place], effect

    @property
    def unknown_instructions(self) -> tuple[Instruction, ...]:
        """Those without a meaning, in the order of the code."""
        return tuple(instruction for instruction, effect in self._events() if not effect.is_known)

    @property
    def loads_into_lds(self) -> tuple[Instruction, ...]:
        """Instructions by which memory is copied into LDS, in the order of the code."""
        return tuple(
            instruction
            for instruction, effect in self._events()
            if any(issue.opened & _LDS_DMA for issue in effect.issues)
        )

    def under_way(self, state: list[list[int]], marks: int) -> list[int]:
        """Ids of accesses of these kinds that may be under way, ascending."""
        concerned = 0
        for mark in MARKS:
            if mark & marks:
                concerned |= self._shared.of_mark[mark]
        return self._shared.ids_in(concerned & _union_of(state))

    # --- witnesses ----------------------------------------------------------------------------------------

    def witness(self, hazard: Hazard) -> Witness:
        """A shortest path (in blocks) on which the hazard happens."""
        place = next(
            place
            for place, each in enumerate(self.kernel.blocks[hazard.block].instructions)
            if each.id == hazard.consumer
        )
        lane = self.lanes.lanes[hazard.lane]
        start = _Trail(hazard.block, 0, lane.maximum if lane.in_order else 1, None, (hazard.block,))
        waiting = deque([(start, place)])
        seen = set()
        while waiting:
            trail, end = waiting.popleft()
            reached = self._back(trail, end, hazard)
            if isinstance(reached, Witness):
                return reached
            if reached is None:
                continue
            if hazard.producer is None and reached.block == 0:
                return reached.witness()
            for before in self.flow.predecessors[reached.block]:
                key = (before, reached.younger, reached.bound)
                if key not in seen:
                    seen.add(key)
                    onward = replace(reached, block=before, path=(before, *reached.path))
                    waiting.append((onward, len(self.kernel.blocks[before].instructions)))
        return Witness((hazard.block,), None, None, hazard.age)

    def _back(self, trail: _Trail, end: int, hazard: Hazard) -> _Trail | Witness | None:
        """Backward through one block: the producer found, or the trail at its front, or a dead end."""
        lane = self.lanes.lanes[hazard.lane]
        younger, bound, wait = trail.younger, trail.bound, trail.wait
        for instruction in reversed(self.kernel.blocks[trail.block].instructions[:end]):
            effect = effect_of(instruction.decoded, self.target)
            if effect.is_plain:
                continue
            if any(issue.lane == hazard.lane for issue in effect.issues):
                if instruction.id == hazard.producer:
                    return _Trail(trail.block, younger, bound, wait, trail.path).witness()
                younger += 1 if lane.in_order else 0
            for number, value in effect.limits:
                if number == hazard.lane and (wait is None or value + younger < bound):
                    wait = (instruction.id, value, younger)
                    bound = min(bound, value + younger)
            if younger >= bound:
                return None
        return _Trail(trail.block, younger, bound, wait, trail.path)

    # --- backward -----------------------------------------------------------------------------------------

    def wait_requirements(self) -> tuple[WaitNeed, ...]:
        """For each wait and each counter it looks at, what is needed of it; in order of the code."""
        strict = self._demands(with_order=True)
        registers = self._demands(with_order=False)
        found: list[WaitNeed] = []
        for block, summary in enumerate(self._summaries):
            if self.entries[block] is not None and any(effect.waits for _, effect in summary.events):
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
            front = self._in_front(behind[block], self._summaries[block], with_order)
            for before in flow.predecessors[block]:
                if _merge_demands(behind[before], front) and before not in queued:
                    waiting.append(before)
                    queued.add(before)
        return behind

    def _at_exit(self, block: int) -> list[Demand]:
        if self.is_callee and self.flow.exits[block] is Exit.INDIRECT:
            return [
                {_top(lane.in_order, lane.maximum): _CALLERS} if lane.settled_by_calls else {}
                for lane in self.lanes.lanes
            ]
        return [{} for _ in self.lanes.lanes]

    def _in_front(self, behind: list[Demand], summary: _Summary, with_order: bool) -> list[Demand]:
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
            for instruction, effect, state in self.state_before_each(block)
            if effect.is_wait
        }
        found: list[WaitNeed] = []
        both = [([dict(d) for d in strict], True), ([dict(d) for d in registers], False)]
        for place in reversed(range(len(instructions))):
            instruction = instructions[place]
            effect = effect_of(instruction.decoded, self.target)
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
            demands[lane] = _lowered(demands[lane], value)
        if effect.is_call:
            self._touch_back(demands, effect, with_order)

    def _touch_back(self, demands: list[Demand], effect: Effect, with_order: bool) -> None:
        own = {issue.lane for issue in effect.issues}
        for number, lane in enumerate(self.lanes.lanes):
            against = _against(lane.sources, effect, number in own) | (effect.orders if with_order else 0)
            if against:
                top = _top(lane.in_order, lane.maximum)
                demands[number][top] = demands[number].get(top, 0) | against

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
        needed, things = self._weakest(counter, present, state, strict)
        for_registers, _ = self._weakest(counter, present, state, registers)
        consumer = None if needed is None else self._first_consumer(block, place, counter, things)
        wait = self.kernel.blocks[block].instructions[place]
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
                whole |= self._shared.of_mark[mark]
        return whole

    def _first_consumer(self, block: int, place: int, counter: str, things: int) -> int | None:
        marks = sum(mark for mark in MARKS if things & (mark | self._shared.of_mark[mark]))
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

    # --- upper bounds -------------------------------------------------------------------------------------

    def idle_waits(self) -> tuple[int, ...]:
        """Ids of waits that can never make a wave wait: no more is ever under way than they allow.

        Those that guard against a hazard by being there are left out.
        """
        counters = {counter: facts.maximum.value for counter, facts in self.target.wait.counters.items()}
        unknown = not self.kernel.is_entry
        start = {counter: most if unknown else 0 for counter, most in counters.items()}
        states: list[dict[str, int] | None] = [None] * len(self.kernel.blocks)
        for block, entry in enumerate(self.entries):
            if entry is not None and (block == 0 or not self.flow.predecessors[block]):
                states[block] = dict(start if block == 0 else counters)
        waiting = deque(block for block, state in enumerate(states) if state is not None)
        while waiting:
            block = waiting.popleft()
            counts = dict(states[block] or {})
            for _, effect in self._summaries[block].events:
                self._count(counts, effect, counters)
            for following in self.flow.successors[block]:
                old = states[following]
                new = counts if old is None else {c: max(value, old[c]) for c, value in counts.items()}
                if new != old:
                    states[following] = dict(new)
                    waiting.append(following)
        return tuple(self._idle_in(states, counters))

    def _idle_in(self, states: list[dict[str, int] | None], counters: dict[str, int]) -> Iterator[int]:
        for block, state in enumerate(states):
            if state is None:
                continue
            counts = dict(state)
            for place, effect in self._summaries[block].events:
                if effect.is_wait and all(counts[counter] <= value for counter, value in effect.waits):
                    wait = self.kernel.blocks[block].instructions[place]
                    if not guards_hazard(wait.decoded, self.target):
                        yield wait.id
                self._count(counts, effect, counters)

    def _count(self, counts: dict[str, int], effect: Effect, counters: dict[str, int]) -> None:
        if effect.is_call:
            counts.update(counters)
        for counter, value in effect.waits:
            counts[counter] = min(counts[counter], value)
        for issue in effect.issues:
            counter = self.lanes.lanes[issue.lane].counter
            counts[counter] = min(counts[counter] + 1, counters[counter])


@dataclass(frozen=True, slots=True)
class _Trail:
    """A backward search: `younger` events of the lane seen, `bound` the ages that the waits let through."""

    block: int
    younger: int
    bound: int
    wait: tuple[int, int, int] | None
    path: tuple[int, ...]

    def witness(self) -> Witness:
        if self.wait is None:
            return Witness(self.path, None, None, self.younger)
        id_, found, behind = self.wait
        return Witness(self.path, id_, found, self.younger - behind)


class _Builder:
    """Sums up a block in one pass over its instructions.

    `touched` and `written` only grow, and a demand is noted when the limit of a lane changes, so a later
    (lower) limit repeats earlier touches; that is harmless, since the higher limit has them as well.
    """

    def __init__(self, lanes: Lanes, shared: _Shared) -> None:
        self.lanes = lanes.lanes
        self.shared = shared
        count = len(self.lanes)
        self.tops = [_top(lane.in_order, lane.maximum) for lane in self.lanes]
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
        if effect.is_plain:
            self._touch(place, effect)
            return
        self.events.append((place, effect))
        if not effect.is_call:
            self._limit(effect)
        self._touch(place, effect)
        self.ordered |= effect.orders
        if effect.is_call:
            self._limit(effect)
        for issue in effect.issues:
            self._issue(issue.lane, issue.opened | self.shared.identity(id_, issue.opened), effect.reopened)

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
            if masks and union(masks) & _against(self.lanes[number].sources, effect, number in own):
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

    def finish(self) -> _Summary:
        for number, lane in enumerate(self.lanes):
            self._note(number)
            if lane.in_order:
                self.limits[number] = min(self.limits[number], lane.maximum - self.shifts[number])
        return _Summary(
            limits=self.limits,
            shifts=self.shifts,
            own=[_trimmed(tuple(masks)) for masks in self.own],
            issued=self.issued,
            reopened=self.reopened,
            demands=self.demands,
            orders=self.orders,
            faults=self.faults,
            events=self.events,
        )


def _top(in_order: bool, maximum: int) -> int:
    """The threshold that every open thing is below."""
    return maximum if in_order else 1


def _join(first: State | None, second: State) -> State:
    if first is None or first == second:
        return second
    return tuple(a if a == b else join_lane(a, b) for a, b in zip(first, second, strict=True))


def join_lane(first: LaneState, second: LaneState) -> LaneState:
    """What may be open on either of two paths, each thing with its smaller age."""
    if len(first) < len(second):
        first, second = second, first
    seen = 0
    result = []
    for age, mask in enumerate(first):
        if age < len(second):
            mask |= second[age]
        mask &= ~seen
        seen |= mask
        result.append(mask)
    return _trimmed(tuple(result))


def _trimmed(masks: LaneState) -> LaneState:
    end = len(masks)
    while end and not masks[end - 1]:
        end -= 1
    return masks if end == len(masks) else masks[:end]


def _lowered(demand: Demand, value: int) -> Demand:
    lowered: Demand = {}
    for threshold, mask in demand.items():
        new = min(threshold, value)
        if new > 0:
            lowered[new] = lowered.get(new, 0) | mask
    return lowered


def _merge_demands(into: list[Demand], more: list[Demand]) -> bool:
    """Adds demands to those behind a block; whether that changed anything."""
    changed = False
    for demand, new in zip(into, more, strict=True):
        if not new:
            continue
        known = 0
        for threshold in sorted(demand.keys() | new.keys(), reverse=True):
            known |= demand.get(threshold, 0)
            added = new.get(threshold, 0) & ~known
            if added:
                demand[threshold] = demand.get(threshold, 0) | added
                known |= added
                changed = True
    return changed


def _union_of(state: list[list[int]]) -> int:
    return union(union(masks) for masks in state)


def wait_requirements(kernel: Kernel) -> tuple[WaitNeed, ...]:
    """See `WaitAnalysis.wait_requirements`."""
    return WaitAnalysis(kernel).wait_requirements()


def is_redundant(kernel: Kernel, wait: int) -> bool:
    """Whether a wait instruction (an id) may go, all others staying as they are; False for other ids."""
    needs = [need for need in wait_requirements(kernel) if need.instruction == wait]
    return bool(needs) and all(need.is_redundant for need in needs)
