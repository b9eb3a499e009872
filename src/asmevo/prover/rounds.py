"""Matching of loops that the two versions go round at different paces: unrolled, or with loads and stores moved.

Versions run to their next decision or to the start of a loop (`Pace.BY_ROUNDS`), and a *plan* is sought that brings
them together again. Both have come to

* the same kind of place (the same decision, the start of a loop in each, the end), with equal effects on memory so far:
  there they are compared, and go on from a pair of points of their own;
* different ones: a version that waits at the start of a loop may go on, or one that has to decide goes both ways by
  itself, which leaves two problems with one more fact each. A way that contradicts the facts is not taken.

Facts are what was decided on the way; of those that hold whenever control comes to a pair of points, the pair remembers
them (`relation.find_facts`). A loop unrolled by two has no test in its middle: that it would have gone on there follows
from the facts (i < n, i and n even), and so the version before never leaves there.

Where nothing but registers changes, equal effects say little about which round belongs to which. So plans are sought
first among those that bring two versions to the starts of loops only with the wave's registers as equal as they were
there before (`agree`): the counters of the loops.

A plan is tried before anything is recorded; the first one that works is taken. Any plan would be sound: it only says
which finite stretch of one version belongs to which of the other. Both go at least one block on from each pair of
points, so one version ends if and only if the other one does.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from asmevo.prover.effects import MemoryComparison
from asmevo.prover.solver import Equality
from asmevo.prover.state import NotLiftedError, State
from asmevo.prover.terms import Term
from asmevo.prover.version import Decision, Leaving, Pace, UndecidedError, Version

_MOST_ATTEMPTS = 160  # pairs of places that one search for a plan looks at
_MOST_STEPS = 7  # steps of one version by itself on a way of a plan


class Stretch(Struct):
    """What one version did between a pair of points and its next decision."""

    state: State
    decision: Decision


class Meeting(Struct, frozen=True):
    """Two stretches that end at places to be compared; `path` numbers the decisions that only one version made."""

    stretches: tuple[Stretch, Stretch]
    equality: Equality
    path: int


class Planner(Struct):
    """Finds meetings for the stretches from one pair of points."""

    versions: tuple[Version, Version]
    narrowed: Callable[[Equality, Term], Equality]
    agree: Callable[[Stretch, Stretch], bool]
    strict: bool = True
    attempts: int = 0
    reason: UndecidedError | None = None

    def plan(self, first: Stretch, second: Stretch, equality: Equality) -> list[Meeting]:
        """Meetings on all ways, after as few steps as possible. Raises UndecidedError, with why the last try failed."""
        for strict in (True, False):
            self.strict, self.attempts = strict, _MOST_ATTEMPTS
            for steps in range(_MOST_STEPS + 1):
                found = self._plan((first, second), equality, 1, steps)
                if found is not None:
                    return found
        raise self.reason or UndecidedError("no way was found to go round the loops of both versions together")

    def _plan(self, pair: tuple[Stretch, Stretch], equality: Equality, path: int, steps: int) -> list[Meeting] | None:
        self.attempts -= 1
        if self.attempts < 0:
            return None
        try:
            if self._at_one_place(pair, equality):
                MemoryComparison(equality, pair[0].state, pair[1].state).compare()
                return [Meeting(pair, equality, path)]
        except UndecidedError as error:
            self.reason = error
        if not steps:
            return None
        for side in _slower_first(pair, Leaving.REPEATS):
            further = self._gone_on(pair, side, pair[side].decision.goals[0])
            found = None if further is None else self._plan(further, equality, path, steps - 1)
            if found is not None:
                return found
        for side in _slower_first(pair, Leaving.FORKS):
            found = self._both_ways(pair, side, equality, path, steps)
            if found is not None:
                return found
        return None

    def _at_one_place(self, pair: tuple[Stretch, Stretch], equality: Equality) -> bool:
        one, other = pair[0].decision, pair[1].decision
        if one.kind is not other.kind:
            return False
        if one.kind is Leaving.REPEATS and self.strict and not self.agree(*pair):
            return False
        if one.kind is not Leaving.FORKS:
            return True
        assert one.condition is not None
        assert other.condition is not None
        either = (other.condition, equality.build.negated(other.condition))
        return any(equality.same(one.condition, condition) is True for condition in either)

    def _both_ways(
        self, pair: tuple[Stretch, Stretch], side: int, equality: Equality, path: int, steps: int
    ) -> list[Meeting] | None:
        condition = pair[side].decision.condition
        assert condition is not None
        build, meetings = equality.build, []
        for outcome, known in enumerate((condition, build.negated(condition))):
            if equality.same(known, build.false) is True:
                continue
            goal = pair[side].decision.goals[outcome]
            further = self._waiting(pair, side, goal) or self._gone_on(pair, side, goal)
            within = self.narrowed(equality, known)
            found = None if further is None else self._plan(further, within, 2 * path + outcome, steps - 1)
            if found is None:
                return None
            meetings += found
        return meetings

    def _waiting(self, pair: tuple[Stretch, Stretch], side: int, goal: int) -> tuple[Stretch, Stretch] | None:
        """The pair with one version waiting at its goal, if a loop starts there."""
        if goal not in self.versions[side].heads:
            return None
        decision = Decision(Leaving.REPEATS, pair[side].decision.instruction, None, (goal,))
        further = Stretch(pair[side].state, decision)
        return (further, pair[1]) if side == 0 else (pair[0], further)

    def _gone_on(self, pair: tuple[Stretch, Stretch], side: int, goal: int) -> tuple[Stretch, Stretch] | None:
        """The pair with one version run on from where it stands."""
        state = pair[side].state.copy()
        try:
            decision = self.versions[side].run(goal, state, Pace.BY_ROUNDS)
        except (UndecidedError, NotLiftedError):
            return None
        further = Stretch(state, decision)
        return (further, pair[1]) if side == 0 else (pair[0], further)


def _slower_first(pair: tuple[Stretch, Stretch], kind: Leaving) -> list[int]:
    """The versions that have come to such a place, the one that has done less first."""
    done = [(len(stretch.state.effects), len(stretch.state.loads)) for stretch in pair]
    return [side for side in sorted((0, 1), key=lambda side: done[side]) if pair[side].decision.kind is kind]
