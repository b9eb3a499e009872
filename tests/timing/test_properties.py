"""What holds for every program by the model's construction: for one wave all times are maxima of sums."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from timing_kernels import build_kernel

from asmevo.timing import estimate

LINES = (
    "v_add_f32 v0, v0, v1",
    "v_mul_f32 v2, v0, v3",
    "v_exp_f32 v3, v2",
    "v_lshlrev_b64 v[4:5], 1, v[4:5]",
    "v_cmp_gt_f32 vcc_lo, v0, v3",
    "s_add_u32 s0, s0, s1",
    "global_load_b64 v[6:7], v4, s[2:3]",
    "ds_load_b32 v8, v0",
    "global_store_b32 v4, v0, s[2:3]",
    "s_waitcnt vmcnt(0)",
    "s_waitcnt vmcnt(1) lgkmcnt(0)",
    "s_nop 2",
)
PROGRAMS = st.lists(st.sampled_from(LINES), min_size=1, max_size=30)


def cycles(lines: list[str]) -> float:
    return estimate(build_kernel("gfx1100", "\n".join([*lines, "s_endpgm"])), waves=1).cycles


@settings(max_examples=40, deadline=None)
@given(PROGRAMS, st.integers(0, 30), st.integers(0, 7))
def test_adding_a_nop_never_lowers_the_estimate(lines: list[str], place: int, states: int) -> None:
    assert cycles([*lines[:place], f"s_nop {states}", *lines[place:]]) >= cycles(lines)


@settings(max_examples=40, deadline=None)
@given(PROGRAMS)
def test_issue_slots_and_stalls_add_up_to_the_cycles(lines: list[str]) -> None:
    found = estimate(build_kernel("gfx1100", "\n".join([*lines, "s_endpgm"])), waves=1)
    assert found.cycles == len(lines) + 1 + sum(stall.cycles for stall in found.stalls)


@settings(max_examples=20, deadline=None)
@given(PROGRAMS, st.integers(1, 6))
def test_the_same_kernel_gets_the_same_estimate(lines: list[str], waves: int) -> None:
    kernel = build_kernel("gfx1100", "\n".join([*lines, "s_endpgm"]))
    assert estimate(kernel, waves=waves) == estimate(kernel, waves=waves)
