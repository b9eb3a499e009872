"""The timing gate: a candidate must be predicted to be faster, by more than nothing in particular.

The cycle model is asked twice, for a lone wave on the SIMD (what latency costs) and for as many waves as
occupancy allows, up to a few (what throughput costs). A candidate that gains in one and loses in the other by
more is no gain. The smallest gain that counts is `MINIMUM_GAIN`, since smaller differences are below what the
model can tell apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from asmevo.analysis.occupancy import occupancy
from asmevo.gates.gate import Verdict, VerdictKind
from asmevo.program.candidate import Candidate
from asmevo.program.kernel import Kernel
from asmevo.timing import Estimate, estimate

MINIMUM_GAIN = 0.005
"""Share of the parent's cycles; a convention until the model's error is measured for each target."""
_MOST_WAVES = 4


@dataclass(frozen=True, slots=True)
class Prediction:
    """Estimates by number of waves on the SIMD, and the gain against the parent's (share of cycles saved)."""

    estimates: tuple[Estimate, ...]
    gain: float


class TimingGate:
    """Predicts the parent once, candidates when asked."""

    name = "timing"

    def __init__(self, parent: Kernel, memory: str = "l2") -> None:
        most = min(occupancy(parent).waves, _MOST_WAVES)
        self.waves = tuple(sorted({1, max(most, 1)}))
        self.memory = memory
        self.parent = tuple(self._estimates(parent))

    def _estimates(self, kernel: Kernel) -> list[Estimate]:
        return [estimate(kernel, waves=n, memory=self.memory) for n in self.waves]

    def predict(self, kernel: Kernel) -> Prediction:
        """The estimates of a version, and its gain: the geometric mean over the numbers of waves."""
        found = self._estimates(kernel)
        ratios = [new.cycles / old.cycles for new, old in zip(found, self.parent, strict=True)]
        return Prediction(tuple(found), 1.0 - math.prod(ratios) ** (1.0 / len(ratios)))

    def judge(self, candidate: Candidate) -> Verdict:
        """See Gate.judge."""
        return self.verdict(self.predict(candidate.kernel))

    def verdict(self, prediction: Prediction) -> Verdict:
        """The verdict on a prediction that is there already."""
        pairs = zip(self.waves, self.parent, prediction.estimates, strict=True)
        words = ", ".join(f"{old.cycles:.0f} to {new.cycles:.0f} with {n}" for n, old, new in pairs)
        reason = f"predicted cycles {words} wave{'s' if self.waves[-1] > 1 else ''} a SIMD (a model)"
        evidence = {"gain": round(prediction.gain, 6), "waves": list(self.waves), "is_model": True}
        kind = VerdictKind.ACCEPTED if prediction.gain >= MINIMUM_GAIN else VerdictKind.REJECTED
        return Verdict(self.name, kind, reason, evidence=evidence)
