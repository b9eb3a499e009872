"""Rematerialisation: values made again where they are needed, so that no register holds them all the way.

A value that crosses the place where most registers are in use, and that one cheap instruction makes of constants and of
registers that hold the same where it is read, need not be kept. Its instruction is copied in front of the first reader
of each block that reads it, and taken out where it was.

What may be copied is plain vector arithmetic with one result of one register: no memory, no transcendental or matrix
operation, nothing that reads or writes VCC, SCC or other lanes. A source holds the same at the reader if it is a
constant, or if its web (`live_ranges`) has one write, or none and comes from the launch, and lives there anyway.

A copy is made in the register that held the value: from the reader on that is free.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_

from msgspec import Struct
from msgspec.structs import replace

from asmevo.analysis.control_flow import ControlFlow
from asmevo.analysis.live_ranges import LiveRange, Webs
from asmevo.analysis.liveness import reads_across_lanes
from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Block, Kernel
from asmevo.program.registers import EXEC_MASK, MODE_MASK, SGPR_MASK, VGPR_MASK
from asmevo.program.renaming import register_operands
from asmevo.proposers.placement import clause_heads

_PLAIN = frozenset({"valu"})
_NOT_CHEAP = frozenset({"may_load", "may_store", "vopd", "trans", "mai", "dpp", "sdwa"})
_NAMED = VGPR_MASK | SGPR_MASK | EXEC_MASK | MODE_MASK


class Remade(Struct, frozen=True):
    """A value that may be made again: the place that makes it, and the first reader in each other block that reads it.

    `stays`: its own block reads it, too.
    """

    block: int
    place: int
    readers: dict[int, int]
    stays: bool


class Rematerialisation:
    """The values of one kernel that may be made again."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.webs = Webs(kernel)
        self._depth = ControlFlow(kernel).loop_depth
        self._writes = {
            web: {(each.block, access.place) for each in members for access in each.accesses if access.written}
            for web, members in self.webs.members.items()
        }

    def candidates(self, peak: int) -> list[Remade]:
        """Values that cross a border of the block with the peak, those first whose copies run least often."""
        found = [each for web in self.webs.members if (each := self._remade(web, peak)) is not None]
        return sorted(found, key=lambda each: (self._weight(each), each.block, each.place))

    def units(self, peak: int) -> int:
        """The registers that hold those values."""
        return reduce(or_, (self._maker(each).writes for each in self.candidates(peak)), 0)

    def _maker(self, value: Remade) -> Instruction:
        return self.kernel.blocks[value.block].instructions[value.place]

    def _weight(self, value: Remade) -> tuple[int, int]:
        """The deepest loop that a copy is in, and how many copies there are."""
        return max(self._depth[block] for block in value.readers), len(value.readers)

    def made_again(self, values: Iterable[Remade]) -> tuple[Block, ...]:
        """The kernel's blocks with these values made where they are read, in the register that held them."""
        blocks = [list(block.instructions) for block in self.kernel.blocks]
        next_id = 1 + max(instruction.id for instruction in self.kernel.instructions)
        for value in values:
            maker = self._maker(value)
            for index, place in value.readers.items():
                at = _in_front(self.kernel.blocks[index].instructions, place, blocks[index])
                blocks[index].insert(at, Instruction(next_id, maker.decoded))
                next_id += 1
            if not value.stays:
                blocks[value.block].remove(maker)
        return tuple(
            old if list(old.instructions) == new else replace(old, instructions=tuple(new))
            for old, new in zip(self.kernel.blocks, blocks, strict=True)
        )

    def _remade(self, web: int, peak: int) -> Remade | None:
        members = self.webs.members[web]
        crosses = any(each.block == peak and (each.enters or each.leaves) for each in members)
        if not crosses or web in self.webs.pinned or len(self._writes[web]) != 1:
            return None
        if not VGPR_MASK >> members[0].unit & 1 or len({each.unit for each in members}) != 1:
            return None
        ((block, place),) = self._writes[web]
        readers: dict[int, int] = {}
        for each in members:
            for access in each.accesses:
                if access.read:
                    readers[each.block] = min(access.place, readers.get(each.block, access.place))
        stays = readers.pop(block, None) is not None
        cheap = self._is_cheap(self.kernel.blocks[block].instructions[place])
        if not cheap or not readers or not all(self._same_sources(block, place, *each) for each in readers.items()):
            return None
        return Remade(block, place, readers, stays)

    def _is_cheap(self, instruction: Instruction) -> bool:
        decoded = instruction.decoded
        flags = decoded.flags
        results = [operand for operand in decoded.operands if operand.written]
        if _PLAIN.isdisjoint(flags) or not _NOT_CHEAP.isdisjoint(flags) or reads_across_lanes(decoded):
            return False
        if len(results) != 1 or results[0].read or results[0].registers is None or results[0].registers.count != 1:
            return False
        return not (decoded.reads | decoded.writes) & ~_NAMED and not decoded.writes & ~VGPR_MASK

    def _same_sources(self, block: int, place: int, reader: int, first: int) -> bool:
        """Whether every source of the instruction holds the same value in front of a reader."""
        decoded = self.kernel.blocks[block].instructions[place].decoded
        ranges = self.webs.blocks[block]
        printed = 0
        for number in register_operands(decoded):
            operand = decoded.operands[number]
            assert operand.registers is not None
            if not operand.read:
                continue
            printed |= operand.registers.mask
            for each in ranges.of_read[place, number]:
                if not self._lives(each, reader, first):
                    return False
        return not decoded.reads & (VGPR_MASK | SGPR_MASK) & ~printed

    def _lives(self, source: LiveRange, block: int, place: int) -> bool:
        """Whether the source's web has one value, and holds it in front of a place."""
        web = self.webs.number[id(source)]
        members = self.webs.members[web]
        from_launch = any(each.enters and each.block == 0 for each in members)
        if len(self._writes[web]) + from_launch != 1:
            return False
        return any(
            each.leaves or max((access.place for access in each.accesses), default=-1) >= place
            for each in members
            if each.block == block and each.enters
        )


def _in_front(old: Sequence[Instruction], place: int, now: Sequence[Instruction]) -> int:
    """Where something goes that is to stand in front of an instruction: not inside of a clause."""
    heads = clause_heads(old)
    goal = heads.get(id(old[place]), id(old[place]))
    return next(at for at, each in enumerate(now) if id(each) == goal)
