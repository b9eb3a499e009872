"""Issue times of single instructions, worked out by hand from issue traces of silicon.

Each test says where its numbers come from: a rule counted over all traces, or a passage of one trace. Times are cycles
from the first issue of a wave.
"""

from __future__ import annotations

from itertools import pairwise

import pytest
from timing_kernels import Build, gaps, issues

from asmevo.timing.path import layout_of
from asmevo.timing.scenarios import machine_for
from asmevo.timing.schedule import schedule
from asmevo.timing.simulator import Simulator
from asmevo.timing.steps import Step
from asmevo.timing.wave import Bound, Wave


@pytest.mark.parametrize("gpu", ["gfx1100", "gfx1200"])
def test_a_full_vector_queue_lets_go_three_after_the_twelfth_last_executes(kernel_of: Build, gpu: str) -> None:
    """A chain executes every 5 cycles, the first 9 after its issue (8, and one for a wave's first).

    Rule: issue >= execute(12th previous) + 3, hit by 2,322 of 2,322 stopped issues of the gfx1100 matrix product.
    """
    (times,) = issues(kernel_of, gpu, "v_add_f32 v0, v0, v1\n" * 20)
    executes = [9 + 5 * number for number in range(20)]
    assert times[:12] == list(range(12))
    assert times[12:] == [execute + 3 for execute in executes[: 20 - 12]]


def wmma(number: int) -> str:
    start = 8 * number
    return f"v_wmma_f32_16x16x16_f16 v[{start}:{start + 7}], v[200:203], v[204:207], v[{start}:{start + 7}]"


def test_eight_matrix_operations_are_in_flight(kernel_of: Build) -> None:
    """gfx1201 custom_handwritten: the ninth issues one cycle before the first ends, and so on, 16 apart.

    The first of a wave ends 25 after its issue (issued at 3, execute packet at 28). What stands behind the one that
    took the last place, of any kind, goes on when the next place is free: the s_add 16 behind the tenth.
    """
    text = "\n".join([*(wmma(number) for number in range(10)), "s_add_co_u32 s1, s1, -1"])
    (times,) = issues(kernel_of, "gfx1201", text)
    assert times[:8] == list(range(8))
    ends = [25 + 16 * number for number in range(10)]
    assert times[8:] == [ends[0] - 1, ends[1] - 1, ends[2] - 1]


@pytest.mark.parametrize(
    ("gpu", "operation", "cycles"),
    [
        ("gfx1100", "v_wmma_f32_16x16x16_f16 v[{d}:{e}], v[200:207], v[208:215], v[{d}:{e}]", 34),
        ("gfx1201", "v_wmma_f32_16x16x16_f16 v[{d}:{e}], v[200:203], v[204:207], v[{d}:{e}]", 16),
        ("gfx1201", "v_wmma_i32_16x16x16_iu8 v[{d}:{e}], v[200:201], v[204:205], v[{d}:{e}]", 8),
        ("gfx1201", "v_swmmac_f32_16x16x32_f16 v[{d}:{e}], v[200:203], v[204:211], v220", 18),
    ],
)
def test_matrix_operations_execute_so_far_apart(kernel_of: Build, gpu: str, operation: str, cycles: int) -> None:
    """Execution to execution in discover_ops: 34 (16 of 16), 16, 8, 18; with the queue full also issue to issue."""
    text = "\n".join(operation.format(d=8 * number, e=8 * number + 7) for number in range(14))
    assert gaps(kernel_of, gpu, text)[9:] == [cycles] * 4


def test_the_queue_is_shared_by_the_waves(kernel_of: Build) -> None:
    """Same passage: when the first wave has filled the queue, the other's vector instruction waits as well."""
    text = "\n".join(wmma(number) for number in range(10))
    first, second = issues(kernel_of, "gfx1201", text, waves=2)
    assert first[9] - first[8] == 16
    assert second[-1] - second[0] > 9 * 16 - 24


@pytest.mark.parametrize(("gpu", "prefix"), [("gfx1100", "v_lshlrev_b64"), ("gfx1201", "v_lshlrev_b64_e32")])
def test_what_a_transcendental_holds(kernel_of: Build, gpu: str, prefix: str) -> None:
    """TRANS -> VALU 1 (24 of 24), TRANS -> TRANS 4 (170 of 184), TRANS -> VALU64_16 and VALU_DP 4 (18 of 24)."""
    trans = "v_rcp_f32 v10, v11"
    assert gaps(kernel_of, gpu, f"{trans}\nv_add_f32 v1, v2, v3") == [1]
    assert gaps(kernel_of, gpu, f"{trans}\nv_rcp_f32 v12, v13") == [4]
    assert gaps(kernel_of, gpu, f"{trans}\n{prefix} v[20:21], 2, v[22:23]") == [4]
    assert gaps(kernel_of, gpu, f"{trans}\nv_add_f64 v[20:21], v[22:23], v[24:25]") == [4]


def test_a_vector_instruction_with_a_thrown_away_scalar_result_waits_for_scalar_ones(kernel_of: Build) -> None:
    """gfx1201 custom_handwritten: s_mul_i32 issued at 23 executes at 28 for two cycles, v_mad_co_u64_u32 with null
    issues at 34; the other vector instructions do not wait.
    """
    with_null = "s_mul_i32 s4, s12, 32\nv_mad_co_u64_u32 v[40:41], null, v12, v13, v[14:15]"
    executes = 4  # an SGPR from the register file
    assert gaps(kernel_of, "gfx1201", with_null) == [executes + 1 + 5]
    assert gaps(kernel_of, "gfx1201", "s_mul_i32 s4, s12, 32\nv_mul_f32 v40, v12, v13") == [1]


def test_vector_memory_issues_when_the_lds_before_it_is_through(kernel_of: Build) -> None:
    """discover_ops: 7 after ds_xor_rtn_b64 executes on gfx1100, 6 on gfx1201 (20 of 20); it sends 3 registers.

    An LDS instruction executes 3 after its issue at the earliest.
    """
    text = "ds_xor_rtn_b64 v[32:33], v0, v[48:49]\nglobal_load_b32 v34, v1, s[2:3]"
    assert gaps(kernel_of, "gfx1100", text) == [3 + 7]
    assert gaps(kernel_of, "gfx1201", text) == [3 + 6]


def test_memory_instructions_wait_for_the_last_pass_of_a_matrix_operation(kernel_of: Build) -> None:
    """VALU -> VMEM 17, issue to issue: 8 to execution and 9. A WMMA of gfx1201 executes after 9, for 16 cycles."""
    first, store = "v_add_f32 v20, v21, v22\ns_nop 9", "global_store_b32 v1, v2, s[2:3]"
    assert gaps(kernel_of, "gfx1201", f"{first}\nv_add_f32 v2, v3, v4\n{store}")[-1] == 17
    assert gaps(kernel_of, "gfx1201", f"{first}\n{wmma(3)}\n{store}")[-1] == 9 + 15 + 9


def test_the_neighbour_simd_stores_between_two_stores(kernel_of: Build) -> None:
    """A store of 2 address and 4 data registers takes 6; with waves on both SIMDs 12 (gfx1200 E_8_8_16_4, 30 of 32).

    When the queue is full, issue follows execution.
    """
    text = "\n".join(["global_store_b128 v[0:1], v[4:7], off"] * 14)
    assert gaps(kernel_of, "gfx1200", text)[10:] == [6] * 3
    first, _ = issues(kernel_of, "gfx1200", text, waves=2)
    assert [later - time for time, later in pairwise(first)][10:] == [12] * 3


def test_waves_that_do_nothing_stop_nobody(kernel_of: Build) -> None:
    """custom_wave_sync: up to 13 waves' s_nop in one cycle; while some waves sleep, others issue."""
    text = "\n".join(["s_nop 0"] * 8)
    alone, *others = issues(kernel_of, "gfx1100", text, waves=4)
    assert all(times == alone for times in others)
    sleeping = issues(kernel_of, "gfx1100", f"s_sleep 8\n{text}", waves=4)
    assert all(times == sleeping[0] for times in sleeping[1:])


def test_vector_instructions_that_exec_passes_over_leave_as_immediates(kernel_of: Build) -> None:
    """VALU -> skipped 3 (32 of 44), skipped -> skipped 1 (6,105 of 6,310, 64-bit too), skipped -> VALU 1 (40 of 44)."""
    lines = ["v_add_f32 v0, v1, v2", "v_add_f64 v[4:5], v[6:7], v[8:9]", "v_mul_f32 v3, v1, v2", "v_mov_b32 v9, 0"]
    kernel = kernel_of("gfx1100", "\n".join([*lines, "s_endpgm"]))
    machine = machine_for(kernel.target, 32, "l2")
    code = kernel.instructions
    steps = schedule(machine, [(code, [False] * len(code), False)], skipped={1, 2})[0]
    simulator = Simulator(machine, [(steps, False, 1)], 1, 1, 0)
    simulator.run()
    times = simulator.waves[0].issued
    assert [later - time for time, later in pairwise(times[:4])] == [3, 1, 1]


def test_the_place_of_a_matrix_operation_that_need_not_wait(kernel_of: Build) -> None:
    """gfx1201 custom_handwritten: issued at 4138 and 4139 behind an empty queue, places free at 4162 and 4178."""
    text = "\n".join(["v_mov_b32 v250, 0", *(wmma(number) for number in range(10))])
    (times,) = issues(kernel_of, "gfx1201", text)
    assert times[9:11] == [times[1] + 24, times[1] + 24 + 16]


def lone_wave(kernel_of: Build, text: str) -> Wave:
    """A wave on gfx1201 that went through a text and s_endpgm."""
    kernel = kernel_of("gfx1201", f"{text}\ns_endpgm")
    machine = machine_for(kernel.target, 32, "l2")
    code = kernel.instructions
    simulator = Simulator(machine, [(schedule(machine, [(code, [False] * len(code), False)])[0], False, 1)], 1, 1, 0)
    simulator.run()
    return simulator.waves[0]


def test_what_a_matrix_operation_executes_behind(kernel_of: Build) -> None:
    """gfx1201 custom_handwritten, to the first of its passes, which traces stamp 15 later.

    v_wmma at 334, v_mov at 335, v_wmma at 352: 2 after the v_mov. v_rcp of a source at 1634, v_wmma at 1660: 11 after.
    """
    first, move, second = lone_wave(kernel_of, f"{wmma(0)}\nv_mov_b32 v250, 0\n{wmma(1)}").started[:3]
    assert (move - first, second - move) == (16, 2)
    trans, matrix = lone_wave(kernel_of, f"v_rcp_f32 v200, v210\n{wmma(0)}").started[:2]
    assert matrix - trans == 11


def test_what_a_sparse_matrix_operation_executes_behind(kernel_of: Build) -> None:
    """gfx1200 and gfx1201 discover_ops: bf16 sources take a cycle more to the first pass.

    What adds to the very same registers follows 18 behind, to some of them 20.
    """
    text = """
        v_swmmac_bf16_16x16x32_bf16 v[0:3], v[16:19], v[32:39], v48
        v_swmmac_f16_16x16x32_f16 v[0:3], v[16:19], v[32:39], v48
        v_swmmac_f32_16x16x32_bf16 v[0:7], v[16:19], v[32:39], v48
        v_swmmac_f32_16x16x32_bf8_bf8 v[0:7], v[16:17], v[32:35], v48
    """
    wave = lone_wave(kernel_of, text)
    assert [later - time for time, later in pairwise(wave.started[:4])] == [18, 20, 18]
    assert wave.started[0] - wave.issued[0] == lone_wave(kernel_of, wmma(0)).started[0] + 1


def test_a_branch_waits_for_the_execution_of_its_condition(kernel_of: Build) -> None:
    """gfx1201 custom_handwritten: s_cmp issued at 131 executes at 137, not 136, and s_cbranch issues at 142, not 141.

    Here the s_mul before it executes for two cycles: at 4 and 5; s_cmp, issued at 1, would be at 5 without.
    """
    compare = "s_cmp_eq_i32 s1, 0\ns_cbranch_scc0 done\ndone:"
    assert gaps(kernel_of, "gfx1201", compare) == [4 + 5]
    assert gaps(kernel_of, "gfx1201", f"s_mul_i32 s14, s12, 32\n{compare}") == [1, 5 + 5]


@pytest.mark.parametrize(("before", "cycles"), [(3, 10), (1, 9), (2, 9)])
def test_a_branch_target_across_two_fetches_comes_a_cycle_later(kernel_of: Build, before: int, cycles: int) -> None:
    """gfx1201 custom_handwritten: WMMA 10 behind the branch where it starts at byte 12 of 16, 9 where at byte 4."""
    text = "\n".join([*["s_nop 0"] * before, "again:", wmma(0), "s_nop 0", "s_branch again"])
    kernel = kernel_of("gfx1201", f"{text}\ns_endpgm")
    code = kernel.instructions
    loop = [*code[: before + 3], *code[before : before + 3]]
    steps = schedule(
        machine_for(kernel.target, 32, "l2"),
        [(loop, [each.mnemonic == "s_branch" for each in loop], False)],
        layout=layout_of(kernel),
    )[0]
    simulator = Simulator(machine_for(kernel.target, 32, "l2"), [(steps, False, 1)], 1, 1, 0)
    simulator.run()
    times = simulator.waves[0].issued
    assert times[before + 3] - times[before + 2] == cycles


def test_delay_alu_behind_a_wait_takes_a_cycle(kernel_of: Build) -> None:
    """gfx1200 E_32_32_4: s_wait_kmcnt, s_delay_alu, v_add_co 2 cycles apart though nothing is waited for.

    Behind a vector instruction it is free, and so is the wait without it (2,494 of 2,494 in all traces).
    """
    code = "{}\n{}v_add_f32 v1, v2, v3\n"
    delay = "s_delay_alu instid0(VALU_DEP_2)\n"
    assert gaps(kernel_of, "gfx1200", code.format("s_wait_kmcnt 0x0", "")) == [1]
    assert gaps(kernel_of, "gfx1200", code.format("s_wait_kmcnt 0x0", delay)) == [2]
    assert gaps(kernel_of, "gfx1200", code.format("v_mov_b32 v4, 0", delay)) == [1]


@pytest.mark.parametrize(("last", "cycles"), [("v_xor_b32 v0, v1, v2", 11), ("v_rcp_f32 v0, v1", 16)])
def test_a_wave_ends_behind_its_last_vector_instruction(kernel_of: Build, last: str, cycles: int) -> None:
    """From execution: v_xor 11 (7 of 13, discover_ops), v_rcp 16 (8 of 16, gfx1201 custom_handwritten)."""
    wave = lone_wave(kernel_of, last)
    assert wave.issued[-1] - wave.started[0] == cycles


def test_what_follows_a_written_lane_executes_four_later(kernel_of: Build) -> None:
    """gfx1100 and gfx1201 discover_ops: v_writelane at 193, the v_xad_u32 behind it at 197, 198 what comes then."""
    wave = lone_wave(
        kernel_of, "v_mov_b32 v9, v8\nv_writelane_b32 v0, s1, s2\nv_xor_b32 v1, v2, v3\nv_xor_b32 v4, v5, v6"
    )
    assert [later - time for time, later in pairwise(wave.started[1:4])] == [4, 1]


def test_the_first_double_precision_instruction_of_a_wave_executes_a_cycle_later(kernel_of: Build) -> None:
    """gfx1100, gfx1200 and gfx1201 discover_ops: v_add_f64 stamped 31 behind the v_add_f32 before it, others 30."""
    doubles = "v_add_f64 v[0:1], v[2:3], v[4:5]\nv_add_f64 v[6:7], v[2:3], v[4:5]"
    wave = lone_wave(kernel_of, f"v_mov_b32 v9, v8\ns_nop 15\nv_add_f32 v9, v8, v8\n{doubles}")
    assert [later - time for time, later in pairwise(wave.started[2:5])] == [2, 32]


def test_nothing_waits_for_registers_that_are_counted_from_m0(kernel_of: Build) -> None:
    """gfx1100 discover_ops: v_trig_preop_f64 of a register that v_swaprel names executes right behind it."""
    code = "v_mov_b32 v9, v8\n{} v1, v2\nv_add_f32 v3, v1, v2"
    relative, plain = (lone_wave(kernel_of, code.format(name)).started for name in ("v_swaprel_b32", "v_swap_b32"))
    assert (relative[2] - relative[1], plain[2] - plain[1]) == (2, 6)


def test_ends_of_waves_are_three_cycles_apart(kernel_of: Build) -> None:
    """gfx1100 custom_wave_sync: s_nop of two waves in one cycle, their ends 2 and 5 later, in 16 of 23 such pairs."""
    kernel, ends = kernel_of("gfx1100", "s_nop 0\ns_endpgm"), []

    def note(_wave: Wave, step: Step, time: int, _own: Bound, _shared: Bound | None) -> None:
        if step.profile.decoded.mnemonic == "s_endpgm":
            ends.append(time)

    machine = machine_for(kernel.target, 32, "l2")
    steps = schedule(machine, [(kernel.instructions, [False, False], False)])[0]
    simulator = Simulator(machine, [(steps, False, 1)], 2, 1, 0)
    simulator.observe = note
    simulator.run()
    assert ends[1] - ends[0] == 3
    assert ends[0] - simulator.waves[0].issued[0] == 2
