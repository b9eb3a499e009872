"""The hardware gate on the stand-in: what it accepts, refuses and leaves undecided."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
import stand_in_hip

from asmevo.gates import HardwareGate, Verdict, VerdictKind
from asmevo.gates.emulation import written
from asmevo.hardware import GateWitness, Plan, Session, WrongTargetError, find_device
from asmevo.program import Program
from asmevo.program.candidate import Candidate
from asmevo.proposers import Facts, ListScheduler
from asmevo.prover import FloatPolicy
from asmevo.search import Level, LevelError, SearchOptions

Behave = Callable[[Mapping[str, Program]], None]
PLAN = Plan(rounds=1, launches=3)


def candidate() -> Candidate:
    kernel = stand_in_hip.original().kernel("vector_add")
    return Candidate.make(kernel, next(iter(ListScheduler().propose(Facts(kernel)))))


def witness(policy: FloatPolicy = FloatPolicy.EXACT, seconds: float = 20.0) -> GateWitness:
    program = stand_in_hip.original()
    where = Session(find_device(), seconds)
    return GateWitness(where, program, program.kernel("vector_add"), stand_in_hip.manifest(), policy, PLAN)


def judged(behave: Behave, of_original: str = "", of_candidate: str = "", **options: float) -> Verdict:
    """The verdict about a schedule where the two behave so."""
    made = candidate()
    program = written(stand_in_hip.original(), made)
    told = {of_original: stand_in_hip.original(), of_candidate: program}
    behave({way: program for way, program in told.items() if way})
    return HardwareGate(stand_in_hip.original(), witness(**options)).judge(made)  # type: ignore[arg-type]


def test_equal_bytes_are_accepted_and_no_gain_is_claimed(behave: Behave) -> None:
    verdict = judged(behave)
    assert verdict.accepted
    assert "GPU 0 (Stand-in 0): 2 sets of data" in verdict.reason
    assert "times not told apart" in verdict.reason
    assert verdict.evidence["equal"] is True


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        ("wrong", "out_ptr[7] is"),
        ("behind", "stores outside of out_ptr"),
        ("fault", "Memory access fault"),
        ("unstable", "the new version is unstable"),
        ("slow", "100.0% slower"),
    ],
)
def test_what_is_refused(behave: Behave, behaviour: str, words: str) -> None:
    verdict = judged(behave, of_candidate=behaviour)
    assert verdict.kind is VerdictKind.REJECTED
    assert words in verdict.reason


def test_a_measured_gain_is_said(behave: Behave) -> None:
    verdict = judged(behave, of_candidate="fast")
    assert verdict.accepted
    assert "50.0% faster: median" in verdict.reason


def test_an_original_that_gives_nothing_to_compare_with_leaves_it_undecided(behave: Behave) -> None:
    verdict = judged(behave, of_original="unstable")
    assert verdict.kind is VerdictKind.UNDECIDED
    assert "nothing to compare with: the original is unstable" in verdict.reason


def test_a_lost_gpu_leaves_it_undecided(behave: Behave, monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    asked = witness()
    monkeypatch.setenv("ASMEVO_STAND_IN_LOSS", f"{tmp_path}/loss")
    behave({"lost": stand_in_hip.original()})
    verdict = HardwareGate(stand_in_hip.original(), asked).judge(candidate())
    assert verdict.kind is VerdictKind.UNDECIDED
    assert "does not answer" in verdict.reason


def test_a_witness_is_for_its_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASMEVO_STAND_IN_GPU", "gfx1100")
    with pytest.raises(WrongTargetError):
        witness()


def test_level_release_is_never_claimed_without_its_gates() -> None:
    manifest = stand_in_hip.manifest()
    with pytest.raises(LevelError, match="launch manifest"):
        SearchOptions(level=Level.RELEASE).refuse_unfounded_level("x")
    with pytest.raises(LevelError, match="or the reason"):
        SearchOptions(level=Level.RELEASE, launch=manifest).refuse_unfounded_level("x")
    known = SearchOptions(level=Level.RELEASE, launch=manifest, no_hardware="no GPU")
    known.refuse_unfounded_level("x")
    assert known.not_run == {"hardware": "no GPU"}
    assert SearchOptions(no_hardware="no GPU").not_run == {}
