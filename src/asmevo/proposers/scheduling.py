"""A scheduling problem as plain data, and the machine that puts its instructions in a row one decision at a time.

Nothing here knows what is scheduled. A `Region` is a straight run of nodes with the links between them (`after` starts
at least `cycles` behind `before`), the values that they read and write, and what is alive around it. Whoever has
instructions (final code, a compiler's machine IR) writes a region down; whoever has an opinion (see `agents`) is
asked at every decision.

A `Sequencer` issues in order, one node after the other:

    start    = latest of: now, when all links in have passed, when the node's unit is free
    now      = start + issue
    unit     free again at start + busy; units that the node `holds` not before start + their cycles

so a node may issue while another one's unit is busy (loads beside a matrix instruction), and a node chosen too
early stalls all behind it. All nodes whose predecessors are placed may be chosen; how long each would stall is one of
the facts. Every row that comes out keeps every link's direction, whatever the agent answers.

Pressure counts values: one is alive from its write (or from before the region) to its last reader placed, or to the
end if something behind the region reads it. A register that is written twice is two values; `number_values` tells
them apart. Its unit is the dword (of a lane for VGPRs, accumulation registers included).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import asdict

Register = TypeVar("Register", bound=Hashable)


class Kind(StrEnum):
    """What sort of work a node is."""

    SALU = "salu"
    VALU = "valu"
    TRANS = "trans"
    MATRIX = "matrix"
    SCALAR_LOAD = "scalar_load"
    LOAD = "load"
    STORE = "store"
    LDS_LOAD = "lds_load"
    LDS_STORE = "lds_store"
    BARRIER = "barrier"
    OTHER = "other"


LOADS = frozenset({Kind.LOAD, Kind.SCALAR_LOAD, Kind.LDS_LOAD})
"""What brings data in from memory."""


class Value(Struct, frozen=True):
    """What one write makes: dwords in vector and in scalar registers."""

    vgprs: int = 0
    sgprs: int = 0


class Node(Struct, frozen=True):
    """One thing to place. Cycles; `reads` and `writes` are values of the region, by number.

    `latency` until the result is there, `issue` until the next node may issue, `busy` for which `unit` is held. `holds`
    are other units with the cycles until a node of theirs may start (what has to drain first). Nodes are numbered from
    0 in the order of the source: `position` is that number.
    """

    position: int
    opcode: str
    kind: Kind
    latency: int = 1
    issue: int = 1
    unit: str = ""
    busy: int = 0
    holds: tuple[tuple[str, int], ...] = ()
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()


class Link(NamedTuple):
    """`after` stays behind `before` and starts no sooner than `cycles` after it; positions, before < after."""

    before: int
    after: int
    cycles: int = 0


class Region(Struct, frozen=True, dict=True):
    """A problem; `name` is for logs. `live_in` and `live_out` are values by number."""

    name: str
    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    values: tuple[Value, ...] = ()
    live_in: frozenset[int] = frozenset()
    live_out: frozenset[int] = frozenset()

    @cached_property
    def successors(self) -> tuple[tuple[Link, ...], ...]:
        """For each position the links out of it."""
        out: list[list[Link]] = [[] for _ in self.nodes]
        for link in self.links:
            out[link.before].append(link)
        return tuple(map(tuple, out))

    @cached_property
    def predecessors(self) -> tuple[tuple[int, ...], ...]:
        """For each position those that must be placed before it, each once."""
        found: list[set[int]] = [set() for _ in self.nodes]
        for link in self.links:
            found[link.after].add(link.before)
        return tuple(tuple(sorted(each)) for each in found)

    @cached_property
    def heights(self) -> tuple[int, ...]:
        """For each position the longest way from its start to the end of the region, in cycles."""
        heights = [max(node.issue, node.busy) for node in self.nodes]
        for position in reversed(range(len(heights))):
            ways = [max(link.cycles, 1) + heights[link.after] for link in self.successors[position]]
            heights[position] = max((heights[position], *ways))
        return tuple(heights)

    @cached_property
    def readers(self) -> tuple[int, ...]:
        """For each value how many nodes read it."""
        count = [0] * len(self.values)
        for node in self.nodes:
            for value in set(node.reads):
                count[value] += 1
        return tuple(count)

    def is_legal(self, order: Sequence[int]) -> bool:
        """Whether an order holds every position once and keeps every link's direction."""
        place = {position: place for place, position in enumerate(order)}
        if len(order) != len(self.nodes) or place.keys() != set(range(len(self.nodes))):
            return False
        return all(place[link.before] < place[link.after] for link in self.links)


class Ready(Struct, frozen=True):
    """The facts of one candidate at one decision.

    `stall`: cycles that it would wait if it came next. `height`: cycles of the longest way from its start to the end of
    the region. `vgpr_writes` and `sgpr_writes`: dwords of new values; `*_last_reads`: dwords of values that end here.
    """

    position: int
    opcode: str
    kind: Kind
    latency: int
    stall: int
    height: int
    vgpr_writes: int
    sgpr_writes: int
    vgpr_last_reads: int
    sgpr_last_reads: int

    @property
    def vgpr_delta(self) -> int:
        """By how much the VGPR pressure changes."""
        return self.vgpr_writes - self.vgpr_last_reads

    @property
    def sgpr_delta(self) -> int:
        """By how much the SGPR pressure changes."""
        return self.sgpr_writes - self.sgpr_last_reads


class Choice(Struct, frozen=True):
    """One decision: what is placed already, the clock and the pressure there, and who may come next (by position)."""

    region: Region
    placed: tuple[int, ...]
    now: int
    vgprs: int
    sgprs: int
    ready: tuple[Ready, ...]

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values; the region by its name."""
        candidates = [asdict(each) | {"kind": each.kind.value} for each in self.ready]
        return {
            "region": self.region.name,
            "step": len(self.placed),
            "now": self.now,
            "vgprs": self.vgprs,
            "sgprs": self.sgprs,
            "ready": candidates,
        }


class Agent(Protocol):
    """Somebody who decides what comes next."""

    @property
    def name(self) -> str:
        """For logs and tables."""
        ...

    def pick(self, choice: Choice) -> int:
        """The position of one of `choice.ready`, which is never empty."""
        ...


class IllegalPickError(ValueError):
    """An agent chose what was not offered; names the agent and the decision."""


class Sequencer:
    """A row in the making. `fork` gives an independent copy, for searches that try several ways on."""

    def __init__(self, region: Region) -> None:
        self.region = region
        self.order: list[int] = []
        self.now = 0
        self.ready: list[int] = [p for p, before in enumerate(region.predecessors) if not before]
        self._open = [len(before) for before in region.predecessors]
        self._ready_at = [0] * len(region.nodes)
        self._unit_free: dict[str, int] = {}
        self._unread = list(region.readers)
        alive = [region.values[value] for value in region.live_in]
        self.vgprs = sum(each.vgprs for each in alive)
        self.sgprs = sum(each.sgprs for each in alive)

    def fork(self) -> Sequencer:
        """A copy that goes on by itself."""
        copy = object.__new__(Sequencer)
        copy.region, copy.now, copy.vgprs, copy.sgprs = self.region, self.now, self.vgprs, self.sgprs
        copy.order, copy.ready = self.order.copy(), self.ready.copy()
        copy._open, copy._ready_at, copy._unread = self._open.copy(), self._ready_at.copy(), self._unread.copy()
        copy._unit_free = self._unit_free.copy()
        return copy

    @property
    def done(self) -> bool:
        """Whether every node is placed."""
        return not self.ready

    def start(self, position: int) -> int:
        """The cycle at which a node would start if it came next."""
        node = self.region.nodes[position]
        return max(self.now, self._ready_at[position], self._unit_free.get(node.unit, 0))

    def place(self, position: int) -> None:
        """Puts one of `ready` at the end of the row."""
        region = self.region
        node = region.nodes[position]
        start = self.start(position)
        self.order.append(position)
        self.ready.remove(position)
        self.now = start + node.issue
        for unit, cycles in ((node.unit, node.busy), *node.holds):
            if start + cycles > self._unit_free.get(unit, 0):
                self._unit_free[unit] = start + cycles
        for link in region.successors[position]:
            if start + link.cycles > self._ready_at[link.after]:
                self._ready_at[link.after] = start + link.cycles
        for after in {link.after for link in region.successors[position]}:
            self._open[after] -= 1
            if not self._open[after]:
                self.ready.append(after)
        self._count(node)

    def _count(self, node: Node) -> None:
        region = self.region
        for value in set(node.reads):
            self._unread[value] -= 1
            if not self._unread[value] and value not in region.live_out:
                self.vgprs -= region.values[value].vgprs
                self.sgprs -= region.values[value].sgprs
        for value in node.writes:
            if region.readers[value] or value in region.live_out:
                self.vgprs += region.values[value].vgprs
                self.sgprs += region.values[value].sgprs

    def least_end(self) -> int:
        """A bound from below of the cycle at which the last node ends, whatever comes next."""
        heights = self.region.heights
        return max((self.start(position) + heights[position] for position in self.ready), default=self.now)

    def choice(self) -> Choice:
        """The decision that is due."""
        ready = tuple(self._facts(position) for position in sorted(self.ready))
        return Choice(self.region, tuple(self.order), self.now, self.vgprs, self.sgprs, ready)

    def _facts(self, position: int) -> Ready:
        region, node = self.region, self.region.nodes[position]
        ending = [v for v in set(node.reads) if self._unread[v] == 1 and v not in region.live_out]
        return Ready(
            position=position,
            opcode=node.opcode,
            kind=node.kind,
            latency=node.latency,
            stall=self.start(position) - self.now,
            height=region.heights[position],
            vgpr_writes=sum(region.values[value].vgprs for value in node.writes),
            sgpr_writes=sum(region.values[value].sgprs for value in node.writes),
            vgpr_last_reads=sum(region.values[value].vgprs for value in ending),
            sgpr_last_reads=sum(region.values[value].sgprs for value in ending),
        )


def list_schedule(region: Region, agent: Agent, log: list[tuple[Choice, int]] | None = None) -> tuple[int, ...]:
    """The positions of a region in the order that the agent chooses; `log` collects decisions and answers.

    An agent is asked even if there is one candidate only. Raises IllegalPickError.
    """
    row = Sequencer(region)
    while not row.done:
        choice = row.choice()
        picked = agent.pick(choice)
        if picked not in row.ready:
            offered = ", ".join(str(each.position) for each in choice.ready)
            raise IllegalPickError(
                f"{agent.name} chose {picked} at step {len(choice.placed)} of {region.name}; offered were {offered}"
            )
        if log is not None:
            log.append((choice, picked))
        row.place(picked)
    return tuple(row.order)


class Numbered(Struct, frozen=True):
    """Reads and writes of each node as values, and what a Region needs beside them."""

    accesses: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    values: tuple[Value, ...]
    live_in: frozenset[int]
    live_out: frozenset[int]


def number_values(
    accesses: Iterable[tuple[Iterable[Register], Iterable[Register]]],
    sizes: Mapping[Register, Value],
    live_out: Iterable[Register],
) -> Numbered:
    """Tells the values of registers apart that are written more than once.

    `accesses` holds for each node in source order the registers that it reads and those that it writes, named by
    anything hashable; `sizes` what each takes (registers without a size are left out); `live_out` are registers read
    behind the region. Registers that nothing here touches are left out: they weigh the same on every order.
    """
    values: list[Value] = []
    current: dict[Register, int] = {}
    live_in: set[int] = set()
    found: list[tuple[tuple[int, ...], tuple[int, ...]]] = []

    def fresh(register: Register) -> int:
        values.append(sizes[register])
        current[register] = len(values) - 1
        return current[register]

    for reads, writes in accesses:
        known = [register for register in reads if register in sizes]
        live_in.update(fresh(register) for register in known if register not in current)
        read = tuple(current[register] for register in known)
        found.append((read, tuple(fresh(register) for register in writes if register in sizes)))
    alive = frozenset(current[register] for register in live_out if register in current)
    return Numbered(tuple(found), tuple(values), frozenset(live_in), alive)
