"""Signs of products under `contract`, and what a comparison of one block looks at."""

from __future__ import annotations

import pytest
from written_kernels import written

from asmevo.prover import FloatPolicy, Outcome, ProofLimits, ProofResult, prove_kernels

RETURN = "\nv_mov_b32 v9, 0\ns_setpc_b64 s[30:31]"
LIMITS = ProofLimits(draws=0)
DIFFERENCE = "v_mul_f32 v9, v1, v2\nv_sub_f32 v0, v3, v9"


def result(before: str, after: str, policy: FloatPolicy) -> ProofResult:
    return prove_kernels(written(before + RETURN), written(after + RETURN), policy, LIMITS)


@pytest.mark.parametrize("after", ["v_fma_f32 v0, -v1, v2, v3", "v_fma_f32 v0, v1, -v2, v3"])
def test_the_sign_of_a_factor_is_the_products(after: str) -> None:
    assert result(DIFFERENCE, after, FloatPolicy.CONTRACT).outcome is Outcome.PROVED
    assert result(DIFFERENCE, after, FloatPolicy.NAN).outcome is Outcome.UNDECIDED


@pytest.mark.parametrize(
    "after", ["v_fma_f32 v0, v1, v2, v3", "v_fma_f32 v0, -v1, -v2, v3", "v_fma_f32 v0, v1, v2, -v3"]
)
@pytest.mark.parametrize("policy", [FloatPolicy.CONTRACT, FloatPolicy.REASSOC])
def test_another_sign_is_another_value(after: str, policy: FloatPolicy) -> None:
    assert result(DIFFERENCE, after, policy).outcome is Outcome.UNDECIDED


def test_two_signs_are_none() -> None:
    both, none = "v_fma_f32 v0, -v1, -v2, v3", "v_fma_f32 v0, v1, v2, v3"
    assert result(both, none, FloatPolicy.CONTRACT).outcome is Outcome.PROVED
    assert result(both, none, FloatPolicy.EXACT).outcome is Outcome.UNDECIDED


@pytest.mark.parametrize("stray", ["v_mov_b32 v5, 0", "s_mov_b32 s5, 0", "s_mov_b64 vcc, 0", "s_cmp_eq_u32 s1, s2"])
def test_a_register_that_only_the_version_after_writes_counts(stray: str) -> None:
    before = "v_lshlrev_b32 v9, 2, v1\nv_add_u32 v0, v9, v2"
    after = "v_lshl_add_u32 v0, v1, 2, v2"
    assert result(before, after, FloatPolicy.EXACT).outcome is Outcome.PROVED
    assert result(before, f"{after}\n{stray}", FloatPolicy.EXACT).outcome is Outcome.UNDECIDED
    assert result(f"{before}\n{stray}", after, FloatPolicy.EXACT).outcome is Outcome.UNDECIDED
