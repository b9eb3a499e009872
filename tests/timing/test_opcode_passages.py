"""Passages of traces that run every opcode once (discover_ops), instruction by instruction as silicon issued them.

The gaps are copied from the traces (gfx1100 py_run0_283a8b6f, gfx1201 py_run0_516560dc and ops_run0_3eb550f0); each
passage starts where a cache miss or an idle unit lets the model know the state of the queues.
"""

from __future__ import annotations

import pytest
from timing_kernels import Build, gaps

_IDLE = "v_mov_b32 v99, v98\n" + "s_nop 15\n" * 4
"""The first vector instruction of a wave executes a cycle later, which the passages do not start with."""


def _passage(text: str) -> tuple[str, list[int]]:
    """Instructions and the gaps that stand before them; the first has none."""
    rows = [line.split(maxsplit=1) for line in text.strip().splitlines()]
    return "\n".join(row[1] for row in rows), [int(row[0]) for row in rows[1:]]


@pytest.mark.parametrize("gpu", ["gfx1100", "gfx1200", "gfx1201"])
def test_the_eighth_vector_instruction_with_a_scalar_result_waits_for_the_first(kernel_of: Build, gpu: str) -> None:
    code, wanted = _passage("""
        476 v_cmp_ge_f64_e32 vcc_lo, v[0:1], v[16:17]
        2 v_cmp_ge_f64_e64 vcc_lo, v[16:17], v[32:33]
        2 v_cmp_ge_i32_e32 vcc_lo, v0, v16
        1 v_cmp_ge_i32_e64 vcc_lo, v16, v32
        1 v_cmp_ge_i32_e32 vcc_lo, v0, v16
        1 v_cmp_ge_i32_e64 vcc_lo, v16, v32
        1 v_cmp_ge_i64_e32 vcc_lo, v[0:1], v[16:17]
        10 v_cmp_ge_i64_e64 vcc_lo, v[16:17], v[32:33]
        2 v_cmp_ge_u32_e32 vcc_lo, v0, v16
        1 v_cmp_ge_u32_e64 vcc_lo, v16, v32
        1 v_cmp_ge_u32_e32 vcc_lo, v0, v16
        1 v_cmp_ge_u32_e64 vcc_lo, v16, v32
        1 v_cmp_ge_u64_e32 vcc_lo, v[0:1], v[16:17]
        2 v_cmp_ge_u64_e64 vcc_lo, v[16:17], v[32:33]
        10 v_cmp_gt_f32_e32 vcc_lo, v0, v16
    """)
    assert gaps(kernel_of, gpu, _IDLE + code)[-len(wanted) :] == wanted


def test_a_chain_of_scalar_instructions_fills_its_queue(kernel_of: Build) -> None:
    """Floating point takes 4 cycles to the next, others 2; the eighth issues 3 after the first executes."""
    code, wanted = _passage("""
        1 s_abs_i32 vcc_lo, vcc_lo
        1 s_absdiff_i32 vcc_lo, vcc_lo, vcc_lo
        1 s_add_co_ci_u32 vcc_lo, vcc_lo, vcc_lo
        1 s_add_co_i32 vcc_lo, vcc_lo, vcc_lo
        1 s_add_co_u32 vcc_lo, vcc_lo, vcc_lo
        1 s_add_f16 vcc_lo, vcc_lo, vcc_lo
        1 s_add_f32 vcc_lo, vcc_lo, vcc_lo
        1 s_add_nc_u64 vcc, vcc, vcc
        2 s_addk_co_i32 vcc_lo, 0x0
        2 s_and_b32 vcc_lo, vcc_lo, vcc_lo
        2 s_and_b64 vcc, vcc, vcc
        2 s_and_not1_b32 vcc_lo, vcc_lo, vcc_lo
        2 s_and_not1_b64 vcc, vcc, vcc
        4 s_ashr_i32 vcc_lo, vcc_lo, vcc_lo
        4 s_ashr_i64 vcc, vcc, vcc_lo
        2 s_bcnt0_i32_b32 vcc_lo, vcc_lo
    """)
    assert gaps(kernel_of, "gfx1201", code) == wanted


def test_scalar_multiplications_take_their_cycles_and_one_more(kernel_of: Build) -> None:
    """In a full queue the gaps are those of the executions seven before: 3 behind each s_mul, 6 with s_mul_u64."""
    chain = "s_not_b32 vcc_lo, vcc_lo\n" * 16
    multiply = "s_mul_i32 vcc_lo, vcc_lo, vcc_lo\n" * 2 + "s_mul_u64 vcc, vcc, vcc\ns_mulk_i32 vcc_lo, 0x0\n"
    found = gaps(kernel_of, "gfx1201", chain + multiply + chain)
    assert found[22:28] == [3, 3, 6, 3, 2, 2]


@pytest.mark.parametrize("gpu", ["gfx1100", "gfx1200"])
def test_scalar_instructions_with_two_sources_issue_every_other_cycle(kernel_of: Build, gpu: str) -> None:
    """gfx1100: eight s_cmp one a cycle after a cache miss, then one in two, and one a cycle again behind the fourth
    instruction after the last.
    """
    found = gaps(kernel_of, gpu, "s_cmp_ge_u32 vcc_lo, vcc_lo\n" * 20 + "s_bitcmp1_b32 vcc_lo, 0\n" * 9)
    assert found[:19] == [1] * 7 + [2] * 12
    assert found[19:] == [2] * 4 + [1] * 5


@pytest.mark.parametrize("gpu", ["gfx1100", "gfx1200", "gfx1201"])
def test_hardware_registers_wait_for_the_scalar_unit(kernel_of: Build, gpu: str) -> None:
    chain = "s_quadmask_b32 vcc_lo, vcc_lo\n" * 20
    text = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 1), 0\ns_sext_i32_i8 vcc_lo, vcc_lo\ns_sext_i32_i8 vcc_lo, vcc_lo"
    assert gaps(kernel_of, gpu, chain + text)[-4:] == [2, 17, 9, 1]


@pytest.mark.parametrize(("gpu", "suffix"), [("gfx1100", ""), ("gfx1201", "_e64")])
def test_what_reads_a_result_behind_double_precision(kernel_of: Build, gpu: str, suffix: str) -> None:
    """Nobody waits at issue: 32 cycles for each double-precision instruction, one for the others."""
    code, wanted = _passage(f"""
        1 v_ceil_f32_e32 v0, v16
        1 v_ceil_f64_e32 v[0:1], v[16:17]
        32 v_add_f64{suffix} v[0:1], v[16:17], v[32:33]
        32 v_sqrt_f64_e32 v[0:1], v[16:17]
        32 v_cls_i32_e32 v0, v16
        1 v_cls_i32_e64 v0, v16
        1 v_cmp_class_f32_e32 vcc_lo, v0, v16
    """)
    assert gaps(kernel_of, gpu, _IDLE + code)[-len(wanted) :] == wanted


def test_one_more_enters_the_pipe_when_a_result_waits_to_be_written(kernel_of: Build) -> None:
    """gfx1201 ops_run0_3eb550f0: what overwrites a transcendental's result waits behind the operand pipe, so the
    thirteenth behind it still issues at once. Silicon lets the fourteenth wait for 5 cycles, the model for 4: of the
    four with three sources in one bank the second is late already (test_register_file), which the model does not know.
    """
    code, wanted = _passage("""
        1 v_cos_f16_e32 v0, v16
        4 v_cos_f16_e64 v0, v16
        4 v_cos_f32_e32 v0, v16
        4 v_cos_f32_e64 v0, v16
        1 v_ctz_i32_b32_e32 v0, v16
        1 v_ctz_i32_b32_e64 v0, v16
        1 v_cubeid_f32 v0, v16, v32, v48
        1 v_cubema_f32 v0, v16, v32, v48
        1 v_cubesc_f32 v0, v16, v32, v48
        1 v_cubetc_f32 v0, v16, v32, v48
        1 v_cvt_f16_f32_e32 v0, v16
        1 v_cvt_f16_f32_e64 v0, v16
        1 v_cvt_f16_i16_e32 v0, v16
        1 v_cvt_f16_i16_e64 v0, v16
        1 v_cvt_f16_u16_e32 v0, v16
        1 v_cvt_f16_u16_e64 v0, v16
        1 v_cvt_f32_bf8_e32 v0, v16
    """)
    assert gaps(kernel_of, "gfx1201", _IDLE + code)[-len(wanted) :] == wanted


@pytest.mark.parametrize("gpu", ["gfx1100", "gfx1200", "gfx1201"])
def test_the_fourth_v_cmpx_waits_for_the_first(kernel_of: Build, gpu: str) -> None:
    """All three targets: it issues 9 after the first executes, which is 8 after its issue."""
    code = "v_cmpx_class_f32 v0, v16\n" * 4
    assert gaps(kernel_of, gpu, _IDLE + code)[-3:] == [1, 1, 15]


@pytest.mark.parametrize("gpu", ["gfx1100", "gfx1201"])
def test_what_goes_to_no_unit_passes_a_full_queue(kernel_of: Build, gpu: str) -> None:
    """As in discover_ops, where skipped instructions come 3 after matrix operations that fill it."""
    chain = "v_add_f32 v0, v0, v1\n" * 20
    found = gaps(kernel_of, gpu, chain + "s_nop 0\nv_add_f32 v0, v0, v1\nv_add_f32 v0, v0, v1")
    assert found[-4:] == [5, 3, 2, 5]


def test_three_sources_in_one_bank_keep_an_instruction_in_front_of_the_pipe(kernel_of: Build) -> None:
    """gfx1201 ops_run0_3eb550f0 behind a cache miss: every other one executes a cycle late, and from the tenth on it
    holds up issue, though only eleven are between issue and execution.
    """
    code, wanted = _passage("""
        435 v_med3_num_f16 v0, v16, v32, v48
        1 v_med3_num_f32 v0, v16, v32, v48
        1 v_med3_u16 v0, v16, v32, v48
        1 v_med3_u32 v0, v16, v32, v48
        1 v_min3_i16 v0, v16, v32, v48
        1 v_min3_i32 v0, v16, v32, v48
        1 v_min3_num_f16 v0, v16, v32, v48
        1 v_min3_num_f32 v0, v16, v32, v48
        1 v_min3_u16 v0, v16, v32, v48
        1 v_min3_u32 v0, v16, v32, v48
        1 v_min_i16 v0, v16, v32
        2 v_min_i32_e32 v0, v16, v32
        1 v_min_i32_e64 v0, v16, v32
        2 v_min_num_f16_e32 v0, v16, v32
        1 v_min_num_f16_e64 v0, v16, v32
    """)
    before = "v_med3_i32 v0, v16, v32, v48\n" + _IDLE.split("\n", 1)[1]
    assert gaps(kernel_of, "gfx1201", before + code)[-len(wanted) :] == wanted


def test_long_instructions_outrun_their_fetch(kernel_of: Build) -> None:
    """gfx1201 custom_handwritten, object 77e2606e29: the first wave's stores, from byte 24 of the code on.

    The eighth of 12 bytes waits for its last bytes; eight of 8 bytes do not (gfx1100, where they are shorter).
    """
    code = "s_nop 0\n" * 3 + "v_mov_b32 v4, 0\n" * 3 + "global_store_b64 v0, v[2:3], s[0:1]\n" * 8
    assert gaps(kernel_of, "gfx1201", code)[6:] == [1, 1, 1, 1, 1, 1, 2]
    assert gaps(kernel_of, "gfx1100", code)[6:] == [1, 1, 1, 1, 1, 1, 1]


@pytest.mark.parametrize("gpu", ["gfx1200", "gfx1201"])
def test_scalar_transcendentals_that_write_vcc_are_counted_later(kernel_of: Build, gpu: str) -> None:
    """The eighth and those behind it wait for the first and those behind it."""
    code, wanted = _passage("""
        1 v_s_exp_f16 vcc_lo, vcc_lo
        1 v_s_exp_f32 vcc_lo, s16
        1 v_s_log_f16 vcc_lo, vcc_lo
        1 v_s_log_f32 vcc_lo, s16
        1 v_s_rcp_f16 vcc_lo, vcc_lo
        1 v_s_rcp_f32 vcc_lo, s16
        1 v_s_rsq_f16 vcc_lo, vcc_lo
        13 v_s_rsq_f32 vcc_lo, s16
    """)
    found = gaps(kernel_of, gpu, _IDLE + code)[-len(wanted) :]
    assert found == wanted
    assert gaps(kernel_of, gpu, _IDLE + code.replace("vcc_lo", "s20"))[-1] < wanted[-1]
