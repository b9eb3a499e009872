"""A branch over code that no lane runs, left out or put in: right where that code does nothing without lanes."""

from __future__ import annotations

import pytest
from proof_pairs import STORE, Pair
from written_kernels import written

from asmevo.prover import Outcome, ProofLimits, ProofResult, prove_kernels

LIMITS = ProofLimits(draws=40, replay=1_000_000)
TEXT = """v_mov_b32 v2, 0
v_cmp_lt_u32_e32 vcc, v0, v1
s_and_saveexec_b64 s[4:5], vcc
{branch}
{code}
L:
{behind}
"""
RESTORE = "s_mov_b64 exec, s[4:5]\n" + STORE

# With EXEC = 0 vector instructions leave memory and vector registers as they are; scalar ones do what they do.
DOES_NOTHING = {
    "vector arithmetic": "v_add_u32 v2, v0, v3",
    "a load": "global_load_dword v2, v[10:11], off\ns_waitcnt vmcnt(0)",
    "LDS": "ds_read_b32 v5, v4\ns_waitcnt lgkmcnt(0)\nds_write_b32 v4, v5 offset:8",
    "stores": "global_store_dword v[10:11], v2, off\nglobal_store_dword v[12:13], v3, off",
    "an atomic": "global_atomic_add v2, v[10:11], v3, off sc0\ns_waitcnt vmcnt(0)",
    "scalars that nobody reads any more": "s_add_u32 s7, s8, s9\nv_mov_b32 v2, s7",
    "a mask that nobody reads any more": "v_cmp_eq_u32_e32 vcc, v0, v3\nv_cndmask_b32_e32 v2, v0, v3, vcc",
    "a first lane of no lane": "v_readfirstlane_b32 s7, v3\nv_mov_b32 v2, s7",
    "such a branch within": "v_cmp_gt_u32_e32 vcc, v0, v3\ns_and_saveexec_b64 s[6:7], vcc\ns_cbranch_execz L2\n"
    "v_mov_b32 v2, v1\nL2:\ns_mov_b64 exec, s[6:7]",
    "a loop that runs until no lane is left": "M:\nglobal_store_dword v[10:11], v2, off\nv_add_u32 v2, 1, v2\n"
    "v_cmp_gt_u32_e32 vcc, 10, v2\ns_and_b64 exec, exec, vcc\ns_cbranch_execnz M",
}
COUNTS = {
    "a scalar that is read": ("s_add_u32 s7, s8, 1", f"s_mov_b64 exec, s[4:5]\nv_mov_b32 v2, s7\n{STORE}"),
    "the mask of all lanes": ("s_mov_b64 s[4:5], -1", RESTORE),
    "EXEC itself": (
        "s_mov_b64 exec, -1\nv_mov_b32 v2, 5", f"s_mov_b64 exec, -1\n{STORE}",
    ),
    "a comparison's mask that is read": (
        "v_cmp_eq_u32_e64 s[6:7], v0, v0", f"s_mov_b64 exec, s[4:5]\nv_cndmask_b32_e64 v2, 1, 2, s[6:7]\n{STORE}",
    ),
    "a first lane that is read": (
        "v_readfirstlane_b32 s7, v3", f"s_mov_b64 exec, s[4:5]\nv_mov_b32 v2, s7\n{STORE}",
    ),
}  # fmt: skip
UNDECIDED = {
    "a barrier": "v_add_u32 v2, v0, v3\ns_barrier",
    "a scalar load from an address that may not be there": "s_load_dword s7, s[10:11], 0x0\ns_waitcnt lgkmcnt(0)\n"
    "v_mov_b32 v2, s7",
}


def pair(code: str, behind: str = RESTORE) -> Pair:
    """With the branch, and without it."""
    branching, plain = (TEXT.format(branch=each, code=code, behind=behind) for each in ("s_cbranch_execz L", "s_nop 0"))
    return Pair(branching, plain)


def result(before: str, after: str) -> ProofResult:
    return prove_kernels(written(before), written(after), limits=LIMITS)


@pytest.mark.parametrize("name", DOES_NOTHING)
def test_the_branch_may_go_and_come(name: str) -> None:
    both = pair(DOES_NOTHING[name])
    assert (found := result(both.before, both.after)).outcome is Outcome.PROVED, found.reason
    assert (found := result(both.after, both.before)).outcome is Outcome.PROVED, found.reason


@pytest.mark.parametrize("name", COUNTS)
def test_code_that_counts_without_lanes_is_refuted_by_a_run(name: str) -> None:
    both = pair(*COUNTS[name])
    assert (found := result(both.before, both.after)).outcome is Outcome.REFUTED, found.reason
    assert (found := result(both.after, both.before)).outcome is Outcome.REFUTED, found.reason


@pytest.mark.parametrize("name", UNDECIDED)
def test_what_a_run_of_one_wave_does_not_show_is_not_proved(name: str) -> None:
    both = pair(UNDECIDED[name])
    assert (found := result(both.before, both.after)).outcome is Outcome.UNDECIDED, found.reason
