"""One basic block of final code as a scheduling problem (`scheduling.Region`).

Nodes are the block's instructions without what `placement` derives anew (waits, no-ops, hints); runs that must stay
together (`DependenceGraph.bundles`) are one node. Links are the edges of the dependence graph, with the cycles that
the edge will cost once waits stand where they are needed:

    RAW      the result's latency; of a memory access the time until its data are there; of a scalar result on gfx12
             the time until `s_wait_alu` lets its reader go
    WAW      the same where the first is a memory access (the second waits for it), else issue order
    order    where other waves may look (barrier, release), an access that must be done there: its full time
    others   issue order; units say the rest
    any      what hardware does not wait for by itself: the wait states of the hazard table

The latencies are those of the cycle model's machine under the chosen memory scenario. Register numbers are what they
are: without renaming, write-after-read edges bound what can move.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from msgspec import Struct

from asmevo.analysis.dependence import Dependence, DependenceGraph, Edge, Marks
from asmevo.analysis.hazards import wait_states_between
from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Block
from asmevo.program.registers import AGPR_MASK, SGPR_MASK, VCC_MASK, VGPR_MASK, units_of
from asmevo.proposers.placement import Placement
from asmevo.proposers.scheduling import Kind, Link, Node, Region, Value, number_values
from asmevo.timing.costs import Profile, Stream
from asmevo.timing.instruction_class import Port

_KIND_OF_PORT = {
    Port.VALU: Kind.VALU,
    Port.TRANS: Kind.TRANS,
    Port.MATRIX: Kind.MATRIX,
    Port.SALU: Kind.SALU,
    Port.SMEM: Kind.SCALAR_LOAD,
}
_VECTOR, _SCALAR = VGPR_MASK | AGPR_MASK, SGPR_MASK | VCC_MASK


class BlockRegion(Struct, frozen=True, dict=True):
    """A block between its own order and a region's; made once for a `Placement`, used for many orders."""

    placement: Placement

    @cached_property
    def body(self) -> tuple[Instruction, ...]:
        """The block's instructions without what is derived anew."""
        return self.placement.body

    @cached_property
    def graph(self) -> DependenceGraph:
        """What must keep its order; places count in `body`."""
        return DependenceGraph(self.body, Marks.IGNORED, self.placement.facts.quiet.crossed)

    @cached_property
    def units(self) -> tuple[range, ...]:
        """Places of the body that are one node each."""
        bundled = {bundle.start: bundle for bundle in self.graph.bundles}
        units: list[range] = []
        while (place := units[-1].stop if units else 0) < len(self.body):
            units.append(bundled.get(place, range(place, place + 1)))
        return tuple(units)

    def instructions(self, order: Iterable[int]) -> list[Instruction]:
        """The body in an order of the region's positions."""
        return [self.body[place] for position in order for place in self.units[position]]

    def rebuild(self, order: Iterable[int]) -> tuple[Block, ...] | None:
        """The kernel's blocks with this one in an order of positions; None when no placement was found."""
        return self.placement.rebuild(self.instructions(order))

    @cached_property
    def region(self) -> Region:
        """The problem; its name is the block's."""
        accesses = [self._registers(unit) for unit in self.units]
        behind = self.placement.facts.liveness.live_out(self.placement.block.index)
        sizes = {register: self._size(register) for reads, writes in accesses for register in (*reads, *writes)}
        numbered = number_values(accesses, sizes, units_of(behind & (_VECTOR | _SCALAR)))
        nodes = tuple(self._node(position, reads, writes) for position, (reads, writes) in enumerate(numbered.accesses))
        name = f"{self.placement.kernel.name} block {self.placement.block.index}"
        return Region(name, nodes, self._links(), numbered.values, numbered.live_in, numbered.live_out)

    def _profile(self, place: int) -> Profile:
        return self.placement.facts.machine.profile(self.body[place].decoded)

    def _registers(self, unit: range) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """What a node reads from outside of itself and what it writes."""
        reads = writes = 0
        for place in unit:
            reads |= self.body[place].reads & ~writes
            writes |= self.body[place].writes
        return tuple(units_of(reads & self._counted)), tuple(units_of(writes & self._counted))

    @cached_property
    def _counted(self) -> int:
        """The units that count as registers."""
        return _VECTOR | _SCALAR

    def _size(self, register: int) -> Value:
        return Value(vgprs=1) if _VECTOR >> register & 1 else Value(sgprs=1)

    def _node(self, position: int, reads: tuple[int, ...], writes: tuple[int, ...]) -> Node:
        unit = self.units[position]
        profiles = [self._profile(place) for place in unit]
        last = profiles[-1]
        return Node(
            position=position,
            opcode=" ".join(self.body[place].mnemonic for place in unit),
            kind=self._kind(unit[-1]),
            latency=max(_latency(profile) for profile in profiles),
            issue=self._interval * len(unit),
            unit=last.engine.name.lower(),
            busy=sum(profile.occupancy.cycles for profile in profiles if profile.engine is last.engine),
            holds=self._holds(last),
            reads=reads,
            writes=writes,
        )

    def _holds(self, profile: Profile) -> tuple[tuple[str, int], ...]:
        """Memory instructions start only when the wave's vector instructions are through (two-clock machines)."""
        if profile.stream is not Stream.VALU:
            return ()
        machine = self.placement.facts.machine
        found = []
        for port in (Port.LDS, Port.VMEM):
            cost = machine.cost(f"{port.name.lower()}_after_valu_execute", "")
            if cost is not None:
                found.append((port.name.lower(), profile.to_execute + cost.cycles))
        return tuple(found)

    @property
    def _interval(self) -> int:
        return self.placement.facts.machine.interval

    def _kind(self, place: int) -> Kind:
        flags, profile = self.body[place].flags, self._profile(place)
        stores = "may_store" in flags and "may_load" not in flags
        if profile.barrier:
            return Kind.BARRIER
        if profile.port is Port.LDS:
            return Kind.LDS_STORE if stores else Kind.LDS_LOAD
        if profile.port is Port.VMEM:
            return Kind.STORE if stores else Kind.LOAD
        return _KIND_OF_PORT.get(profile.port, Kind.OTHER)

    def _links(self) -> tuple[Link, ...]:
        unit_of = {place: number for number, unit in enumerate(self.units) for place in unit}
        cycles: dict[tuple[int, int], int] = {}
        for edge in self.graph.edges:
            key = unit_of[edge.before], unit_of[edge.after]
            if key[0] != key[1]:
                offset = edge.before - self.units[key[0]].start
                states = self._states(edge)
                asked = max(self._cycles(edge), (states + 1) * self._interval if states else 0)
                asked += offset * self._interval
                cycles[key] = max(asked, cycles.get(key, 0))
        return tuple(Link(before, after, asked) for (before, after), asked in cycles.items())

    def _cycles(self, edge: Edge) -> int:
        before = self._profile(edge.before)
        if edge.kind is Dependence.RAW:
            return max(_latency(before), self._drained(edge))
        if edge.kind is Dependence.WAW and before.returns:
            return _latency(before)
        if (
            edge.kind is Dependence.ORDER
            and before.returns
            and self.placement.settles(self.body[edge.after], self.body[edge.before])
        ):
            return _latency(before)
        return 0

    def _drained(self, edge: Edge) -> int:
        """Cycles until `s_wait_alu` lets a reader of a scalar result go, where the target has it."""
        before, after = self._profile(edge.before), self._profile(edge.after)
        scalar = before.decoded.writes & after.decoded.reads & _SCALAR
        if not scalar:
            return 0
        if before.stream is Stream.VALU:
            field = "va_sdst" if scalar & SGPR_MASK else "va_vcc"
        else:
            field = "sa_sdst" if before.stream is Stream.SALU and after.stream is Stream.VALU else ""
        row = self.placement.kernel.target.latency.get(f"wait_alu_{field}")
        return before.to_execute + int(row.result.value) if row is not None else 0

    def _states(self, edge: Edge) -> int:
        """Wait states that the two need between them, which hardware does not see to."""
        kernel = self.placement.kernel
        before, after = self.body[edge.before].decoded, self.body[edge.after].decoded
        return wait_states_between(kernel.target, kernel.wave_size, before, after)


def _latency(profile: Profile) -> int:
    return max(profile.result.cycles, max((each.latency.cycles for each in profile.returns), default=0))
