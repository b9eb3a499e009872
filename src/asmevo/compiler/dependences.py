"""What must stay in which order inside a scheduling region, as in LLVM's ScheduleDAGInstrs.

Registers. A read follows the write that it reads (`data`), a write follows the reads and writes of what it overwrites
(`anti`, `output`). Virtual registers count lane by lane, so writes of different parts of one register are free; reads
of lanes without a value tie nothing (see `lanes`). Physical registers count unit by unit. A `dead` write of a
physical register makes no value: two of them are free, but neither may come between a write and its reads.

Memory. Two accesses keep their order unless both only load, or `aliases` says they are apart. A load that is
dereferenceable and invariant is free. Whatever has side effects beyond its operands, touches memory without saying
where, is volatile or atomic (`barrier`) keeps its order with all of these, and so does what may raise a floating
point exception with barriers.

Barriers for the scheduler itself (`SCHED_BARRIER`) let pass what their mask names and hold the rest (`hint`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct, field

from asmevo.compiler.aliases import Aliases
from asmevo.compiler.lanes import LaneAccess
from asmevo.compiler.machine_instruction import MachineInstruction
from asmevo.compiler.machine_ir import Statement
from asmevo.compiler.machine_opcodes import OpcodeFacts, opcode_facts
from asmevo.compiler.machine_registers import physical_units
from asmevo.compiler.regions import is_hint, passing_kinds
from asmevo.proposers.scheduling import Kind

# INLINEASM's second operand (llvm/include/llvm/IR/InlineAsm.h): side effects, may load, may store.
_ASM_TOUCHES_MORE = 1 | 8 | 16


class Tie(StrEnum):
    """Why two statements keep their order."""

    DATA = "data"
    ANTI = "anti"
    OUTPUT = "output"
    MEMORY = "memory"
    BARRIER = "barrier"
    HINT = "hint"


class Dependence(NamedTuple):
    """`after` stays behind `before` (places in the region); `what` is the register, or ''."""

    before: int
    after: int
    tie: Tie
    what: str


class _Holder(Struct):
    """The last writes of parts of one register and the reads since, each with the part."""

    writes: list[tuple[int, int]] = field(default_factory=list)
    reads: list[tuple[int, int]] = field(default_factory=list)


def dependences(
    statements: Iterable[Statement], accesses: Iterable[LaneAccess], aliases: Aliases, gpu: str
) -> list[Dependence]:
    """All ties of a region, each pair at most once for each register."""
    rows = list(statements)
    found = [*_virtual(accesses), *_physical(rows), *_memory(rows, aliases, gpu), *_hints(rows, gpu)]
    return sorted(set(found))


def _virtual(accesses: Iterable[LaneAccess]) -> Iterable[Dependence]:
    holders: defaultdict[str, _Holder] = defaultdict(_Holder)
    for place, access in enumerate(accesses):
        for name, lanes in access.reads.items():
            yield from (Dependence(at, place, Tie.DATA, name) for part, at in holders[name].writes if part & lanes)
        for name, lanes in access.writes.items():
            holder = holders[name]
            yield from (
                Dependence(at, place, Tie.ANTI, name) for part, at in holder.reads if part & lanes and at != place
            )
            yield from (Dependence(at, place, Tie.OUTPUT, name) for part, at in holder.writes if part & lanes)
        for name, lanes in access.writes.items():
            holder = holders[name]
            holder.writes = [*_less(holder.writes, lanes), (lanes, place)]
            holder.reads = _less(holder.reads, lanes)
        for name, lanes in access.reads.items():
            left = lanes & ~access.writes.get(name, 0)
            if left:
                holders[name].reads.append((left, place))


def _less(parts: list[tuple[int, int]], lanes: int) -> list[tuple[int, int]]:
    """The parts that are left when `lanes` are written anew."""
    return [(part & ~lanes, at) for part, at in parts if part & ~lanes]


class _Unit(Struct):
    """One physical unit: the write that holds its value, the reads of it, and dead writes since that write."""

    write: int | None = None
    reads: list[int] = field(default_factory=list)
    dead: list[int] = field(default_factory=list)


def _physical(statements: list[Statement]) -> Iterable[Dependence]:
    units: defaultdict[str, _Unit] = defaultdict(_Unit)
    for place, statement in enumerate(statements):
        reads, writes, dead = _physical_access(statement)
        for name in sorted(reads):
            write = units[name].write
            if write is not None:
                yield Dependence(write, place, Tie.DATA, f"${name}")
        for name in sorted(writes | dead):
            unit = units[name]
            yield from (Dependence(at, place, Tie.ANTI, f"${name}") for at in unit.reads)
            if unit.write is not None:
                yield Dependence(unit.write, place, Tie.OUTPUT, f"${name}")
            if name in writes:
                yield from (Dependence(at, place, Tie.OUTPUT, f"${name}") for at in unit.dead)
                units[name] = _Unit(place)
            else:
                unit.dead.append(place)
        for name in reads - writes:
            units[name].reads.append(place)


def _physical_access(statement: Statement) -> tuple[set[str], set[str], set[str]]:
    """(units read, units given a value, units only overwritten)."""
    reads: set[str] = set()
    writes: set[str] = set()
    dead: set[str] = set()
    for operand in (each for member in statement.members for each in member.registers if not each.is_virtual):
        units = physical_units(operand.name[1:])
        if operand.is_def:
            (dead if operand.is_dead else writes).update(units)
        elif not operand.is_undefined and "internal" not in operand.roles:
            reads |= units
    return reads, writes, dead - writes


class _MemoryUse(NamedTuple):
    """How one statement takes part in the order of memory."""

    place: int
    statement: Statement
    barrier: bool
    stores: bool


def _memory(statements: list[Statement], aliases: Aliases, gpu: str) -> Iterable[Dependence]:
    seen: list[_MemoryUse] = []
    raising: list[int] = []
    last_barrier: int | None = None
    for place, statement in enumerate(statements):
        use = _memory_use(place, statement, gpu)
        if use is None:
            if _may_raise(statement, gpu):
                raising.append(place)
                if last_barrier is not None:
                    yield Dependence(last_barrier, place, Tie.BARRIER, "")
            continue
        for earlier in seen:
            if use.barrier or earlier.barrier:
                yield Dependence(earlier.place, place, Tie.BARRIER, "")
            elif (use.stores or earlier.stores) and _meet(earlier.statement, statement, aliases):
                yield Dependence(earlier.place, place, Tie.MEMORY, "")
        if use.barrier:
            yield from (Dependence(at, place, Tie.BARRIER, "") for at in raising)
            raising, last_barrier = [], place
            seen = []
        seen.append(use)


def _memory_use(place: int, statement: Statement, gpu: str) -> _MemoryUse | None:
    """None for what takes no part."""
    uses = [use for each in statement.members if (use := _use_of(each, opcode_facts(each.opcode, gpu)))]
    if not uses:
        return None
    return _MemoryUse(place, statement, "barrier" in uses, "store" in uses)


def _use_of(instruction: MachineInstruction, facts: OpcodeFacts | None) -> str:
    """`barrier`, `store`, `load`, or '' for nothing."""
    if facts is None:
        return "barrier"
    if is_hint(instruction) or passing_kinds(instruction) is not None:
        return ""
    if instruction.opcode == "INLINEASM":
        return "barrier" if any(number & _ASM_TOUCHES_MORE for number in instruction.numbers[:1]) else ""
    if "side_effects" in facts.flags:
        return "barrier"
    if not facts.flags & {"may_load", "may_store"} and not instruction.memory:
        return ""
    if not instruction.memory or any(each.ordered for each in instruction.memory):
        return "barrier"
    if "may_store" in facts.flags or any(each.stores for each in instruction.memory):
        return "store"
    free = all({"dereferenceable", "invariant"} <= each.flags for each in instruction.memory)
    return "" if free else "load"


def _may_raise(statement: Statement, gpu: str) -> bool:
    return any(
        facts is not None and "fp_exception" in facts.flags and "nofpexcept" not in each.flags
        for each in statement.members
        if (facts := opcode_facts(each.opcode, gpu)) is not None
    )


def _meet(first: Statement, second: Statement, aliases: Aliases) -> bool:
    return any(
        aliases.may_alias(a, b)
        for one in first.members
        for a in one.memory
        for other in second.members
        for b in other.memory
        if a.stores or b.stores
    )


def _hints(statements: list[Statement], gpu: str) -> Iterable[Dependence]:
    kinds = [_kind(statement, gpu) for statement in statements]
    for place, statement in enumerate(statements):
        passing = passing_kinds(statement.head)
        if passing is None:
            continue
        for other, kind in enumerate(kinds):
            if other != place and (kind not in passing or passing_kinds(statements[other].head) is not None):
                yield Dependence(min(place, other), max(place, other), Tie.HINT, "")


def _kind(statement: Statement, gpu: str) -> Kind:
    facts = opcode_facts(statement.opcode, gpu)
    return facts.kind if facts is not None else Kind.OTHER
