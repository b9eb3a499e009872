"""Who gets the next turn: a bandit over proposers, paid in gain for time spent.

What a proposer has earned is the sum of the logarithms by which it brought the best cost down, what it
has spent the time (or the evaluations) of its turns; both are discounted with each turn of its own, so
that old success fades. The next turn goes to the highest

    earned / spent, as a share of the best such rate,  +  _CURIOSITY * sqrt(log(all turns) / own turns)

which is UCB1 on rates that are scaled to one. Everyone has a first turn, in order; ties go to the first. The choice
is a function of what was recorded, so with work counted in evaluations it repeats itself exactly.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from msgspec import Struct

_CURIOSITY = 0.5
_FADING = 0.5


class _Account(Struct):
    earned: float = 0.0
    spent: float = 0.0
    turns: int = 0

    @property
    def rate(self) -> float:
        return self.earned / self.spent if self.spent > 0 else 0.0


class Bandit:
    """Accounts of the proposers named."""

    def __init__(self, names: Collection[str]) -> None:
        self._accounts = {name: _Account() for name in names}

    def choose(self, ready: Collection[str]) -> str:
        """One of `ready`, which must not be empty."""
        ordered = [name for name in self._accounts if name in ready]
        fresh = next((name for name in ordered if self._accounts[name].turns == 0), None)
        if fresh is not None:
            return fresh
        top = max(self._accounts[name].rate for name in ordered) or 1.0
        turns = sum(account.turns for account in self._accounts.values())
        return max(ordered, key=lambda name: self._worth(self._accounts[name], top, turns))

    def record(self, name: str, earned: float, spent: float) -> None:
        """One turn of a proposer."""
        account = self._accounts[name]
        account.earned = account.earned * _FADING + earned
        account.spent = account.spent * _FADING + spent
        account.turns += 1

    def _worth(self, account: _Account, top: float, turns: int) -> float:
        return account.rate / top + _CURIOSITY * math.sqrt(math.log(turns) / account.turns)
