"""Bringing pairs together: which of the wished pairs can all be made at once, and an order in which they stand.

Two instructions may issue together if neither has to wait for the other, directly or through others. Making one pair
makes its halves one place in the order, so it may forbid another pair (a before b' and a' before b: both pairs at once
is a circle). `Merging` keeps for every place the set of places that must come later, as one integer, and
updates all of them with every pair that is made; bundles (clauses, address sums) are merged from the start.

The order is a list schedule: of what may come next without waiting, the lowest rank comes first. Ranked by place, a
pair stands where its earlier half stood, or as soon after as what its halves need is there, and the block stays close
to what the compiler made of it; ranked by the way to the end of the block, long chains come first.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from itertools import pairwise

import rustworkx

from asmevo.analysis.dependence import DependenceGraph, Edge
from asmevo.proposers.pairing_rules import Pair
from asmevo.proposers.renaming_block import Slot

_WORTH = 1000
"""Weight of one pair; a place of distance costs 1, so it decides only between equal numbers of pairs."""
_RENAMING = 40
"""What a pair that needs other registers costs, in places of distance: it may find none."""


class Merging:
    """The places of a block with some of them merged."""

    def __init__(self, graph: DependenceGraph) -> None:
        self.graph = graph
        count = len(graph.instructions)
        self._later = [0] * count
        for place in reversed(range(count)):
            for edge in graph.successors[place]:
                self._later[place] |= 1 << edge.after | self._later[edge.after]
        self.unit = list(range(count))
        self.bundled = {place for bundle in graph.bundles for place in bundle}
        for bundle in graph.bundles:
            for one, other in pairwise(bundle):
                self._merge(one, other)
        self.pairs: list[Pair] = []

    def copy(self) -> Merging:
        """The same, to be merged further."""
        other = copy(self)
        other._later, other.unit, other.pairs = list(self._later), list(self.unit), list(self.pairs)
        return other

    def may_merge(self, one: int, other: int) -> bool:
        """Whether neither place has to come before the other."""
        if one in self.bundled or other in self.bundled:
            return False
        return not (self._later[one] >> other | self._later[other] >> one) & 1

    def make(self, pair: Pair) -> bool:
        """Makes a pair if that is still possible. Whether it was."""
        one, other = pair.places
        if self.unit[one] != one or self.unit[other] != other or not self.may_merge(one, other):
            return False
        if any(one in each.places or other in each.places for each in self.pairs):
            return False
        self._merge(min(one, other), max(one, other))
        self.pairs.append(pair)
        return True

    def _merge(self, one: int, other: int) -> None:
        both = 1 << one | 1 << other
        later = (self._later[one] | self._later[other]) & ~both
        for place, mine in enumerate(self._later):
            if mine & both:
                self._later[place] = mine | later | both
        self._later[one] = self._later[other] = later
        old, new = self.unit[other], self.unit[one]
        self.unit = [new if unit == old else unit for unit in self.unit]

    def order(self, cycles: Callable[[Edge], int], rank: Sequence[int]) -> list[Slot]:
        """All places in slots, each pair one slot. `cycles` an edge asks for; `rank` of each place, lower first."""
        members: dict[int, list[int]] = {}
        for place, unit in enumerate(self.unit):
            members.setdefault(unit, []).append(place)
        waits, behind = self._links(cycles)
        open_before = Counter(after for found in behind.values() for after in found)
        best = {unit: min(rank[place] for place in places) for unit, places in members.items()}
        pair_of = {pair.places[0]: pair.places for pair in self.pairs}
        seconds = {pair.places[1] for pair in self.pairs}
        start = dict.fromkeys(members, 0)
        later = [(0, unit) for unit in members if open_before[unit] == 0]
        heapq.heapify(later)
        ready: list[tuple[int, int]] = []
        slots: list[Slot] = []
        now = 0
        while later or ready:
            if not ready:
                now = max(now, later[0][0])
            while later and later[0][0] <= now:
                _, unit = heapq.heappop(later)
                heapq.heappush(ready, (best[unit], unit))
            _, unit = heapq.heappop(ready)
            fresh = [pair_of.get(place, (place,)) for place in members[unit] if place not in seconds]
            slots += fresh
            for after in behind[unit]:
                start[after] = max(start[after], now + waits[unit, after])
                open_before[after] -= 1
                if open_before[after] == 0:
                    heapq.heappush(later, (start[after], after))
            now += len(fresh)
        return slots

    def _links(self, cycles: Callable[[Edge], int]) -> tuple[dict[tuple[int, int], int], dict[int, set[int]]]:
        """(cycles between two units, the units behind each)."""
        waits: dict[tuple[int, int], int] = {}
        behind: dict[int, set[int]] = {unit: set() for unit in self.unit}
        for place, edges in enumerate(self.graph.predecessors):
            for edge in edges:
                before, after = self.unit[edge.before], self.unit[place]
                if before != after:
                    behind[before].add(after)
                    waits[before, after] = max(cycles(edge), waits.get((before, after), 0))
        return waits, behind


def greedy(pairs: Iterable[Pair]) -> list[Pair]:
    """The nearest halves first, and those whose registers fit before others."""
    return sorted(pairs, key=lambda pair: (_cost(pair), pair.places))


def matched(pairs: Sequence[Pair], count: int) -> list[Pair]:
    """A matching with the most pairs, and among those the nearest; then, for what it leaves, the nearest first."""
    graph: rustworkx.PyGraph = rustworkx.PyGraph()
    graph.add_nodes_from(range(count))
    graph.add_edges_from([(pair.first.place, pair.second.place, pair) for pair in pairs])
    chosen = rustworkx.max_weight_matching(graph, max_cardinality=True, weight_fn=lambda p: _WORTH - _cost(p))
    best = {frozenset(edge) for edge in chosen}
    first = [pair for pair in pairs if frozenset(pair.places) in best]
    return [*greedy(first), *greedy(pair for pair in pairs if frozenset(pair.places) not in best)]


def _cost(pair: Pair) -> int:
    return abs(pair.places[0] - pair.places[1]) + (0 if pair.fits_now else _RENAMING)
