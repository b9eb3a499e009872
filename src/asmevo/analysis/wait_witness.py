"""How a hazard of the wait counters comes about: a shortest path from the producer, and the nearest wait on it.

A search backward from the consumer over (block, younger events of the lane seen, ages that the waits on the way
let through). A trail whose waits let nothing of that age through is a dead end; the first that meets the
producer is a shortest one in blocks. The forward analysis has shown that one exists.
"""

from __future__ import annotations

from collections import deque

from msgspec import Struct
from msgspec.structs import replace

from asmevo.analysis.events import effect_of
from asmevo.analysis.wait_counters import Hazard, WaitAnalysis


class Witness(Struct, frozen=True):
    """How a hazard comes about: blocks from the producer to the consumer, and the closest wait on the way.

    `wait` is the id of the wait that came nearest to settle it, `found` its value; `needed` the largest value
    there that would do. All None if no wait on the path looks at the counter; then `needed` is the age.
    """

    path: tuple[int, ...]
    wait: int | None
    found: int | None
    needed: int


class _Trail(Struct, frozen=True):
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


def witness_of(analysis: WaitAnalysis, hazard: Hazard) -> Witness:
    """A shortest path (in blocks) on which the hazard happens."""
    place = next(
        place
        for place, each in enumerate(analysis.kernel.blocks[hazard.block].instructions)
        if each.id == hazard.consumer
    )
    lane = analysis.lanes.lanes[hazard.lane]
    start = _Trail(hazard.block, 0, lane.maximum if lane.in_order else 1, None, (hazard.block,))
    waiting = deque([(start, place)])
    seen = set()
    while waiting:
        trail, end = waiting.popleft()
        reached = _back(analysis, trail, end, hazard)
        if isinstance(reached, Witness):
            return reached
        if reached is None:
            continue
        if hazard.producer is None and reached.block == 0:
            return reached.witness()
        for before in analysis.flow.predecessors[reached.block]:
            key = (before, reached.younger, reached.bound)
            if key not in seen:
                seen.add(key)
                onward = replace(reached, block=before, path=(before, *reached.path))
                waiting.append((onward, len(analysis.kernel.blocks[before].instructions)))
    return Witness((hazard.block,), None, None, hazard.age)


def _back(analysis: WaitAnalysis, trail: _Trail, end: int, hazard: Hazard) -> _Trail | Witness | None:
    """Backward through one block: the producer found, or the trail at its front, or a dead end."""
    lane = analysis.lanes.lanes[hazard.lane]
    younger, bound, wait = trail.younger, trail.bound, trail.wait
    for instruction in reversed(analysis.kernel.blocks[trail.block].instructions[:end]):
        effect = effect_of(instruction.decoded, analysis.target)
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
