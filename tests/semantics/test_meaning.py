"""Meanings against hand-worked expectations and numpy, against LLVM's register sets, and AMD's texts against ours."""

from __future__ import annotations

import math
import random
import struct

import numpy as np
import pytest
from msgspec.structs import replace
from one_lane import Lane, decoded, execute, f16, f32, f64, from_f32, results

from asmevo.program.decode import DecodingContext, decode_code
from asmevo.semantics import naming, parsing
from asmevo.semantics.expression import Control, Exactness, Scope
from asmevo.semantics.meaning import interpreted, meaning_of
from asmevo.target import load_target

ONES = 0xFFFFFFFF
NAN = 0x7FC00000
SIGNALING = 0x7F800001
INF = 0x7F800000

# (GPU, text, printed operands' contents, implicit registers, what must come out). Worked by hand.
CASES = [
    # scalar integers and the condition bit
    ("gfx942", "s_add_u32 s0, s1, s2", {1: ONES, 2: 2}, {}, {0: 1, "scc": 1}),
    ("gfx942", "s_add_u32 s0, s1, s2", {1: 5, 2: 2}, {}, {0: 7, "scc": 0}),
    ("gfx942", "s_addc_u32 s0, s1, s2", {1: ONES, 2: 0}, {"scc": 1}, {0: 0, "scc": 1}),
    ("gfx942", "s_subb_u32 s0, s1, s2", {1: 0, 2: 0}, {"scc": 1}, {0: ONES, "scc": 1}),
    ("gfx942", "s_add_i32 s0, s1, s2", {1: 0x7FFFFFFF, 2: 1}, {}, {0: 0x80000000, "scc": 1}),
    ("gfx942", "s_sub_i32 s0, s1, s2", {1: 0x80000000, 2: 1}, {}, {0: 0x7FFFFFFF, "scc": 1}),
    ("gfx1201", "s_add_co_u32 s0, s1, s2", {1: ONES, 2: 1}, {}, {0: 0, "scc": 1}),
    ("gfx1201", "s_add_nc_u64 s[0:1], s[2:3], s[4:5]", {1: ONES, 2: 1}, {}, {0: 1 << 32}),
    ("gfx942", "s_lshl_b32 s0, s1, s2", {1: 3, 2: 33}, {}, {0: 6, "scc": 1}),
    ("gfx942", "s_lshl2_add_u32 s0, s1, s2", {1: 0x40000000, 2: 5}, {}, {0: 5, "scc": 1}),
    ("gfx942", "s_ashr_i32 s0, s1, s2", {1: 0x80000000, 2: 31}, {}, {0: ONES, "scc": 1}),
    ("gfx942", "s_bfe_u32 s0, s1, 0x80004", {1: 0xABCDEF12}, {}, {0: 0xF1, "scc": 1}),
    ("gfx942", "s_bfe_i32 s0, s1, 0x80004", {1: 0xABCDEF12}, {}, {0: 0xFFFFFFF1, "scc": 1}),
    ("gfx942", "s_bfe_i32 s0, s1, 0x200000", {1: 0x80000000}, {}, {0: 0x80000000, "scc": 1}),
    ("gfx942", "s_abs_i32 s0, s1", {1: 0xFFFFFFFB}, {}, {0: 5, "scc": 1}),
    ("gfx942", "s_min_i32 s0, s1, s2", {1: ONES, 2: 4}, {}, {0: ONES, "scc": 1}),
    ("gfx942", "s_min_u32 s0, s1, s2", {1: ONES, 2: 4}, {}, {0: 4, "scc": 0}),
    ("gfx942", "s_mul_hi_u32 s0, s1, s2", {1: ONES, 2: ONES}, {}, {0: 0xFFFFFFFE}),
    ("gfx942", "s_ff1_i32_b32 s0, s1", {1: 0x50}, {}, {0: 4}),
    ("gfx942", "s_ff1_i32_b32 s0, s1", {1: 0}, {}, {0: ONES}),
    ("gfx942", "s_flbit_i32_b32 s0, s1", {1: 0x00010000}, {}, {0: 15}),
    ("gfx942", "s_flbit_i32 s0, s1", {1: 0xFFFF0000}, {}, {0: 16}),
    ("gfx942", "s_bcnt1_i32_b64 s0, s[2:3]", {1: 0xF0F00000001}, {}, {0: 9, "scc": 1}),
    ("gfx942", "s_brev_b32 s0, s1", {1: 0x80000001}, {}, {0: 0x80000001}),
    ("gfx942", "s_bitset1_b32 s0, s1", {0: 0, 1: 37}, {}, {0: 32}),
    ("gfx942", "s_bitcmp1_b32 s0, s1", {0: 8, 1: 3}, {}, {"scc": 1}),
    ("gfx942", "s_cselect_b32 s0, s1, s2", {1: 7, 2: 9}, {"scc": 0}, {0: 9}),
    ("gfx942", "s_cmov_b32 s0, s1", {0: 3, 1: 7}, {"scc": 0}, {0: 3}),
    ("gfx942", "s_movk_i32 s0, 0x8000", {}, {}, {0: 0xFFFF8000}),
    ("gfx942", "s_addk_i32 s0, 0xffff", {0: 0x80000000}, {}, {0: 0x7FFFFFFF, "scc": 1}),
    ("gfx1100", "s_addk_i32 s0, 0xffff", {0: 5}, {}, {0: 4, "scc": 0}),
    ("gfx90a", "s_cmpk_eq_i32 s6, 0xa0", {0: 0xA0}, {}, {"scc": 1}),
    ("gfx942", "s_cmp_lt_i32 s0, s1", {0: ONES, 1: 0}, {}, {"scc": 1}),
    ("gfx942", "s_cmp_lt_u32 s0, s1", {0: ONES, 1: 0}, {}, {"scc": 0}),
    ("gfx942", "s_pack_lh_b32_b16 s0, s1, s2", {1: 0x11112222, 2: 0x33334444}, {}, {0: 0x33332222}),
    ("gfx942", "s_wqm_b32 s0, s1", {1: 0x00100002}, {}, {0: 0x00F0000F, "scc": 1}),
    (
        "gfx942",
        "s_and_saveexec_b64 s[0:1], s[2:3]",
        {1: 0xF0},
        {"exec": 0x3C},
        {0: 0x3C, "exec": 0x30, "scc": 1},
    ),
    (
        "gfx1030",
        "s_andn2_saveexec_b32 s0, s1",
        {1: 0xF0},
        {"exec": 0x10},
        {0: 0x10, "exec": 0xE0, "scc": 1},
    ),
    ("gfx1201", "s_mul_f32 s0, s1, s2", {1: f32(1.5), 2: f32(-2.0)}, {}, {0: f32(-3.0)}),
    # vector integers and carries
    ("gfx942", "v_add_u32_e32 v0, v1, v2", {1: ONES, 2: 2}, {}, {0: 1}),
    ("gfx942", "v_add_u32_e64 v0, v1, v2 clamp", {1: ONES, 2: 2}, {}, {0: ONES}),
    ("gfx942", "v_add_co_u32_e32 v0, vcc, v1, v2", {2: ONES, 3: 2}, {}, {0: 1, 1: 1}),
    ("gfx803", "v_add_u32_e32 v0, vcc, v1, v2", {2: ONES, 3: 2}, {}, {0: 1, 1: 1}),
    ("gfx942", "v_addc_co_u32_e32 v0, vcc, v1, v2, vcc", {2: ONES, 3: 0, 4: 1}, {}, {0: 0, 1: 1}),
    ("gfx803", "v_subb_u32_e32 v0, vcc, v1, v2, vcc", {2: 0, 3: 0, 4: 1}, {}, {0: ONES, 1: 1}),
    ("gfx1100", "v_add_co_ci_u32_e64 v0, s2, v1, v2, s4", {2: 1, 3: 2, 4: 1}, {}, {0: 4, 1: 0}),
    ("gfx942", "v_subrev_u32_e32 v0, v1, v2", {1: 1, 2: 10}, {}, {0: 9}),
    ("gfx942", "v_mad_u64_u32 v[0:1], vcc, v2, v3, v[4:5]", {2: ONES, 3: ONES, 4: (1 << 64) - 1}, {},
     {0: (ONES * ONES - 1) & ((1 << 64) - 1), 1: 1}),
    ("gfx942", "v_mul_hi_u32 v0, v1, v2", {1: 0x80000000, 2: 6}, {}, {0: 3}),
    ("gfx942", "v_mul_hi_i32 v0, v1, v2", {1: 0x80000000, 2: 6}, {}, {0: 0xFFFFFFFD}),
    ("gfx942", "v_mul_u32_u24_e32 v0, v1, v2", {1: 0xFF000003, 2: 0x01000005}, {}, {0: 15}),
    ("gfx942", "v_mul_i32_i24_e32 v0, v1, v2", {1: 0x00FFFFFF, 2: 5}, {}, {0: 0xFFFFFFFB}),
    ("gfx942", "v_mad_i32_i24 v0, v1, v2, v3", {1: 0xFFFFFF, 2: 5, 3: 7}, {}, {0: 2}),
    ("gfx942", "v_bfe_u32 v0, v1, v2, v3", {1: 0x12345678, 2: 8, 3: 8}, {}, {0: 0x56}),
    ("gfx942", "v_bfe_i32 v0, v1, v2, v3", {1: 0x0000F000, 2: 12, 3: 4}, {}, {0: ONES}),
    ("gfx942", "v_bfi_b32 v0, v1, v2, v3", {1: 0xFF00, 2: 0xABCD, 3: 0x1234}, {}, {0: 0xAB34}),
    ("gfx942", "v_alignbit_b32 v0, v1, v2, v3", {1: 0x1, 2: 0x80000000, 3: 31}, {}, {0: 3}),
    ("gfx942", "v_alignbyte_b32 v0, v1, v2, v3", {1: 0x11223344, 2: 0x55667788, 3: 1}, {}, {0: 0x44556677}),
    ("gfx942", "v_perm_b32 v0, v1, v2, v3", {1: 0x77665544, 2: 0x33221100, 3: 0x0C0D0704}, {}, {0: 0x00FF7744}),
    ("gfx1100", "v_perm_b32 v0, v1, v2, 0x5040100", {1: 0x77665544, 2: 0x33221100}, {}, {0: 0x55441100}),
    ("gfx942", "v_lshl_add_u32 v0, v1, 4, v2", {1: 3, 3: 5}, {}, {0: 53}),
    ("gfx942", "v_lshl_add_u64 v[0:1], v[2:3], 3, v[4:5]", {1: 1 << 40, 3: 7}, {}, {0: (1 << 43) + 7}),
    ("gfx942", "v_xad_u32 v0, v1, v2, v3", {1: 6, 2: 3, 3: 10}, {}, {0: 15}),
    ("gfx942", "v_sad_u8 v0, v1, v2, v3", {1: 0x01020304, 2: 0x04030201, 3: 100}, {}, {0: 108}),
    ("gfx942", "v_lerp_u8 v0, v1, v2, v3", {1: 0xFF, 2: 0xFF, 3: 1}, {}, {0: 0xFF}),
    ("gfx942", "v_mbcnt_lo_u32_b32 v0, v1, v2", {1: ONES, 2: 10}, {"lane": 5}, {0: 15}),
    ("gfx942", "v_mbcnt_lo_u32_b32 v0, v1, v2", {1: ONES, 2: 10}, {"lane": 40}, {0: 42}),
    ("gfx942", "v_mbcnt_hi_u32_b32 v0, v1, v2", {1: ONES, 2: 10}, {"lane": 40}, {0: 18}),
    ("gfx942", "v_ffbh_u32_e32 v0, v1", {1: 1}, {}, {0: 31}),
    ("gfx1100", "v_ctz_i32_b32_e32 v0, v1", {1: 0}, {}, {0: ONES}),
    ("gfx942", "v_ashrrev_i32_e32 v0, v1, v2", {1: 36, 2: 0x80000000}, {}, {0: 0xF8000000}),
    ("gfx942", "v_lshlrev_b64 v[0:1], v2, v[4:5]", {1: 33, 2: 3}, {}, {0: 3 << 33}),
    ("gfx942", "v_med3_i32 v0, v1, v2, v3", {1: 5, 2: ONES, 3: 2}, {}, {0: 2}),
    ("gfx942", "v_cndmask_b32_e64 v0, v1, v2, s[4:5]", {1: 1, 2: 2, 3: 1}, {}, {0: 2}),
    ("gfx942", "v_cndmask_b32_e64 v0, -v1, v2, s[4:5]", {1: f32(1.0), 2: 2, 3: 0}, {}, {0: f32(-1.0)}),
    ("gfx950", "v_bitop3_b32 v0, v1, v2, v3 bitop3:0x36", {1: 0b11110000, 2: 0b11001100, 3: 0b10101010}, {},
     {0: 0b00110110}),
    ("gfx942", "v_add_u16_e32 v0, v1, v2", {0: 0x55550000, 1: 0xFFFF, 2: 2}, {}, {0: 1}),
    ("gfx1100", "v_add_nc_u16 v0.h, v1.l, v2.l", {0: 0x5555, 1: 0xFFFF, 2: 2}, {}, {0: 0x00015555}),
    ("gfx942", "v_dot4c_i32_i8_e32 v0, v1, v2", {0: 10, 1: 0xFF010203, 2: 0x02010101}, {}, {0: 14}),
    ("gfx942", "v_swap_b32 v0, v1", {0: 3, 1: 4}, {}, {0: 4, 1: 3}),
    # comparisons
    ("gfx942", "v_cmp_lt_i32_e32 vcc, v0, v1", {1: ONES, 2: 0}, {}, {0: 1}),
    ("gfx942", "v_cmp_nlt_f32_e32 vcc, v0, v1", {1: NAN, 2: 0}, {}, {0: 1}),
    ("gfx942", "v_cmp_lg_f32_e32 vcc, v0, v1", {1: NAN, 2: 0}, {}, {0: 0}),
    ("gfx942", "v_cmp_neq_f32_e32 vcc, v0, v1", {1: NAN, 2: 0}, {}, {0: 1}),
    ("gfx942", "v_cmp_eq_f32_e32 vcc, v0, v1", {1: 0x80000000, 2: 0}, {}, {0: 1}),
    ("gfx942", "v_cmp_class_f32_e64 s[0:1], v0, v1", {1: 0xFF800000, 2: 4}, {}, {0: 1}),
    ("gfx942", "v_cmp_class_f32_e64 s[0:1], v0, v1", {1: SIGNALING, 2: 2}, {}, {0: 0}),
    ("gfx1030", "v_cmpx_gt_u32_e32 v0, v1", {0: 4, 1: 3}, {}, {"exec_bit": 1}),
    ("gfx942", "v_cmpx_gt_u32_e32 vcc, v0, v1", {1: 4, 2: 3}, {}, {0: 1, "exec_bit": 1}),
    # floating point
    ("gfx942", "v_fmac_f32_e32 v0, v1, v2", {0: f32(1.0), 1: f32(2.0), 2: f32(3.0)}, {}, {0: f32(7.0)}),
    ("gfx942", "v_fmamk_f32 v0, v1, 0x40000000, v2", {1: f32(3.0), 3: f32(1.0)}, {}, {0: f32(7.0)}),
    ("gfx942", "v_fmaak_f32 v0, v1, v2, 0x3f800000", {1: f32(3.0), 2: f32(2.0)}, {}, {0: f32(7.0)}),
    ("gfx942", "v_max_f32_e32 v0, v1, v2", {1: NAN, 2: f32(1.0)}, {}, {0: f32(1.0)}),
    ("gfx942", "v_max_f32_e32 v0, v1, v2", {1: SIGNALING, 2: f32(1.0)}, {}, {0: SIGNALING | 0x400000}),
    ("gfx942", "v_max_f32_e32 v0, v1, v2", {1: SIGNALING, 2: f32(1.0)}, {"mode": 0}, {0: f32(1.0)}),
    ("gfx942", "v_min_f32_e32 v0, v1, v2", {1: 0, 2: 0x80000000}, {}, {0: 0x80000000}),
    ("gfx1201", "v_max_num_f32_e32 v0, v1, v2", {1: SIGNALING, 2: f32(1.0)}, {}, {0: f32(1.0)}),
    ("gfx1201", "v_maximum_f32 v0, v1, v2", {1: NAN, 2: f32(1.0)}, {}, {0: NAN}),
    ("gfx942", "v_med3_f32 v0, v1, v2, v3", {1: f32(3.0), 2: f32(1.0), 3: f32(2.0)}, {}, {0: f32(2.0)}),
    ("gfx942", "v_rndne_f32_e32 v0, v1", {1: f32(2.5)}, {}, {0: f32(2.0)}),
    ("gfx942", "v_rndne_f32_e32 v0, v1", {1: f32(8388609.0)}, {}, {0: f32(8388609.0)}),
    ("gfx942", "v_floor_f32_e32 v0, v1", {1: f32(-0.5)}, {}, {0: f32(-1.0)}),
    ("gfx942", "v_fract_f32_e32 v0, v1", {1: f32(-2.0**-30)}, {}, {0: 0x3F7FFFFF}),
    ("gfx942", "v_frexp_exp_i32_f32_e32 v0, v1", {1: 1}, {}, {0: (-148) & ONES}),
    ("gfx942", "v_ldexp_f32 v0, v1, v2", {1: f32(2.0**-100), 2: 200}, {}, {0: f32(2.0**100)}),
    ("gfx942", "v_cvt_u32_f32_e32 v0, v1", {1: f32(-3.0)}, {}, {0: 0}),
    ("gfx942", "v_cvt_i32_f32_e32 v0, v1", {1: f32(-3.9)}, {}, {0: (-3) & ONES}),
    ("gfx942", "v_cvt_i32_f32_e32 v0, v1", {1: INF}, {}, {0: 0x7FFFFFFF}),
    ("gfx942", "v_cvt_i32_f32_e32 v0, v1", {1: NAN}, {}, {0: 0}),
    ("gfx942", "v_cvt_f32_ubyte1_e32 v0, v1", {1: 0x0000FE00}, {}, {0: f32(254.0)}),
    ("gfx942", "v_cvt_f16_f32_e32 v0, v1", {0: 0x12340000, 1: f32(1.0009766)}, {}, {0: f16(1.0009766)}),
    ("gfx942", "v_cvt_pkrtz_f16_f32 v0, v1, v2", {1: f32(1.0009), 2: f32(-1.0)}, {}, {0: 0xBC003C00}),
    ("gfx942", "v_cvt_pk_u16_u32 v0, v1, v2", {1: 70000, 2: 3}, {}, {0: 0x0003FFFF}),
    ("gfx942", "v_cvt_pk_i16_i32 v0, v1, v2", {1: (-70000) & ONES, 2: 3}, {}, {0: 0x00038000}),
    ("gfx942", "v_cvt_off_f32_i4_e32 v0, v1", {1: 0xF8}, {}, {0: f32(-0.5)}),
    ("gfx942", "v_pack_b32_f16 v0, v1, v2", {1: 0x1111, 2: 0x2222}, {}, {0: 0x22221111}),
    ("gfx942", "v_mul_legacy_f32 v0, v1, v2", {1: 0, 2: INF}, {}, {0: 0}),
    ("gfx942", "v_add_f64 v[0:1], v[2:3], v[4:5]", {1: f64(0.1), 2: f64(0.2)}, {}, {0: f64(0.1 + 0.2)}),
    ("gfx942", "v_fma_f32 v0, v1, |v2|, -v3", {1: f32(2.0), 2: f32(-3.0), 3: f32(1.0)}, {}, {0: f32(5.0)}),
    ("gfx942", "v_mul_f32_e64 v0, v1, v2 clamp mul:2", {1: f32(2.0), 2: f32(3.0)}, {}, {0: f32(1.0)}),
    ("gfx942", "v_exp_f32_e32 v0, v1", {1: f32(3.0)}, {}, {0: f32(8.0)}),
    ("gfx942", "v_log_f32_e32 v0, v1", {1: f32(0.25)}, {}, {0: f32(-2.0)}),
    ("gfx942", "v_rsq_f32_e32 v0, v1", {1: f32(16.0)}, {}, {0: f32(0.25)}),
    ("gfx942", "v_sin_f32_e32 v0, v1", {1: f32(0.25)}, {}, {0: f32(1.0)}),
    ("gfx1201", "v_s_rcp_f32 s4, s5", {1: f32(4.0)}, {}, {0: f32(0.25)}),
    # dual: both halves read before either writes
    (
        "gfx1100",
        "v_dual_mov_b32 v0, v1 :: v_dual_add_f32 v1, v0, v2",
        {1: 77, 3: f32(1.0), 4: f32(2.0)},
        {},
        {0: 77, 2: f32(3.0)},
    ),
    ("gfx1100", "v_dual_cndmask_b32 v0, v1, v2 :: v_dual_mov_b32 v3, v4", {1: 1, 2: 2, 4: 9}, {"vcc_bit": 1},
     {0: 2, 3: 9}),
    ("gfx1100", "v_dual_fmaak_f32 v0, v1, v2, 0x3f800000 :: v_dual_mov_b32 v3, v4", {1: f32(3.0), 2: f32(2.0), 5: 9},
     {}, {0: f32(7.0), 4: 9}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("gpu", "text", "operands", "implicit", "expected"), CASES, ids=[f"{case[0]} {case[1]}" for case in CASES]
)
def test_hand_worked(gpu, text, operands, implicit, expected):
    outcome = execute(text, gpu, operands, implicit)
    assert {key: hex(outcome[key]) for key in expected} == {key: hex(value) for key, value in expected.items()}
    assert set(outcome) == set(expected)


def test_enough_hand_worked_cases():
    assert len({case[1].split()[0] for case in CASES}) >= 60


# --- against numpy ------------------------------------------------------------------------------------------

EDGES_F32 = [0, 1, 0x7FFFFF, 0x800000, f32(1.0), 0x3F7FFFFF, 0x3F800001, f32(-1.5), 0x7F7FFFFF, INF, 0xFF800000, NAN]
EDGES_F32 += [edge ^ 0x80000000 for edge in EDGES_F32]


def random_f32(source: random.Random) -> int:
    """Edge values half of the time, any bits otherwise."""
    return source.choice(EDGES_F32) if source.random() < 0.5 else source.getrandbits(32)


def numpy_f32(bits: int) -> np.float32:
    return np.frombuffer(struct.pack("<I", bits), np.float32)[0]


def same_f32(bits: int, number: np.float32) -> bool:
    """Equal encodings; any NaN stands for any other."""
    if np.isnan(number):
        return math.isnan(from_f32(bits))
    return bits == int.from_bytes(number.tobytes(), "little")


@pytest.mark.parametrize(
    ("text", "function"),
    [
        ("v_add_f32_e32 v0, v1, v2", lambda a, b: a + b),
        ("v_sub_f32_e32 v0, v1, v2", lambda a, b: a - b),
        ("v_subrev_f32_e32 v0, v1, v2", lambda a, b: b - a),
        ("v_mul_f32_e32 v0, v1, v2", lambda a, b: a * b),
        ("v_max_f32_e32 v0, v1, v2", np.fmax),
        ("v_min_f32_e32 v0, v1, v2", np.fmin),
    ],
)
def test_single_precision_as_numpy(text, function):
    source = random.Random(text)
    for _ in range(300):
        a, b = random_f32(source), random_f32(source)
        x, y = numpy_f32(a), numpy_f32(b)
        if x == y == 0 and function in (np.fmax, np.fmin):
            continue  # which zero numpy gives is open
        with np.errstate(all="ignore"):
            expected = np.float32(function(x, y))
        (result,) = execute(text, "gfx942", {1: a, 2: b}).values()
        assert same_f32(result, expected), (hex(a), hex(b), hex(result), expected)


# --- our shorter texts against AMD's ------------------------------------------------------------------------

SAME_SAMPLES = {
    "v_perm_b32": ("gfx942", "v_perm_b32 v0, v1, v2, v3"),
    "v_floor_f32": ("gfx942", "v_floor_f32_e32 v0, v1"),
    "v_ceil_f32": ("gfx942", "v_ceil_f32_e32 v0, v1"),
    "v_floor_f16": ("gfx942", "v_floor_f16_e32 v0, v1"),
    "v_ceil_f16": ("gfx942", "v_ceil_f16_e32 v0, v1"),
    "v_floor_f64": ("gfx942", "v_floor_f64_e32 v[0:1], v[2:3]"),
    "v_ceil_f64": ("gfx942", "v_ceil_f64_e32 v[0:1], v[2:3]"),
    "s_floor_f32": ("gfx1201", "s_floor_f32 s0, s1"),
    "s_ceil_f32": ("gfx1201", "s_ceil_f32 s0, s1"),
    "s_floor_f16": ("gfx1201", "s_floor_f16 s0, s1"),
    "s_ceil_f16": ("gfx1201", "s_ceil_f16 s0, s1"),
    "s_ff1_i32_b32": ("gfx942", "s_ff1_i32_b32 s0, s1"),
    "s_ff1_i32_b64": ("gfx942", "s_ff1_i32_b64 s0, s[2:3]"),
    "s_ff0_i32_b32": ("gfx942", "s_ff0_i32_b32 s0, s1"),
    "s_ff0_i32_b64": ("gfx942", "s_ff0_i32_b64 s0, s[2:3]"),
    "s_ctz_i32_b32": ("gfx1100", "s_ctz_i32_b32 s0, s1"),
    "s_ctz_i32_b64": ("gfx1100", "s_ctz_i32_b64 s0, s[2:3]"),
    "v_ffbl_b32": ("gfx942", "v_ffbl_b32_e32 v0, v1"),
    "v_ctz_i32_b32": ("gfx1100", "v_ctz_i32_b32_e32 v0, v1"),
    "s_flbit_i32_b32": ("gfx942", "s_flbit_i32_b32 s0, s1"),
    "s_flbit_i32_b64": ("gfx942", "s_flbit_i32_b64 s0, s[2:3]"),
    "s_clz_i32_u32": ("gfx1100", "s_clz_i32_u32 s0, s1"),
    "s_clz_i32_u64": ("gfx1100", "s_clz_i32_u64 s0, s[2:3]"),
    "v_ffbh_u32": ("gfx942", "v_ffbh_u32_e32 v0, v1"),
    "v_clz_i32_u32": ("gfx1100", "v_clz_i32_u32_e32 v0, v1"),
    "s_flbit_i32": ("gfx942", "s_flbit_i32 s0, s1"),
    "s_flbit_i32_i64": ("gfx942", "s_flbit_i32_i64 s0, s[2:3]"),
    "s_cls_i32": ("gfx1100", "s_cls_i32 s0, s1"),
    "s_cls_i32_i64": ("gfx1100", "s_cls_i32_i64 s0, s[2:3]"),
    "v_ffbh_i32": ("gfx942", "v_ffbh_i32_e32 v0, v1"),
    "v_cls_i32": ("gfx1100", "v_cls_i32_e32 v0, v1"),
    "s_bcnt0_i32_b32": ("gfx942", "s_bcnt0_i32_b32 s0, s1"),
    "s_bcnt1_i32_b32": ("gfx942", "s_bcnt1_i32_b32 s0, s1"),
    "v_bcnt_u32_b32": ("gfx942", "v_bcnt_u32_b32 v0, v1, v2"),
    "v_mbcnt_lo_u32_b32": ("gfx942", "v_mbcnt_lo_u32_b32 v0, v1, v2"),
    "v_mbcnt_hi_u32_b32": ("gfx942", "v_mbcnt_hi_u32_b32 v0, v1, v2"),
    "s_min_f32": ("gfx1151", "s_min_f32 s0, s1, s2"),
    "s_max_f32": ("gfx1151", "s_max_f32 s0, s1, s2"),
    "s_min_f16": ("gfx1151", "s_min_f16 s0, s1, s2"),
    "s_max_f16": ("gfx1151", "s_max_f16 s0, s1, s2"),
} | {
    f"{unit}_{name}_{kind}": (
        "gfx1201",
        f"{unit}_{name}_{kind}{ending if 'num' in name and unit == 'v' else ''} "
        + (
            ", ".join(f"{unit}[{n}:{n + 1}]" for n in (0, 2, 4))
            if kind == "f64"
            else ", ".join(f"{unit}{n}{half if unit == 'v' and kind == 'f16' else ''}" for n in (0, 1, 2))
        ),
    )
    for unit, kinds in (("v", ("f16", "f32", "f64")), ("s", ("f16", "f32")))
    for kind in kinds
    for name in ("min_num", "max_num", "minimum", "maximum")
    for ending, half in (("_e64", ".l"),)
}  # fmt: skip


def test_every_text_called_the_same_is_compared():
    names = {
        name for family in naming.document()["tables"] for name, text in naming.written(family).items() if text.same
    }
    assert names == set(SAME_SAMPLES)


@pytest.mark.parametrize("name", SAME_SAMPLES)
def test_shorter_text_computes_what_amd_writes(name):
    gpu, text = SAME_SAMPLES[name]
    instruction, context = decoded(text, gpu)
    family = context.target.family.value
    published = next(
        found
        for generation in naming.document()["tables"][family]
        if (found := naming.published(generation).get(name)) is not None
    )
    theirs, ours = interpreted(instruction, context, published), meaning_of(instruction, context)
    source = random.Random(name)
    edges = [0, 1, 0x7C00, 0x7C01, 0x7E00, 0xFE00, 0x3C00, 0xBC00, 0x8000, 0x8001, *EDGES_F32, SIGNALING]
    edges += [edge << 32 for edge in EDGES_F32] + [f64(-0.5), f64(2.5), f64(math.inf), f64(math.nan), 0x7FF0 << 48 | 1]
    for _ in range(200):
        numbers = {
            index: source.choice(edges) if source.random() < 0.7 else source.getrandbits(64) for index in range(4)
        }
        if name == "v_perm_b32":
            numbers[3] = sum(source.randrange(15) << 8 * place for place in range(4))
        lane = Lane(numbers, {"lane": source.randrange(64), "mode": source.choice((0, 1 << 9))})
        if _two_signaling(name, numbers):
            continue
        assert results(ours, lane) == results(theirs, lane), (name, {k: hex(v) for k, v in numbers.items()})


def _two_signaling(name: str, numbers: dict[int, int]) -> bool:
    """Outside of IEEE mode RDNA3's text gives the first of two NaNs back unquieted; ours quiets it."""
    return name.startswith(("s_min_f", "s_max_f")) and all(_is_nan(name, numbers[index]) for index in (1, 2))


def _is_nan(name: str, bits: int) -> bool:
    exponent, width = {"f16": (0x7C00, 15), "f32": (INF, 31), "f64": (0x7FF << 52, 63)}[name[-3:]]
    return bits & ((1 << width) - 1) > exponent


# --- the whole ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rcp", "rsq", "sqrt", "exp", "log", "sin", "cos"])
def test_transcendental_functions_are_marked(name):
    instruction, context = decoded(f"v_{name}_f32_e32 v0, v1", "gfx942")
    assert meaning_of(instruction, context).exactness is Exactness.APPROXIMATE


def test_what_the_texts_leave_open_is_marked():
    for text in ("v_cvt_pk_u8_f32 v0, v1, v2, v3", "v_cvt_pknorm_i16_f32 v0, v1, v2"):
        instruction, context = decoded(text, "gfx942")
        assert meaning_of(instruction, context).exactness is Exactness.APPROXIMATE


def test_division_is_exact():
    instruction, context = decoded("v_div_scale_f32 v0, vcc, v1, v2, v3", "gfx942")
    assert meaning_of(instruction, context).exactness is Exactness.EXACT


def test_scope_of_scalar_and_vector_instructions():
    scalar, context = decoded("s_add_u32 s0, s1, s2", "gfx942")
    vector, _ = decoded("v_add_u32_e32 v0, v1, v2", "gfx942")
    assert meaning_of(scalar, context).scope is Scope.WAVE
    assert meaning_of(vector, context).scope is Scope.LANE


def test_what_is_not_known_is_refused_by_name_and_reason():
    instruction, context = decoded("v_movrels_b32_e32 v0, v1", "gfx1030")
    meaning = meaning_of(instruction, context)
    assert meaning.exactness is Exactness.UNSUPPORTED
    assert not meaning.results
    assert "v_movrels_b32" in meaning.source


def test_a_refused_half_refuses_the_whole_dual_instruction(monkeypatch):
    instruction, context = decoded("v_dual_mov_b32 v0, v1 :: v_dual_mul_f32 v3, v4, v6", "gfx1100")
    original = naming.text_of
    monkeypatch.setattr(naming, "text_of", lambda name, family: None if "mul" in name else original(name, family))
    meaning = meaning_of(instruction, context)
    assert meaning.exactness is Exactness.UNSUPPORTED
    assert "mul_f32" in meaning.source


def test_the_written_modules_come_first():
    instruction, context = decoded("s_endpgm", "gfx942")
    assert meaning_of(instruction, context).control is Control.END


def test_a_meaning_is_made_once():
    instruction, context = decoded("v_add_f32_e32 v0, v1, v2", "gfx942")
    assert meaning_of(instruction, context) is meaning_of(instruction, context)


@pytest.mark.parametrize("gpu", ["gfx906", "gfx950", "gfx1100", "gfx1201"])
def test_any_words_have_a_meaning_or_a_reason(gpu):
    """Random machine code: most is no instruction, or one with fields that no compiler writes."""
    target = load_target(gpu)
    context = DecodingContext(target, target.default_wave_size)
    source = random.Random(gpu)
    outcomes = set()
    for instruction in decode_code(source.randbytes(16_000), context):
        meaning = meaning_of(instruction, context)
        outcomes.add(meaning.exactness)
        assert meaning.source
        assert meaning.exactness is not Exactness.UNSUPPORTED or not meaning.results
    assert len(outcomes) > 1


def test_operands_that_llvm_calls_invalid_are_refused():
    instruction, context = decoded("v_add_f32_e32 v0, v1, v2", "gfx950")
    assert meaning_of(instruction, context).exactness is Exactness.EXACT
    marked = replace(instruction, text="v_add_f32_e32 v0, s1/*Invalid register*/, v2")
    assert meaning_of(marked, context).exactness is Exactness.UNSUPPORTED


def test_names_differ_by_generation():
    assert "V_ADD_CO_U32" in naming.text_of("v_add_u32_e32", "gfx8").source
    assert "V_ADD_U32" in naming.text_of("v_add_u32_e32", "gfx9").source
    assert naming.text_of("v_add_nothing", "gfx9") is None


def test_every_written_text_parses():
    for family in naming.document()["tables"]:
        for text in naming.written(family).values():
            parsing.parse(text.text)
