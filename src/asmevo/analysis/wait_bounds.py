"""Waits that can never make a wave wait.

Lattice: for each counter an upper bound, over all paths, of what it may show; join is the larger, no bound
goes beyond what the counter can hold. Transfer: an event adds one, a wait for n cuts to n, a call leaves
anything. A wait is idle if every counter it looks at is bounded by what it allows. Sound, since the bound never
falls below the true value: an event that is over is counted as under way until a wait has cut the bound. Nothing is
known of counters that `lanes_of` leaves out (xcnt), so a wait for one is not judged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from msgspec import Struct

from asmevo.analysis.events import Effect, guards_hazard
from asmevo.analysis.wait_counters import WaitAnalysis


class IdleWait(Struct, frozen=True):
    """A wait (an id): by counter what it allows, and the most that can be outstanding in front of it."""

    instruction: int
    allowed: dict[str, int]
    outstanding: dict[str, int]


def idle_waits(analysis: WaitAnalysis) -> tuple[IdleWait, ...]:
    """Waits that can never make a wave wait: no more is ever under way than they allow.

    Those that guard against a hazard by being there are left out.
    """
    counters = {counter: facts.maximum.value for counter, facts in analysis.target.wait.counters.items()}
    unknown = not analysis.kernel.is_entry
    start = {counter: most if unknown else 0 for counter, most in counters.items()}
    states: list[dict[str, int] | None] = [None] * len(analysis.kernel.blocks)
    for block, entry in enumerate(analysis.entries):
        if entry is not None and (block == 0 or not analysis.flow.predecessors[block]):
            states[block] = dict(start if block == 0 else counters)
    waiting = deque(block for block, state in enumerate(states) if state is not None)
    while waiting:
        block = waiting.popleft()
        counts = dict(states[block] or {})
        for _, effect in analysis.summaries[block].events:
            _count(analysis, counts, effect, counters)
        for following in analysis.flow.successors[block]:
            old = states[following]
            new = counts if old is None else {c: max(value, old[c]) for c, value in counts.items()}
            if new != old:
                states[following] = dict(new)
                waiting.append(following)
    return tuple(_idle_in(analysis, states, counters))


def _idle_in(
    analysis: WaitAnalysis, states: list[dict[str, int] | None], counters: dict[str, int]
) -> Iterator[IdleWait]:
    for block, state in enumerate(states):
        if state is None:
            continue
        counts = dict(state)
        for place, effect in analysis.summaries[block].events:
            if effect.is_wait and _allows_all(analysis, counts, effect):
                wait = analysis.kernel.blocks[block].instructions[place]
                if not guards_hazard(wait.decoded, analysis.target):
                    outstanding = {counter: counts[counter] for counter, _ in effect.waits}
                    yield IdleWait(wait.id, dict(effect.waits), outstanding)
            _count(analysis, counts, effect, counters)


def _allows_all(analysis: WaitAnalysis, counts: dict[str, int], effect: Effect) -> bool:
    followed = analysis.lanes.of_counter
    return all(counter in followed and counts[counter] <= value for counter, value in effect.waits)


def _count(analysis: WaitAnalysis, counts: dict[str, int], effect: Effect, counters: dict[str, int]) -> None:
    if effect.is_call:
        counts.update(counters)
    for counter, value in effect.waits:
        counts[counter] = min(counts[counter], value)
    for issue in effect.issues:
        counter = analysis.lanes.lanes[issue.lane].counter
        counts[counter] = min(counts[counter] + 1, counters[counter])
