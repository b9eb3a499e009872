"""Edges over time: what may, must or must not stand how near to what, on every path.

Each such edge is a small automaton that reads the code in the order of execution. Its state is a pair (how bad,
instruction to blame); pairs are ordered by their first part, and the larger one is the worse:

    follows        instructions left in which the second may not come; 0 = none stands in front
    needs behind   instructions since the first that still waits for its partner, from 1; 0 = nothing waits
    needs before   instructions since the last partner, up to one more than allowed (also: there was none)
    repeats        length of the run so far, up to one more than allowed
    inside         1 in an open region, 0 outside

Lattice: the pairs, joined by maximum, since every path counts and the worst one decides. Transfer: `_step` for each
instruction. It is monotone in the first part (a worse state in front never makes a better one behind) and the
numbers are bounded, the instructions finitely many, so the iteration over blocks ends. Soundness: the state in front
of a block is at least as bad as that of any path to it, and an automaton in a worse state complains at least as
often; what is reported has a path, the one the worst state came from. Calls count as one instruction, and what the
callee does is not seen. Control that leaves by an address in registers ends the sequence.

A block's result depends on the state in front and its instructions only and is remembered under them, so that a
candidate pays for the blocks it changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from msgspec import Struct

from asmevo.analysis.control_flow import ControlFlow
from asmevo.checks.constraints.graph import Edge, InstructionNode, Relation
from asmevo.checks.constraints.matching import Matcher
from asmevo.program.instruction import Decoded, Instruction
from asmevo.program.kernel import Kernel

State = tuple[int, int]
_REMEMBERED = 1 << 12
_CLEAR: State = (0, -1)


class Breach(Struct, frozen=True):
    """A sequence edge violated: `instruction` is to blame, `partner` the other one (-1: none), in `block`.

    `seen` is the number that the edge counted.
    """

    instruction: int
    partner: int
    block: int
    seen: int


class Roles(Struct, frozen=True):
    """What an encoding is to one edge."""

    first: bool
    second: bool
    ignored: bool
    closes: bool

    def __bool__(self) -> bool:
        return self.first or self.second


@lru_cache(maxsize=1 << 15)
def _roles(edge: Edge, decoded: Decoded) -> Roles:
    assert isinstance(edge.source, InstructionNode)
    assert isinstance(edge.sink, InstructionNode)
    ignore, closes = _optional(edge, "ignore"), _optional(edge, "closes")
    return Roles(
        edge.source.matches(decoded),
        edge.sink.matches(decoded),
        ignore is not None and ignore.matches(decoded),
        closes is not None and closes.matches(decoded),
    )


@lru_cache(maxsize=1 << 10)
def _optional(edge: Edge, name: str) -> Matcher | None:
    selector = getattr(edge.data, name, None)
    return Matcher.of(selector) if selector is not None else None


@lru_cache(maxsize=_REMEMBERED)
def _concerns(edge: Edge, instructions: tuple[Instruction, ...]) -> bool:
    """Whether some instruction starts what the edge is about."""
    return any(_roles(edge, each.decoded).first for each in instructions)


def breaches(kernel: Kernel, edge: Edge) -> tuple[Breach, ...]:
    """All violations of one sequence edge, each instruction to blame once, in the order of the code."""
    if not any(_concerns(edge, block.instructions) for block in kernel.blocks):
        return ()
    flow = ControlFlow(kernel)
    fronts = _solve(kernel, flow, edge)
    found: dict[tuple[int, int], Breach] = {}
    for index, front in fronts.items():
        behind, complaints = _through(edge, front, kernel.blocks[index].instructions)
        if _waits_behind(edge) and behind[0] and not flow.successors[index]:
            complaints = (*complaints, (behind[1], -1, behind[0]))
        for instruction, partner, seen in complaints:
            key = (partner, -1) if edge.relation is Relation.REPEATS else (instruction, partner)
            found.setdefault(key, Breach(instruction, partner, index, seen))
    return tuple(found.values())


def _solve(kernel: Kernel, flow: ControlFlow, edge: Edge) -> dict[int, State]:
    """The state in front of every block that can be reached from the entry or from nowhere that is named."""
    entries = [0, *(index for index, into in enumerate(flow.predecessors) if not into and index)]
    fronts: dict[int, State] = {index: _at_entry(edge) for index in entries}
    work = list(entries)
    while work:
        index = work.pop(0)
        behind, _ = _through(edge, fronts[index], kernel.blocks[index].instructions)
        for goal in flow.successors[index]:
            old = fronts.get(goal)
            new = behind if old is None else max(old, behind)
            if new != old:
                fronts[goal] = new
                work.append(goal)
    return dict(sorted(fronts.items()))


def _waits_behind(edge: Edge) -> bool:
    return edge.relation is Relation.NEEDS and edge.data.place == "behind"


def _at_entry(edge: Edge) -> State:
    if edge.relation is Relation.NEEDS and edge.data.place == "before":
        return (edge.data.within + 1, -1)
    return _CLEAR


Complaint = tuple[int, int, int]


@lru_cache(maxsize=_REMEMBERED)
def _through(edge: Edge, state: State, instructions: tuple[Instruction, ...]) -> tuple[State, tuple[Complaint, ...]]:
    """(state behind a block, complaints in it)."""
    found: list[Complaint] = []
    step = {
        Relation.FOLLOWS: _follows,
        Relation.REPEATS: _repeats,
        Relation.INSIDE: _inside,
    }.get(edge.relation, _needs_behind if _waits_behind(edge) else _needs_before)
    for instruction in instructions:
        state, complaint = step(edge, state, instruction.id, _roles(edge, instruction.decoded))
        if complaint is not None:
            found.append(complaint)
    return state, tuple(found)


def _follows(edge: Edge, state: State, id_: int, roles: Roles) -> tuple[State, Complaint | None]:
    left, first = state
    complaint = (id_, first, edge.data.within - left + 1) if roles.second and left else None
    if roles.first:
        return (edge.data.within, id_), complaint
    if left and not roles.ignored:
        left -= 1
    return ((left, first) if left else _CLEAR), complaint


def _needs_behind(edge: Edge, state: State, id_: int, roles: Roles) -> tuple[State, Complaint | None]:
    age, waiting = state
    complaint = None
    if age:
        if roles.second:
            age = 0
        elif not roles.ignored:
            if age >= edge.data.within:
                complaint = (waiting, id_, age)
                age = 0
            else:
                age += 1
    if age:
        return (age, waiting), complaint
    return ((1, id_) if roles.first else _CLEAR), complaint


def _needs_before(edge: Edge, state: State, id_: int, roles: Roles) -> tuple[State, Complaint | None]:
    distance = state[0]
    complaint = (id_, -1, distance) if roles.first and distance > edge.data.within else None
    if roles.second:
        distance = 1
    elif not roles.ignored:
        distance = min(distance + 1, edge.data.within + 1)
    return (distance, -1), complaint


def _repeats(edge: Edge, state: State, id_: int, roles: Roles) -> tuple[State, Complaint | None]:
    length, first = state
    if not roles.first:
        return (state if roles.ignored else _CLEAR), None
    length, first = min(length + 1, edge.data.most + 1), first if length else id_
    return (length, first), ((id_, first, length) if length > edge.data.most else None)


def _inside(edge: Edge, state: State, id_: int, roles: Roles) -> tuple[State, Complaint | None]:
    is_open, opener = state
    complaint = (id_, opener, 1) if is_open and roles.second else None
    if roles.closes:
        return _CLEAR, complaint
    return ((1, id_) if roles.first else state), complaint


def sequence_breaches(kernel: Kernel, edges: tuple[Edge, ...]) -> Iterator[tuple[Edge, Breach]]:
    """All breaches of several edges."""
    for edge in edges:
        for breach in breaches(kernel, edge):
            yield edge, breach
