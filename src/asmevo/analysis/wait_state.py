"""What a wait-counter analysis knows at one point of the code, and how it changes.

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
           call         all gone but stores and what only programs wait for (`WaitFacts.explicit`): LLVM's
                        convention is that a callee waits for the rest at its entry and before it returns

Soundness. An event under way with age a has at least a younger ones of its lane under way with it (they
cannot finish first), so the counter shows at least a + 1. A wait for n <= a excludes that. Since a is the
least over all paths, what the state calls done is done on every path.

Backward the pairs turn round. A *demand* maps a threshold to things: if one of them is open here with an age
below the threshold, then somewhere later, before other waits have settled it, it is touched. Join is the
larger threshold.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

from asmevo.analysis.events import FIRST_IDENTITY, MARK_MASK, MARKS, Effect, Lanes, union
from asmevo.program.instruction import Instruction

LaneState = tuple[int, ...]
"""Masks by age."""
State = tuple[LaneState, ...]
"""Lane states by lane."""
Demand = dict[int, int]
"""Masks by threshold, one lane."""


class Identities(Struct):
    """Bits that stand for single instructions, the same in a kernel and in its candidates."""

    bits: dict[int, int] = field(default_factory=dict)
    names: list[int] = field(default_factory=list)
    of_mark: dict[int, int] = field(default_factory=lambda: dict.fromkeys(MARKS, 0))

    def identity(self, id_: int, opened: int) -> int:
        """The bit of an instruction, with what it opens noted by mark."""
        bit = self.bits.get(id_)
        if bit is None:
            bit = self.bits[id_] = 1 << (FIRST_IDENTITY + len(self.names))
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

    def __init__(self, lanes: Lanes, identities: Identities, state: State) -> None:
        self.lanes = lanes.lanes
        self.identities = identities
        self.state = [list(masks) for masks in state]

    def step(self, instruction: Instruction, effect: Effect) -> None:
        """Moves the state behind an instruction."""
        for lane, value in effect.limits:
            del self.state[lane][value:]
        for issue in effect.issues:
            masks = self.state[issue.lane]
            new = issue.opened | self.identities.identity(instruction.id, issue.opened)
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
            asked = against(self.lanes[number].sources, effect, number in own)
            touched = [(age, mask & asked) for age, mask in enumerate(masks[: settled.get(number)])]
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
                concerned |= self.identities.of_mark[mark]
        for number, masks in enumerate(self.state):
            for age, mask in enumerate(masks):
                if mask & concerned and not allowed.issuperset(self.identities.ids_in(mask & concerned)):
                    yield number, age
                    break


def against(sources: bool, effect: Effect, own_lane: bool) -> int:
    """What an effect must not find open in a lane."""
    if sources:
        return effect.writes
    return effect.touches | effect.forbids | (0 if own_lane else effect.reopened)


def top(in_order: bool, maximum: int) -> int:
    """The threshold that every open thing is below."""
    return maximum if in_order else 1


def join(first: State | None, second: State) -> State:
    """What may be open on either of two paths; None is a path not seen yet."""
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
    return trimmed(tuple(result))


def trimmed(masks: LaneState) -> LaneState:
    """Without the empty masks of the oldest ages, so that equal states compare equal."""
    end = len(masks)
    while end and not masks[end - 1]:
        end -= 1
    return masks if end == len(masks) else masks[:end]


def lowered(demand: Demand, value: int) -> Demand:
    """What is demanded in front of a wait for `value`: older things are settled by it."""
    found: Demand = {}
    for threshold, mask in demand.items():
        new = min(threshold, value)
        if new > 0:
            found[new] = found.get(new, 0) | mask
    return found


def merge_demands(into: list[Demand], more: list[Demand]) -> bool:
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


def union_of(state: list[list[int]]) -> int:
    """Everything open in a state."""
    return union(union(masks) for masks in state)
