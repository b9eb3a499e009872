"""Rematerialisation: values made again where they are needed, so that no register holds them all the way.

A value that crosses the place where most registers are in use, and that one cheap instruction makes of constants and of
registers that hold the same where it is read, need not be kept. Its instruction is copied in front of the first reader
of each block that reads it, under a register of that block's own, and taken out where it was.

What may be copied is plain vector arithmetic with one result of one register: no memory, no transcendental or matrix
operation, nothing that reads or writes VCC, SCC or other lanes. A source holds the same at the reader if it is a
constant, or if its web (`live_ranges`) has one write, or none and comes from the launch, and lives there anyway.

Copies get registers that hold nothing where they live, those of the value itself first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from asmevo.analysis.control_flow import ControlFlow
from asmevo.analysis.live_ranges import LiveRange, Webs
from asmevo.analysis.liveness import reads_across_lanes
from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Block, Kernel
from asmevo.program.registers import EXEC_MASK, MODE_MASK, SGPR_MASK, VGPR_MASK
from asmevo.program.renaming import register_operands

_PLAIN = frozenset({"valu"})
_NOT_CHEAP = frozenset({"may_load", "may_store", "vopd", "trans", "mai", "dpp", "sdwa"})
_NAMED = VGPR_MASK | SGPR_MASK | EXEC_MASK | MODE_MASK


@dataclass(frozen=True, slots=True)
class Remade:
    """A web that may be made again: where it is made, and the blocks that read it, with the first reader's place."""

    web: int
    block: int
    place: int
    readers: dict[int, int]

    @property
    def copies(self) -> int:
        """How often it is made again."""
        return len(self.readers)


class Rematerialisation:
    """The values of one kernel that may be made again."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.webs = Webs(kernel)
        self.depth = ControlFlow(kernel).loop_depth
        self._writes = self._writes_of_webs()

    def _writes_of_webs(self) -> dict[int, set[tuple[int, int]]]:
        """The places that write a register of each web."""
        return {
            web: {(each.block, access.place) for each in members for access in each.accesses if access.written}
            for web, members in self.webs.members.items()
        }

    def candidates(self, peak: int) -> list[Remade]:
        """Webs alive all through the block with the peak or crossing into it, those first whose copies cost least."""
        found = [each for web in self.webs.members if (each := self._remade(web, peak)) is not None]
        return sorted(found, key=lambda each: (sum(10 ** self.depth[b] for b in each.readers), each.block, each.place))

    def _remade(self, web: int, peak: int) -> Remade | None:
        members = self.webs.members[web]
        crosses = any(each.block == peak and (each.enters or each.leaves) for each in members)
        if not crosses or web in self.webs.pinned or len(self._writes[web]) != 1:
            return None
        if not VGPR_MASK >> members[0].unit & 1 or len({each.unit for each in members}) != 1:
            return None
        ((block, place),) = self._writes[web]
        if not self._is_cheap(self.kernel.blocks[block].instructions[place]):
            return None
        readers: dict[int, int] = {}
        for each in members:
            for access in each.accesses:
                if access.read:
                    readers[each.block] = min(access.place, readers.get(each.block, access.place))
        readers = {index: first for index, first in readers.items() if index != block}
        if not readers or not all(self._same_sources(block, place, *reader) for reader in readers.items()):
            return None
        if any(access.read for each in members if each.block == block for access in each.accesses):
            return None
        return Remade(web, block, place, readers)

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
        if len(self._writes[web]) > 1 or (self._writes[web] and any(e.enters and e.block == 0 for e in
                                                                   self.webs.members[web])):
            return False
        for each in self.webs.members[web]:
            if each.block != block or not each.enters:
                continue
            if each.leaves or max((access.place for access in each.accesses), default=-1) >= place:
                return True
        return False
