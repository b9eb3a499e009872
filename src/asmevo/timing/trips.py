"""Iterations of loops from how often each instruction was executed: what an emulated run tells the cycle model.

The counts of blocks are a flow: what comes into a block goes out of it. The flows along the edges solve one linear
system, with an edge of unknown flow into the entry and one out of every block that may end. Iterations of a loop are
the executions of its header divided by the flow into the header from outside the loop. Where the counts leave the flows
open (two ways between the same blocks), the least-squares solution of least norm spreads them evenly; a loop that was
never entered has no entry.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from asmevo.analysis.control_flow import ControlFlow
from asmevo.program.kernel import Kernel


def trips_from_counts(kernel: Kernel, executed: Mapping[int, int]) -> dict[int, int]:
    """Iterations by the index of the header block, at least 1, rounded; `executed` is by instruction id."""
    flow = ControlFlow(kernel)
    counts = [executed.get(block.instructions[0].id, 0) if block.instructions else None for block in kernel.blocks]
    flows = _edge_flows(flow, counts)
    found = {}
    for loop in flow.loops:
        entered = sum(
            times for (source, goal), times in flows.items() if goal == loop.header and source not in loop.blocks
        )
        turns = counts[loop.header]
        if turns and entered > 0.5:
            found[loop.header] = max(1, round(turns / entered))
    return found


def _edge_flows(flow: ControlFlow, counts: list[int | None]) -> dict[tuple[int, int], float]:
    """Executions of each edge between blocks; source -1 is the launch, goal -1 the end."""
    edges = [(source, goal) for source, goals in enumerate(flow.successors) for goal in goals]
    edges += [(-1, 0), *((source, -1) for source, goals in enumerate(flow.successors) if not goals)]
    rows, sums = [], []
    for block, count in enumerate(counts):
        into = [float(goal == block) for _, goal in edges]
        out = [float(source == block) for source, _ in edges]
        if count is None:  # an empty block only passes on what comes
            rows.append([a - b for a, b in zip(into, out, strict=True)])
            sums.append(0.0)
            continue
        rows += [into, out]
        sums += [float(count)] * 2
    solved = np.linalg.lstsq(np.array(rows), np.array(sums), rcond=None)[0]
    return {edge: float(times) for edge, times in zip(edges, solved, strict=True)}
