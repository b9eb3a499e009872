"""Dependences inside a block: which instructions must keep their order, and why.

The graph has the block's instructions as nodes 0..n-1 in their present order, and an edge i -> j (i < j) if
j must stay behind i:

    RAW, WAR, WAW   both name a register unit and at least one writes it. Implicit registers count like
                    others, which gives the orders one would list apart: what writes EXEC stays where it is
                    among all vector instructions, what writes MODE among all that round or flush by it.
    MEMORY          both touch an address space and one writes it (addresses are not compared)
    ORDER           memory on either side of a fence (see `memory`), but for plain loads from global memory
                    and fences that are known to be quiet (`quiet_points`); and pillars, which nothing crosses

Pillars are block ends, calls, s_sendmsg (it may free the VGPRs), traps, whatever changes what register
numbers mean (s_set_gpr_idx_* and all between _on and _off, s_set_vgpr_msb and all up to its reset to 0,
s_setvskip, s_alloc_vgpr), and unknown instructions.

Marks (waits, s_nop, s_delay_alu, s_clause, s_setprio) do nothing to registers or memory. With
`Marks.BARRIER` each is a pillar. With `Marks.IGNORED` they only keep their order among themselves: an order
is then legal if it computes the same, provided somebody puts waits and wait states where they are needed.

Bundles are runs that stay together: s_clause with the instructions it covers, and s_getpc with the
additions that make an address of it.

Why edges of a few pairs are enough: for each unit the table holds the last writer and the readers since.
An earlier writer reaches a later access through the chain of writers between, an earlier reader through the
next writer, so "every edge keeps its direction" implies the same for every pair in conflict. Spaces, fences
and pillars work alike. An order that keeps all edges gives every read the same writer as before, and every
location the same last writer, and so the same values.

What this does not know: a plain store that another wave takes as a signal, with a wait before it instead of
cache bits, orders other spaces too (ds_write, wait, global_store as a flag). With `Marks.BARRIER` the wait
holds that order; with `Marks.IGNORED` nothing does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from functools import cache, cached_property
from itertools import pairwise
from typing import NamedTuple

from msgspec import Struct

from asmevo.analysis.memory import MemoryEffect, MemoryKind, memory_effect
from asmevo.analysis.quiet_points import is_plain_load
from asmevo.program.instruction import Decoded, Instruction
from asmevo.program.kernel import Block
from asmevo.program.registers import register_names, units_of


class Dependence(Enum):
    """Why two instructions keep their order."""

    RAW = "read after write"
    WAR = "write after read"
    WAW = "write after write"
    MEMORY = "memory"
    ORDER = "order"


class Marks(Enum):
    """What waits, s_nop, s_delay_alu, s_clause and s_setprio are to a graph."""

    BARRIER = "nothing crosses them"
    IGNORED = "they keep their order among themselves only"


class Edge(NamedTuple):
    """`after` must stay behind `before`; places in the block."""

    before: int
    after: int
    kind: Dependence


class Violation(Struct, frozen=True):
    """Two instructions whose order is wrong. `first` has to be executed before `second`."""

    first: Instruction
    second: Instruction
    kind: Dependence
    what: str

    def __str__(self) -> str:
        return f"`{self.first}` must stay before `{self.second}`: {self.what}"


_PILLAR_FLAGS = frozenset({"unknown", "terminator", "branch", "call", "return"})
_PILLAR_PREFIXES = (
    "s_sendmsg",
    "s_trap",
    "s_setkill",
    "s_set_gpr_idx",
    "s_set_vgpr_msb",
    "s_setvskip",
    "s_alloc_vgpr",
)


class _Node(Struct, frozen=True):
    """What the graph needs of one encoding."""

    reads: tuple[int, ...]
    writes: tuple[int, ...]
    effect: MemoryEffect
    pillar: bool
    mark: bool
    plain_load: bool


@cache
def _node(decoded: Decoded) -> _Node:
    effect = memory_effect(decoded)
    return _Node(
        reads=tuple(units_of(decoded.reads)),
        writes=tuple(units_of(decoded.writes)),
        effect=effect,
        pillar=bool(decoded.flags & _PILLAR_FLAGS) or decoded.mnemonic.startswith(_PILLAR_PREFIXES),
        mark=effect.kind is MemoryKind.CONTROL,
        plain_load=is_plain_load(decoded),
    )


class DependenceGraph:
    """The dependences of one block: `predecessors[j]` are edges into j, `successors[i]` edges out of i.

    `quiet` are ids of fences that plain loads may cross (`QuietPoints.crossed` of the kernel).
    """

    def __init__(self, instructions: Sequence[Instruction], marks: Marks, quiet: frozenset[int] = frozenset()) -> None:
        self.instructions = tuple(instructions)
        self.marks = marks
        self.predecessors: tuple[tuple[Edge, ...], ...] = _Builder(self.instructions, marks, quiet).build()
        self.bundles: tuple[range, ...] = tuple(_bundles(self.instructions))

    @classmethod
    def for_block(cls, block: Block, marks: Marks = Marks.BARRIER) -> DependenceGraph:
        """The graph of a block as it stands."""
        return cls(block.instructions, marks)

    @cached_property
    def successors(self) -> tuple[tuple[Edge, ...], ...]:
        """For each place the edges out of it."""
        out: list[list[Edge]] = [[] for _ in self.instructions]
        for edges in self.predecessors:
            for edge in edges:
                out[edge.before].append(edge)
        return tuple(map(tuple, out))

    @property
    def edges(self) -> Iterator[Edge]:
        """All edges, by the later instruction."""
        return (edge for edges in self.predecessors for edge in edges)

    def heights(self, latency: Callable[[Edge], int]) -> list[int]:
        """For each place the longest way to the end of the block, in the unit of `latency`."""
        heights = [0] * len(self.instructions)
        for place in reversed(range(len(heights))):
            ways = (latency(edge) + heights[edge.after] for edge in self.successors[place])
            heights[place] = max(ways, default=0)
        return heights

    def what(self, edge: Edge) -> str:
        """What an edge goes through, in words."""
        return _describe(self.instructions[edge.before], self.instructions[edge.after], edge.kind)

    def violation(self, order: Sequence[int]) -> Violation | None:
        """The first dependence that an order of instruction ids breaks, or None.

        Raises ValueError when `order` does not hold every id of the block once.
        """
        place_of = {id_: place for place, id_ in enumerate(order)}
        ids = [instruction.id for instruction in self.instructions]
        if len(order) != len(ids) or place_of.keys() != set(ids):
            raise ValueError("the order is not a permutation of the block's instruction ids")
        new_place = [place_of[id_] for id_ in ids]
        for after, edges in enumerate(self.predecessors):
            for edge in edges:
                if new_place[edge.before] > new_place[after]:
                    first, second = self.instructions[edge.before], self.instructions[after]
                    return Violation(first, second, edge.kind, self.what(edge))
        return self._broken_bundle(new_place)

    def _broken_bundle(self, new_place: Sequence[int]) -> Violation | None:
        for bundle in self.bundles:
            for first, second in pairwise(bundle):
                if new_place[second] != new_place[first] + 1:
                    head, follower = self.instructions[first], self.instructions[second]
                    what = f"nothing may come between them in the bundle of `{self.instructions[bundle[0]]}`"
                    return Violation(head, follower, Dependence.ORDER, what)
        return None


def is_legal_order(block: Block, order: Sequence[int], marks: Marks = Marks.BARRIER) -> Violation | None:
    """Whether the instructions of a block may be executed in another order, given as their ids.

    None if they may, else the first pair that may not. Raises ValueError for what is no permutation.
    """
    return DependenceGraph.for_block(block, marks).violation(order)


def conflict(first: Instruction, second: Instruction, marks: Marks = Marks.BARRIER) -> Violation | None:
    """Why `second`, which comes later, may not be executed before `first`; None if it may.

    Looks at the two alone: regions and bundles, which depend on the block, are the graph's matter.
    """
    one, other = _node(first.decoded), _node(second.decoded)
    for kind, shared in (
        (Dependence.RAW, first.writes & second.reads),
        (Dependence.WAW, first.writes & second.writes),
        (Dependence.WAR, first.reads & second.writes),
    ):
        if shared:
            return Violation(first, second, kind, _describe(first, second, kind))
    reason = one.effect.conflict(other.effect)
    if reason is not None:
        kind = Dependence.ORDER if reason == "order" else Dependence.MEMORY
        return Violation(first, second, kind, _describe(first, second, kind))
    barrier = marks is Marks.BARRIER and (one.mark or other.mark)
    if one.pillar or other.pillar or barrier or (one.mark and other.mark):
        return Violation(first, second, Dependence.ORDER, _describe(first, second, Dependence.ORDER))
    return None


def _describe(first: Instruction, second: Instruction, kind: Dependence) -> str:
    if kind is Dependence.RAW:
        return f"the first writes {register_names(first.writes & second.reads)}, which the second reads"
    if kind is Dependence.WAR:
        return f"the first reads {register_names(first.reads & second.writes)}, which the second writes"
    if kind is Dependence.WAW:
        return f"both write {register_names(first.writes & second.writes)}"
    one, other = _node(first.decoded), _node(second.decoded)
    if kind is Dependence.MEMORY:
        return f"both access {one.effect.conflict(other.effect)} memory and one writes it"
    for instruction, node in ((first, one), (second, other)):
        if node.pillar or node.mark:
            return f"nothing may cross `{instruction}`"
    for instruction, node in ((first, one), (second, other)):
        if node.effect.ordered:
            return f"no memory operation may cross `{instruction}`"
    return "register numbers mean something else here"


class _Builder:
    """One pass over a block with tables of last writers and readers since."""

    def __init__(self, instructions: Sequence[Instruction], marks: Marks, quiet: frozenset[int]) -> None:
        self.nodes = [_node(instruction.decoded) for instruction in instructions]
        self.marks = marks
        renumbered = renumbered_places(instructions)
        self.pillars = [
            node.pillar or place in renumbered or (node.mark and marks is Marks.BARRIER)
            for place, node in enumerate(self.nodes)
        ]
        self.writer: dict[int, int] = {}
        self.readers: dict[int, list[int]] = {}
        self.space_writer: dict[str, int] = {}
        self.space_readers: dict[str, list[int]] = {}
        self.quiet = [instruction.id in quiet for instruction in instructions]
        self.fence = self.loud_fence = -1
        self.since_fence: list[int] = []
        self.plain_since_loud: list[int] = []
        self.pillar = -1
        self.last_mark = -1

    def build(self) -> tuple[tuple[Edge, ...], ...]:
        """The edges into each place, RAW first, each kind once for a pair."""
        return tuple(self._edges_into(place, node) for place, node in enumerate(self.nodes))

    def _edges_into(self, place: int, node: _Node) -> tuple[Edge, ...]:
        raw, war, waw = self._registers(place, node)
        memory: set[int] = set()
        order: set[int] = set()
        if node.effect.is_memory:
            self._memory(place, node.effect, memory, order)
        self._pillars(place, order)
        if node.mark:
            if self.last_mark >= 0:
                order.add(self.last_mark)
            self.last_mark = place
        edges = [Edge(before, place, Dependence.RAW) for before in sorted(raw)]
        edges += [Edge(before, place, Dependence.WAR) for before in sorted(war)]
        edges += [Edge(before, place, Dependence.WAW) for before in sorted(waw)]
        edges += [Edge(before, place, Dependence.MEMORY) for before in sorted(memory)]
        edges += [Edge(before, place, Dependence.ORDER) for before in sorted(order)]
        return tuple(edges)

    def _registers(self, place: int, node: _Node) -> tuple[set[int], set[int], set[int]]:
        writer, readers = self.writer, self.readers
        raw = {writer[unit] for unit in node.reads if unit in writer}
        waw: set[int] = set()
        war: set[int] = set()
        for unit in node.writes:
            if unit in writer:
                waw.add(writer[unit])
            war.update(readers.pop(unit, ()))
            writer[unit] = place
        for unit in node.reads:
            readers.setdefault(unit, []).append(place)
        return raw, war, waw

    def _memory(self, place: int, effect: MemoryEffect, memory: set[int], order: set[int]) -> None:
        plain = self.nodes[place].plain_load
        fence = self.loud_fence if plain else self.fence
        if fence >= 0:
            order.add(fence)
        if effect.ordered:
            self._fence(place, order)
            return
        (self.plain_since_loud if plain else self.since_fence).append(place)
        for space in effect.touches:
            if space in self.space_writer:
                memory.add(self.space_writer[space])
        for space in effect.writes:
            memory.update(self.space_readers.pop(space, ()))
            self.space_writer[space] = place
        for space in effect.reads:
            self.space_readers.setdefault(space, []).append(place)

    def _fence(self, place: int, order: set[int]) -> None:
        order.update(self.since_fence)
        self.fence, self.since_fence = place, []
        if self.quiet[place]:
            return
        order.update(self.plain_since_loud)
        self.loud_fence, self.plain_since_loud = place, []
        self.space_writer.clear()
        self.space_readers.clear()

    def _pillars(self, place: int, order: set[int]) -> None:
        if self.pillars[place]:
            order.update(range(max(self.pillar, 0), place))
            self.pillar = place
        elif self.pillar >= 0:
            order.add(self.pillar)


_RENUMBERING = ("s_set_gpr_idx_", "s_set_vgpr_msb")


def renumbered_places(instructions: Sequence[Instruction]) -> set[int]:
    """Places where a register number in the encoding is not the register that is meant.

    s_set_gpr_idx_on adds M0 to it until _off; s_set_vgpr_msb gives it high bits until it is set to 0. LLVM
    opens and closes both in one block; what stays open reaches to the end of the block, and an _off
    without an _on says that the region began before the block.
    """
    places: set[int] = set()
    if not any(each.startswith(_RENUMBERING) for each in {each.decoded.mnemonic for each in instructions}):
        return places
    opened = -1
    for place, instruction in enumerate(instructions):
        mnemonic = instruction.mnemonic
        if mnemonic == "s_set_gpr_idx_off" or (mnemonic == "s_set_vgpr_msb" and _is_zero(instruction)):
            start = opened if opened >= 0 or mnemonic == "s_set_vgpr_msb" else 0
            places.update(range(start, place) if start >= 0 else ())
            opened = -1
        elif mnemonic.startswith(_RENUMBERING) and opened < 0:
            opened = place
    if opened >= 0:
        places.update(range(opened, len(instructions)))
    return places


def _is_zero(instruction: Instruction) -> bool:
    """Whether the low byte, the high bits now in force, is 0 (the other byte holds the old ones)."""
    return instruction.decoded.code[0] == 0


def _bundles(instructions: Sequence[Instruction]) -> Iterator[range]:
    """Runs that stay together, by their first place; overlapping ones are joined."""
    joined: list[range] = []
    for bundle in sorted((*_clauses(instructions), *_address_sums(instructions)), key=lambda run: run.start):
        if joined and bundle.start < joined[-1].stop:
            joined[-1] = range(joined[-1].start, max(joined[-1].stop, bundle.stop))
        else:
            joined.append(bundle)
    return iter(joined)


def clause_length(clause: Instruction) -> int:
    """How many instructions an `s_clause` covers; the number less one is in its low 6 bits."""
    return (clause.decoded.code[0] & 0x3F) + 1


def _clauses(instructions: Sequence[Instruction]) -> Iterator[range]:
    """s_clause N covers the N+1 instructions behind it; N is in the low 6 bits."""
    for place, instruction in enumerate(instructions):
        if instruction.mnemonic == "s_clause":
            yield range(place, min(place + clause_length(instruction) + 1, len(instructions)))


def _address_sums(instructions: Sequence[Instruction]) -> Iterator[range]:
    """From each s_getpc to the last addition that completes its address."""
    place_of = {instruction.id: place for place, instruction in enumerate(instructions)}
    last: dict[int, int] = {}
    for place, instruction in enumerate(instructions):
        if instruction.reference is not None and instruction.reference.getpc in place_of:
            last[place_of[instruction.reference.getpc]] = place
    return (range(getpc, place + 1) for getpc, place in last.items() if place > getpc)
