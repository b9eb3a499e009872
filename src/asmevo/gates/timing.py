"""The timing gate: a candidate must be predicted to be faster, by more than nothing in particular.

The cycle model is asked twice, for a lone wave on the SIMD (what latency costs) and for as many waves as
occupancy allows, up to a few (what throughput costs). Cycles count by wave, so that a version of which more waves fit
is worth what they bring. The mean must gain at least `MINIMUM_GAIN`, and neither
may lose as much, since smaller differences are below what the model can tell apart.
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
    """Estimates of a lone wave and of as many as fit (up to a few); their cycles a wave as shares of the parent's."""

    estimates: tuple[Estimate, ...]
    ratios: tuple[float, ...]

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
    """Predicts the parent once, candidates when asked."""

    name = "timing"

    def __init__(self, parent: Kernel, memory: str = "l2") -> None:
        self.waves = wave_counts(parent)
        self.memory = memory
        self.parent = tuple(self._estimates(parent))

    def _estimates(self, kernel: Kernel, lone: Estimate | None = None) -> list[Estimate]:
        alone = lone if lone is not None else self.estimate(kernel, 1)
        most = wave_counts(kernel)[-1]
        return [alone, alone if most == 1 else self.estimate(kernel, most)]

    def estimate(self, kernel: Kernel, waves: int) -> Estimate:
        """One estimate under the gate's memory scenario."""
        return estimate(kernel, waves=waves, memory=self.memory)

    def predict(self, kernel: Kernel, lone: Estimate | None = None) -> Prediction:
        """The estimates of a version, against the parent's; `lone` is that of a lone wave if the caller has it."""
        found = self._estimates(kernel, lone)
        ratios = tuple(new.cycles_per_wave / old.cycles_per_wave for new, old in zip(found, self.parent, strict=True))
        return Prediction(tuple(found), ratios)

    def judge(self, candidate: Candidate) -> Verdict:
        """See Gate.judge."""
        return self.verdict(self.predict(candidate.kernel))

    def verdict(self, prediction: Prediction) -> Verdict:
        """The verdict on a prediction that is there already."""
        pairs = dict.fromkeys(_change(*pair) for pair in zip(self.parent, prediction.estimates, strict=True))
        words = ", ".join(pairs)
        reason = f"predicted cycles {words} wave{'s' if self.waves[-1] > 1 else ''} a SIMD (a model)"
        counts = sorted({each.waves for each in prediction.estimates})
        evidence = {"gain": round(prediction.gain, 6), "waves": counts, "is_model": True}
        gains = prediction.gain >= MINIMUM_GAIN and not prediction.loses
        kind = VerdictKind.ACCEPTED if gains else VerdictKind.REJECTED
        return Verdict(self.name, kind, reason, evidence=evidence)


def _change(old: Estimate, new: Estimate) -> str:
    """Cycles before and after with the number of waves of both, or of each where they differ."""
    counts = str(old.waves) if old.waves == new.waves else f"{old.waves}, then {new.waves}"
    return f"{old.cycles:.0f} to {new.cycles:.0f} with {counts}"
