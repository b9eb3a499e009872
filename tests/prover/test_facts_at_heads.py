"""What holds at a loop's head is what the wave decided: a condition over a vector register is one of single lanes."""

from __future__ import annotations

import pytest
from proof_pairs import STORE, Pair

from asmevo.prover import Outcome, ProofLimits, prove_kernels

LIMITS = ProofLimits(draws=10, replay=100_000)
LOOP = f"""{{first}}
L:
{{use}}
s_load_dword s9, s[0:1], 0x0
s_add_u32 s0, s0, 4
s_addc_u32 s1, s1, 0
s_waitcnt lgkmcnt(0)
v_mov_b32 {{copy}}, s9
s_cmp_lt_u32 s9, 4
s_cbranch_scc1 L
{STORE}"""
"""Goes round while what was loaded, and copied, is below 4."""

VECTOR = LOOP.format(first="v_and_b32 v3, 3, v0", copy="v3", use="{use}")
"""v3 is below 4 in the first round, too, but differs from lane to lane there."""

SCALAR = LOOP.format(first="s_and_b32 s9, s8, 3", copy="v4", use="{use}")


def _pair(loop: str, number: str, mask: str) -> Pair:
    """The number is added to a sum, and what a mask leaves of it."""
    masked = f"v_and_b32 v6, {mask}, v7\nv_add_u32 v2, v2, v6"
    taken = f"v_mov_b32 v7, {number}\n"
    return Pair(loop.format(use=f"{taken}v_add_u32 v2, v2, v7"), loop.format(use=taken + masked))


def test_a_condition_of_lanes_is_no_fact_about_the_wave() -> None:
    """The copy makes the decision one over v3, in words; taken for the wave's it ended the proof by an assertion."""
    result = prove_kernels(*_pair(VECTOR, "v3", "3").kernels, limits=LIMITS)
    assert result.outcome in (Outcome.PROVED, Outcome.UNDECIDED)
    assert prove_kernels(*_pair(VECTOR, "v3", "1").kernels, limits=LIMITS).outcome is Outcome.REFUTED


@pytest.mark.parametrize(("mask", "outcome"), [("3", Outcome.PROVED), ("1", Outcome.REFUTED)])
def test_a_condition_of_the_wave_is_one(mask: str, outcome: Outcome) -> None:
    """The same over a scalar register."""
    assert prove_kernels(*_pair(SCALAR, "s9", mask).kernels, limits=LIMITS).outcome is outcome
