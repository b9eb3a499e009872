"""Hot windows: the few instructions of a kernel where work pays.

Costs come from a profile or an estimate, as cycles by instruction. The hot block is the one with the most stalled
cycles (of equals the one with the fewest instructions a cycle). In it the window grows from the costliest
instruction to whichever neighbour costs more, to `largest` instructions and not beyond the block. What is around
it belongs to the window as context: up to two blocks before that give values it reads, and one behind that uses
what it makes (dependence blocks).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from asmevo.analysis.control_flow import ControlFlow
from asmevo.program.kernel import Block, Kernel

SMALLEST, LARGEST = 5, 15
"""Instructions of a window by default."""
_BEFORE, _BEHIND = 2, 1


class Cost(Struct, frozen=True):
    """What an instruction costs: `cycles` in all, `stalls` among them, `hits` how often it runs."""

    cycles: float
    stalls: float
    hits: float


class Window(Struct, frozen=True):
    """`instructions` (ids, consecutive in `block`); `before` and `behind` are the blocks of its context.

    `share` is the window's part of all cycles, `stall_share` that of all stalled cycles, `ipc` the block's
    instructions a cycle of a wave.
    """

    block: int
    instructions: tuple[int, ...]
    before: tuple[int, ...]
    behind: tuple[int, ...]
    share: float
    stall_share: float
    ipc: float


def hot_windows(
    kernel: Kernel, costs: Mapping[int, Cost], count: int = 1, smallest: int = SMALLEST, largest: int = LARGEST
) -> tuple[Window, ...]:
    """The `count` hottest windows, each in a block of its own, hottest first.

    Blocks of fewer than `smallest` instructions, or that never ran, have none.
    """
    flow = ControlFlow(kernel)
    blocks = [each for each in kernel.blocks if len(each.instructions) >= smallest and _sum(each, costs).hits]
    ranked = sorted(blocks, key=lambda each: (-_sum(each, costs).stalls, _ipc(each, costs), each.index))
    whole = [sum(cost.cycles for cost in costs.values()), sum(cost.stalls for cost in costs.values())]
    return tuple(_window(kernel, flow, block, costs, whole, largest) for block in ranked[:count])


def _window(
    kernel: Kernel, flow: ControlFlow, block: Block, costs: Mapping[int, Cost], whole: list[float], largest: int
) -> Window:
    own = block.instructions
    weight = [_cost(costs, each.id).stalls or _cost(costs, each.id).cycles for each in own]
    first = last = max(range(len(own)), key=lambda place: weight[place])
    while last - first + 1 < min(largest, len(own)):
        before = weight[first - 1] if first else -1.0
        behind = weight[last + 1] if last + 1 < len(own) else -1.0
        if before > behind:
            first -= 1
        else:
            last += 1
    inside = own[first : last + 1]
    cycles = sum(_cost(costs, each.id).cycles for each in inside)
    stalls = sum(_cost(costs, each.id).stalls for each in inside)
    return Window(
        block.index,
        tuple(each.id for each in inside),
        _context(kernel, flow.predecessors, block, True)[:_BEFORE],
        _context(kernel, flow.successors, block, False)[:_BEHIND],
        cycles / whole[0] if whole[0] else 0.0,
        stalls / whole[1] if whole[1] else 0.0,
        _ipc(block, costs),
    )


def _context(kernel: Kernel, edges: Sequence[tuple[int, ...]], block: Block, giving: bool) -> tuple[int, ...]:
    """Blocks along the edges, nearest first, that give values to the block or take them from it."""
    reads, writes = _registers(block)
    wanted = reads if giving else writes
    found: list[int] = []
    seen, front = {block.index}, list(edges[block.index])
    while front:
        place = front.pop(0)
        if place in seen:
            continue
        seen.add(place)
        own_reads, own_writes = _registers(kernel.blocks[place])
        if wanted & (own_writes if giving else own_reads):
            found.append(place)
        front += edges[place]
    return tuple(found)


def _registers(block: Block) -> tuple[int, int]:
    reads = writes = 0
    for each in block.instructions:
        reads |= each.reads
        writes |= each.writes
    return reads, writes


def _cost(costs: Mapping[int, Cost], place: int) -> Cost:
    return costs.get(place, _NOTHING)


_NOTHING = Cost(0.0, 0.0, 0.0)


def _sum(block: Block, costs: Mapping[int, Cost]) -> Cost:
    own = [_cost(costs, each.id) for each in block.instructions]
    return Cost(sum(c.cycles for c in own), sum(c.stalls for c in own), sum(c.hits for c in own))


def _ipc(block: Block, costs: Mapping[int, Cost]) -> float:
    whole = _sum(block, costs)
    return whole.hits / whole.cycles if whole.cycles else 0.0
