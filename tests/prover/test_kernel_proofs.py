"""What `prove_kernels` must prove that structure does not show, and near misses that it must refute by running them."""

from __future__ import annotations

import pytest
from written_kernels import written

from asmevo.prover import FloatPolicy, Outcome, ProofLimits, ProofResult, prove_kernels

END = "\ns_endpgm"
STORE = "\nglobal_store_dword v[8:9], v2, off" + END
LIMITS = ProofLimits(question=100_000)


def prove(before: str, after: str, gpu: str = "gfx942", policy: FloatPolicy = FloatPolicy.EXACT) -> ProofResult:
    return prove_kernels(written(before, gpu), written(after, gpu), policy, LIMITS)


MULTIPLY = "v_mul_lo_u32 v2, v0, {}" + STORE
TRIPLE = "v_lshl_add_u32 v2, v0, {}, v0" + STORE
ADDRESS = "v_lshlrev_b64 v[2:3], 2, v[0:1]\nv_lshl_add_u64 v[4:5], v[2:3], 0, s[0:1]\n"
LOOP = """
s_mov_b32 s4, 0
{before}
.LBB0:
{inside}
v_add_u32_e32 v2, v2, v3
s_add_i32 s4, s4, 1
s_cmp_lt_u32 s4, s5
s_cbranch_scc1 .LBB0
""" + STORE.strip()

PROVED = {
    "a product with a power of two is a shift": (
        MULTIPLY.format(8), "v_lshlrev_b32 v2, 3, v0" + STORE,
    ),
    "a product with three is a shift and a sum": (MULTIPLY.format(3), TRIPLE.format(1)),
    "a quotient's shift of a scalar product": (
        "s_mul_i32 s2, s0, 16\nv_mov_b32 v2, s2" + STORE, "s_lshl_b32 s2, s0, 4\nv_mov_b32 v2, s2" + STORE,
    ),
    "x - y is x + ~y + 1": (
        "v_sub_u32 v2, v0, v1" + STORE, "v_not_b32 v3, v1\nv_add3_u32 v2, v0, v3, 1" + STORE,
    ),
    "an offset moves from the address into the instruction": (
        "v_add_u32 v1, 16, v0\nds_read_b32 v2, v1\ns_waitcnt lgkmcnt(0)" + STORE,
        "ds_read_b32 v2, v0 offset:16\ns_waitcnt lgkmcnt(0)" + STORE,
    ),
    "a 64-bit sum in two halves is one": (
        "v_add_co_u32 v4, vcc, v0, v2\nv_addc_co_u32 v5, vcc, v1, v3, vcc\nglobal_store_dword v[4:5], v6, off" + END,
        "v_lshl_add_u64 v[4:5], v[0:1], 0, v[2:3]\nglobal_store_dword v[4:5], v6, off" + END,
    ),
    "compare and select is a minimum": (
        "v_cmp_lt_i32 vcc, v0, v1\nv_cndmask_b32 v2, v1, v0, vcc" + STORE, "v_min_i32 v2, v0, v1" + STORE,
    ),
    "compare and select the other way round is a maximum": (
        "v_cmp_gt_u32 s[4:5], v0, v1\nv_cndmask_b32 v2, v1, v0, s[4:5]" + STORE, "v_max_u32 v2, v0, v1" + STORE,
    ),
    "two neighbouring loads are one of twice the size": (
        "global_load_dword v2, v[0:1], off\nglobal_load_dword v3, v[0:1], off offset:4\ns_waitcnt vmcnt(0)\n"
        "global_store_dwordx2 v[8:9], v[2:3], off" + END,
        "global_load_dwordx2 v[2:3], v[0:1], off\ns_waitcnt vmcnt(0)\nglobal_store_dwordx2 v[8:9], v[2:3], off" + END,
    ),
    "two loads of LDS are a ds_read2": (
        "ds_read_b32 v2, v0 offset:8\nds_read_b32 v3, v0 offset:64\ns_waitcnt lgkmcnt(0)\n"
        "global_store_dwordx2 v[8:9], v[2:3], off" + END,
        "ds_read2_b32 v[2:3], v0 offset0:2 offset1:16\ns_waitcnt lgkmcnt(0)\n"
        "global_store_dwordx2 v[8:9], v[2:3], off" + END,
    ),
    "scalar loads are one": (
        "s_load_dword s4, s[0:1], 0x10\ns_load_dword s5, s[0:1], 0x14\ns_waitcnt lgkmcnt(0)\ns_add_u32 s6, s4, s5\n"
        "v_mov_b32 v2, s6" + STORE,
        "s_load_dwordx2 s[10:11], s[0:1], 0x10\ns_waitcnt lgkmcnt(0)\ns_add_u32 s6, s11, s10\n"
        "v_mov_b32 v2, s6" + STORE,
    ),
    "a loop invariant is hoisted": (
        LOOP.format(before="s_nop 0", inside="v_mul_lo_u32 v3, v0, s6"),
        LOOP.format(before="v_mul_lo_u32 v3, v0, s6", inside="s_nop 0"),
    ),
    "a register is renamed in two blocks": (
        "v_add_u32 v3, v0, v1\ns_cmp_eq_u32 s0, 0\ns_cbranch_scc1 .L\nv_mul_lo_u32 v3, v3, v1\n.L:\n"
        "v_add_u32 v2, v3, v3" + STORE,
        "v_add_u32 v7, v0, v1\ns_cmp_eq_u32 s0, 0\ns_cbranch_scc1 .L\nv_mul_lo_u32 v7, v7, v1\n.L:\n"
        "v_add_u32 v2, v7, v7" + STORE,
    ),
    "an instruction moves into the next block": (
        "v_add_u32 v3, v0, v1\nv_lshlrev_b32 v4, 1, v0\ns_branch .L\n.L:\nv_add_u32 v2, v3, v4" + STORE,
        "v_add_u32 v3, v0, v1\ns_branch .L\n.L:\nv_lshlrev_b32 v4, 1, v0\nv_add_u32 v2, v3, v4" + STORE,
    ),
    "a straightened jump": (
        "v_add_u32 v3, v0, v1\ns_branch .L\n.M:\ns_endpgm\n.L:\nv_add_u32 v2, v3, v3" + STORE,
        "v_add_u32 v3, v0, v1\nv_add_u32 v2, v3, v3" + STORE,
    ),
    "a branch on the opposite condition with its goals exchanged": (
        "s_cmp_lg_u32 s0, 0\ns_cbranch_scc1 .L\nv_mov_b32 v2, 1" + STORE + "\n.L:\nv_mov_b32 v2, 2" + STORE,
        "s_cmp_eq_u32 s0, 0\ns_cbranch_scc1 .L\nv_mov_b32 v2, 2" + STORE + "\n.L:\nv_mov_b32 v2, 1" + STORE,
    ),
    "a mask in a scalar register instead of VCC": (
        "v_cmp_eq_u32 vcc, v0, v1\ns_and_saveexec_b64 s[4:5], vcc\nv_mov_b32 v2, 3" + STORE,
        "v_cmp_eq_u32 s[6:7], v0, v1\ns_and_saveexec_b64 s[4:5], s[6:7]\nv_mov_b32 v2, 3" + STORE,
    ),
    "only the solver sees it: the average without overflow": (
        "v_and_b32 v2, v0, v1\nv_xor_b32 v3, v0, v1\nv_lshrrev_b32 v3, 1, v3\nv_add_u32 v2, v2, v3" + STORE,
        "v_or_b32 v2, v0, v1\nv_xor_b32 v3, v0, v1\nv_lshrrev_b32 v3, 1, v3\n"
        "v_xor_b32 v5, v0, v1\nv_and_b32 v5, 1, v5\nv_sub_u32 v2, v2, v3\nv_sub_u32 v2, v2, v5" + STORE,
    ),
}  # fmt: skip

REFUTED = {
    "wrong shift": (MULTIPLY.format(8), "v_lshlrev_b32 v2, 2, v0" + STORE),
    "three is not five": (MULTIPLY.format(3), TRIPLE.format(2)),
    "signed where unsigned was meant": (
        "v_cmp_lt_i32 vcc, v0, v1\nv_cndmask_b32 v2, v1, v0, vcc" + STORE, "v_min_u32 v2, v0, v1" + STORE,
    ),
    "compare and select the wrong way round": (
        "v_cmp_lt_i32 vcc, v0, v1\nv_cndmask_b32 v2, v1, v0, vcc" + STORE, "v_max_i32 v2, v0, v1" + STORE,
    ),
    "an offset that is off by one element": (
        "global_load_dword v2, v[0:1], off\nglobal_load_dword v3, v[0:1], off offset:4\ns_waitcnt vmcnt(0)\n"
        "global_store_dwordx2 v[8:9], v[2:3], off" + END,
        "global_load_dwordx2 v[2:3], v[0:1], off offset:4\ns_waitcnt vmcnt(0)\n"
        "global_store_dwordx2 v[8:9], v[2:3], off" + END,
    ),
    "an address whose carry is lost": (
        "v_add_co_u32 v4, vcc, v0, v2\nv_addc_co_u32 v5, vcc, v1, v3, vcc\nglobal_store_dword v[4:5], v6, off" + END,
        "v_add_u32 v4, v0, v2\nv_add_u32 v5, v1, v3\nglobal_store_dword v[4:5], v6, off" + END,
    ),
    "the wrong lanes": (
        "v_cmp_eq_u32 vcc, v0, v1\ns_and_saveexec_b64 s[4:5], vcc\nv_mov_b32 v2, 3" + STORE,
        "v_cmp_eq_u32 vcc, v0, v1\ns_andn2_saveexec_b64 s[4:5], vcc\nv_mov_b32 v2, 3" + STORE,
    ),
    "a write that EXEC should have held back": (
        "s_mov_b64 exec, s[0:1]\nv_mov_b32 v2, v0\ns_mov_b64 exec, -1" + STORE,
        "v_mov_b32 v2, v0\ns_mov_b64 exec, -1" + STORE,
    ),
    "operands exchanged": ("v_sub_u32 v2, v0, v1" + STORE, "v_sub_u32 v2, v1, v0" + STORE),
    "a shift that fills with zeros": ("v_ashrrev_i32 v2, 4, v0" + STORE, "v_lshrrev_b32 v2, 4, v0" + STORE),
    "overflow: half of the sum": (
        "v_and_b32 v2, v0, v1\nv_xor_b32 v3, v0, v1\nv_lshrrev_b32 v3, 1, v3\nv_add_u32 v2, v2, v3" + STORE,
        "v_add_u32 v2, v0, v1\nv_lshrrev_b32 v2, 1, v2" + STORE,
    ),
    "hoisted, but not invariant": (
        LOOP.format(before="s_nop 0", inside="v_mul_lo_u32 v3, v0, s4"),
        LOOP.format(before="v_mul_lo_u32 v3, v0, s4", inside="s_nop 0"),
    ),
    "a rare value: only one number in 2**32 tells them apart": (
        "v_mov_b32 v2, 0" + STORE,
        "v_cmp_eq_u32 vcc, 0x12345678, v0\nv_cndmask_b32 v2, 0, 1, vcc" + STORE,
    ),
    "a bound that is off by one": (
        LOOP.format(before="s_nop 0", inside="v_mul_lo_u32 v3, v0, s6"),
        LOOP.format(before="s_nop 0", inside="v_mul_lo_u32 v3, v0, s6").replace("s_cmp_lt_u32", "s_cmp_le_u32"),
    ),
    "a renamed register read under its old name": (
        "v_add_u32 v3, v0, v1\nv_add_u32 v2, v3, v3" + STORE, "v_add_u32 v7, v0, v1\nv_add_u32 v2, v7, v3" + STORE,
    ),
    "a store that is gone": ("v_mov_b32 v2, 0" + STORE, "v_mov_b32 v2, 0" + END),
}  # fmt: skip


@pytest.mark.parametrize(("before", "after"), PROVED.values(), ids=PROVED.keys())
def test_proves(before: str, after: str) -> None:
    result = prove(before, after)
    assert result.outcome is Outcome.PROVED, result.reason


@pytest.mark.parametrize(("before", "after"), PROVED.values(), ids=PROVED.keys())
def test_proves_backwards(before: str, after: str) -> None:
    result = prove(after, before)
    assert result.outcome is not Outcome.REFUTED, result.reason


@pytest.mark.parametrize(("before", "after"), REFUTED.values(), ids=REFUTED.keys())
def test_refutes_with_replayed_inputs(before: str, after: str) -> None:
    result = prove(before, after)
    assert result.outcome is Outcome.REFUTED, result.reason
    assert result.counterexample is not None
    assert result.counterexample.difference == result.reason


FUSED = ("v_mul_f32 v3, v0, v1\nv_add_f32 v2, v3, v4" + STORE, "v_fma_f32 v2, v0, v1, v4" + STORE)
REGROUPED = (
    "v_add_f32 v3, v0, v1\nv_add_f32 v2, v3, v4" + STORE, "v_add_f32 v3, v1, v4\nv_add_f32 v2, v0, v3" + STORE
)  # fmt: skip


@pytest.mark.parametrize(
    ("pair", "loosest_that_fails"), [(FUSED, FloatPolicy.NAN), (REGROUPED, FloatPolicy.CONTRACT)], ids=["fused", "sum"]
)
def test_policies_allow_what_they_say_and_no_more(pair: tuple[str, str], loosest_that_fails: FloatPolicy) -> None:
    for policy in FloatPolicy:
        result = prove(*pair, policy=policy)
        assert (result.outcome is Outcome.PROVED) == (policy > loosest_that_fails), (policy, result.reason)
        assert result.policy is policy


def test_an_unrolled_loop_is_undecided_and_says_where() -> None:
    before = LOOP.format(before="s_nop 0", inside="v_mul_lo_u32 v3, v0, s6")
    body = "v_mul_lo_u32 v3, v0, s6\nv_add_u32_e32 v2, v2, v3\ns_add_i32 s4, s4, 1\ns_cmp_lt_u32 s4, s5\n"
    after = before.replace(".LBB0:", f"{body}s_cbranch_scc0 .LBB1\n.LBB0:").replace(
        "s_cbranch_scc1 .LBB0", "s_cbranch_scc1 .LBB0\n.LBB1:"
    )
    result = prove(before, after)
    assert result.outcome is not Outcome.REFUTED
    assert result.reason


def test_a_load_that_may_fault_is_not_proved_away() -> None:
    result = prove("v_mov_b32 v2, 0" + STORE, "v_mov_b32 v2, 0\nglobal_load_dword v3, v[0:1], off" + STORE)
    assert result.outcome is Outcome.UNDECIDED
    assert "global_load_dword" in result.reason
