"""The bench: one kernel with its gates and its cycle model, where scripts are judged and the good ones are kept.

Every candidate is a script against the original kernel and is judged against it, however many rounds it took
to find: nothing rests on a chain of earlier verdicts. The cycle model ranks; only what passed all gates
is ever kept.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cached_property
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from asmevo.analysis.occupancy import occupancy
from asmevo.checks.constraints import constraints_for
from asmevo.gates import Pipeline, TimingGate, Verdict
from asmevo.gates.gate import VerdictKind
from asmevo.program.candidate import Candidate
from asmevo.program.edit import EditScript, apply_script, script_between
from asmevo.program.errors import EditError
from asmevo.program.kernel import Kernel
from asmevo.proposers import Facts
from asmevo.proposers.asking import what_happened
from asmevo.proposers.versions import version_hash
from asmevo.search.basis import PATIENCE
from asmevo.search.options import SearchOptions
from asmevo.search.tried import Tried
from asmevo.timing import estimate

Report = Callable[[Tried], None]
Exchange = Callable[[str, dict[str, Any]], None]

_SEEN = Verdict("script", VerdictKind.UNDECIDED, "this kernel was tried before")
_COSTS_REMEMBERED = 1 << 14
_CLEARLY_SLOWER = 0.002  # share of the original's cycles by which a lone wave lags behind the best version's


class Kept(Struct, frozen=True):
    """A version that passed all gates, with its cost as a share of the original's cycles; `script` makes it of it."""

    cost: float
    kernel: Kernel
    script: EditScript


class Bench:
    """`report` hears of each candidate as soon as it is judged, `exchange` what proposers were told and said.

    `best` is the cheapest version that was kept, `roomier` the cheapest of those that let in more waves than the
    original: None where there is none.
    """

    def __init__(
        self,
        kernel: Kernel,
        options: SearchOptions,
        report: Report = lambda tried: None,
        exchange: Exchange = lambda proposer, body: None,
    ) -> None:
        kernel = replace(kernel, whole_waves=kernel.whole_waves or options.whole_waves)
        self.kernel = kernel
        self.options = options
        self.pipeline = Pipeline(kernel, options.level, options.constraints, options.floating_point)
        self.timing = TimingGate(kernel, options.memory)
        self._waves = self._best_waves = occupancy(kernel).waves
        self._cold_cycles = estimate(kernel, waves=1, memory="cold").cycles
        self.original = Kept(1.0, kernel, script_between(kernel, kernel.blocks, "the original"))
        self.best = self.original
        self.roomier: Kept | None = None
        self._best_lone = 1.0
        self.kept: dict[str, Kept] = {}
        self.tried = 0
        self.evaluations = 0
        self._report = report
        self._exchange = exchange
        self._costs: dict[str, float] = {version_hash(kernel): 1.0}
        self._seen: set[str] = {version_hash(kernel)}
        self._last: Verdict | None = None

    def cost(self, kernel: Kernel) -> float:
        """What proposers and ranking minimise: see Prediction.cost.

        Several waves take several times as long to simulate as a lone one. They are only asked about where the lone
        wave is not clearly slower than in the best version, or more waves fit than of that; else its difference stands
        for all. What a lone wave loses with cold memory is added: a version that is only faster as long as all memory
        is near is not wanted.
        """
        version = version_hash(kernel)
        known = self._costs.get(version)
        if known is not None:
            return known
        self.evaluations += 1
        lone = self.timing.estimate(kernel, 1)
        share = lone.cycles / self.timing.parent[0].cycles
        behind = share - self._best_lone
        if behind > _CLEARLY_SLOWER and occupancy(kernel).waves <= self._best_waves:
            cost = self.best.cost + behind
        else:
            cost = self.timing.predict(kernel, lone).cost + self._lost_cold(kernel)
        if len(self._costs) >= _COSTS_REMEMBERED:
            self._costs.clear()
        self._costs[version] = cost
        return cost

    def _lost_cold(self, kernel: Kernel) -> float:
        """What a lone wave of a version loses with cold memory, as a share of the original's cycles there."""
        return max(0.0, estimate(kernel, waves=1, memory="cold").cycles / self._cold_cycles - 1.0)

    def _confirmed(self, kernel: Kernel, cost: float) -> float:
        """The cost of a version; that of a new best one as offers are judged.

        What looks best in few iterations need not be: a search that climbs on is at last left with nothing to offer.
        So is one whose best version is slower than the original in one behaviour, which the timing gate refuses.
        """
        if cost >= self.best.cost:
            return cost
        prediction = self.patient_timing.predict(kernel)
        cost = prediction.cost + self._lost_cold(kernel)
        cost = max(cost, self.original.cost) if prediction.loses else cost
        self._costs[version_hash(kernel)] = cost
        return cost

    def lets_in_more_waves(self, kernel: Kernel) -> bool:
        """Whether more waves of a version fit on a SIMD than of the original."""
        return occupancy(kernel).waves > self._waves

    @cached_property
    def patient_timing(self) -> TimingGate:
        """For what is offered: a search finds what looks good in few iterations of a loop that never becomes steady."""
        return TimingGate(self.kernel, self.options.memory, PATIENCE)

    def facts(self, kernel: Kernel, rng: random.Random, out_of_time: Callable[[], bool]) -> Facts:
        """What a proposer is told about a version."""
        options = self.options
        constraints = options.constraints or constraints_for(kernel.target.name)
        return Facts(
            kernel,
            options.memory,
            rng,
            self.cost,
            out_of_time,
            lambda: self._last,
            options.windows,
            constraints,
            self._exchange,
        )

    def judge(self, script: EditScript, base: Kernel, proposer: str) -> Kept | None:
        """Judges a script for `base` as one for the original. None when a gate refused it, now or before."""
        try:
            changed = apply_script(base, script)
            version = version_hash(changed)
            if version in self._seen:
                self._last = _SEEN
                return self.kept.get(version)
            own = script_between(self.kernel, changed.blocks, script.origin, changed.descriptor)
            candidate = Candidate.make(self.kernel, own)
            self._stay_inside(candidate)
        except EditError as error:
            self._last = Verdict("script", VerdictKind.REJECTED, str(error))
            self._tell(Tried(proposer, script, version_hash(base), None, (self._last,)))
            return None
        self._seen.add(version)
        verdicts, kept = self._judged(candidate)
        self._last = verdicts[-1]
        cost = kept.cost if kept is not None else None
        self._tell(Tried(proposer, candidate.script, version_hash(base), version, verdicts, cost))
        return kept

    def adopt(self, script: EditScript, cost: float) -> Kept:
        """Keeps a version that another bench of the same run judged."""
        kernel = apply_script(self.kernel, script)
        version = version_hash(kernel)
        self._seen.add(version)
        self._costs[version] = cost
        return self._rank(Kept(cost, kernel, script))

    def _judged(self, candidate: Candidate) -> tuple[tuple[Verdict, ...], Kept | None]:
        """The gates' verdicts, and what is kept; a defect in a gate or in the model costs this candidate only."""
        try:
            judgement = self.pipeline.judge(candidate)
            kernel = candidate.kernel
            cost = self._confirmed(kernel, self.cost(kernel)) if judgement.accepted else None
        except Exception as error:
            return (broken_off(error),), None
        if cost is None:
            return judgement.verdicts, None
        return judgement.verdicts, self._rank(Kept(cost, candidate.kernel, candidate.script))

    def _rank(self, kept: Kept) -> Kept:
        self.kept[version_hash(kept.kernel)] = kept
        if kept.cost < self.best.cost:
            self.best = kept
            self._best_lone = self.timing.estimate(kept.kernel, 1).cycles / self.timing.parent[0].cycles
            self._best_waves = occupancy(kept.kernel).waves
        if (self.roomier is None or kept.cost < self.roomier.cost) and self.lets_in_more_waves(kept.kernel):
            self.roomier = kept
        return kept

    def _tell(self, tried: Tried) -> None:
        self.tried += 1
        self._report(tried)

    def _stay_inside(self, candidate: Candidate) -> None:
        """Raises EditError when a block outside of the search's windows changed."""
        allowed = self.options.blocks
        outside = [] if allowed is None else [each for each in candidate.changed_blocks if each not in allowed]
        if outside:
            raise EditError(f"block {outside[0]} is outside of the windows that may change")


def broken_off(error: Exception) -> Verdict:
    """The answer where judging failed: what a gate cannot decide counts as "no"."""
    return Verdict("judging", VerdictKind.UNDECIDED, f"broke off with {what_happened(error)}")
