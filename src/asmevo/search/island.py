"""One island of a search: built-in proposers that take turns on one bench, in one process.

A proposer works on one base, the best version when it began; its generator is kept between turns, so that it goes on
where it was. A turn ends when its share of work is done; a proposer that thinks for too long between two
scripts is told that its time is up, and begins anew in its next turn. When it has nothing more to say about a
base it is dry there, and gets a turn again when the best version is another one, or where there is a version that lets
in more waves than the original: the best of those is asked about behind the best of all. Those that have other ideas
each time are asked again, about that version and about the original, until that was in vain a few times. One whose
ideas change the whole kernel, so that they compose with nothing, is asked about the original, too. One that
crashes is given up, and the others go on. The search on an island ends with its budget, or when everybody is dry.

While one proposer works on an older base, others may have made a better version of it. What it finds is then
composed with that version where the windows are disjoint, and judged again as a candidate of its own.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Container, Iterable, Sequence

from msgspec import Struct, field

from asmevo.program.edit import EditScript, script_between
from asmevo.program.errors import EditError
from asmevo.proposers import BuiltIn, Proposer, ProposerError, built_in_named
from asmevo.proposers.asking import Scripts, begin, end, next_script
from asmevo.proposers.composition import composed
from asmevo.proposers.versions import version_hash
from asmevo.search.bandit import Bandit
from asmevo.search.bench import Bench, Kept
from asmevo.search.budget import Budget

Tell = Callable[[float, str], None]
"""Called with the share of the budget that is used (0 to 1) and a few words."""

_TURNS = 40  # turns that a timed budget is divided into, within the bounds that follow
_SHORTEST_TURN, _LONGEST_TURN = 0.1, 2.0  # seconds
_COUNTED_TURN = 16  # steps of a turn, where candidates are counted
_PATIENCE = 8  # turns' worth of work without a script after which a proposer is cut short
_STALE = 2  # turns without gain on a base that is not the best any more before it is given up
_IDLE = 2 * _PATIENCE  # turns without a new candidate before it is given up
_IN_VAIN = 3  # runs without gain after which a varied proposer counts as dry
_ORIGIN_CHARACTERS = 160


class _Arm(Struct):
    """One proposer with what it is at.

    `about` is the version that it is asked about, `base` what it works on: that, or the original. `vain` are runs and
    `stale` turns without gain, `idle` turns with no new candidate, `dry` the versions (by hash) it is done with.
    """

    built_in: BuiltIn
    proposer: Proposer
    rng: random.Random
    about: Kept | None = None
    base: Kept | None = None
    scripts: Scripts | None = None
    answer: bool | None = None
    best_at_start: float = 1.0
    was_cut: bool = False
    vain: int = 0
    stale: int = 0
    idle: int = 0
    dry: set[str] = field(default_factory=set)
    failed: bool = False

    def next_about(self, bench: Bench) -> Kept | None:
        """The version to be asked about; None when it has nothing more to say."""
        asked = (bench.best, bench.roomier, bench.original if self.built_in.is_whole else None)
        open_ = (each for each in asked if each is not None and version_hash(each.kernel) not in self.dry)
        return None if self.failed else next(open_, None)


class Island:
    """`number` of `count` islands: proposers without chance are dealt out among them, the others are on each.

    `failed` hears of a proposer that was given up, and how. `on_turn` hears who is at work, and `` when nobody is.
    Those named in `without` get no turn.
    """

    def __init__(
        self,
        bench: Bench,
        number: int = 0,
        count: int = 1,
        failed: Callable[[str, str], None] = lambda proposer, words: None,
        on_turn: Callable[[str], None] = lambda proposer: None,
        without: Container[str] = (),
    ) -> None:
        self.bench = bench
        self._failed = failed
        self._on_turn = on_turn
        here = dealt(built_in_named(bench.options.built_in), number, count)
        self._arms = {each.name: _arm(each, bench, number) for each in here if each.name not in without}
        self._bandit = Bandit(list(self._arms))
        self._turn_work = _turn_work(bench.options.budget)
        self._budget = Budget()
        self._asked = 0
        self._told_at = 0.0
        self._started, self._tried_before = time.monotonic(), 0

    def run(self, budget: Budget, tell: Tell = lambda share, words: None) -> bool:
        """Searches until the budget is used; False when nobody has an idea left before that."""
        self._budget, self._started, self._tried_before = budget, time.monotonic(), self.bench.tried
        while not self._out():
            ready = [name for name, arm in self._arms.items() if arm.scripts or arm.next_about(self.bench)]
            if not ready:
                return False
            arm = self._arms[self._bandit.choose(ready)]
            self._turn(arm)
            best = 100 * (1 - self.bench.best.cost)
            words = f"{arm.built_in.name}: {self.bench.tried} tried, {len(self.bench.kept)} kept, best {best:.1f} %"
            tell(self._used(), words)
        return True

    def receive(self, immigrants: Iterable[tuple[EditScript, float]]) -> None:
        """Takes in versions that other islands found, and composes the best of them with the best here."""
        for script, cost in immigrants:
            ours, theirs = self.bench.best, self.bench.adopt(script, cost)
            if ours is not self.bench.original:
                self._compose(self.bench.original, ours, theirs, "composition")

    def _turn(self, arm: _Arm) -> None:
        before, start, tried = self.bench.best.cost, self._work(), self.bench.tried
        self._on_turn(arm.built_in.name)
        try:
            self._work_through(arm, start)
        except ProposerError as error:
            self._give_up(arm, error)
        self._on_turn("")
        gain = math.log(before / self.bench.best.cost)
        self._bandit.record(arm.built_in.name, gain, self._work() - start)
        arm.stale = 0 if gain > 0 else arm.stale + 1
        arm.idle = 0 if gain > 0 or self.bench.tried > tried else arm.idle + 1
        outdated = arm.stale >= _STALE and arm.base is not self.bench.best
        if arm.scripts is not None and (outdated or arm.idle >= _IDLE):
            scripts, arm.was_cut = arm.scripts, True
            self._end(arm)
            try:
                end(scripts)
            except ProposerError as error:
                self._give_up(arm, error)

    def _give_up(self, arm: _Arm, error: ProposerError) -> None:
        arm.failed, arm.scripts = True, None
        self._failed(arm.built_in.name, str(error))

    def _work_through(self, arm: _Arm, start: float) -> None:
        if arm.scripts is None:
            self._begin(arm)
        assert arm.scripts is not None
        assert arm.base is not None
        self._told_at = start
        while not self._out() and self._work() - start < self._turn_work:
            self._told_at = self._work()
            script = next_script(arm.scripts, arm.answer)
            if script is None:
                self._end(arm)
                return
            best = self.bench.best
            kept = self.bench.judge(script, arm.base.kernel, arm.built_in.name)
            self._asked += 1  # a version that is known already costs nothing else, and may come for ever
            arm.answer = kept is not None
            if kept is not None and kept.cost < arm.base.cost and best is not arm.base:
                self._compose(arm.base, best, kept, arm.built_in.name)

    def _begin(self, arm: _Arm) -> None:
        about = arm.next_about(self.bench)
        assert about is not None
        base = self.bench.original if arm.vain % 2 else about

        def out_of_time() -> bool:
            self._asked += 1
            late = self._work() - self._told_at > _PATIENCE * self._turn_work
            arm.was_cut = arm.was_cut or late
            return late or self._out()

        arm.about, arm.base, arm.answer, arm.was_cut = about, base, None, False
        arm.best_at_start = self.bench.best.cost
        arm.stale = arm.idle = 0
        arm.scripts = begin(arm.proposer, self.bench.facts(base.kernel, arm.rng, out_of_time))

    def _end(self, arm: _Arm) -> None:
        """A generator ended: because of the budget, cut short, or because it has nothing more to say."""
        arm.scripts = None
        if self._out():
            return
        if self.bench.best.cost < arm.best_at_start:
            arm.vain = 0
        elif arm.built_in.varied or arm.was_cut:
            arm.vain += 1
        if arm.vain >= _IN_VAIN or not (arm.built_in.varied or arm.was_cut):
            arm.vain = 0
            assert arm.about is not None
            arm.dry.add(version_hash(arm.about.kernel))

    def _compose(self, base: Kept, first: Kept, second: Kept, proposer: str) -> None:
        made = composed(base.kernel, first.kernel, second.kernel)
        if made is None:
            return
        parts = " and ".join(f"[{each.script.origin[:_ORIGIN_CHARACTERS]}]" for each in (first, second))
        try:
            script = script_between(base.kernel, made.blocks, f"composition: {parts}", made.descriptor)
        except EditError:
            return
        self.bench.judge(script, base.kernel, proposer)

    def _work(self) -> float:
        """What turns are measured in: seconds; else steps, which are candidates, evaluations, and a proposer's own.

        Of its own steps a proposer says nothing, but it asks at each whether its time is up.
        """
        bench = self.bench
        return time.monotonic() if self._budget.is_timed else float(bench.evaluations + bench.tried + self._asked)

    def _used(self) -> float:
        return self._budget.used(time.monotonic() - self._started, self.bench.tried - self._tried_before)

    def _out(self) -> bool:
        return self._used() >= 1.0


def dealt(proposers: Sequence[BuiltIn], number: int, count: int) -> list[BuiltIn]:
    """The proposers of one island: each that is varied, and its share of the others."""
    fixed = [each for each in proposers if not each.varied]
    own = {each.name for each in fixed[number::count]}
    return [each for each in proposers if each.varied or each.name in own]


def _arm(built_in: BuiltIn, bench: Bench, island: int) -> _Arm:
    options = bench.options
    rng = random.Random(f"{options.seed}/{island}/{built_in.name}")
    return _Arm(built_in, built_in.make(options.floating_point), rng)


def _turn_work(budget: Budget) -> float:
    if not budget.is_timed:
        return float(_COUNTED_TURN)
    return min(max(budget.seconds / _TURNS, _SHORTEST_TURN), _LONGEST_TURN)
