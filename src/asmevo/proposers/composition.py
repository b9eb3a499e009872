"""Two versions of one kernel made into one that has the changes of both, where their windows are disjoint.

A window is a stretch of the original's places with other instructions in it. What stays of a block is a longest common
order of the instructions that are the same in both versions; between these lie the windows, and where an instruction
moved, all that it moved over is in one window. Two versions none of whose windows meet are composed by putting both
sets of stretches in. Nothing follows for the result: registers and waits of one window may matter to the other, so
it is a candidate like any other.

Ids that both versions gave to new instructions are given anew.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Block, Kernel
from asmevo.proposers.versions import asked_registers


class Stretch(Struct, frozen=True):
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
    """The version's windows, block by block."""
    pairs = zip(original.blocks, version.blocks, strict=True)
    return tuple(each for old, new in pairs if old is not new for each in _stretches(old, new))


class _Gap(Struct, frozen=True):
    """What lies between two neighbouring instructions that stay: places `old` of the original, `new` of the version."""

    old: range
    new: range


def _stretches(old: Block, new: Block) -> Iterator[Stretch]:
    gaps = _gaps(old, new)
    reach = _reach(old, new, gaps)
    place = 0
    while place < len(gaps):
        here = last = place
        while here <= last:
            last = max(last, reach[here])
            here += 1
        start, stop = gaps[place].old.start, gaps[last].old.stop
        code = new.instructions[gaps[place].new.start : gaps[last].new.stop]
        if stop > start or code:
            yield Stretch(old.index, start, stop, code)
        place = last + 1


def _gaps(old: Block, new: Block) -> list[_Gap]:
    """The gaps between what stays: a longest common order of instructions that are the same in both."""
    places = {each.id: place for place, each in enumerate(old.instructions)}
    same = [
        (places[each.id], place)
        for place, each in enumerate(new.instructions)
        if each.id in places and old.instructions[places[each.id]] == each
    ]
    stay = [(-1, -1), *longest_rising(same), (len(old.instructions), len(new.instructions))]
    return [_Gap(range(before[0] + 1, behind[0]), range(before[1] + 1, behind[1])) for before, behind in pairwise(stay)]


def _reach(old: Block, new: Block, gaps: list[_Gap]) -> list[int]:
    """For each gap the last gap that belongs to the same window: where something moved, all between is one."""
    left = {old.instructions[place].id: number for number, gap in enumerate(gaps) for place in gap.old}
    reach = list(range(len(gaps)))
    for number, gap in enumerate(gaps):
        for place in gap.new:
            other = left.get(new.instructions[place].id, number)
            first, last = sorted((number, other))
            reach[first] = max(reach[first], last)
    return reach


def longest_rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """A longest run of pairs, in their order, whose first numbers rise."""
    ends: list[int] = []  # the smallest end of a run of each length, as an index into `pairs`
    values: list[int] = []
    before: list[int] = []
    for number, (value, _) in enumerate(pairs):
        length = bisect_left(values, value)
        before.append(ends[length - 1] if length else -1)
        ends[length : length + 1] = [number]
        values[length : length + 1] = [value]
    found = []
    at = ends[-1] if ends else -1
    while at >= 0:
        found.append(pairs[at])
        at = before[at]
    return found[::-1]


def composed(original: Kernel, first: Kernel, second: Kernel) -> Kernel | None:
    """The original with the changes of both; None where their windows meet or one has none.

    Where both ask for other numbers of registers the larger ones are given, unless one gives up what the other takes.
    """
    ours, theirs = stretches(original, first), stretches(original, second)
    if not ours or not theirs or any(one.meets(other) for one in ours for other in theirs):
        return None
    resized = [each for each in (first, second) if asked_registers(each) != asked_registers(original)]
    if len(resized) > 1 and not all(_only_takes(each, original) for each in resized):
        return None
    theirs = tuple(_with_own_ids(theirs, original, first))
    blocks = list(original.blocks)
    for each in sorted((*ours, *theirs), key=lambda each: (each.start, each.stop), reverse=True):
        block = blocks[each.block]
        code = (*block.instructions[: each.start], *each.instructions, *block.instructions[each.stop :])
        blocks[each.block] = replace(block, instructions=code)
    made = original.with_blocks(tuple(blocks))
    if not resized:
        return made
    return replace(made, descriptor=max(resized, key=_asked_vgprs).descriptor)


def _asked_vgprs(version: Kernel) -> int:
    asked = asked_registers(version)
    return asked.vgprs if asked is not None else 0


def _only_takes(version: Kernel, original: Kernel) -> bool:
    """Whether it asks for more VGPRs and for no other SGPRs. AGPRs behind them are what is left of a granule."""
    now, before = asked_registers(version), asked_registers(original)
    return now is not None and before is not None and now.vgprs >= before.vgprs and now.sgprs == before.sgprs


def _with_own_ids(changes: tuple[Stretch, ...], original: Kernel, first: Kernel) -> Iterator[Stretch]:
    taken = first.by_id.keys() - original.by_id.keys()
    new = {each.id for change in changes for each in change.instructions}.difference(original.by_id)
    following = max((*original.by_id, *first.by_id, *new)) + 1
    names = {old: following + number for number, old in enumerate(sorted(taken & new))}
    for change in changes:
        code = tuple(replace(each, id=names[each.id]) if each.id in names else each for each in change.instructions)
        yield replace(change, instructions=code)
