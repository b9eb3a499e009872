"""Beam search over the decisions of a list scheduler.

The `width` most promising rows in the making are kept side by side. In each step every one of them is carried on with
its `branch` best candidates (those that can start soonest, then the longest way to the end first), rows that hold the
same nodes with the same clock are one row, and of all these the best by a bound survive: the cycle at which the last
node ends at the earliest. That is an A*-like choice with a bounded memory, so it may lose the best row. With width 1
and branch 1 it is the critical-path scheduler, whose row is kept beside the others whatever the bound says of it: a
wide beam is never worse.

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
    rows, plain = [first], [first]
    while not plain[0].done:
        rows, plain = _best(_carried_on(rows, branch), width), _carried_on(plain, 1)
    ends = [*rows, *plain]
    if cost is None:
        return tuple(min(ends, key=lambda row: row.now).order)
    return min((tuple(row.order) for row in ends), key=lambda order: cost(region, order))


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
