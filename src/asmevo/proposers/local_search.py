"""Iterated local search on the order of a hot block, guided by the cycle model.

It begins with the best of the block's present order and those of a few scheduling agents. A step (`local_orders`) takes
one node of the block somewhere else. Half of the steps are aimed: the model says where the wave stalls and for whom, so
the one waited for is pulled up, or the one that waits is pushed down, stalls weighted by their cycles. The others are
random. Orders that cost no more are kept, so that the search can walk along plateaus; after a while without gain it
starts again from the best with larger steps.

A block is put together again (`placement`) for every question to the model, and the model is asked about the changed
part of the path only (`ChangedWindow`): first for a lone wave, for more waves where that does not lose. Whoever is the
best so far by that has to be better by `facts.cost`, too, to be offered. What a gate rejects is not built upon.
"""

from __future__ import annotations

from collections.abc import Generator

from msgspec import Struct, field

from asmevo.gates.timing import Prediction, wave_counts
from asmevo.program.edit import EditScript, script_between
from asmevo.program.kernel import Block, Kernel
from asmevo.proposers.agents import agent_named
from asmevo.proposers.block_region import BlockRegion
from asmevo.proposers.local_orders import Order, Orders
from asmevo.proposers.placement import Placement
from asmevo.proposers.proposer import Facts
from asmevo.proposers.register_room import roomier_descriptor
from asmevo.proposers.scheduling import list_schedule
from asmevo.timing import estimate
from asmevo.timing.changed_window import ChangedWindow

_SMALLEST_BODY = 6
_PATIENCE = 60
_LARGEST_STEP = 6
_AIMED = 0.5
_TOLERANCE = 1e-9
_WORTH_ASKING = 0.002
STARTS = ("default", "model_guided", "steady", "pref_load")
_NEVER = float("inf")


class WindowCost:
    """Costs of versions of a kernel that differ in a block or two, as shares of the kernel's own cycles."""

    def __init__(self, kernel: Kernel, memory: str) -> None:
        lone, *others = (ChangedWindow(kernel, waves=waves, memory=memory) for waves in wave_counts(kernel))
        self._lone, self._others = lone, others

    def lone(self, version: Kernel) -> float:
        """For a lone wave."""
        return self._lone.predict(version) / self._lone.cycles

    def whole(self, version: Kernel, lone: float) -> float:
        """For all numbers of waves that the timing gate asks about (see Prediction.cost)."""
        return Prediction((), (lone, *(each.predict(version) / each.cycles for each in self._others))).cost


class _Climb(Struct):
    """The search in one block: where it stands (`here`), and the best so far."""

    facts: Facts
    problem: BlockRegion
    orders: Orders
    model: WindowCost
    best: Order = ()
    best_cost: float = _NEVER
    best_lone: float = _NEVER
    here: Order = ()
    here_cost: float = _NEVER
    here_lone: float = _NEVER
    idle: int = 0
    _blamed: list[tuple[int, int]] = field(default_factory=list)
    _weights: list[float] = field(default_factory=list)

    def blocks(self, order: Order) -> tuple[Block, ...] | None:
        return self.problem.rebuild(order)

    def cost(self, blocks: tuple[Block, ...] | None) -> tuple[float, float]:
        """Of an order and of a lone wave in it. Where the latter clearly loses, its loss is all that is looked at."""
        if blocks is None:
            return _NEVER, _NEVER
        version = self.facts.kernel.with_blocks(blocks)
        lone = self.model.lone(version)
        if lone < self.here_lone + _WORTH_ASKING:
            return self.model.whole(version, lone), lone
        return self.here_cost + lone - self.here_lone, lone

    def start_at(self, order: Order, cost: float, lone: float) -> None:
        """The best is here; asks the model where it stalls."""
        self.best, self.best_cost, self.best_lone = order, cost, lone
        self.go_back()
        self._blame(self.blocks(order))

    def go_back(self) -> None:
        self.here, self.here_cost, self.here_lone, self.idle = self.best, self.best_cost, self.best_lone, 0

    def next_order(self) -> list[int]:
        """A neighbour; the longer nothing was found, the more steps away."""
        rng = self.facts.rng
        steps = 1 + rng.randrange(1 + min(self.idle // (_PATIENCE // _LARGEST_STEP), _LARGEST_STEP))
        order = list(self.here)
        for _ in range(steps):
            if self._blamed and rng.random() < _AIMED:
                order = self._aimed(order)
            else:
                order = self.orders.neighbour(order, 1, rng)
        return order

    def _aimed(self, order: list[int]) -> list[int]:
        """Pulls up what is waited for, or pushes down what waits."""
        rng = self.facts.rng
        ((producer, consumer),) = rng.choices(self._blamed, self._weights)
        reach = 1 + int(rng.random() * len(order) / 2)
        if rng.random() < 0.5:
            at = order.index(producer)
            return self.orders.pulled(order, at, at - reach)
        at = order.index(consumer)
        return self.orders.pushed(order, at, at + reach)

    def _blame(self, blocks: tuple[Block, ...] | None) -> None:
        """Stalls of the best order as pairs of positions (who is waited for, who waits), with their cycles."""
        if blocks is None:
            return
        position_of = {
            self.problem.body[place].id: position for position, unit in enumerate(self.problem.units) for place in unit
        }
        index = self.problem.placement.block.index
        waiting: dict[int, int] = {}
        following = -1
        for instruction in reversed(blocks[index].instructions):
            following = position_of.get(instruction.id, following)
            waiting[instruction.id] = following
        found = estimate(self.facts.kernel.with_blocks(blocks), waves=1, memory=self.facts.memory).stalls
        self._blamed, self._weights = [], []
        for stall in found:
            consumer, producer = waiting.get(stall.instruction, -1), position_of.get(stall.waits_for or -1, -1)
            if consumer >= 0 and producer >= 0 and consumer not in self.orders.fixed:
                self._blamed.append((producer, consumer))
                self._weights.append(stall.cycles)


class LocalSearch:
    """See the module. `evaluations` bounds how often the model is asked for each block."""

    name = "local-search"

    def __init__(self, evaluations: int = 2000, blocks: int = 2) -> None:
        self.evaluations = evaluations
        self.blocks = blocks

    def propose(self, facts: Facts) -> Generator[EditScript, bool | None, None]:
        """See Proposer.propose."""
        loops = [b for b in facts.hot_blocks if facts.flow.loop_depth[b] > 0] or list(facts.hot_blocks[:1])
        model = WindowCost(facts.kernel, facts.memory) if loops else None
        for block in loops[: self.blocks]:
            problem = self.problem(facts, block)
            if problem is not None and len(problem.units) >= _SMALLEST_BODY and model is not None:
                yield from self._climb(facts, block, problem, model)

    def problem(self, facts: Facts, block: int) -> BlockRegion | None:
        """What is searched in a block; None where there is nothing to search."""
        return BlockRegion(Placement(facts, block))

    def starts(self, facts: Facts, problem: BlockRegion) -> list[Order]:
        """Orders to begin with, the last first."""
        return [list_schedule(problem.region, agent_named(name, facts.rng.getrandbits(32))) for name in STARTS]

    def _climb(
        self, facts: Facts, block: int, problem: BlockRegion, model: WindowCost
    ) -> Generator[EditScript, bool | None, None]:
        climb = _Climb(facts, problem, orders_of(problem), model)
        if not climb.orders.movable:
            return
        climb.start_at(climb.orders.start, 1.0, 1.0)
        whole_cost = facts.cost(facts.kernel)
        starts = self.starts(facts, problem)
        for _ in range(self.evaluations):
            if facts.out_of_time():
                return
            order = starts.pop() if starts else climb.next_order()
            blocks = climb.blocks(order)
            cost, lone = climb.cost(blocks)
            climb.idle += 1
            if cost <= climb.here_cost + _TOLERANCE:
                climb.here, climb.here_cost, climb.here_lone = order, cost, lone
            if blocks is not None and cost < climb.best_cost - _TOLERANCE:
                whole = facts.cost(facts.kernel.with_blocks(blocks))
                if whole < whole_cost - _TOLERANCE:
                    words = f"{self.name}: block {block}, {100 * (1 - whole):.1f} % fewer cycles in the model"
                    descriptor = roomier_descriptor(facts.kernel, blocks)
                    accepted = yield script_between(facts.kernel, blocks, words, descriptor)
                    if accepted is False:
                        climb.go_back()
                        continue
                    whole_cost = whole
                climb.start_at(order, cost, lone)
            if climb.idle > _PATIENCE:
                climb.go_back()


def orders_of(problem: BlockRegion) -> Orders:
    """The orders of a block, its end fixed."""
    ends = (n for n, unit in enumerate(problem.units) if "terminator" in problem.body[unit[-1]].flags)
    return Orders(problem.region, frozenset(ends))
