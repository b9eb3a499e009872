"""A list scheduler after register allocation: hides latency inside a block.

The block's dependence graph (waits left out) is scheduled top down. At each step the instructions whose
predecessors are placed are ready; among them the one is taken that can start now and has the longest
way to the end of the block, in cycles of the target's latency table under the chosen memory scenario.
So loads rise to where the values of their addresses exist, and their users sink to where the data arrive. Several
weightings are tried, since neither the model nor the heuristic is perfect:

    critical     longest way first
    loads        memory loads before everything else that could start as early
    source       the present order where the longest way does not decide by more than a load's worth

Registers are not renamed, so a schedule uses the registers that are there and the dependence graph, with its
write-after-read edges, bounds what can move.
"""

from __future__ import annotations

import heapq
from collections.abc import Generator, Iterator
from dataclasses import dataclass

from asmevo.analysis.dependence import Dependence, DependenceGraph, Edge, Marks
from asmevo.program.edit import EditScript, script_between
from asmevo.program.instruction import Instruction
from asmevo.proposers.placement import Placement
from asmevo.proposers.proposer import Facts

_BLOCKS_TRIED = 6
_SMALLEST_BLOCK = 4


@dataclass(frozen=True, slots=True)
class Weighting:
    """How ready instructions are ranked: `load_bonus` in cycles, `order_weight` cycles a place of the source."""

    name: str
    load_bonus: float
    order_weight: float


WEIGHTINGS = (
    Weighting("critical", 0.0, 0.0),
    Weighting("loads", 200.0, 0.0),
    Weighting("source", 0.0, 1.0),
    Weighting("source-loads", 100.0, 0.5),
    Weighting("strong-source", 0.0, 4.0),
)


class BlockScheduler:
    """Orders of one block. Places count in `body`, the block's instructions without waits, no-ops and hints."""

    def __init__(self, facts: Facts, body: tuple[Instruction, ...]) -> None:
        self.facts = facts
        self.body = body
        self.graph = DependenceGraph(body, Marks.IGNORED)
        profiles = [facts.machine.profile(instruction.decoded) for instruction in body]
        self._latency = [self._result_cycles(place) for place in range(len(body))]
        self._issue = [max(profile.occupancy.cycles, 1) for profile in profiles]
        self._heights = self.graph.heights(self._edge_cycles)
        self._units = self._bundle_units()
        self._unit_of = {place: number for number, unit in enumerate(self._units) for place in unit}

    def _result_cycles(self, place: int) -> int:
        profile = self.facts.machine.profile(self.body[place].decoded)
        returned = max((each.latency.cycles for each in profile.returns), default=0)
        return max(profile.result.cycles, returned)

    def _edge_cycles(self, edge: Edge) -> int:
        return self._latency[edge.before] if edge.kind is Dependence.RAW else self._issue[edge.before]

    def _bundle_units(self) -> list[range]:
        """The body as runs that stay together: bundles, and single instructions between them."""
        units: list[range] = []
        bundled = {bundle.start: bundle for bundle in self.graph.bundles}
        place = 0
        while place < len(self.body):
            unit = bundled.get(place, range(place, place + 1))
            units.append(unit)
            place = unit.stop
        return units

    def order(self, weighting: Weighting) -> list[Instruction]:
        """One schedule; the same weighting gives the same one."""
        rank = self._ranking(weighting)
        unit_of = self._unit_of
        preds = [
            {unit_of[e.before] for p in unit for e in self.graph.predecessors[p] if unit_of[e.before] != n}
            for n, unit in enumerate(self._units)
        ]
        succs: list[list[int]] = [[] for _ in self._units]
        for number, before in enumerate(preds):
            for each in before:
                succs[each].append(number)
        return self._run(preds, succs, rank)

    def _ranking(self, weighting: Weighting) -> list[float]:
        ranks = []
        for unit in self._units:
            height = max(self._heights[place] for place in unit)
            bonus = weighting.load_bonus if any(self._is_load(place) for place in unit) else 0.0
            ranks.append(height + bonus - weighting.order_weight * unit.start)
        return ranks

    def _is_load(self, place: int) -> bool:
        flags = self.body[place].flags
        return "may_load" in flags and "may_store" not in flags

    def _run(self, preds: list[set[int]], succs: list[list[int]], rank: list[float]) -> list[Instruction]:
        open_preds = [len(before) for before in preds]
        ready_at = [0] * len(self._units)
        waiting = [(0, n) for n, count in enumerate(open_preds) if count == 0]
        heapq.heapify(waiting)
        ready: list[tuple[float, int]] = []
        placed: list[Instruction] = []
        now = 0
        while waiting or ready:
            while waiting and waiting[0][0] <= now:
                _, number = heapq.heappop(waiting)
                heapq.heappush(ready, (-rank[number], number))
            if not ready:
                now = waiting[0][0]
                continue
            _, number = heapq.heappop(ready)
            for place in self._units[number]:
                placed.append(self.body[place])
                self._release(place, number, now, ready_at)
                now += self._issue[place]
            for after in succs[number]:
                open_preds[after] -= 1
                if open_preds[after] == 0:
                    heapq.heappush(waiting, (ready_at[after], after))
        return placed

    def _release(self, place: int, number: int, now: int, ready_at: list[int]) -> None:
        for edge in self.graph.successors[place]:
            after = self._unit_of[edge.after]
            if after != number:
                ready_at[after] = max(ready_at[after], now + self._edge_cycles(edge))


class ListScheduler:
    """Proposes whole new orders for the hot blocks."""

    name = "list-scheduler"

    def propose(self, facts: Facts) -> Generator[EditScript, bool | None, None]:
        """See Proposer.propose."""
        blocks = [b for b in facts.hot_blocks if len(facts.kernel.blocks[b].instructions) >= _SMALLEST_BLOCK]
        for block in blocks[:_BLOCKS_TRIED]:
            yield from self._orders(facts, block)

    def _orders(self, facts: Facts, block: int) -> Iterator[EditScript]:
        placement = Placement(facts, block)
        body = placement.body
        scheduler = BlockScheduler(facts, body)
        for weighting in WEIGHTINGS:
            blocks = placement.rebuild(scheduler.order(weighting))
            if blocks is not None:
                yield script_between(facts.kernel, blocks, f"{self.name}: block {block}, {weighting.name}")
