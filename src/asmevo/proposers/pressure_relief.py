"""Orders with fewer values alive at once, for a kernel that is a few VGPRs over an occupancy step.

What is alive where a block begins and ends no order changes; the peaks between are often a matter of when loads and
independent chains begin. Each block with more than `limit` VGPRs in use is put in order anew on virtual registers
(`virtual_region`) by agents that are kept within the limit (`bounded_agent`): first one that hides latency, at last
one that thinks of nothing but pressure. Where that leaves too many alive, the bound is lowered. A block whose base
order does not keep the limit is given up.

The result names as many registers as before, but needs fewer at once; `compaction` moves them together.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from asmevo.analysis.liveness import Liveness
from asmevo.program.kernel import Block, Kernel
from asmevo.program.registers import VGPR_MASK
from asmevo.proposers.agents import agent_named
from asmevo.proposers.bounded_agent import Bounded, peak
from asmevo.proposers.compaction_layout import with_marks
from asmevo.proposers.proposer import Facts
from asmevo.proposers.rematerialisation import Rematerialisation
from asmevo.proposers.renaming_block import joined_blocks
from asmevo.proposers.scheduling import list_schedule
from asmevo.proposers.virtual_region import VirtualRegion

_AGENTS = ("default", "steady", "min_pressure")
_SPARE = (0, 2, 4, 8)
_SHARES = (1, 2, 4)
"""How many values are made again, in halves of how many registers are missing."""


def most_alive(kernel: Kernel, block: int, liveness: Liveness) -> int:
    """The most VGPRs that hold something some lane may read, or get a result, at any one instruction of a block."""
    states = liveness.states(block)
    instructions = kernel.blocks[block].instructions
    written = [instruction.writes for instruction in instructions]
    behind = (state.any_lane | writes for state, writes in zip(states[1:], written, strict=True))
    return max(((units & VGPR_MASK).bit_count() for units in (states[0].any_lane, *behind)), default=0)


def blocks_over(kernel: Kernel, limit: int, liveness: Liveness) -> list[int]:
    """The blocks in which more VGPRs than that are alive at once."""
    return [block.index for block in kernel.blocks if most_alive(kernel, block.index, liveness) > limit]


def lowered(facts: Facts, limit: int, remaking: Rematerialisation) -> Kernel | None:
    """The kernel with at most so many VGPRs alive at once; None where no way was found. `remaking` is the kernel's.

    Orders come first; where they do not suffice values are made again, few at first.
    """
    lower = relieved(facts, limit)
    if lower is not None:
        return lower
    over = blocks_over(facts.kernel, limit, facts.liveness)
    peak = max(over, key=lambda block: most_alive(facts.kernel, block, facts.liveness))
    missing = most_alive(facts.kernel, peak, facts.liveness) - limit
    values = remaking.candidates(peak)
    for count in dict.fromkeys(min(len(values), missing * share // 2) for share in _SHARES):
        blocks = with_marks(facts, remaking.made_again(values[:count])) if count else None
        if blocks is not None:
            lower = relieved(replace(facts, kernel=facts.kernel.with_blocks(blocks)), limit)
        if lower is not None:
            return lower
    return None


def relieved(facts: Facts, limit: int) -> Kernel | None:
    """The kernel with at most so many VGPRs alive at once, where orders within blocks can do that."""
    kernel, changed = facts.kernel, {}
    over = blocks_over(kernel, limit, facts.liveness)
    for index in over:
        edges = (facts.liveness.live_in(index), facts.liveness.live_out(index))
        if any((live & VGPR_MASK).bit_count() > limit for live in edges):
            return None
    for index in over:
        found = next((each for each in _orders(facts, index, limit) if _fits(kernel, each, index, limit)), None)
        if found is None:
            return None
        changed[index] = found[index]
    return kernel.with_blocks(joined_blocks(kernel, changed)) if changed else kernel


def _fits(kernel: Kernel, blocks: tuple[Block, ...], index: int, limit: int) -> bool:
    version = kernel.with_blocks(blocks)
    return most_alive(version, index, Liveness(version)) <= limit


def _orders(facts: Facts, index: int, limit: int) -> Iterator[tuple[Block, ...]]:
    problem = VirtualRegion.of(facts, index, facts.liveness)
    if problem is None:
        return
    bound = limit - problem.block.always.bit_count()
    for agent in _AGENTS:
        for spare in _SPARE:
            if facts.out_of_time():
                return
            bounded = Bounded(agent_named(agent), problem.region, bound - spare)
            if peak(problem.region, bounded.base) > bound:
                break
            made = problem.rebuild(list_schedule(problem.region, bounded))
            if made is not None:
                yield made
