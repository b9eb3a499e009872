"""Proposers find what is there to find, and say nothing where there is nothing."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from written_kernels import COMPILED, written

from asmevo.gates import Pipeline
from asmevo.program import open_program
from asmevo.program.candidate import Candidate
from asmevo.program.edit import EditScript
from asmevo.program.kernel import Kernel
from asmevo.proposers import Facts, ListScheduler, LocalSearch, Proposer, WaitRelaxer
from asmevo.timing import estimate


def scripts(proposer: Proposer, kernel: Kernel, facts: Facts | None = None) -> Iterator[EditScript]:
    yield from proposer.propose(facts if facts is not None else Facts(kernel))


def accepted(kernel: Kernel, script: EditScript) -> bool:
    return Pipeline(kernel).judge(Candidate.make(kernel, script)).accepted


OVER_STRONG = """
global_load_dword v2, v[8:9], off
global_load_dword v3, v[8:9], off offset:4
{}
v_add_u32 v4, 1, v2
s_waitcnt vmcnt(0)
v_add_u32 v4, v3, v4
global_store_dword v[10:11], v4, off
s_endpgm
"""


def found(text: str, gpu: str = "gfx942") -> list[str]:
    kernel = written(text, gpu)
    return [s.origin for s in scripts(WaitRelaxer(), kernel) if accepted(kernel, s)]


def test_an_over_strong_wait_is_relaxed() -> None:
    ideas = found(OVER_STRONG.format("s_waitcnt vmcnt(0)"))
    assert any("relax `s_waitcnt vmcnt(0)` to `s_waitcnt vmcnt(1)`" in idea for idea in ideas)


def test_a_redundant_wait_is_dropped() -> None:
    text = OVER_STRONG.format("s_waitcnt vmcnt(1)\ns_waitcnt lgkmcnt(0)")
    assert any("drop `s_waitcnt lgkmcnt(0)`" in each for each in found(text))


def test_a_tight_wait_is_left_alone() -> None:
    assert not any("relax" in each or "drop" in each for each in found(OVER_STRONG.format("s_waitcnt vmcnt(1)")))


def test_a_wait_sinks_to_its_consumer() -> None:
    text = OVER_STRONG.format("s_waitcnt vmcnt(1)\nv_mov_b32 v5, 0\nv_mov_b32 v6, 0")
    assert any("sink `s_waitcnt vmcnt(1)`" in each for each in found(text))


def test_neighbours_are_merged() -> None:
    text = OVER_STRONG.format("ds_read_b32 v5, v6\ns_waitcnt lgkmcnt(0)\ns_waitcnt vmcnt(1)\nv_add_u32 v5, v5, v5")
    assert any("merge `s_waitcnt lgkmcnt(0)` and `s_waitcnt vmcnt(1)`" in each for each in found(text))
    assert not any("merge" in each for each in found(OVER_STRONG.format("s_waitcnt vmcnt(1)")))


def test_a_no_op_that_nobody_needs_is_dropped() -> None:
    text = "v_mov_b32 v2, 0\ns_nop 4\nglobal_store_dword v[8:9], v2, off\ns_endpgm"
    assert any("drop `s_nop 4`" in each for each in found(text))


def test_a_no_op_that_a_hazard_needs_stays() -> None:
    text = "v_mov_b32 v2, 0\ns_nop 1\nv_mov_b32_dpp v3, v2 row_shr:1 row_mask:0xf bank_mask:0xf\ns_endpgm"
    assert not found(text)


def test_the_scheduler_finds_something_on_compiler_output() -> None:
    kernel = open_program(COMPILED / "gfx942" / "matmul_f16.hsaco").select()[0]
    before = estimate(kernel, waves=1).cycles
    best = min(
        estimate(Candidate.make(kernel, script).kernel, waves=1).cycles
        for script in scripts(ListScheduler(), kernel)
        if accepted(kernel, script)
    )
    assert best < 0.97 * before


def test_local_search_only_offers_improvements_and_repeats_itself() -> None:
    kernel = open_program(COMPILED / "gfx942" / "matmul_f16.hsaco").select()[0]
    base = estimate(kernel, waves=1, only_loops=True).cycles

    def cost(version: Kernel) -> float:
        return estimate(version, waves=1, only_loops=True).cycles / base

    def run(seed: int) -> list[EditScript]:
        facts = Facts(kernel, rng=random.Random(seed), cost=cost)
        return list(LocalSearch(evaluations=60, blocks=1).propose(facts))

    first, again = run(3), run(3)
    assert first
    assert [s.edits for s in first] == [s.edits for s in again]
    costs = [cost(Candidate.make(kernel, script).kernel) for script in first]
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] < 1.0


# A place where the code waits for a hazard, useful work that may move there, and what stays, behind that work.
WAITS_FOR_HAZARDS = {
    "a lane's value": (
        "gfx942",
        "v_mov_b32 v2, v30\ns_nop 1\nv_mov_b32_dpp v31, v2 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:1\n{}",
        "v_add_u32 v3, v4, v5\nv_add_u32 v6, v4, v7\nv_add_u32 v8, v4, v9\nv_add_u32 v10, v4, v11",
        None,
    ),
    "a matrix product": (
        "gfx90a",
        "v_mfma_f32_4x4x1f32 v[0:3], v4, v5, v[0:3]\ns_nop 4\nv_add_f32 v6, v0, v0\n{}",
        "v_add_u32 v13, v14, v15\nv_add_u32 v16, v14, v17\nv_add_u32 v18, v14, v19\nv_add_u32 v20, v14, v21\n"
        "v_add_u32 v22, v24, v23",
        None,
    ),
    "a carry on gfx12": (
        "gfx1201",
        "v_add_co_u32 v0, vcc_lo, s34, v0\ns_wait_alu depctr_va_vcc(0)\n"
        "v_add_co_ci_u32_e64 v1, null, s35, v1, vcc_lo\n{}",
        "v_mul_f32 v2, v3, v2\nv_mul_f32 v4, v5, v4\nv_mul_f32 v6, v7, v6\nv_mul_f32 v8, v9, v8\n"
        "v_mul_f32 v10, v11, v10\nv_mul_f32 v12, v13, v12",
        "s_wait_alu",
    ),
}


@pytest.mark.parametrize("case", WAITS_FOR_HAZARDS)
def test_useful_work_moves_to_where_the_code_waits_for_a_hazard(case: str) -> None:
    """The no-op is not needed then, and `s_wait_alu` finds done what it waits for."""
    gpu, waiting, work, kept = WAITS_FOR_HAZARDS[case]
    kernel = written(waiting.format(work) + "\ns_endpgm", gpu)
    before = estimate(kernel, waves=1).cycles

    def cost(version: Kernel) -> float:
        return estimate(version, waves=1).cycles / before

    facts = Facts(kernel, cost=cost)
    found = [each for each in scripts(ListScheduler(), kernel, facts) if accepted(kernel, each)]
    best = min((Candidate.make(kernel, each).kernel for each in found), key=cost)
    assert cost(best) < 0.95
    names = [each.mnemonic for each in best.instructions]
    if kept is None:
        assert "s_nop" not in names
    else:
        assert names.index(kept) > len(work.splitlines())
