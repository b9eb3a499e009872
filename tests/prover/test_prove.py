"""`prove_kernels`: rewrites that are right are proved, near misses are refuted by a run."""

from __future__ import annotations

import pytest
from proof_pairs import DIFFERENT, EQUAL, Pair
from written_kernels import written

from asmevo.prover import FloatPolicy, Outcome, ProofLimits, ProofResult, prove_kernels

# More draws than usual: the seeds are fixed, so a test is as sure on every machine.
LIMITS = ProofLimits(draws=60, replay=10.0)


def outcome(pair: Pair, policy: FloatPolicy = FloatPolicy.EXACT) -> ProofResult:
    return prove_kernels(written(pair.before, pair.gpu), written(pair.after, pair.gpu), policy, LIMITS)


@pytest.mark.parametrize("name", EQUAL)
def test_proved(name: str) -> None:
    result = outcome(EQUAL[name])
    assert result.outcome is Outcome.PROVED, result.reason


@pytest.mark.parametrize("name", DIFFERENT)
def test_refuted_by_a_run(name: str) -> None:
    result = outcome(DIFFERENT[name])
    assert result.outcome is Outcome.REFUTED, result.reason
    assert result.counterexample is not None
    assert "before and" in result.counterexample.difference
