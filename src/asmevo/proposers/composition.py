"""Two versions of one kernel made into one that has the changes of both, where their windows are disjoint.

A version's window in a block is what remains of the original's block when the longest common front and the longest
common back are taken off: a stretch of the original's places with other instructions in it. Two versions whose
windows do not meet in any block are composed by putting both sets of stretches in. Nothing follows for the
result: registers and waits of one window may matter to the other, so it is a candidate like any other.

Ids that both versions gave to new instructions are given anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Block, Kernel
from asmevo.proposers.versions import asked_registers


@dataclass(frozen=True, slots=True)
class Stretch:
    """Places `start` to `stop` (not included) of a block of the original, and what stands there instead."""

    block: int
    start: int
    stop: int
    instructions: tuple[Instruction, ...]

    def meets(self, other: Stretch) -> bool:
        """Whether the two change the same place; insertions at one and the same place do."""
        if self.block != other.block:
            return False
        first, second = sorted((self, other), key=lambda each: (each.start, each.stop))
        return second.start < first.stop or second.start == first.start


def stretches(original: Kernel, version: Kernel) -> tuple[Stretch, ...]:
    """The version's window in each block that it changed."""
    pairs = zip(original.blocks, version.blocks, strict=True)
    return tuple(found for old, new in pairs if old is not new and (found := _stretch(old, new)) is not None)


def _stretch(old: Block, new: Block) -> Stretch | None:
    before, after = old.instructions, new.instructions
    most = min(len(before), len(after))
    front = next((place for place in range(most) if before[place] != after[place]), most)
    most -= front
    back = next((place for place in range(most) if before[-1 - place] != after[-1 - place]), most)
    if front == len(before) == len(after):
        return None
    return Stretch(old.index, front, len(before) - back, after[front : len(after) - back])


def composed(original: Kernel, first: Kernel, second: Kernel) -> Kernel | None:
    """The original with the changes of both; None where their windows meet or one has none.

    At most one of them may ask for other numbers of registers.
    """
    ours, theirs = stretches(original, first), stretches(original, second)
    if not ours or not theirs or any(one.meets(other) for one in ours for other in theirs):
        return None
    resized = [each.descriptor for each in (first, second) if asked_registers(each) != asked_registers(original)]
    if len(resized) > 1:
        return None
    theirs = tuple(_with_own_ids(theirs, original, first))
    blocks = list(original.blocks)
    for each in sorted((*ours, *theirs), key=lambda each: (each.start, each.stop), reverse=True):
        block = blocks[each.block]
        code = (*block.instructions[: each.start], *each.instructions, *block.instructions[each.stop :])
        blocks[each.block] = replace(block, instructions=code)
    made = original.with_blocks(tuple(blocks))
    return replace(made, descriptor=resized[0]) if resized else made


def _with_own_ids(changes: tuple[Stretch, ...], original: Kernel, first: Kernel) -> Iterator[Stretch]:
    taken = first.by_id.keys() - original.by_id.keys()
    new = {each.id for change in changes for each in change.instructions}.difference(original.by_id)
    following = max((*original.by_id, *first.by_id, *new)) + 1
    names = {old: following + number for number, old in enumerate(sorted(taken & new))}
    for change in changes:
        code = tuple(replace(each, id=names[each.id]) if each.id in names else each for each in change.instructions)
        yield replace(change, instructions=code)
