"""Iterated local search on the order of one hot block, guided by the cycle model.

A move takes one instruction of the block's body (waits, no-ops and hints left out) and puts it somewhere else
between its last predecessor and its first successor in the dependence graph; several moves make a step. The
block is put together again (`placement`), and the model says what it costs. Steps that cost no more are kept,
so that the search can walk along plateaus; after a while without gain it starts again from the best with
larger steps. What is yielded are improvements only; an improvement that a gate rejects is not built upon.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

from asmevo.analysis.dependence import DependenceGraph, Marks
from asmevo.program.edit import EditScript, script_between
from asmevo.program.instruction import Instruction
from asmevo.proposers.placement import Placement
from asmevo.proposers.proposer import Facts

_SMALLEST_BODY = 6
_PATIENCE = 60
_LARGEST_STEP = 6
_TOLERANCE = 1e-9


class Orders:
    """Legal orders of a body as lists of places; a neighbour differs by a few moved instructions."""

    def __init__(self, body: Sequence[Instruction]) -> None:
        graph = DependenceGraph(body, Marks.IGNORED)
        self.body = tuple(body)
        self._before = [{edge.before for edge in edges} for edges in graph.predecessors]
        self._after = [{edge.after for edge in edges} for edges in graph.successors]
        bundled = {place for bundle in graph.bundles for place in bundle}
        self.movable = [p for p in range(len(self.body)) if p not in bundled and self._is_free(p)]
        self._joints = {(a, a + 1) for bundle in graph.bundles for a in bundle if a + 1 in bundle}

    def _is_free(self, place: int) -> bool:
        return "terminator" not in self.body[place].flags

    def neighbour(self, order: list[int], moves: int, facts: Facts) -> list[int]:
        """A copy of `order` with up to `moves` instructions put elsewhere."""
        changed = list(order)
        for _ in range(moves):
            self._move_one(changed, facts)
        return changed

    def _move_one(self, order: list[int], facts: Facts) -> None:
        place = facts.rng.choice(self.movable)
        at = order.index(place)
        low = at
        while low > 0 and order[low - 1] not in self._before[place]:
            low -= 1
        high = at
        while high + 1 < len(order) and order[high + 1] not in self._after[place]:
            high += 1
        if low == high:
            return
        goal = facts.rng.randint(low, high)
        order.pop(at)
        if 0 < goal < len(order) and (order[goal - 1], order[goal]) in self._joints:
            order.insert(at, place)  # would split instructions that must stay together
            return
        order.insert(goal, place)

    def instructions(self, order: Sequence[int]) -> list[Instruction]:
        """The body in an order."""
        return [self.body[place] for place in order]


class LocalSearch:
    """See the module. `evaluations` bounds how often the model is asked for each block."""

    name = "local-search"

    def __init__(self, evaluations: int = 700, blocks: int = 2) -> None:
        self.evaluations = evaluations
        self.blocks = blocks

    def propose(self, facts: Facts) -> Generator[EditScript, bool | None, None]:
        """See Proposer.propose."""
        loops = [b for b in facts.hot_blocks if facts.flow.loop_depth[b] > 0] or list(facts.hot_blocks[:1])
        for block in loops[: self.blocks]:
            placement = Placement(facts, block)
            if len(placement.body) >= _SMALLEST_BODY:
                yield from self._climb(facts, block, placement)

    def _climb(self, facts: Facts, block: int, placement: Placement) -> Generator[EditScript, bool | None, None]:
        orders = Orders(placement.body)
        if not orders.movable:
            return
        best = list(range(len(orders.body)))
        best_cost = facts.cost(facts.kernel)
        here, here_cost, idle = best, best_cost, 0
        for _ in range(self.evaluations):
            if facts.out_of_time():
                return
            moves = 1 + facts.rng.randrange(1 + min(idle // (_PATIENCE // _LARGEST_STEP), _LARGEST_STEP))
            order = orders.neighbour(here, moves, facts)
            blocks = placement.rebuild(orders.instructions(order))
            cost = facts.cost(facts.kernel.with_blocks(blocks)) if blocks is not None else float("inf")
            idle += 1
            if cost <= here_cost + _TOLERANCE:
                here, here_cost = order, cost
            if blocks is not None and cost < best_cost - _TOLERANCE:
                words = f"{self.name}: block {block}, {100 * (1 - cost):.1f} % fewer cycles in the model"
                accepted = yield script_between(facts.kernel, blocks, words)
                if accepted is False:
                    here, here_cost = best, best_cost
                    continue
                best, best_cost, idle = order, cost, 0
            if idle > _PATIENCE:
                here, here_cost, idle = best, best_cost, 0

