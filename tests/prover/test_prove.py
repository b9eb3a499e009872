"""`prove_kernels`: rewrites that are right are proved, near misses are refuted by a run."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from proof_pairs import DIFFERENT, EQUAL, STORE, Pair
from written_kernels import written

from asmevo.program.kernel import Kernel
from asmevo.prover import FloatPolicy, Outcome, ProofLimits, ProofResult, prove_kernels
from asmevo.prover.product import Product

# More draws than usual: the seeds are fixed, so a test is as sure on every machine.
LIMITS = ProofLimits(draws=60, replay=1_000_000)


def outcome(pair: Pair, policy: FloatPolicy = FloatPolicy.EXACT) -> ProofResult:
    return prove_kernels(*pair.kernels, policy, LIMITS)


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


LOAD = "global_load_dword v2, v10, s[0:1] offset:16"
OTHER = "global_store_dword v10, v1, s[0:1]"


def test_a_load_may_pass_a_store_forward_in_time_only() -> None:
    head = "v_mov_b32 v10, 0\n"  # one address for the whole wave
    tail = f"\n{STORE}"
    behind, in_front = f"{head}{OTHER}\n{LOAD}{tail}", f"{head}{LOAD}\n{OTHER}{tail}"
    assert outcome(Pair(behind, in_front)).outcome is Outcome.PROVED
    assert outcome(Pair(in_front, behind)).outcome is Outcome.UNDECIDED


def test_where_lanes_that_are_on_differ_nothing_is_assumed_of_a_lane() -> None:
    text = "s_mov_b64 exec, {}\nv_mov_b32 v2, 1\ns_cbranch_scc1 L\ns_nop 0\nL:\n" + STORE
    assert outcome(Pair(text.format("s[0:1]"), text.format("s[2:3]"))).outcome is Outcome.REFUTED


def test_a_branch_to_code_outside_goes_on_behind_it() -> None:
    text = "s_cbranch_scc1 L\nv_mov_b32 v2, {}\n" + STORE + "\nL:\ns_endpgm"
    before, after = (branching_outside(written(text.format(number))) for number in (1, 2))
    assert prove_kernels(before, before, limits=LIMITS).outcome is Outcome.PROVED
    assert Product(before, after).compare().proved is False
    assert Product(before, before).compare().proved is True


def branching_outside(kernel: Kernel) -> Kernel:
    """The kernel with its first branch going to a label that is not in it."""
    first, *others = kernel.blocks
    branch = replace(first.instructions[-1], target="elsewhere")
    return kernel.with_blocks((replace(first, instructions=(*first.instructions[:-1], branch)), *others))


def test_a_loop_with_another_number_of_rounds_is_not_proved_by_its_body() -> None:
    text = (
        "s_mov_b32 s4, 0\nL:\nv_add_u32 v2, 1, v2\ns_add_u32 s4, s4, 1\ns_cmp_lt_u32 s4, {}\ns_cbranch_scc1 L\n" + STORE
    )
    assert outcome(Pair(text.format(4), text.format(4))).outcome is Outcome.PROVED
    assert outcome(Pair(text.format(4), text.format(5))).outcome is Outcome.REFUTED
