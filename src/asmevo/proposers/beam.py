"""Beam search over the decisions of a list scheduler.

The `width` most promising rows in the making are kept side by side. In each step every one of them is carried on with
its `branch` best candidates (those that can start soonest, then the longest way to the end first), rows that hold the
same nodes with the same clock are one row, and of all these the best by a bound survive: the cycle at which the last
node ends at the earliest. That is an A*-like choice with a bounded memory, so it may lose the best row; with width 1
and branch 1 it is the critical-path scheduler.

The bound knows links and units only. Whoever has a better model hands in `cost`, which is asked for the rows that
are left at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from asmevo.proposers.scheduling import Region, Sequencer

Cost = Callable[[Region, Sequence[int]], float]
"""What a whole order of a region costs; lower is better."""

WIDTH = 8
BRANCH = 3


def beam_search(
    region: Region, cost: Cost | None = None, *, width: int = WIDTH, branch: int = BRANCH, placed: Sequence[int] = ()
) -> tuple[int, ...]:
    """The best order found that begins with `placed`; the same arguments give the same one."""
    first = Sequencer(region)
    for position in placed:
        first.place(position)
    rows = [first]
    while not rows[0].done:
        rows = _best(_carried_on(rows, branch), width)
    ends = [tuple(row.order) for row in rows]
    return min(ends, key=lambda order: cost(region, order)) if cost is not None else ends[0]


def _carried_on(rows: list[Sequencer], branch: int) -> list[Sequencer]:
    heights = rows[0].region.heights
    found = []
    for row in rows:
        ranked = sorted(row.ready, key=lambda p: (row.start(p), -heights[p], p))
        for position in ranked[:branch]:
            longer = row.fork()
            longer.place(position)
            found.append(longer)
    return found


def _best(rows: list[Sequencer], width: int) -> list[Sequencer]:
    """The first `width` by bound, then clock; of rows with the same nodes and clock only the first."""
    kept: list[Sequencer] = []
    seen: set[tuple[int, frozenset[int]]] = set()
    for _, _, row in sorted(((row.least_end(), row.now, row) for row in rows), key=lambda each: each[:2]):
        key = (row.now, frozenset(row.order))
        if key not in seen:
            seen.add(key)
            kept.append(row)
        if len(kept) == width:
            break
    return kept
