"""A constraint set compiled into a graph: who may not reach what, and in which wave state.

Nodes are of three kinds: instructions (a selector), registers (a set of units) and wave states (the launch, the
target, an edit). An edge says "an instruction of this kind must not have this relation to that", or must have it;
its condition is the `when` of the entry, about the kernel's wave state, and what the relation itself counts (so many
instructions, so many registers). A finding is an edge that an instruction walked while its condition held: the edge
is the proof, and `--debug-constraint` prints it.

    relation     from          to            violated when
    writes       instruction   register      an instruction writes a unit of it
    touches      instruction   register      an instruction reads or writes a unit of it
    clobbers     instruction   register      a function writes a unit of it that nothing read before, on some path
    misaligned   instruction   register      an operand of several registers starts off the multiple
    stands in    instruction   wave state    it is there at all
    follows      instruction   instruction   the second comes at most so many behind the first
    needs        instruction   instruction   the second does not come so near behind (before) the first
    repeats      instruction   itself        more than so many in a row
    inside       instruction   instruction   the second comes between the first and what closes the region
    edited into  instruction   wave state    an edit puts it there (switches)
    exceeds      wave state    register      the kernel uses more than so many
    falls below  wave state    wave state    the SIMD holds fewer waves

`Compiled.hits` answers for one encoding all edges but those over time; `sequences` holds those as small automata.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from functools import cache
from typing import Any

import rustworkx as rx
from msgspec import Struct, field

from asmevo.checks.constraints.matching import Matcher, selector_words
from asmevo.checks.constraints.model import (
    Alignment,
    CalleeSaved,
    ForbiddenInstruction,
    ForbiddenNeighbours,
    Limit,
    LongestRun,
    OccupancyFloor,
    Region,
    RequiredNeighbours,
    Reserved,
    Selector,
    When,
)
from asmevo.checks.constraints.reading import ConstraintSet, Placed
from asmevo.checks.constraints.register_text import register_set
from asmevo.checks.constraints.switches import switch_selectors
from asmevo.program.instruction import Decoded
from asmevo.program.registers import RegisterFile, file_mask, register_names

_FILE_OF_LETTER = {"v": RegisterFile.VGPR, "a": RegisterFile.AGPR, "s": RegisterFile.SGPR}


class Relation(Enum):
    """See the module."""

    WRITES = "writes"
    TOUCHES = "touches"
    CLOBBERS = "clobbers"
    MISALIGNED = "misaligned"
    STANDS_IN = "stands in"
    FOLLOWS = "follows"
    NEEDS = "needs"
    REPEATS = "repeats"
    INSIDE = "inside"
    EDITED_INTO = "edited into"
    EXCEEDS = "exceeds"
    FALLS_BELOW = "falls below"


SEQUENCE_RELATIONS = frozenset({Relation.FOLLOWS, Relation.NEEDS, Relation.REPEATS, Relation.INSIDE})

_LOCAL_RELATIONS = frozenset(
    {Relation.WRITES, Relation.TOUCHES, Relation.MISALIGNED, Relation.STANDS_IN, Relation.EDITED_INTO}
)


class InstructionNode(Struct, frozen=True):
    """Instructions of one kind; without a matcher all of them."""

    words: str
    matcher: Matcher | None = None

    def matches(self, decoded: Decoded) -> bool:
        """Whether an encoding is of the kind."""
        return self.matcher is None or self.matcher.matches(decoded)

    def fits_mnemonic(self, mnemonic: str) -> bool:
        """Whether an instruction of this name may be of the kind."""
        return self.matcher is None or self.matcher.fits_mnemonic(mnemonic)


class RegisterNode(Struct, frozen=True):
    """A set of register units."""

    words: str
    units: int


class StateNode(Struct, frozen=True):
    """A wave state."""

    words: str


Node = InstructionNode | RegisterNode | StateNode


class Edge(Struct, frozen=True, eq=False):
    """One rule of a set. `entry` is its id, `file` and `line` where it stands, `data` the model it came from."""

    rule: str
    entry: str
    relation: Relation
    source: Node
    sink: Node
    when: When
    severity: str
    reason: str
    origin: str
    data: Any = None
    replacement: str = ""
    file: str = ""
    line: int | None = None

    @property
    def place(self) -> str:
        """Where the entry stands."""
        return f"{self.file}:{self.line}" if self.line is not None else self.file

    @property
    def condition(self) -> str:
        """The condition of the edge in words."""
        asked = [f"{name} is {value}" for name, value in self.when.model_dump(exclude_none=True).items()]
        return " and ".join(asked) or "always"


class Hit(Struct, frozen=True):
    """An edge that one encoding walks by itself; `units` are the registers it is about."""

    edge: Edge
    units: int = 0


class Compiled(Struct, eq=False):
    """The graph of a set for one target."""

    name: str
    target: str
    graph: Any
    notes: tuple[str, ...]
    sequences: tuple[Edge, ...]
    limits: tuple[Edge, ...]
    clobbers: tuple[Edge, ...]
    _hits: dict[Decoded, tuple[Hit, ...]] = field(default_factory=dict)
    _near: dict[str, tuple[tuple[InstructionNode, tuple[Edge, ...]], ...]] = field(default_factory=dict)

    @property
    def edges(self) -> tuple[Edge, ...]:
        """All edges, in the order of the sets."""
        return tuple(self.graph.edges())

    def hits(self, decoded: Decoded) -> tuple[Hit, ...]:
        """The edges that an encoding walks whatever stands around it; when they hold is for the caller to see."""
        found = self._hits.get(decoded)
        if found is None:
            found = self._hits[decoded] = tuple(self._walk(decoded))
        return found

    def _walk(self, decoded: Decoded) -> Iterator[Hit]:
        near = self._near.get(decoded.mnemonic)
        if near is None:
            near = self._near[decoded.mnemonic] = tuple(self._fitting(decoded.mnemonic))
        for node, edges in near:
            if node.matches(decoded):
                for edge in edges:
                    units = _reached(edge, decoded)
                    if units is not None:
                        yield Hit(edge, units)

    def _fitting(self, mnemonic: str) -> Iterator[tuple[InstructionNode, tuple[Edge, ...]]]:
        """The nodes that an instruction of this name may be of, with the edges it walks by itself."""
        for index in self.graph.node_indices():
            node = self.graph[index]
            if isinstance(node, InstructionNode) and node.fits_mnemonic(mnemonic):
                edges = tuple(e for _, _, e in self.graph.out_edges(index) if e.relation in _LOCAL_RELATIONS)
                if edges:
                    yield node, edges


def _reached(edge: Edge, decoded: Decoded) -> int | None:
    """The registers through which an encoding walks an edge, None if it does not."""
    relation = edge.relation
    if relation in (Relation.STANDS_IN, Relation.EDITED_INTO):
        return 0
    if not isinstance(edge.sink, RegisterNode):
        return None
    if relation is Relation.WRITES:
        return decoded.writes & edge.sink.units or None
    if relation is Relation.TOUCHES:
        return (decoded.reads | decoded.writes) & edge.sink.units or None
    if relation is Relation.MISALIGNED:
        return _misaligned(edge.data, decoded) or None
    return None


def _misaligned(rule: Alignment, decoded: Decoded) -> int:
    units = 0
    for operand in decoded.operands:
        span = operand.registers
        if span is not None and span.count > 1 and span.file.value in rule.files and span.first % rule.multiple:
            units |= span.mask
    return units


def compile_set(set_: ConstraintSet, target: str) -> Compiled:
    """The graph of a set, for one target."""
    builder = _Builder(target)
    builder.add(set_)
    edges: list[Edge] = list(builder.graph.edges())
    return Compiled(
        set_.name,
        target,
        builder.graph,
        set_.notes,
        tuple(edge for edge in edges if edge.relation in SEQUENCE_RELATIONS),
        tuple(edge for edge in edges if edge.relation in (Relation.EXCEEDS, Relation.FALLS_BELOW)),
        tuple(edge for edge in edges if edge.relation is Relation.CLOBBERS),
    )


class _Builder:
    """One graph under construction; equal nodes are one node."""

    def __init__(self, target: str) -> None:
        self.graph: Any = rx.PyDiGraph()
        self._nodes: dict[Any, int] = {}
        self._any = InstructionNode("any instruction")
        self._target = StateNode(f"a wave on {target}")

    def add(self, set_: ConstraintSet) -> None:
        """All entries and tables of one set."""
        for placed in set_.entries:
            for rule, relation, source, sink, replacement in self._edges_of(placed.entry):
                self._connect(placed, rule, relation, source, sink, replacement)
        for table, rule in ((set_.dpp, "constraints.dpp"), (set_.permlane, "constraints.permlane")):
            for name, support in table.items():
                if not support.supported:
                    selector = Selector(modifiers=(name,)) if table is set_.dpp else Selector(mnemonic=(name,))
                    words = f"{name} does not exist on this target"
                    self._put(_bare(set_, rule, name, self._node(selector), self._target, words, support))
        for switch, value in set_.switches.items():
            if not value.allowed:
                state = StateNode("an edited wave")
                for selector in switch_selectors(switch):
                    words = value.comment or f"{switch} is off"
                    edge = _bare(set_, "constraints.switch", switch, self._node(selector), state, words, value)
                    self._put(edge)

    def _edges_of(self, entry: Any) -> Iterator[tuple[str, Relation, Node, Node, str]]:
        if isinstance(entry, Reserved):
            relation = Relation.WRITES if entry.access == "write" else Relation.TOUCHES
            yield "reserved-register", relation, self._any, _registers(entry.registers, entry.role), ""
        elif isinstance(entry, CalleeSaved):
            yield "callee-saved", Relation.CLOBBERS, self._any, _registers(entry.registers, "callee-saved"), ""
        elif isinstance(entry, ForbiddenInstruction):
            source = self._node(entry.instruction)
            yield "forbidden-instruction", Relation.STANDS_IN, source, self._target, entry.replacement
        elif isinstance(entry, ForbiddenNeighbours):
            yield "forbidden-neighbour", Relation.FOLLOWS, self._node(entry.first), self._node(entry.then), ""
        elif isinstance(entry, RequiredNeighbours):
            yield "required-neighbour", Relation.NEEDS, self._node(entry.instruction), self._node(entry.needs), ""
        elif isinstance(entry, LongestRun):
            node = self._node(entry.instruction)
            yield "longest-run", Relation.REPEATS, node, node, ""
        elif isinstance(entry, Region):
            yield "region", Relation.INSIDE, self._node(entry.opens), self._node(entry.forbids), ""
        elif isinstance(entry, Alignment):
            units = 0
            for letter in entry.files:
                units |= file_mask(_FILE_OF_LETTER[letter])
            words = f"{'/'.join(entry.files)} registers from a multiple of {entry.multiple}"
            yield "alignment", Relation.MISALIGNED, self._any, RegisterNode(words, units), ""
        elif isinstance(entry, Limit):
            sink = RegisterNode(f"{entry.most} {entry.resource}", 0)
            yield "limit", Relation.EXCEEDS, StateNode("the launch"), sink, ""
        elif isinstance(entry, OccupancyFloor):
            floor = StateNode(f"{entry.waves_per_simd} waves a SIMD")
            yield "occupancy", Relation.FALLS_BELOW, StateNode("the launch"), floor, ""

    def _connect(
        self, placed: Placed, rule: str, relation: Relation, source: Node, sink: Node, replacement: str
    ) -> None:
        entry = placed.entry
        edge = Edge(
            f"constraints.{rule}",
            entry.id,
            relation,
            source,
            sink,
            entry.when,
            entry.severity,
            entry.reason,
            entry.source,
            entry,
            replacement,
            placed.file,
            placed.line,
        )
        self._put(edge)

    def _put(self, edge: Edge) -> None:
        self.graph.add_edge(self._index(edge.source), self._index(edge.sink), edge)

    def _node(self, selector: Selector) -> InstructionNode:
        return InstructionNode(selector_words(selector), Matcher.of(selector))

    def _index(self, node: Node) -> int:
        if node not in self._nodes:
            self._nodes[node] = self.graph.add_node(node)
        return self._nodes[node]


def _bare(set_: ConstraintSet, rule: str, name: str, source: Node, sink: Node, words: str, data: Any) -> Edge:
    """The edge of a table's row, which has no `when`."""
    relation = Relation.EDITED_INTO if rule == "constraints.switch" else Relation.STANDS_IN
    replacement = getattr(data, "replacement", "")
    return Edge(rule, name, relation, source, sink, When(), "error", words, data.source, data, replacement, set_.name)


@cache
def _registers(texts: tuple[str, ...], role: str) -> RegisterNode:
    units = register_set(texts)
    return RegisterNode(f"{register_names(units)} ({role})", units)
