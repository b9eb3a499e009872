"""Limits of a proof are counted in work: the same answers however slow the machine is."""

from __future__ import annotations

import itertools
import subprocess
import sys
from types import SimpleNamespace

import pytest
import solver_question
from proof_pairs import DIFFERENT, EQUAL, Pair
from solver_question import asked

from asmevo.prover import Outcome, ProofLimits, ProofResult, prove_kernels, replay, solver
from asmevo.prover.solver import SolverLimits


def test_the_same_question_takes_the_same_steps_in_every_process() -> None:
    answer, steps = asked(SolverLimits())
    assert answer is True
    assert steps > 100
    again = subprocess.run([sys.executable, solver_question.__file__], capture_output=True, text=True, check=True)
    assert again.stdout.split() == [str(answer), str(steps)]
    assert asked(SolverLimits(question=steps)) == (True, steps)
    assert asked(SolverLimits(question=steps // 2))[0] is None
    assert asked(SolverLimits(total=steps // 2))[0] is None


@pytest.fixture
def slow_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock on which a tenth of a second passes between any two looks at it."""
    ticks = itertools.count()
    clock = SimpleNamespace(monotonic=lambda: next(ticks) / 10)
    monkeypatch.setattr(solver, "time", clock)
    monkeypatch.setattr(replay, "time", clock)


def proved(pair: Pair, limits: ProofLimits) -> ProofResult:
    return prove_kernels(*pair.kernels, limits=limits)


@pytest.mark.usefixtures("slow_machine")
def test_a_slow_machine_proves_and_refutes_the_same() -> None:
    pair = EQUAL["xor by parts"]
    assert proved(pair, ProofLimits(draws=0)).outcome is Outcome.PROVED
    assert asked(SolverLimits())[0] is True
    assert proved(DIFFERENT["one value in four billion"], ProofLimits()).outcome is Outcome.REFUTED


@pytest.mark.usefixtures("slow_machine")
def test_the_last_resort_ends_a_proof() -> None:
    assert asked(SolverLimits(seconds=0.05))[0] is None
    result = proved(EQUAL["a hoisted loop invariant"], ProofLimits(draws=0, seconds=0.05))
    assert result.outcome is Outcome.UNDECIDED
    assert "last resort of 0.05 s" in result.reason


def test_work_that_is_used_up_is_said() -> None:
    result = proved(EQUAL["a hoisted loop invariant"], ProofLimits(total=1, draws=0))
    assert result.outcome is Outcome.UNDECIDED
    assert "1 steps" in result.reason


def test_a_limit_in_seconds_is_worth_work() -> None:
    limits = ProofLimits.of_seconds(3.0)
    assert limits.total == limits.question == 3 * ProofLimits.of_seconds(1.0).total
    assert limits.seconds > 3.0
