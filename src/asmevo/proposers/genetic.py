"""Genetic search over edit scripts: islands of versions that mutate, cross and wander.

    individual   a version of the kernel that passed all gates, with its cost by the cycle model
    island       an archive by behaviour (`genetic_archive`) of its own
    mutation     the next idea of some proposer for the individual (`genetic_moves`)
    crossover    two individuals, the second from any island, with disjoint windows composed into one (`composition`)
    migration    every so often the best of an island is copied to the next
    restart      an island without a gain for long starts again from the kernel as it came and its best

Every child is yielded and so judged by the gates as a script against the kernel that came; only accepted ones
enter an island. All choices come from `facts.rng`, so the same seed makes the same children as long as it is told
the same verdicts and costs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Sequence

from msgspec import Struct, field

from asmevo.program.edit import EditScript, script_between
from asmevo.program.kernel import Kernel
from asmevo.proposers.composition import composed
from asmevo.proposers.genetic_archive import Archive
from asmevo.proposers.genetic_moves import Mutations, Shuffler
from asmevo.proposers.proposer import Facts, Proposer
from asmevo.proposers.versions import version_hash

_ISLANDS = 3
_CROSSED = 0.25  # share of children that have two parents, where two fit
_MIGRATION = 24  # children of an island between two migrations
_PATIENCE = 60  # children of an island without a gain before it starts again
_FRUITLESS = 64  # draws in a row that made no new child before the search ends


class _Child(Struct, frozen=True):
    kernel: Kernel
    origin: str
    tell: Callable[[bool], None]


class _Island(Struct):
    archive: Archive = field(default_factory=Archive)
    children: int = 0
    idle: int = 0

    def settle(self, kernel: Kernel, cost: float) -> None:
        """One more inhabitant; a new best ends idleness."""
        better = not self.archive.elites or cost < self.archive.best.cost
        self.archive.add(kernel, cost)
        self.idle = 0 if better else self.idle + 1


class Genetic:
    """See the module. `sources` are the proposers whose ideas are mutations."""

    name = "genetic"

    def __init__(self, sources: Sequence[Proposer] = ()) -> None:
        self.sources = (Shuffler(), *sources)

    def propose(self, facts: Facts) -> Generator[EditScript, bool | None, None]:
        """See Proposer.propose. Ends when the time is up or no new child comes any more."""
        mutations = Mutations(facts, self.sources)
        try:
            yield from self._evolve(facts, mutations)
        finally:
            mutations.close()

    def _evolve(self, facts: Facts, mutations: Mutations) -> Generator[EditScript, bool | None, None]:
        start = facts.cost(facts.kernel)
        islands = [_Island() for _ in range(_ISLANDS)]
        for island in islands:
            island.settle(facts.kernel, start)
        seen, fruitless, turn = {version_hash(facts.kernel)}, 0, 0
        while fruitless < _FRUITLESS and not facts.out_of_time():
            place = turn % len(islands)
            island = islands[place]
            turn += 1
            child = _conceive(island, islands, facts, mutations)
            if child is None or version_hash(child.kernel) in seen:
                fruitless += 1
                continue
            fruitless = 0
            seen.add(version_hash(child.kernel))
            made, words = child.kernel, f"{self.name}: {child.origin}"
            accepted = yield script_between(facts.kernel, made.blocks, words, made.descriptor)
            child.tell(bool(accepted))
            island.children += 1
            if accepted:
                island.settle(child.kernel, facts.cost(child.kernel))
            else:
                island.idle += 1
            _travel(islands, place, facts.kernel, start)


def _conceive(island: _Island, islands: list[_Island], facts: Facts, mutations: Mutations) -> _Child | None:
    rng = facts.rng
    if rng.random() < _CROSSED:
        crossed = _cross(island, rng.choice(islands), facts, rng)
        if crossed is not None:
            return crossed
    parent = island.archive.draw(rng)
    mutated = mutations.of(parent.kernel, rng)
    return None if mutated is None else _Child(*mutated)


def _cross(island: _Island, other: _Island, facts: Facts, rng: random.Random) -> _Child | None:
    first, second = island.archive.draw(rng), other.archive.draw(rng)
    made = composed(facts.kernel, first.kernel, second.kernel)
    return _Child(made, "two versions composed", lambda accepted: None) if made is not None else None


def _travel(islands: list[_Island], place: int, origin: Kernel, cost: float) -> None:
    """Migration and restart, after a child of the island at `place`."""
    island = islands[place]
    best = island.archive.best
    if island.children % _MIGRATION == 0:
        islands[(place + 1) % len(islands)].archive.add(best.kernel, best.cost)
    if island.idle >= _PATIENCE:
        island.archive = Archive()
        island.idle = 0
        island.archive.add(origin, cost)
        island.archive.add(best.kernel, best.cost)
