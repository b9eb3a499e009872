"""Legal orders of one region and the small steps between them.

A step takes one node somewhere else and takes along what would stand in its way: pulled up, it brings the nodes that it
depends on from between; pushed down, it sends on those that depend on it. So every step from a legal order ends in a
legal one, however far it goes, and none is stuck behind a single neighbour.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cached_property

from msgspec import Struct

from asmevo.proposers.scheduling import Region

Order = Sequence[int]
"""All positions of a region, each once."""


class Orders(Struct, frozen=True, dict=True):
    """Steps for one region. `fixed` are positions that stay at their end of the block (its terminator)."""

    region: Region
    fixed: frozenset[int] = frozenset()

    @property
    def start(self) -> list[int]:
        """The order of the source."""
        return list(range(len(self.region.nodes)))

    @cached_property
    def movable(self) -> tuple[int, ...]:
        """What a random step may take."""
        return tuple(each for each in range(len(self.region.nodes)) if each not in self.fixed)

    @cached_property
    def _before(self) -> tuple[frozenset[int], ...]:
        return tuple(map(frozenset, self.region.predecessors))

    @cached_property
    def _after(self) -> tuple[frozenset[int], ...]:
        return tuple(frozenset(link.after for link in links) for links in self.region.successors)

    def neighbour(self, order: Order, steps: int, rng: random.Random) -> list[int]:
        """A copy of `order` with up to `steps` nodes somewhere else."""
        changed = list(order)
        for _ in range(steps):
            changed = self.stepped(changed, rng.choice(self.movable), rng)
        return changed

    def stepped(self, order: Order, position: int, rng: random.Random) -> list[int]:
        """A copy with one node pulled up or pushed down, near places more often than far ones."""
        at = order.index(position)
        reach = 1 + int(rng.random() ** 2 * len(order) * 0.75)
        return self.pulled(order, at, at - reach) if rng.random() < 0.5 else self.pushed(order, at, at + reach)

    def pulled(self, order: Order, at: int, goal: int) -> list[int]:
        """A copy in which the node at place `at` stands behind nothing from place `goal` on that it does not need."""
        goal = max(goal, 0)
        needed = set(self._before[order[at]])
        moved, kept = [order[at]], []
        for position in reversed(order[goal:at]):
            if position in needed:
                moved.append(position)
                needed |= self._before[position]
            else:
                kept.append(position)
        return [*order[:goal], *reversed(moved), *reversed(kept), *order[at + 1 :]]

    def pushed(self, order: Order, at: int, goal: int) -> list[int]:
        """A copy in which the node at place `at` stands before nothing up to place `goal` that does not need it."""
        last = min(goal, len(order) - 1 - len(self.fixed))
        if last <= at:
            return list(order)
        held = set(self._after[order[at]])
        moved, kept = [order[at]], []
        for position in order[at + 1 : last + 1]:
            if position in held:
                moved.append(position)
                held |= self._after[position]
            else:
                kept.append(position)
        return [*order[:at], *kept, *moved, *order[last + 1 :]]
