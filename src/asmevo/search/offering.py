"""Choosing what to offer: at most three versions, best first, each different in kind and judged once more.

Different in kind is what the archive by behaviour tells apart: three offers that differ by a detail are one offer.
Where a version that lets in more waves gains, the best such one is among the offers if there are several.
Each offer is judged here again, whichever process found it; with a launch manifest it then runs on the emulator
beside the original; then the timing gate judges, and what gains with memory near by but loses with cold memory is not
offered. The last word, at level release, is a real GPU's where there is one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct

from asmevo.gates import EmulationGate, FilledSimd, HardwareGate, Prediction, Verdict
from asmevo.gates.gate import VerdictKind
from asmevo.gates.timing import MINIMUM_GAIN
from asmevo.program.candidate import Candidate
from asmevo.program.program import Program
from asmevo.proposers.genetic_archive import behaviour
from asmevo.search.basis import Basis, basis_of
from asmevo.search.bench import Bench, broken_off
from asmevo.search.board import Board
from asmevo.search.explain import explain, relies_on
from asmevo.search.measures import measure
from asmevo.search.patch import OccupancyStep, PatchCandidate

_PREDICTED = 6
_OF_A_KIND = 3
_LOOKED_AT = 400


class _Ranked(Struct, frozen=True):
    """A version that may be offered, with its kind (behaviour) and what is predicted of it."""

    prediction: Prediction
    kind: object
    candidate: Candidate

    @property
    def steps_up(self) -> bool:
        """Whether it gains and more waves of it fit on a SIMD."""
        filled = self.prediction.filled
        return filled is not None and filled.waves[1] > filled.waves[0] and self.prediction.cost < 1.0


def make_offers(bench: Bench, board: Board, program: Program) -> tuple[PatchCandidate, ...]:
    """The offers, best first; gates that refuse here are counted on the board."""
    emulation = _emulation(bench, program) if board.found else None
    hardware = _hardware(bench, program)
    different = _different(bench, board)
    predicted = (_Ranked(bench.patient_timing.predict(each.kernel), kind, each) for kind, each in different)
    waiting = sorted(predicted, key=lambda each: each.prediction.cost)
    offers: list[PatchCandidate] = []
    offered: list[_Ranked] = []
    while waiting and len(offers) < bench.options.offers:
        each = waiting.pop(_next(waiting, offered, bench.options.offers))
        if any(each.kind == other.kind for other in offered):
            continue
        basis = basis_of(each.candidate.parent, each.candidate.kernel, each.prediction)
        verdicts = _judged(bench, emulation, each.candidate, _timing(bench, each.prediction, basis), hardware)
        if all(verdict.accepted for verdict in verdicts):
            offers.append(_offer(bench, each.candidate, len(offers) + 1, each.prediction, basis, verdicts))
            offered.append(each)
        else:
            board.refuse_offer(verdicts[-1])
    return tuple(offers)


def _next(waiting: Sequence[_Ranked], offered: Sequence[_Ranked], most: int) -> int:
    """Which one's turn it is: the best; for the last of several places the best that steps up, if none has yet."""
    if not 0 < len(offered) == most - 1 or any(each.steps_up for each in offered):
        return 0
    return next((place for place, each in enumerate(waiting) if each.steps_up), 0)


def _emulation(bench: Bench, program: Program) -> EmulationGate | None:
    launch, policy = bench.options.launch, bench.options.floating_point
    return EmulationGate(program, bench.kernel, launch, policy) if launch is not None else None


def _hardware(bench: Bench, program: Program) -> HardwareGate | None:
    witness = bench.options.hardware
    return HardwareGate(program, witness) if witness is not None else None


def _different(bench: Bench, board: Board) -> Iterator[tuple[object, Candidate]]:
    """The best few for each behaviour, with it, and of those that let in more waves: the very best may be refused."""
    seen: Counter[object] = Counter()
    roomier = 0
    ranked = sorted(board.found.values(), key=lambda found: found.cost)
    for found in ranked[:_LOOKED_AT]:
        candidate = Candidate.make(bench.kernel, found.script)
        kind = behaviour(candidate.kernel)
        more_waves = bench.lets_in_more_waves(candidate.kernel) and roomier < _OF_A_KIND
        if seen[kind] < _OF_A_KIND and (kind in seen or len(seen) < _PREDICTED or more_waves):
            seen[kind] += 1
            roomier += more_waves
            yield kind, candidate


def _timing(bench: Bench, prediction: Prediction, basis: Basis) -> Verdict:
    """The timing gate's verdict; a gain that turns into a loss with cold memory is none."""
    verdict = bench.patient_timing.verdict(prediction)
    cold = basis.elsewhere.get("cold", 0.0)
    if not verdict.accepted or cold >= -MINIMUM_GAIN:
        return verdict
    reason = f"predicted to gain {prediction.gain:.1%}, but to lose {-cold:.1%} with cold memory (a model)"
    return Verdict(verdict.gate, VerdictKind.REJECTED, reason, evidence=verdict.evidence | {"cold": round(cold, 6)})


def _judged(
    bench: Bench,
    emulation: EmulationGate | None,
    candidate: Candidate,
    timing: Verdict,
    hardware: HardwareGate | None,
) -> list[Verdict]:
    """All verdicts up to the first that is no acceptance."""
    if not timing.accepted:
        return [timing]
    try:
        verdicts = list(bench.pipeline.judge(candidate).verdicts)
        if verdicts[-1].accepted and emulation is not None:
            verdicts.append(emulation.judge(candidate))
        if verdicts[-1].accepted:
            verdicts.append(timing)
            if hardware is not None:
                verdicts.append(hardware.judge(candidate))
    except Exception as error:
        verdicts = [broken_off(error)]
    return verdicts


def _step(filled: FilledSimd) -> OccupancyStep:
    return OccupancyStep(
        waves=filled.waves, throughput=round(1 / filled.whole - 1, 4), by_waves=round(1 / filled.step - 1, 4)
    )


def _offer(
    bench: Bench, candidate: Candidate, rank: int, prediction: Prediction, basis: Basis, verdicts: list[Verdict]
) -> PatchCandidate:
    lone = prediction.estimates[0]
    return PatchCandidate(
        rank=rank,
        script=candidate.script,
        why=explain(candidate.parent, candidate.kernel, prediction),
        relies_on=relies_on(basis, lone.memory, bench.options.floating_point, bench.options.whole_waves),
        after=measure(candidate.kernel, prediction.estimates),
        predicted_gain=prediction.gain,
        gain_known={known: round(share, 4) for known, share in basis.known.items()},
        gain_elsewhere={memory: round(gain, 4) for memory, gain in basis.elsewhere.items()},
        gain_crowded={str(waves): round(gain, 4) for waves, gain in basis.crowded.items()},
        occupancy_step=_step(prediction.filled) if prediction.filled is not None else None,
        verdicts=tuple(each.to_dict() for each in verdicts),
    )
