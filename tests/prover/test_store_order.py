"""Stores exchanged, and merged into wider ones: proved where no lane's bytes meet another's, refuted where they do."""

from __future__ import annotations

import pytest
from proof_pairs import Pair
from store_pairs import EXCHANGED, MERGED, REFUTED, UNDECIDED

from asmevo.prover import Outcome, ProofLimits, ProofResult, prove_kernels

LIMITS = ProofLimits(draws=30, replay=1_000_000)


def result(pair: Pair) -> ProofResult:
    return prove_kernels(*pair.kernels, limits=LIMITS)


@pytest.mark.parametrize("name", EXCHANGED)
def test_exchanged_stores_are_proved_both_ways(name: str) -> None:
    pair = EXCHANGED[name]
    assert (found := result(pair)).outcome is Outcome.PROVED, found.reason


@pytest.mark.parametrize("name", MERGED)
def test_merged_stores_are_proved(name: str) -> None:
    assert (found := result(MERGED[name])).outcome is Outcome.PROVED, found.reason


@pytest.mark.parametrize("name", REFUTED)
def test_near_misses_are_refuted_by_a_run(name: str) -> None:
    found = result(REFUTED[name])
    assert found.outcome is Outcome.REFUTED, found.reason
    assert found.counterexample is not None
    assert "before and" in found.counterexample.difference


@pytest.mark.parametrize("name", UNDECIDED)
def test_what_only_other_waves_could_tell_is_not_proved(name: str) -> None:
    assert (found := result(UNDECIDED[name])).outcome is Outcome.UNDECIDED, found.reason
