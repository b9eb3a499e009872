"""Choosing what to offer: at most three versions, best first, each different in kind and judged once more.

Different in kind is what the archive by behaviour tells apart: three offers that differ by a detail are one offer.
Each offer is judged here again, whichever process found it; with a launch manifest it then runs on the emulator
beside the original; the last word is the timing gate's, and what gains with memory near by but loses with cold memory
is not offered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from asmevo.gates import EmulationGate, Prediction, Verdict
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
from asmevo.search.patch import PatchCandidate

_PREDICTED = 6
_OF_A_KIND = 3
_LOOKED_AT = 400


def make_offers(bench: Bench, board: Board, program: Program) -> tuple[PatchCandidate, ...]:
    """The offers, best first; gates that refuse here are counted on the board."""
    emulation = _emulation(bench, program) if board.found else None
    different = _different(bench, board)
    predicted = [(bench.patient_timing.predict(each.kernel), kind, each) for kind, each in different]
    offers: list[PatchCandidate] = []
    offered = set()
    for prediction, kind, candidate in sorted(predicted, key=lambda each: each[0].cost):
        if len(offers) == bench.options.offers:
            break
        if kind in offered:
            continue
        basis = basis_of(candidate.parent, candidate.kernel, prediction)
        verdicts = _judged(bench, emulation, candidate, _timing(bench, prediction, basis))
        if all(verdict.accepted for verdict in verdicts):
            offers.append(_offer(bench, candidate, len(offers) + 1, prediction, basis, verdicts))
            offered.add(kind)
        else:
            board.refuse_offer(verdicts[-1])
    return tuple(offers)


def _emulation(bench: Bench, program: Program) -> EmulationGate | None:
    launch, policy = bench.options.launch, bench.options.floating_point
    return EmulationGate(program, bench.kernel, launch, policy) if launch is not None else None


def _different(bench: Bench, board: Board) -> Iterator[tuple[object, Candidate]]:
    """The best few for each behaviour, with it; the very best may be refused yet."""
    seen: Counter[object] = Counter()
    ranked = sorted(board.found.values(), key=lambda found: found.cost)
    for found in ranked[:_LOOKED_AT]:
        candidate = Candidate.make(bench.kernel, found.script)
        kind = behaviour(candidate.kernel)
        if seen[kind] < _OF_A_KIND and (kind in seen or len(seen) < _PREDICTED):
            seen[kind] += 1
            yield kind, candidate


def _timing(bench: Bench, prediction: Prediction, basis: Basis) -> Verdict:
    """The timing gate's verdict; a gain that turns into a loss with cold memory is none."""
    verdict = bench.patient_timing.verdict(prediction)
    cold = basis.elsewhere.get("cold", 0.0)
    if not verdict.accepted or cold >= -MINIMUM_GAIN:
        return verdict
    reason = f"predicted to gain {prediction.gain:.1%}, but to lose {-cold:.1%} with cold memory (a model)"
    return Verdict(verdict.gate, VerdictKind.REJECTED, reason, evidence=verdict.evidence | {"cold": round(cold, 6)})


def _judged(bench: Bench, emulation: EmulationGate | None, candidate: Candidate, timing: Verdict) -> list[Verdict]:
    """All verdicts up to the first that is no acceptance."""
    if not timing.accepted:
        return [timing]
    try:
        verdicts = list(bench.pipeline.judge(candidate).verdicts)
        if verdicts[-1].accepted and emulation is not None:
            verdicts.append(emulation.judge(candidate))
    except Exception as error:
        verdicts = [broken_off(error)]
    return [*verdicts, timing] if verdicts[-1].accepted else verdicts


def _offer(
    bench: Bench, candidate: Candidate, rank: int, prediction: Prediction, basis: Basis, verdicts: list[Verdict]
) -> PatchCandidate:
    lone = prediction.estimates[0]
    return PatchCandidate(
        rank=rank,
        script=candidate.script,
        why=explain(candidate.parent, candidate.kernel, bench.patient_timing.parent[0], lone),
        relies_on=relies_on(basis, lone.memory, bench.options.floating_point),
        after=measure(candidate.kernel, prediction.estimates),
        predicted_gain=prediction.gain,
        gain_known={known: round(share, 4) for known, share in basis.known.items()},
        gain_elsewhere={memory: round(gain, 4) for memory, gain in basis.elsewhere.items()},
        gain_crowded={str(waves): round(gain, 4) for waves, gain in basis.crowded.items()},
        verdicts=tuple(each.to_dict() for each in verdicts),
    )
