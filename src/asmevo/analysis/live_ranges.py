"""Live ranges: which reads and writes of a register belong to one value, so that together they can get another one.

A register is used again and again for values that have nothing to do with each other. A range of one block is a
stretch of one register unit from the write that begins a value (or from the block's start) to the last read of it (or
the block's end), with all accesses between. A web is what remains of that across blocks: ranges joined wherever a value
goes from one block to the next. A whole web may be renamed, to any register that holds nothing anywhere in it.

How ranges are found. `Liveness` says for each point which units hold a value that some lane may still read. Going
forward through a block, for a unit r at an instruction:

    reads r                          one more access of r's open range (begun at the block's start, if none is open)
    writes r, a new value begins     the open range is closed, the write opens another one
    writes r, the old value stays    one more access of the open range
    r not live behind it             the open range is closed

A new value begins if r is not live in front of the instruction; or if the instruction is the old value's last reader
through another operand and no lane needs the old value behind it. The second case asks that r is not live in lanes
that EXEC switches off (behind the instruction), that EXEC stays what it is, and that the operand which writes r does
not read it as well (accumulators, 16-bit halves, DPP with an old value).

Why renaming a range is sound. At the write that begins it nobody needs what was in r; behind its end nobody needs
what is in r; all accesses between are in the range. So whatever may be read from r between is read from the new
register instead, which must hold nothing that is live, in any lane, from the range's begin to its end.
Joining over edges: if r is live at the entry of a block, each predecessor's last range of r and the block's first one
are the same value, or one of several that come together there.

Ranges are pinned, i.e. must stay where they are, if an access is no printed operand (implicit registers, calls), if
register numbers mean something else there (`renumbered_places`, indexed registers), if the value comes from the launch
or a caller, or goes to code that is not seen. Registers of one operand are consecutive: ranges in one operand are tied
into a bundle, which keeps their distances.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct, field

from asmevo.analysis.control_flow import ControlFlow
from asmevo.analysis.dependence import renumbered_places
from asmevo.analysis.liveness import ExecChange, Liveness, LiveState, exec_change, ignores_exec
from asmevo.program.instruction import Decoded, Instruction
from asmevo.program.kernel import Kernel
from asmevo.program.registers import SGPR_MASK, VECTOR_MASK, units_of
from asmevo.program.renaming import register_operands

_RENAMED_UNITS = VECTOR_MASK | SGPR_MASK
_OPAQUE = frozenset({"unknown", "call", "return", "indexed_def", "indexed_use"})


class Access(NamedTuple):
    """Operand `operand` of the instruction at `place` reads or writes the range's unit, or both."""

    place: int
    operand: int
    read: bool
    written: bool


class LiveRange(Struct, eq=False):
    """One value in one register unit in one block. `enters` and `leaves`: it is live at the block's start, its end."""

    unit: int
    block: int
    accesses: list[Access] = field(default_factory=list)
    enters: bool = False
    leaves: bool = False
    pinned: bool = False

    @property
    def is_local(self) -> bool:
        """Whether the value lives and dies in its block, and may be anywhere."""
        return not (self.enters or self.leaves or self.pinned)


class BlockRanges:
    """The ranges of one block, in the order in which they begin, and which of them each operand touches.

    `states` are the live states in front of each instruction and, last, behind the block.
    """

    def __init__(self, index: int, instructions: Sequence[Instruction], states: Sequence[LiveState]) -> None:
        self.index = index
        self.instructions = tuple(instructions)
        self.ranges: list[LiveRange] = []
        self.of_read: dict[tuple[int, int], list[LiveRange]] = {}
        self.of_write: dict[tuple[int, int], list[LiveRange]] = {}
        self.entering: dict[int, LiveRange] = {}
        self.leaving: dict[int, LiveRange] = {}
        self._open: dict[int, LiveRange] = {}
        self._renumbered = renumbered_places(instructions)
        for unit in units_of(states[0].any_lane & self._touched()):
            self._begin(unit, enters=True)
        for place, instruction in enumerate(self.instructions):
            self._step(place, instruction.decoded, states[place], states[place + 1])
        for unit, each in self._open.items():
            each.leaves = True
            self.leaving[unit] = each

    def in_place(self) -> Iterator[tuple[LiveRange, LiveRange]]:
        """A source and a result of several registers that replaces it where it is (a sum), register by register.

        As two values they could share a register only there: elsewhere part of the result might be written before the
        last source is read.
        """
        for (place, number), results in self.of_write.items():
            operands = self.instructions[place].decoded.operands
            if len(results) == 1 or operands[number].read:
                continue
            for other in register_operands(self.instructions[place].decoded):
                if other != number and operands[other].registers == operands[number].registers:
                    yield from zip(self.of_read.get((place, other), ()), results, strict=False)

    def _touched(self) -> int:
        touched = 0
        for instruction in self.instructions:
            touched |= instruction.reads | instruction.writes
        return touched & _RENAMED_UNITS

    def _begin(self, unit: int, *, enters: bool = False) -> LiveRange:
        fresh = self._open[unit] = LiveRange(unit, self.index, enters=enters)
        self.ranges.append(fresh)
        if enters:
            self.entering[unit] = fresh
        return fresh

    def _step(self, place: int, decoded: Decoded, before: LiveState, behind: LiveState) -> None:
        opaque = place in self._renumbered or not _OPAQUE.isdisjoint(decoded.flags)
        places = register_operands(decoded)
        printed = 0
        for number in places:
            operand = decoded.operands[number]
            assert operand.registers is not None
            printed |= operand.registers.mask
            if operand.read:
                self._read(place, number, decoded, opaque)
        if decoded.writes & _RENAMED_UNITS:
            old = self._kept_units(decoded, before, behind)
            for number in places:
                if decoded.operands[number].written:
                    self._write(place, number, decoded, old, opaque)
        for unit in units_of((decoded.reads | decoded.writes) & _RENAMED_UNITS & ~printed):
            (self._open.get(unit) or self._begin(unit, enters=True)).pinned = True
        dead = (decoded.reads | decoded.writes) & _RENAMED_UNITS & ~behind.any_lane
        for unit in units_of(dead):
            self._open.pop(unit, None)

    def _read(self, place: int, number: int, decoded: Decoded, opaque: bool) -> None:
        operand = decoded.operands[number]
        assert operand.registers is not None
        touched = []
        for unit in operand.registers.units:
            found = self._open.get(unit) or self._begin(unit, enters=True)
            found.accesses.append(Access(place, number, True, operand.written))
            found.pinned |= opaque
            touched.append(found)
        self.of_read[place, number] = touched

    def _write(self, place: int, number: int, decoded: Decoded, old: int, opaque: bool) -> None:
        operand = decoded.operands[number]
        assert operand.registers is not None
        if operand.read:
            self.of_write[place, number] = self.of_read[place, number]
            return
        touched = []
        for unit in operand.registers.units:
            found = self._open.get(unit)
            if found is None or not old >> unit & 1:
                found = self._begin(unit)
            found.accesses.append(Access(place, number, False, True))
            found.pinned |= opaque
            touched.append(found)
        self.of_write[place, number] = touched

    def _kept_units(self, decoded: Decoded, before: LiveState, behind: LiveState) -> int:
        """Units whose old value is needed beside or behind a write of them; the others begin a new value."""
        tied = 0
        for operand in decoded.operands:
            if operand.read and operand.written and operand.registers is not None:
                tied |= operand.registers.mask
        if exec_change(decoded, decoded.wave_size) is not ExecChange.NONE:
            return before.any_lane
        kept = behind.others if not ignores_exec(decoded) else 0
        return before.any_lane & (tied | kept)


class Webs:
    """All ranges of a kernel, joined over the edges of its flow and over operands.

    `number[id(range)]` names a web, `bundle[web]` the bundle that keeps its distances; `members` are its ranges.
    """

    def __init__(self, kernel: Kernel, liveness: Liveness | None = None) -> None:
        self.kernel = kernel
        self.liveness = liveness if liveness is not None else Liveness(kernel)
        self.flow = ControlFlow(kernel)
        self.blocks = [
            BlockRanges(block.index, block.instructions, self.liveness.states(block.index)) for block in kernel.blocks
        ]
        self._parent: dict[int, int] = {}
        self._through: dict[tuple[int, int], LiveRange] = {}
        self.ranges: list[LiveRange] = [each for block in self.blocks for each in block.ranges]
        self._add_passing()
        self._join_edges()
        self.members: dict[int, list[LiveRange]] = {}
        for each in self.ranges:
            self.members.setdefault(self._find(id(each)), []).append(each)
        self.number = {id(each): self._find(id(each)) for each in self.ranges}
        self.pinned = {web for web, ranges in self.members.items() if any(each.pinned for each in ranges)}

    def _add_passing(self) -> None:
        """Ranges of values that go through a block which does not touch them."""
        named = 0
        for block in self.blocks:
            named |= block._touched()
        for block in self.blocks:
            passing = self.liveness.live_in(block.index) & named & ~block._touched()
            for unit in units_of(passing):
                through = LiveRange(unit, block.index, enters=True, leaves=True)
                self._through[block.index, unit] = through
                self.ranges.append(through)

    def _join_edges(self) -> None:
        outside = self.flow.exits
        for block in self.blocks:
            live = self.liveness.live_out(block.index)
            for unit, last in self._leaving(block).items():
                if outside[block.index] is not None and live >> unit & 1:
                    last.pinned = True
                for successor in self.flow.successors[block.index]:
                    first = self._first(successor, unit)
                    if first is not None:
                        self._join(id(last), id(first))
        entry = self.blocks[0]
        for each in (*entry.entering.values(), *(r for (b, _), r in self._through.items() if b == 0)):
            each.pinned = True
        for block in self.blocks:
            if not self.flow.predecessors[block.index]:
                for each in block.entering.values():
                    each.pinned = True

    def _leaving(self, block: BlockRanges) -> dict[int, LiveRange]:
        through = {unit: each for (index, unit), each in self._through.items() if index == block.index}
        return block.leaving | through

    def _first(self, block: int, unit: int) -> LiveRange | None:
        if not self.liveness.live_in(block) >> unit & 1:
            return None
        return self.blocks[block].entering.get(unit) or self._through.get((block, unit))

    def _find(self, key: int) -> int:
        parent = self._parent
        root = key
        while parent.get(root, root) != root:
            root = parent[root]
        while parent.get(key, key) != root:
            parent[key], key = root, parent[key]
        return root

    def _join(self, one: int, other: int) -> None:
        self._parent[self._find(one)] = self._find(other)
