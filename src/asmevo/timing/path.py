"""Which way through a kernel is estimated, and how often each part of it runs.

One path stands for the kernel. It starts where waves do and goes on by this rule, in this order:

1. stay in the innermost loop that the block is in: a successor outside it is taken only when no successor
   inside is left (each block is on the path once; a loop is closed when its header comes up again);
2. if from just one of two successors more loops that were not walked yet can be reached, take that one (a
   guard that skips the main loop is assumed not to skip it);
3. otherwise fall through: forward branches are not taken, s_cbranch_execz included.

Each innermost loop on the path is a Stretch of its own that is repeated; what lies between is a Stretch that
runs once for each iteration of the loops around it. Blocks that are not on the path cost nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from msgspec import Struct

from asmevo.analysis.control_flow import ControlFlow, Loop
from asmevo.program.kernel import Kernel

TripCounts = int | Mapping[int, int] | None

ASSUMED_TRIP_COUNT = 10
"""Iterations of a loop whose trip count nobody gave: a convention of this model, no fact about hardware."""


class Stretch(Struct, frozen=True):
    """Consecutive blocks of the path. `taken` says for each block whether the branch at its end is taken.

    `loop` is the innermost loop that they are the body of, else None; `around` are the headers of the other
    loops around them.
    """

    blocks: tuple[int, ...]
    taken: tuple[bool, ...]
    loop: int | None
    around: tuple[int, ...]


def trips_of(header: int, trip_count: TripCounts) -> int:
    """Iterations of the loop with this header block."""
    if isinstance(trip_count, int):
        return trip_count
    given = trip_count or {}
    return given.get(header, ASSUMED_TRIP_COUNT)


def layout_of(kernel: Kernel) -> Mapping[int, int]:
    """Address of each instruction, by its id; empty where nothing is known of fetches."""
    if "branch_fetch" not in kernel.target.timing:
        return {}
    found, address = dict[int, int](), kernel.address
    for instruction in kernel.instructions:
        found[instruction.id] = address
        address += len(instruction.decoded.code)
    return found


def path_of(kernel: Kernel) -> tuple[Stretch, ...]:
    """The path as stretches, in order."""
    return _path(ControlFlow(kernel), kernel.start_block)


@lru_cache(maxsize=256)
def _path(flow: ControlFlow, start: int) -> tuple[Stretch, ...]:
    order = _walk(flow, start)
    parents = {loop.parent for loop in flow.loops}
    innermost = {loop.header for loop in flow.loops} - parents
    runs: list[tuple[int | None, tuple[int, ...], list[int]]] = []
    for place, block in enumerate(order):
        headers = _headers(flow, block)
        own = headers[0] if headers and headers[0] in innermost else None
        around = headers[1:] if own is not None else headers
        starts = not runs or runs[-1][:2] != (own, around)
        if starts:
            runs.append((own, around, []))
        runs[-1][2].append(place)
    return tuple(_stretch(flow, order, own, around, places) for own, around, places in runs)


def _stretch(
    flow: ControlFlow, order: list[int], own: int | None, around: tuple[int, ...], places: list[int]
) -> Stretch:
    blocks = tuple(order[place] for place in places)
    taken = []
    for place in places:
        follows: int | None = order[place + 1] if place + 1 < len(order) else None
        if own is not None and place == places[-1]:
            follows = own
        taken.append(follows is not None and follows != order[place] + 1)
    return Stretch(blocks, tuple(taken), own, around)


def _headers(flow: ControlFlow, block: int) -> tuple[int, ...]:
    """Headers of the loops around a block, innermost first."""
    return tuple(loop.header for loop in reversed(flow.loops) if block in loop.blocks)


def _walk(flow: ControlFlow, start: int) -> list[int]:
    order: list[int] = []
    seen: set[int] = set()
    block: int | None = start if flow.successors else None
    while block is not None:
        order.append(block)
        seen.add(block)
        block = _next(flow, order, seen)
    return order


def _next(flow: ControlFlow, order: list[int], seen: set[int]) -> int | None:
    """Where the path goes on; out of a closed loop it goes by the last block of it that has another way."""
    block = order[-1]
    loops = [loop for loop in reversed(flow.loops) if block in loop.blocks]
    for loop in loops:
        inside = [goal for goal in flow.successors[block] if goal in loop.blocks and goal not in seen]
        if inside:
            return _prefer(flow, block, inside, seen)
        leaving = _way_out(flow, order, seen, loop) if loop.header in seen else None
        if leaving is not None:
            return leaving
    rest = [goal for goal in flow.successors[block] if goal not in seen]
    return _prefer(flow, block, rest, seen) if rest else None


def _way_out(flow: ControlFlow, order: list[int], seen: set[int], loop: Loop) -> int | None:
    for block in reversed(order):
        if block in loop.blocks:
            outside = [goal for goal in flow.successors[block] if goal not in loop.blocks and goal not in seen]
            if outside:
                return _prefer(flow, block, outside, seen)
    return None


def _prefer(flow: ControlFlow, block: int, goals: list[int], seen: set[int]) -> int:
    if len(goals) == 1:
        return goals[0]
    reached = [_loops_ahead(flow, goal, seen) for goal in goals]
    best = max(range(len(goals)), key=lambda place: (len(reached[place]), goals[place] == block + 1))
    return goals[best]


def _loops_ahead(flow: ControlFlow, start: int, seen: set[int]) -> set[int]:
    """Headers of loops not walked yet that can be reached from a block."""
    headers = {loop.header for loop in flow.loops}
    found, waiting = set[int](), [start]
    while waiting:
        block = waiting.pop()
        if block not in found and block not in seen:
            found.add(block)
            waiting += flow.successors[block]
    return found & headers
