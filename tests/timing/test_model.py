"""The cycle model against numbers worked out by hand from the traces' facts (see each test's comment)."""

from __future__ import annotations

import json

import pytest
from timing_kernels import Build

from asmevo.timing import Estimate, estimate
from asmevo.timing.estimate import simulate
from asmevo.timing.path import path_of
from asmevo.timing.scenarios import machine_for


def iteration(found: Estimate) -> float:
    (loop,) = found.loops
    assert loop.steady
    return loop.cycles


def loop_of(kernel_of: Build, gpu: str, body: str) -> float:
    return iteration(estimate(kernel_of(gpu, "s_nop 0", f"{body}\ns_cbranch_scc1 loop", "s_endpgm"), waves=1))


INDEPENDENT = "\n".join(f"v_add_f32 v{n}, v100, v101" for n in range(20))
DEPENDENT = "v_add_f32 v0, v0, v1\n" * 20
TAKEN = 27  # gfx1100: branch packet to the next instruction


def test_independent_vector_instructions_issue_each_cycle(kernel_of: Build) -> None:
    assert loop_of(kernel_of, "gfx1100", INDEPENDENT) == 20 + TAKEN


def test_dependent_vector_instructions_execute_every_fifth_cycle(kernel_of: Build) -> None:
    """Queue and operand pipe fill, so in the long run a chain of 20 takes 20 times 5, branch hidden."""
    assert loop_of(kernel_of, "gfx1100", DEPENDENT) == 100


def test_cdna_has_no_dependence_stall_between_vector_instructions(kernel_of: Build) -> None:
    """One instruction in 4 cycles, dependent or not; the taken branch 20."""
    assert loop_of(kernel_of, "gfx942", DEPENDENT) == loop_of(kernel_of, "gfx942", INDEPENDENT) == 20 * 4 + 20


def test_transcendentals_hold_their_pipe_four_cycles(kernel_of: Build) -> None:
    body = "\n".join(f"v_exp_f32 v{n}, v100" for n in range(20))
    with_vector = "\n".join(f"v_exp_f32 v{n}, v100\nv_add_f32 v{n + 50}, v101, v102" for n in range(20))
    assert loop_of(kernel_of, "gfx1100", body) == 19 * 4 + 1 + TAKEN
    assert loop_of(kernel_of, "gfx1100", with_vector) == 19 * 4 + 2 + TAKEN


@pytest.mark.parametrize(("states", "cycles"), [(0, 1 + 2), (3, 4 + 2), (7, 8 + 2)])
def test_nop_costs_its_states_and_two_behind_a_vector_instruction(kernel_of: Build, states: int, cycles: int) -> None:
    plain = loop_of(kernel_of, "gfx1100", INDEPENDENT)
    assert loop_of(kernel_of, "gfx1100", f"{INDEPENDENT}\ns_nop {states}\nv_mov_b32 v30, 0") == plain + cycles + 1


def test_delay_alu_stalls_issue_until_five_after_the_producer(kernel_of: Build) -> None:
    body = "v_add_f32 v0, v1, v2\n{}v_add_f32 v3, v0, v0"
    plain = loop_of(kernel_of, "gfx1100", body.format(""))
    stalled = loop_of(kernel_of, "gfx1100", body.format("s_delay_alu instid0(VALU_DEP_1)\n"))
    assert stalled == plain + 4


def test_delay_alu_that_is_satisfied_is_free(kernel_of: Build) -> None:
    body = "v_add_f32 v0, v1, v2\n" + INDEPENDENT.replace("v0,", "v40,") + "\n{}v_add_f32 v33, v100, v100"
    delayed = body.format("s_delay_alu instid0(VALU_DEP_4)\n")
    assert loop_of(kernel_of, "gfx1100", body.format("")) + 1 >= loop_of(kernel_of, "gfx1100", delayed)


MFMA = "v_mfma_f32_32x32x8_f16 v[{d}:{e}], v[100:101], v[102:103], v[{d}:{e}]\n"


def test_mfma_chain_takes_passes_times_four(kernel_of: Build) -> None:
    """32x32x8 f16 on gfx942: 8 passes, accumulating into the same registers is forwarded."""
    assert loop_of(kernel_of, "gfx942", MFMA.format(d=0, e=15) * 4) == 4 * 8 * 4


def test_reading_an_mfma_result_waits_for_it(kernel_of: Build) -> None:
    """Latency 12 passes: 11 wait states and the issue slot, in LLVM's hazard table."""
    body = MFMA.format(d=0, e=15) + "v_add_f32 v50, v0, v0\n"
    assert loop_of(kernel_of, "gfx942", body) == 12 * 4 + 4 + 20


def test_vector_work_runs_beside_an_mfma(kernel_of: Build) -> None:
    alone = loop_of(kernel_of, "gfx942", MFMA.format(d=0, e=15) * 2)
    filled = (MFMA.format(d=0, e=15) + "v_add_f32 v50, v51, v52\n" * 4) * 2
    assert loop_of(kernel_of, "gfx942", filled) <= alone + 20


def wait_stall(found: Estimate) -> float:
    return sum(cycles for reason, cycles in found.stall_reasons.items() if reason.startswith("wait"))


def loading(kernel_of: Build, between: int, wait: str = "s_waitcnt vmcnt(0)") -> Estimate:
    work = "\n".join(f"v_mov_b32 v{n % 90 + 10}, 0" for n in range(between))
    text = f"global_load_b32 v1, v0, s[0:1]\n{work}\n{wait}\nv_add_f32 v2, v1, v1\ns_endpgm"
    return estimate(kernel_of("gfx1100", text), waves=1, memory={"vmem_load": 400})


def test_independent_work_hides_a_load_cycle_by_cycle(kernel_of: Build) -> None:
    """From the load's issue to its wait 400 cycles, of which one is the wait's own slot."""
    stalls = [wait_stall(loading(kernel_of, between)) for between in (1, 50, 200)]
    assert stalls == [400 - 1 - 1, 400 - 50 - 1, 400 - 200 - 1]
    assert len({loading(kernel_of, between).cycles for between in (1, 50, 200)}) == 1


def test_deleting_a_wait_shortens_the_estimate(kernel_of: Build) -> None:
    assert loading(kernel_of, 5, wait="").cycles < loading(kernel_of, 5).cycles - 300


def test_hoisting_a_load_above_work_lowers_the_estimate(kernel_of: Build) -> None:
    load, work = "global_load_b32 v1, v0, s[0:1]\n", "".join(f"v_mov_b32 v{n}, 0\n" for n in range(10, 60))
    end = "s_waitcnt vmcnt(0)\nv_add_f32 v2, v1, v1\ns_endpgm"
    early = estimate(kernel_of("gfx1100", load + work + end), waves=1)
    late = estimate(kernel_of("gfx1100", work + load + end), waves=1)
    assert early.cycles <= late.cycles - 50


def test_waits_for_older_loads_only_need_not_wait_for_the_last(kernel_of: Build) -> None:
    loads = "global_load_b32 v1, v0, s[0:1]\n" + "v_mov_b32 v9, 0\n" * 100 + "global_load_b32 v2, v0, s[0:1]\n"
    counted = [
        estimate(kernel_of("gfx1100", f"{loads}s_waitcnt vmcnt({most})\ns_endpgm"), waves=1).cycles for most in (1, 0)
    ]
    assert counted[0] < counted[1]


def test_the_wait_names_the_load_it_waits_for(kernel_of: Build) -> None:
    worst = loading(kernel_of, 3).stalls[0]
    assert (worst.waits_for, worst.instruction, worst.reason) == (0, 4, "wait vmcnt")


@pytest.mark.parametrize(
    ("gpu", "invalidate", "wait"),
    [
        ("gfx942", "buffer_inv sc1", "s_waitcnt vmcnt(0)"),
        ("gfx1201", "global_inv scope:SCOPE_SE", "s_wait_loadcnt 0x0"),
    ],
)
def test_no_gain_rests_on_how_long_an_invalidation_takes(
    kernel_of: Build, gpu: str, invalidate: str, wait: str
) -> None:
    """Nobody measured it. Waiting for one costs what waiting for the accesses before it does, and no more."""
    loads = "global_load_b32" if gpu == "gfx1201" else "global_load_dword"
    with_load = f"{loads} v0, v[2:3], off\n"
    alone = loop_of(kernel_of, gpu, f"{invalidate}\n{wait}")
    behind = loop_of(kernel_of, gpu, f"{with_load}{invalidate}\n{wait}")
    assert alone < 60
    assert behind - loop_of(kernel_of, gpu, f"{with_load}{wait}") < 20


@pytest.mark.parametrize("before", ["v_add_f32 v4, v5, v6", "ds_load_b32 v4, v5"])
def test_no_gain_rests_on_what_stands_before_an_invalidation(kernel_of: Build, before: str) -> None:
    """No trace holds one: that it would wait for vector or LDS work, as accesses do, is nothing that anybody saw."""
    gaps = []
    for behind in ("global_inv scope:SCOPE_SE", "global_store_b32 v[2:3], v7, off"):
        kernel = kernel_of("gfx1201", f"{before}\n{behind}\ns_endpgm")
        machine = machine_for(kernel.target, kernel.wave_size, "l2")
        issued = simulate(kernel, machine, path_of(kernel), 1, None).waves[0].issued
        gaps.append(issued[1] - issued[0])
    assert gaps[0] == 1
    assert gaps[1] > 1


def test_more_waves_hide_more_latency(kernel_of: Build) -> None:
    body = "global_load_b32 v1, v0, s[0:1]\n" + INDEPENDENT + "\ns_waitcnt vmcnt(0)\nv_add_f32 v50, v1, v1\n"
    kernel = kernel_of("gfx1100", "s_nop 0", body + "s_cbranch_scc1 loop", "s_endpgm")
    per_wave = [estimate(kernel, waves=waves).cycles_per_wave for waves in (1, 2, 4, 8)]
    assert per_wave == sorted(per_wave, reverse=True)
    assert per_wave[3] < per_wave[0] / 4


def test_waves_share_the_vector_unit(kernel_of: Build) -> None:
    """200 independent vector instructions of each of 4 waves need 800 cycles on one SIMD."""
    kernel = kernel_of("gfx1100", INDEPENDENT + "\n" + (INDEPENDENT + "\n") * 9 + "s_endpgm")
    found = estimate(kernel, waves=4)
    assert 800 <= found.cycles <= 800 + 50
    assert found.utilisation["valu"] > 0.9


def test_slower_memory_is_slower(kernel_of: Build) -> None:
    text = "global_load_b32 v1, v0, s[0:1]\ns_waitcnt vmcnt(0)\ns_endpgm"
    cycles = [estimate(kernel_of("gfx1100", text), waves=1, memory=name).cycles for name in ("lds-only", "l2", "cold")]
    assert cycles == sorted(cycles)
    assert len(set(cycles)) == 3


def test_barrier_waits_for_all_waves_of_the_workgroup(kernel_of: Build) -> None:
    text = "v_mov_b32 v0, 0\ns_barrier\nv_mov_b32 v1, 0\ns_endpgm"
    found = estimate(kernel_of("gfx1100", text), waves=4)
    assert found.stall_reasons["barrier"] >= 13
    assert estimate(
        kernel_of("gfx1201", text.replace("s_barrier", "s_barrier_signal -1\ns_barrier_wait -1")), waves=4
    ).cycles


def test_taken_branches_cost_more(kernel_of: Build) -> None:
    taken = estimate(kernel_of("gfx1201", "s_nop 0\ns_branch b2", "s_endpgm", "s_endpgm"), waves=1)
    falls = estimate(kernel_of("gfx1201", "s_nop 0\ns_cbranch_scc1 b2", "s_endpgm", "s_endpgm"), waves=1)
    assert taken.cycles - falls.cycles == 9 - 3


def test_trip_counts_multiply_the_steady_iteration(kernel_of: Build) -> None:
    kernel = kernel_of("gfx1100", "s_nop 0", f"{INDEPENDENT}\ns_cbranch_scc1 loop", "s_endpgm")
    hundred, thousand = (estimate(kernel, waves=1, trip_count=count).cycles for count in (100, 1000))
    assert thousand - hundred == 900 * (20 + TAKEN)
    assert any("10 iterations" in line for line in estimate(kernel, waves=1).assumptions)
    assert not any("iterations" in line for line in estimate(kernel, waves=1, trip_count={1: 5}).assumptions)


def test_a_guard_around_the_loop_does_not_skip_it(kernel_of: Build) -> None:
    """The loop is reached by the taken branch only."""
    kernel = kernel_of("gfx1100", "s_cbranch_scc1 b2", "s_endpgm", f"{INDEPENDENT}\ns_cbranch_scc1 loop", "s_endpgm")
    assert [loop.header for loop in estimate(kernel, waves=1).loops] == [2]


def test_says_that_it_is_a_model_and_how_well_it_is_known(kernel_of: Build) -> None:
    found = loading(kernel_of, 5)
    assert found.is_model
    assert "model" in found.note
    assert sum(found.known.values()) == pytest.approx(1)
    assert found.known["assumed"] > 0.9  # the load latency that the caller gave
    assert json.loads(json.dumps(found.to_dict()))["cycles"] == found.cycles


def test_refuses_what_makes_no_sense(kernel_of: Build) -> None:
    kernel = kernel_of("gfx1100", "s_endpgm")
    for arguments in ({"waves": 0}, {"memory": "fast"}, {"memory": {"no_such_class": 1}}):
        with pytest.raises(ValueError, match=r"cannot run|unknown memory|no latency class"):
            estimate(kernel, **arguments)  # type: ignore[arg-type]
