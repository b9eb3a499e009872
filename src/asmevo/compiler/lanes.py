"""Which lanes of virtual registers hold a value that somebody reads: the base of every order and of the `undef` marks.

Machine IR writes parts of registers. `%5.sub0 = ...` keeps the other lanes; `undef %5.sub0 = ...` says that none of
them holds a value afterwards. Reading `%5` as a whole then reads garbage in the others, which no order has to bring
there.

Defined lanes, forward. Lattice: for each register the set of lanes that some path gave a value (union at joins, from
nothing at the entry). Transfer: a write adds its lanes; with `undef` it takes the others away; a read changes nothing.
What an instruction reads *in fact* is what it names, less what no path defined.

Live lanes, backward. Lattice: for each register the set of lanes that some path reads before writing them (union).
Transfer: a write takes its lanes away, a read in fact adds its own.

Sound for reordering: both say "maybe", so no value that could be read is lost, and a partial write is marked `undef`
only when no other lane is both defined and live behind it, which is LLVM's own rule
(RegisterOperands::adjustLaneLiveness).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from msgspec import Struct, field

from asmevo.compiler.machine_ir import MachineBlock, MachineFunction, Statement
from asmevo.compiler.machine_registers import sub_register_lanes

Lanes = dict[str, int]
"""For each virtual register a set of lanes."""


class LaneAccess(Struct):
    """What one statement does to virtual registers. `fresh`: registers whose other lanes have no value afterwards."""

    reads: Lanes = field(default_factory=dict)
    writes: Lanes = field(default_factory=dict)
    fresh: set[str] = field(default_factory=set)


def lane_access(function: MachineFunction, statement: Statement) -> LaneAccess:
    """The lanes that are named. Raises ValueError for a register without a class or an unknown part of one."""
    access = LaneAccess()
    for operand in (each for member in statement.members for each in member.registers if each.is_virtual):
        if operand.name not in function.classes:
            raise ValueError(f"{operand.name} has no class")
        whole = function.lanes(operand.name)
        lanes = sub_register_lanes(operand.sub) & whole if operand.sub else whole
        if operand.is_def:
            access.writes[operand.name] = access.writes.get(operand.name, 0) | lanes
            if not operand.sub or operand.is_undefined:
                access.fresh.add(operand.name)
        elif not operand.is_undefined and "internal" not in operand.roles:
            access.reads[operand.name] = access.reads.get(operand.name, 0) | lanes
    return access


class LaneFlow:
    """Both analyses of one function. `accesses[block][place]` hold what is read in fact."""

    def __init__(self, function: MachineFunction) -> None:
        self.function = function
        self.accesses = {
            block.number: [lane_access(function, each) for each in block.statements] for block in function.blocks
        }
        self._entries = self._defined_at_entries()
        self._leave_out_undefined()

    def _leave_out_undefined(self) -> None:
        for block in self.function.blocks:
            defined = dict(self._entries[block.number])
            for access in self.accesses[block.number]:
                access.reads = {
                    name: lanes & defined.get(name, 0)
                    for name, lanes in access.reads.items()
                    if lanes & defined.get(name, 0)
                }
                _define(defined, access)

    def _defined_at_entries(self) -> dict[int, Lanes]:
        entries: dict[int, Lanes] = {block.number: {} for block in self.function.blocks}
        blocks = {block.number: block for block in self.function.blocks}
        todo = list(blocks)
        while todo:
            number = todo.pop(0)
            defined = dict(entries[number])
            for access in self.accesses[number]:
                _define(defined, access)
            todo += [each for each in blocks[number].successors if _join(entries[each], defined) and each not in todo]
        return entries

    @cached_property
    def live_out(self) -> dict[int, Lanes]:
        """For each block what its successors read."""
        blocks = {block.number: block for block in self.function.blocks}
        before: dict[int, list[int]] = {number: [] for number in blocks}
        for block in self.function.blocks:
            for each in block.successors:
                before[each].append(block.number)
        live_out: dict[int, Lanes] = {number: {} for number in blocks}
        todo = list(reversed(blocks))
        while todo:
            number = todo.pop(0)
            live = live_before(self.accesses[number], live_out[number])
            todo += [each for each in before[number] if _join(live_out[each], live) and each not in todo]
        return live_out

    def defined_before(self, block: MachineBlock, place: int) -> Lanes:
        """What some path has defined in front of the statement at `place` of a block."""
        defined = dict(self._entries[block.number])
        for access in self.accesses[block.number][:place]:
            _define(defined, access)
        return defined

    def live_after(self, block: MachineBlock, place: int) -> Lanes:
        """What is read behind the statement at `place` of a block."""
        return live_before(self.accesses[block.number][place + 1 :], self.live_out[block.number])


def live_before(accesses: Sequence[LaneAccess], live_after: Lanes) -> Lanes:
    """The live lanes before a run of statements, from those behind it."""
    live = dict(live_after)
    for access in reversed(accesses):
        step_back(live, access)
    return live


def step_back(live: Lanes, access: LaneAccess) -> None:
    """Changes the live lanes behind a statement into those before it."""
    for name, lanes in access.writes.items():
        if name in live:
            live[name] &= ~lanes
    for name, lanes in access.reads.items():
        live[name] = live.get(name, 0) | lanes


def writes_alone(accesses: Sequence[LaneAccess], defined_before: Lanes, live_after: Lanes) -> list[frozenset[str]]:
    """For each statement of a run the registers it writes of which no other lane holds a value that is read."""
    defined = dict(defined_before)
    held: list[Lanes] = []
    for access in accesses:
        for name, lanes in access.writes.items():
            defined[name] = defined.get(name, 0) | lanes
        held.append({name: defined[name] for name in access.writes})
    live = dict(live_after)
    found = []
    for access, lanes_held in zip(reversed(accesses), reversed(held), strict=True):
        found.append(
            frozenset(name for name, own in access.writes.items() if not live.get(name, 0) & lanes_held[name] & ~own)
        )
        step_back(live, access)
    return found[::-1]


def _define(defined: Lanes, access: LaneAccess) -> None:
    for name, lanes in access.writes.items():
        defined[name] = lanes if name in access.fresh else defined.get(name, 0) | lanes


def _join(into: Lanes, other: Lanes) -> bool:
    """Adds lanes; whether that changed anything."""
    changed = False
    for name, lanes in other.items():
        if lanes & ~into.get(name, 0):
            into[name] = into.get(name, 0) | lanes
            changed = True
    return changed
