"""The timing gate: a candidate must be predicted to be faster, by more than nothing in particular.

The cycle model is asked twice, for a lone wave on the SIMD (what latency costs) and for as many waves as
occupancy allows, up to a few (what throughput costs). Cycles count by wave. Where another number of waves fits of a
version than of its parent, each is asked about with all that fit, so that it is worth what they bring. The mean must
gain at least `MINIMUM_GAIN`, and neither
may lose as much, since smaller differences are below what the model can tell apart.
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
_MOST_WAVES = 4


class Prediction(Struct, frozen=True):
    """Estimates of a lone wave and of as many as fit (up to a few); their cycles a wave as shares of the parent's.

    `parent` are those that they are held against.
    """

    estimates: tuple[Estimate, ...]
    ratios: tuple[float, ...]
    parent: tuple[Estimate, ...] = ()

    @property
    def gain(self) -> float:
        """Share of cycles saved, by the geometric mean over the numbers of waves."""
        return 1.0 - math.prod(self.ratios) ** (1.0 / len(self.ratios))

    @property
    def loses(self) -> bool:
        """Whether some number of waves is slower by more than the model can tell apart."""
        return any(ratio > 1.0 + MINIMUM_GAIN for ratio in self.ratios)

    @property
    def cost(self) -> float:
        """What a search minimises: the mean share of cycles, with every loss counted once more.

        A version that loses too much ranks behind the parent, whatever it gains elsewhere: it cannot be offered.
        """
        losses = sum(max(ratio - 1.0, 0.0) for ratio in self.ratios)
        return 1.0 + losses if self.loses else 1.0 - self.gain + losses


def wave_counts(kernel: Kernel) -> tuple[int, ...]:
    """For how many waves on the SIMD the model is asked: one, and what occupancy allows up to a few."""
    return tuple(sorted({1, max(min(occupancy(kernel).waves, _MOST_WAVES), 1)}))


class TimingGate:
    """Predicts the parent once, candidates when asked; `memory` and `patience` as for `estimate`."""

    name = "timing"

    def __init__(self, parent: Kernel, memory: str = "l2", patience: int = 1) -> None:
        self.waves = wave_counts(parent)
        self.memory, self.patience = memory, patience
        self._kernel, self._fitting = parent, occupancy(parent).waves
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
        fitting = max(occupancy(kernel).waves, 1)
        before, after = self.waves[-1], wave_counts(kernel)[-1]
        if fitting != self._fitting:
            before, after = max(self._fitting, 1), fitting
        found = (alone, alone if after == 1 else self.estimate(kernel, after))
        parent = (self._parent(1), self._parent(before))
        ratios = tuple(new.cycles_per_wave / old.cycles_per_wave for new, old in zip(found, parent, strict=True))
        return Prediction(found, ratios, parent)

    def judge(self, candidate: Candidate) -> Verdict:
        """See Gate.judge."""
        return self.verdict(self.predict(candidate.kernel))

    def verdict(self, prediction: Prediction) -> Verdict:
        """The verdict on a prediction that is there already."""
        pairs = dict.fromkeys(_change(*pair) for pair in zip(prediction.parent, prediction.estimates, strict=True))
        words = ", ".join(pairs)
        counts = sorted({each.waves for each in prediction.estimates})
        reason = f"predicted cycles {words} wave{'s' if counts[-1] > 1 else ''} a SIMD (a model)"
        evidence = {"gain": round(prediction.gain, 6), "waves": counts, "is_model": True}
        gains = prediction.gain >= MINIMUM_GAIN and not prediction.loses
        kind = VerdictKind.ACCEPTED if gains else VerdictKind.REJECTED
        return Verdict(self.name, kind, reason, evidence=evidence)


def _change(old: Estimate, new: Estimate) -> str:
    """Cycles before and after with the number of waves of both, or of each where they differ."""
    counts = str(old.waves) if old.waves == new.waves else f"{old.waves}, then {new.waves}"
    return f"{old.cycles:.0f} to {new.cycles:.0f} with {counts}"
