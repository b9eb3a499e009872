"""The forward fixed point that several analyses share: states at the entries of blocks.

`start` is the state at block 0. `through` gives the state behind a block and leaves the one it gets as it is; `join`
merges a state that arrives with what is known at an entry (None: nothing yet). With a `join` that only ever moves up a
lattice of finite height the loop ends, and the result is the least fixed point above the start: it covers every path.
In whatever order blocks are taken it is the same; in that of the code most have all that arrives before their turn.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import TypeVar

from asmevo.analysis.control_flow import ControlFlow

State = TypeVar("State")


def entry_states(
    flow: ControlFlow,
    start: State,
    through: Callable[[int, State], State],
    join: Callable[[State | None, State], State],
) -> dict[int, State]:
    """The state at the entry of every block that can be reached, by block in ascending order."""
    entries = {0: start}
    waiting = [0]
    while waiting:
        block = heapq.heappop(waiting)
        state = through(block, entries[block])
        for following in flow.successors[block]:
            known = entries.get(following)
            joined = join(known, state)
            if known is None or joined != known:
                entries[following] = joined
                if following not in waiting:
                    heapq.heappush(waiting, following)
    return dict(sorted(entries.items()))
