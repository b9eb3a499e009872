"""The cheapest of several ways to write a block, block by block, and at last all blocks together.

What a proposer that rewrites whole blocks has in common with others of its kind: it knows several ways for a block,
of which at most one can be taken. The cycle model is asked about each; the cheapest is proposed that it does not find
slower, and the next one if that is refused. So a gate's time is never spent on a version that nobody would choose.

The hottest blocks are proposed one by one. A kernel may have many more that gain little each and much together (a
reduction that was unrolled): of those in which the model sees a wave wait, the faster ones come together in one script
with what was accepted before, and without them if that is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from asmevo.program.edit import EditScript, script_between
from asmevo.program.kernel import Block, Kernel
from asmevo.proposers.proposer import Facts
from asmevo.proposers.register_room import roomier_descriptor
from asmevo.proposers.renaming_block import joined_blocks
from asmevo.timing import estimate

Way = tuple[str, tuple[Block, ...] | None]
"""What was done, in words, and the kernel's blocks with one rewritten; None where nothing came of it."""

_BLOCKS_TRIED = 6
_SMALLEST_BLOCK = 4
_WORTH_A_LOOK = 0.005
"""Share of a wave's cycles that it has to wait in a further block."""


class _Made(Struct, frozen=True):
    blocks: tuple[Block, ...]
    cost: float
    words: str


def cheapest_ways(
    facts: Facts, name: str, ways: Callable[[int], Iterable[Way]]
) -> Generator[EditScript, bool | None, None]:
    """Scripts of the proposer `name` for the hottest blocks that are not tiny; `ways` to write one, by index."""
    kernel, before = facts.kernel, facts.cost(facts.kernel)
    blocks = [index for index in facts.hot_blocks if len(kernel.blocks[index].instructions) >= _SMALLEST_BLOCK]
    best: dict[int, Block] = {}
    for index in blocks[:_BLOCKS_TRIED]:
        for made in sorted(_made(facts, index, ways(index)), key=lambda each: each.cost):
            if made.cost > before:
                break
            words = f"{name}: block {index}, {made.words}"
            accepted = yield script_between(kernel, made.blocks, words, roomier_descriptor(kernel, made.blocks))
            if accepted is not False:
                best[index] = made.blocks[index]
                break
    further: dict[int, Block] = {}
    for index in _with_waiting(facts, blocks[_BLOCKS_TRIED:]):
        faster = [made for made in _made(facts, index, ways(index)) if made.cost < before]
        if faster:
            further[index] = min(faster, key=lambda made: made.cost).blocks[index]
    if further:
        accepted = yield _together(kernel, best | further, name)
        if accepted is not False:
            return
    if len(best) > 1:
        yield _together(kernel, best, name)


def _with_waiting(facts: Facts, blocks: Sequence[int]) -> list[int]:
    """Those of some blocks in which a lone wave waits for long enough, by the cycle model."""
    if not blocks:
        return []
    found = estimate(facts.kernel, waves=1, memory=facts.memory)
    block_of = {each.id: index for index in blocks for each in facts.kernel.blocks[index].instructions}
    waiting = dict.fromkeys(blocks, 0.0)
    for stall in found.stalls:
        if stall.instruction in block_of:
            waiting[block_of[stall.instruction]] += stall.cycles
    return [index for index in blocks if waiting[index] >= _WORTH_A_LOOK * found.cycles]


def _together(kernel: Kernel, blocks: Mapping[int, Block], name: str) -> EditScript:
    together = joined_blocks(kernel, blocks)
    return script_between(
        kernel, together, f"{name}: {len(blocks)} blocks together", roomier_descriptor(kernel, together)
    )


def _made(facts: Facts, index: int, ways: Iterable[Way]) -> Iterator[_Made]:
    seen = {facts.kernel.blocks[index].instructions}
    for words, blocks in ways:
        if blocks is not None and blocks[index].instructions not in seen:
            seen.add(blocks[index].instructions)
            yield _Made(blocks, facts.cost(facts.kernel.with_blocks(blocks)), words)
