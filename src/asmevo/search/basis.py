"""What a predicted gain rests on: which cycles fell away, how well those are known, and what other memory would say.

Cycles of a wave are issue slots and stalls, each with the fact behind it. The difference of two versions' sums by
reason shows where a gain comes from: by `known`, the share of what fell away that was measured, or is somebody's
number, or an assumption. What was added elsewhere (a stall that moved) is held against the same reason only. Both
numbers of waves that a prediction is made of count the same, each as shares of the original's cycles.

Memory that answers after a fixed time is the boldest assumption of the model. So the gain is also predicted anew with
cold memory and with memory that answers at once: a gain that one scenario alone shows is a gain of that scenario. And
it is predicted for a fuller SIMD, where other waves hide what one waits for, and waiting less is worth less.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct

from asmevo.analysis.occupancy import occupancy
from asmevo.gates import Prediction, TimingGate
from asmevo.program.kernel import Kernel
from asmevo.timing import Estimate, estimate
from asmevo.timing.machine import SCENARIOS
from asmevo.timing.scenarios import machine_for

PATIENCE = 4
"""How long offers are simulated where a loop does not become steady; a convention, see estimate."""
_CROWD = 8  # waves


class Reason(NamedTuple):
    """Why time passed, and how well the number behind it is known."""

    words: str
    known: str


class Basis(Struct, frozen=True):
    """`saved` by reason, largest first, as shares of the original's cycles.

    `elsewhere` is the gain by scenario. `crowded` is that by more waves on the SIMD, where more fit.
    """

    saved: tuple[tuple[Reason, float], ...]
    elsewhere: Mapping[str, float]
    crowded: Mapping[int, float]

    @property
    def known(self) -> dict[str, float]:
        """Shares of what fell away, by how well it is known, largest first; empty where nothing did."""
        found: dict[str, float] = {}
        for reason, share in self.saved:
            found[reason.known] = found.get(reason.known, 0.0) + share
        whole = sum(found.values())
        return {known: share / whole for known, share in sorted(found.items(), key=lambda item: -item[1])}


def basis_of(parent: Kernel, candidate: Kernel, prediction: Prediction) -> Basis:
    """What the prediction for a candidate rests on."""
    found: dict[Reason, float] = {}
    for before, after in zip(prediction.parent, prediction.estimates, strict=True):
        was, now = _reasons(parent, before), _reasons(candidate, after)
        whole = sum(was.values())
        for reason in was:
            fell = (was[reason] - now.get(reason, 0.0)) / whole / len(prediction.parent)
            found[reason] = found.get(reason, 0.0) + fell
    saved = sorted(((reason, share) for reason, share in found.items() if share > 0), key=lambda pair: -pair[1])
    memory = prediction.estimates[0].memory
    fit = min(occupancy(parent).waves, occupancy(candidate).waves, _CROWD)
    crowded = {fit: _gain(parent, candidate, fit, memory)} if fit > prediction.parent[-1].waves else {}
    elsewhere = {
        other: TimingGate(parent, other, PATIENCE).predict(candidate).gain for other in SCENARIOS if other != memory
    }
    return Basis(tuple(saved), elsewhere, crowded)


def _gain(parent: Kernel, candidate: Kernel, waves: int, memory: str) -> float:
    """Share of cycles saved by so many waves of each."""
    before, after = (estimate(each, waves=waves, memory=memory, patience=PATIENCE) for each in (parent, candidate))
    return 1.0 - after.cycles / before.cycles


def _reasons(kernel: Kernel, version: Estimate) -> dict[Reason, float]:
    """Cycles of one wave by reason: every instruction's issue slot, and the stalls."""
    slot = machine_for(kernel.target, kernel.wave_size, version.memory).issue
    found = {Reason("issue", slot.cause.known): slot.cycles * sum(version.issues.values())}
    for stall in version.stalls:
        reason = Reason(stall.reason, stall.known)
        found[reason] = found.get(reason, 0.0) + stall.cycles
    return found
