"""The timing gate: a candidate must be predicted to be faster, by more than nothing in particular.

The cycle model is asked about two behaviours: a lone wave on the SIMD (what latency costs) and as many waves as
occupancy allows, up to a few (what throughput costs). Cycles count by wave.

Where another number of waves fits of a version than of its parent there is a third, the SIMD filled with all waves
that each allows: waves finished a cycle. It is asked twice of the version, with as many waves as the parent allows
and with its own, so that what the code brings and what the waves bring are told apart (`FilledSimd`). The second alone
goes into the mean, as a factor to the behaviour of a few waves: versions with and without a step of
occupancy are then ranked by one measure, and a machine that has too few waves to fill its SIMDs still counts.

The mean must gain at least `MINIMUM_GAIN`, and no behaviour may lose as much, since smaller differences are below what
the model can tell apart.
"""

from __future__ import annotations

import math

from msgspec import Struct

from asmevo.analysis.occupancy import occupancy
from asmevo.gates.gate import Verdict, VerdictKind
from asmevo.program.candidate import Candidate
from asmevo.program.kernel import Kernel
from asmevo.timing import Estimate, estimate

MINIMUM_GAIN = 0.005
"""Share of the parent's cycles; a convention until the model's error is measured for each target."""
_ISSUE_WORTH = 0.01
"""Cycles that an issue is worth besides its own, as shares; so small that it decides between equals only."""
_MOST_WAVES = 4
_FILLED = 16
"""The most waves that are simulated for a filled SIMD: every occupancy there is on CDNA2 on and on RDNA3 and 4."""


class FilledSimd(Struct, frozen=True):
    """A SIMD with all the waves that fit, where these are another number than the parent's.

    `waves` are (the parent's, the version's) at most `_FILLED`; the rest are shares of the parent's cycles a
    wave: `code` of the version with as many waves as the parent has, `whole` with its own.
    """

    waves: tuple[int, int]
    code: float
    whole: float

    @property
    def step(self) -> float:
        """Share of its own cycles a wave that is left by the change of the number of waves alone."""
        return self.whole / self.code

    def __str__(self) -> str:
        before, after = self.waves
        rates, alone = (f"{100 * abs(1 / share - 1):.1f} % {_more(share)}" for share in (self.whole, self.step))
        return f"{after} waves a SIMD instead of {before}: {rates} waves a cycle ({alone} by the number of waves alone)"


def _more(share: float) -> str:
    return "more" if share <= 1 else "fewer"


class Prediction(Struct, frozen=True):
    """Estimates of a lone wave and of a few; their cycles a wave as shares of the parent's.

    `parent` are those that they are held against. `filled` where another number of waves fits.
    """

    estimates: tuple[Estimate, ...]
    ratios: tuple[float, ...]
    parent: tuple[Estimate, ...] = ()
    filled: FilledSimd | None = None

    @property
    def gain(self) -> float:
        """Share of cycles saved, by the geometric mean over the behaviours, with what more waves bring a few."""
        step = self.filled.step if self.filled is not None else 1.0
        return 1.0 - float((math.prod(self.ratios) * step) ** (1.0 / len(self.ratios)))

    @property
    def _behaviours(self) -> tuple[float, ...]:
        return self.ratios if self.filled is None else (*self.ratios, self.filled.whole)

    @property
    def loses(self) -> bool:
        """Whether some behaviour is slower by more than the model can tell apart."""
        return any(ratio > 1.0 + MINIMUM_GAIN for ratio in self._behaviours)

    @property
    def cost(self) -> float:
        """What a search minimises: the mean share of cycles, with every loss counted once more.

        A version that loses too much ranks behind the parent, whatever it gains elsewhere: it cannot be offered.
        Instructions count a little: of versions that take as long, the one that issues less leaves more to other waves.
        """
        losses = sum(max(ratio - 1.0, 0.0) for ratio in self._behaviours)
        return 1.0 + losses if self.loses else 1.0 - self.gain + losses + _ISSUE_WORTH * self._more_issues

    @property
    def _more_issues(self) -> float:
        """What a wave issues more than one of the parent, as a share of that; 0 where nobody knows."""
        own, old = (sum(each[0].issues.values()) if each else 1.0 for each in (self.estimates, self.parent))
        return own / old - 1.0


def wave_counts(kernel: Kernel) -> tuple[int, ...]:
    """For how many waves on the SIMD the model is asked: one, and what occupancy allows up to a few."""
    return tuple(sorted({1, max(min(occupancy(kernel).waves, _MOST_WAVES), 1)}))


class TimingGate:
    """Predicts the parent once, candidates when asked; `memory` and `patience` as for `estimate`."""

    name = "timing"

    def __init__(self, parent: Kernel, memory: str = "l2", patience: int = 1) -> None:
        self.waves = wave_counts(parent)
        self.memory, self.patience = memory, patience
        self._kernel, self._fitting = parent, _fitting(parent)
        self._of_parent: dict[int, Estimate] = {}
        self.parent = tuple(self._parent(waves) for waves in (1, self.waves[-1]))

    def _parent(self, waves: int) -> Estimate:
        if waves not in self._of_parent:
            self._of_parent[waves] = self.estimate(self._kernel, waves)
        return self._of_parent[waves]

    def estimate(self, kernel: Kernel, waves: int) -> Estimate:
        """One estimate under the gate's memory scenario."""
        return estimate(kernel, waves=waves, memory=self.memory, patience=self.patience)

    def predict(self, kernel: Kernel, lone: Estimate | None = None) -> Prediction:
        """The estimates of a version, against the parent's; `lone` is that of a lone wave if the caller has it."""
        alone = lone if lone is not None else self.estimate(kernel, 1)
        few = self.waves[-1]
        found = (alone, alone if few == 1 else self.estimate(kernel, few))
        ratios = tuple(_share(*pair) for pair in zip(found, self.parent, strict=True))
        return Prediction(found, ratios, self.parent, self._filled(kernel, found[-1]))

    def _filled(self, kernel: Kernel, few: Estimate) -> FilledSimd | None:
        before, after = self._fitting, _fitting(kernel)
        if before == after:
            return None
        code = few if few.waves == before else self.estimate(kernel, before)
        whole, parent = self.estimate(kernel, after), self._parent(before)
        return FilledSimd((before, after), _share(code, parent), _share(whole, parent))

    def judge(self, candidate: Candidate) -> Verdict:
        """See Gate.judge."""
        return self.verdict(self.predict(candidate.kernel))

    def verdict(self, prediction: Prediction) -> Verdict:
        """The verdict on a prediction that is there already."""
        pairs = zip(prediction.parent, prediction.estimates, strict=True)
        words = ", ".join(dict.fromkeys(f"{old.cycles:.0f} to {new.cycles:.0f} with {old.waves}" for old, new in pairs))
        counts = sorted({each.waves for each in prediction.estimates})
        reason = f"predicted cycles {words} wave{'s' if counts[-1] > 1 else ''} a SIMD (a model)"
        if prediction.filled is not None:
            reason = f"{reason}; {prediction.filled}"
        evidence = {"gain": round(prediction.gain, 6), "waves": counts, "is_model": True}
        gains = prediction.gain >= MINIMUM_GAIN and not prediction.loses
        kind = VerdictKind.ACCEPTED if gains else VerdictKind.REJECTED
        return Verdict(self.name, kind, reason, evidence=evidence)


def _fitting(kernel: Kernel) -> int:
    return min(max(occupancy(kernel).waves, 1), _FILLED)


def _share(version: Estimate, parent: Estimate) -> float:
    return version.cycles_per_wave / parent.cycles_per_wave
