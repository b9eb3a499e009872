"""The wait counter analysis: hand-worked programs, random programs against a concrete simulator."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wait_simulator import find_violation
from written_kernels import compiled_kernels, written

from asmevo.analysis.events import counter_events, wait_values
from asmevo.analysis.wait_counters import WaitAnalysis
from asmevo.analysis.wait_needs import WaitNeed, is_redundant, wait_requirements
from asmevo.analysis.wait_witness import witness_of
from asmevo.program.kernel import Block, Kernel
from asmevo.program.registers import register_names


def hazards(text: str, gpu: str) -> list[tuple[int, str, int]]:
    """(consumer, registers, age) of all hazards."""
    analysis = WaitAnalysis(written(text, gpu))
    units = (1 << 1693) - 1
    return [(h.consumer, register_names(h.opened & units), h.age) for h in analysis.hazards]


def needs(text: str, gpu: str) -> list[WaitNeed]:
    return list(wait_requirements(WaitAnalysis(written(text, gpu))))


@pytest.mark.parametrize(
    ("gpu", "text", "events"),
    [
        ("gfx942", "global_load_dword v0, v[2:3], off", {("vmcnt", "vmem_load")}),
        ("gfx942", "global_store_dword v[2:3], v0, off", {("vmcnt", "vmem_store")}),
        ("gfx1030", "global_store_dword v[2:3], v0, off", {("vscnt", "vmem_store")}),
        ("gfx1200", "global_store_b32 v[2:3], v0, off", {("storecnt", "vmem_store")}),
        ("gfx942", "flat_load_dword v0, v[2:3]", {("vmcnt", "flat"), ("lgkmcnt", "flat")}),
        ("gfx942", "flat_store_dword v[2:3], v0", {("vmcnt", "flat"), ("lgkmcnt", "flat")}),
        ("gfx1030", "flat_store_dword v[2:3], v0", {("vscnt", "flat_store"), ("lgkmcnt", "flat")}),
        ("gfx1200", "flat_store_b32 v[2:3], v0", {("storecnt", "flat_store"), ("dscnt", "flat")}),
        ("gfx803", "flat_load_dword v0, v[2:3]", {("vmcnt", "vmem_load")}),
        ("gfx1030", "global_atomic_add v0, v[2:3], v1, off glc", {("vmcnt", "vmem_atomic_ret")}),
        ("gfx1030", "global_atomic_add v[2:3], v1, off", {("vscnt", "vmem_atomic_noret")}),
        ("gfx942", "buffer_load_dword v0, s[8:11], 0 offen lds", {("vmcnt", "lds_dma")}),
        ("gfx942", "s_load_dword s0, s[2:3], 0x0", {("lgkmcnt", "smem")}),
        ("gfx1200", "s_load_b32 s0, s[2:3], 0x0", {("kmcnt", "smem")}),
        ("gfx942", "ds_bpermute_b32 v0, v1, v2", {("lgkmcnt", "lds")}),
        ("gfx1100", "exp mrt0 v0, v1, v2, v3 done", {("expcnt", "export")}),
        ("gfx942", "v_mov_b32_e32 v0, v1", set()),
        ("gfx942", "buffer_wbl2 sc1", {("vmcnt", "cache_writeback")}),
        ("gfx942", "buffer_inv sc1", {("vmcnt", "cache_invalidate")}),
        ("gfx908", "buffer_wbinvl1", set()),
        ("gfx1200", "global_inv scope:SCOPE_DEV", {("loadcnt", "cache_invalidate")}),
        ("gfx942", "s_sendmsg sendmsg(MSG_INTERRUPT)", {("lgkmcnt", "message")}),
    ],
)
def test_events(gpu: str, text: str, events: set[tuple[str, str]]) -> None:
    (instruction,) = written(text, gpu).instructions
    assert set(counter_events(instruction.decoded, instruction_target(gpu))) == events


def instruction_target(gpu: str):
    return written("s_nop 0", gpu).target


@pytest.mark.parametrize(
    ("gpu", "text", "waits"),
    [
        ("gfx942", "s_waitcnt vmcnt(3)", {"vmcnt": 3}),
        ("gfx942", "s_waitcnt vmcnt(0) expcnt(0) lgkmcnt(0)", {"vmcnt": 0, "expcnt": 0, "lgkmcnt": 0}),
        ("gfx1030", "s_waitcnt_vscnt null, 0x2", {"vscnt": 2}),
        ("gfx1030", "s_waitcnt_vscnt s4, 0x2", {}),
        ("gfx1200", "s_wait_loadcnt_dscnt 0x302", {"loadcnt": 3, "dscnt": 2}),
        ("gfx1200", "s_wait_storecnt_dscnt 0x3f00", {"dscnt": 0}),
        ("gfx1250", "s_wait_tensorcnt 0x0", {"tensorcnt": 0}),
        ("gfx942", "s_nop 0", None),
    ],
)
def test_wait_values(gpu: str, text: str, waits: dict[str, int] | None) -> None:
    (instruction,) = written(text, gpu).instructions
    assert wait_values(instruction.decoded, instruction_target(gpu)) == waits


def test_scalar_loads_finish_in_any_order() -> None:
    loads = "s_load_dword s0, s[2:3], 0x0\ns_load_dword s1, s[2:3], 0x4\n"
    text = loads + "s_waitcnt lgkmcnt({})\ns_mov_b32 s4, s0\n"
    assert hazards(text.format(1), "gfx942") == [(3, "s0", 0)]
    assert hazards(text.format(0), "gfx942") == []


def test_lds_behind_a_scalar_load_is_still_in_order() -> None:
    """lgkmcnt <= 1 with two younger LDS reads: the oldest LDS read cannot be among the one that is left."""
    text = """
    ds_read_b32 v0, v9
    s_load_dword s0, s[2:3], 0x0
    ds_read_b32 v1, v9
    s_waitcnt lgkmcnt({})
    v_mov_b32_e32 v2, v0
    """
    assert hazards(text.format(1), "gfx942") == []
    assert hazards(text.format(2), "gfx942") == [(4, "v0", 1)]


def test_flat_needs_both_counters_at_zero() -> None:
    text = "flat_load_dword v0, v[2:3]\ns_waitcnt {}\nv_mov_b32_e32 v1, v0\n"
    assert hazards(text.format("vmcnt(0)"), "gfx942") == [(2, "v0", 0)]
    assert hazards(text.format("lgkmcnt(0)"), "gfx942") == [(2, "v0", 0)]
    assert hazards(text.format("vmcnt(0) lgkmcnt(0)"), "gfx942") == []


def test_overwriting_in_order_and_across_lanes() -> None:
    load, lds = "global_load_dword v0, v[2:3], off\n", "ds_read_b32 v0, v9\n"
    assert hazards(load + load, "gfx942") == []
    assert hazards(lds + lds, "gfx942") == []
    assert hazards(load + lds, "gfx942") == [(1, "v0", 0)]
    assert hazards(load + "v_mov_b32_e32 v0, 0\n", "gfx942") == [(1, "v0", 0)]
    assert hazards("s_load_dword s0, s[2:3], 0x0\n" * 2, "gfx942") == [(1, "s0", 0)]


def test_flat_counts_in_order_from_gfx10_on() -> None:
    """LLVM 22 (si-insert-waitcnts) puts vmcnt(0) on gfx906 and gfx942, vmcnt(1) on gfx1030 and gfx1100."""
    loads = "global_load_dword v0, v[2:3], off\nflat_load_dword v1, v[2:3]\n"
    text = loads + "s_waitcnt vmcnt(1)\nv_mov_b32_e32 v4, v0"
    assert hazards(text, "gfx942") == [(3, "v0", 0)]
    assert hazards(text, "gfx1030") == []


def test_loads_into_the_same_register_on_gfx12() -> None:
    """LLVM 22 (si-insert-waitcnts) waits between the two on gfx1200 and gfx1250, and nowhere before."""
    text = "global_load_b32 v0, v[2:3], off\n{}global_load_b32 v0, v[2:3], off offset:4\n"
    for gpu in ("gfx1200", "gfx1250"):
        assert hazards(text.format(""), gpu) == [(1, "v0", 0)]
        assert hazards(text.format("s_wait_loadcnt 0x0\n"), gpu) == []
    assert hazards(text.format(""), "gfx1100") == []
    halves = "global_load_d16_b16 v0, v[2:3], off\nglobal_load_d16_hi_b16 v0, v[2:3], off offset:4\n"
    assert hazards(halves, "gfx1200") == [(1, "v0", 0)]
    assert hazards(halves, "gfx1100") == []


def test_address_that_is_also_the_result_is_read() -> None:
    assert hazards("ds_read_b32 v0, v9\nds_read_b32 v0, v0\n", "gfx942") == [(1, "v0", 0)]


def test_halves_of_a_register_are_merged_in_order() -> None:
    low, high = "ds_read_u16_d16 v0, v9\n", "ds_read_u16_d16_hi v0, v9\n"
    assert hazards(low + high, "gfx942") == []
    assert hazards("global_load_short_d16 v0, v[2:3], off\n" + high, "gfx942") == [(1, "v0", 0)]


def test_exports_lock_their_sources_against_writes_only() -> None:
    text = "exp mrt0 v0, v1, v2, v3 done\n{}\n{}\n"
    assert hazards(text.format("s_nop 0", "v_mov_b32_e32 v0, 0"), "gfx1100") == [(2, "v0", 0)]
    assert hazards(text.format("s_nop 0", "v_mov_b32_e32 v9, v0"), "gfx1100") == []
    assert hazards(text.format("s_waitcnt expcnt(0)", "v_mov_b32_e32 v0, 0"), "gfx1100") == []


def test_stores_do_not_lock_their_sources() -> None:
    assert hazards("global_store_dword v[2:3], v0, off\nv_mov_b32_e32 v0, 0\n", "gfx942") == []


def test_a_call_settles_loads() -> None:
    text = "global_load_dword v0, v[2:3], off\n{}\nv_mov_b32_e32 v1, v0\n"
    assert hazards(text.format("s_swappc_b64 s[30:31], s[4:5]"), "gfx942") == []
    assert hazards(text.format("s_nop 0"), "gfx942") == [(2, "v0", 0)]


def test_what_a_wait_is_for() -> None:
    text = """
    ds_read_b32 v0, v9
    ds_read_b32 v1, v9
    ds_read_b32 v2, v9
    s_waitcnt lgkmcnt(0)
    v_mov_b32_e32 v4, v1
    s_waitcnt lgkmcnt(0)
    v_mov_b32_e32 v5, v2
    """
    first, second = needs(text, "gfx942")
    assert first == WaitNeed(3, "lgkmcnt", 0, 1, 1, 4)
    assert (first.slack, first.is_redundant) == (1, False)
    assert second.is_redundant, "as long as the first waits for everything"
    kernel = written(text, "gfx942")
    assert [is_redundant(WaitAnalysis(kernel), id_) for id_ in (3, 5, 0)] == [False, True, False]


def test_a_need_is_the_least_over_paths() -> None:
    text = """
    ds_read_b32 v0, v9
    s_cbranch_scc1 tail
    ds_read_b32 v1, v9
    ds_read_b32 v2, v9
    tail:
    s_waitcnt lgkmcnt(0)
    v_mov_b32_e32 v4, v0
    """
    (need,) = needs(text, "gfx942")
    assert (need.needed, need.first_consumer) == (0, 5)
    (need,) = needs(text.replace("s_cbranch_scc1 tail", "s_nop 0"), "gfx942")
    assert need.needed == 2


def test_a_wait_needed_in_the_next_iteration_only() -> None:
    text = """
    v_mov_b32_e32 v1, 0
    loop:
    v_add_f32_e32 v2, v2, v1
    ds_read_b32 v1, v0 offset:64
    ds_read_b32 v3, v0 offset:128
    s_waitcnt lgkmcnt(0)
    s_cbranch_scc1 loop
    """
    (need,) = needs(text, "gfx942")
    assert (need.needed, need.first_consumer) == (1, 1)


def test_memory_order_is_a_need_of_its_own() -> None:
    text = "global_store_dword v[2:3], v0, off\ns_waitcnt vmcnt(0)\ns_barrier\n"
    (need,) = needs(text, "gfx942")
    assert (need.needed, need.needed_for_registers, need.first_consumer) == (0, None, 2)
    (need,) = needs(text.replace("s_barrier", "s_endpgm"), "gfx942")
    assert need.is_redundant


def test_the_entry_wait_of_a_function_is_needed() -> None:
    text = "s_waitcnt vmcnt(0) expcnt(0) lgkmcnt(0)\nv_mov_b32_e32 v0, v1\ns_setpc_b64 s[30:31]\n"
    found = {need.counter: need.needed for need in needs(text, "gfx942")}
    assert found == {"vmcnt": 0, "expcnt": 0, "lgkmcnt": 0}


@pytest.mark.parametrize("kernel", compiled_kernels(), ids=lambda kernel: f"{kernel.target.name}-{kernel.name}")
def test_compiled_kernels_have_no_hazard(kernel: Kernel) -> None:
    assert WaitAnalysis(kernel).hazards == ()
    assert find_violation(kernel, seed=1, walks=3, steps=2000) is None


def test_a_register_that_is_read_and_then_loaded_again_is_still_demanded() -> None:
    """Found by the random programs below: the second load of v2 must not hide the read in front of it."""
    text = """l0:
    global_load_dword v2, v[20:21], off
    s_cbranch_scc0 l0
    global_load_dword v0, v[20:21], off
    global_load_dword v1, v[20:21], off
    s_waitcnt vmcnt(3)
    global_store_dword v[20:21], v2, off
    global_load_dword v2, v[20:21], off
    s_endpgm"""
    (hazard,) = WaitAnalysis(written(text, "gfx942")).hazards
    assert (hazard.consumer, hazard.age, hazard.producer) == (5, 2, 0)


# --- random programs --------------------------------------------------------------------------------------

_STEPS = {
    "gfx942": (
        "global_load_dword v{a}, v[20:21], off",
        "global_store_dword v[20:21], v{a}, off",
        "flat_load_dword v{a}, v[20:21]",
        "ds_read_b32 v{a}, v22",
        "ds_write_b32 v22, v{a}",
        "s_load_dword s{a}, s[20:21], 0x0",
        "v_add_u32_e32 v{a}, v{b}, v{b}",
        "s_add_u32 s{a}, s{b}, s{b}",
        "s_waitcnt vmcnt({n})",
        "s_waitcnt lgkmcnt({n})",
        "s_waitcnt vmcnt({n}) lgkmcnt({n})",
    ),
    "gfx1200": (
        "global_load_b32 v{a}, v[20:21], off",
        "global_store_b32 v[20:21], v{a}, off",
        "flat_load_b32 v{a}, v[20:21]",
        "ds_load_b32 v{a}, v22",
        "s_load_b32 s{a}, s[20:21], 0x0",
        "v_add_nc_u32_e32 v{a}, v{b}, v{b}",
        "s_add_co_u32 s{a}, s{b}, s{b}",
        "s_wait_loadcnt 0x{n}",
        "s_wait_dscnt 0x{n}",
        "s_wait_kmcnt 0x{n}",
    ),
}


@st.composite
def programs(draw: st.DrawFn) -> tuple[str, str, bool]:
    """(target, text, whether it is straight)."""
    gpu = draw(st.sampled_from(sorted(_STEPS)))
    straight = draw(st.booleans())
    lines = []
    for _ in range(draw(st.integers(2, 14))):
        step = draw(st.sampled_from(_STEPS[gpu]))
        a, b, n = (draw(st.integers(0, 3)) for _ in range(3))
        lines.append(step.format(a=a, b=b, n=n))
    if not straight:
        places = sorted(draw(st.lists(st.integers(0, len(lines)), min_size=1, max_size=3)), reverse=True)
        for number, place in enumerate(places):
            lines.insert(place, f"l{number}:")
            lines.insert(draw(st.integers(0, len(lines))), f"s_cbranch_scc{number % 2} l{number}")
    return gpu, "\n".join([*lines, "s_endpgm"]), straight


@settings(max_examples=400, deadline=None)
@given(programs())
def test_random_programs_against_the_simulator(program: tuple[str, str, bool]) -> None:
    gpu, text, straight = program
    kernel = written(text, gpu)
    found = WaitAnalysis(kernel).hazards
    violation = find_violation(kernel, seed=3, walks=1 if straight else 120, steps=150)
    if violation is not None:
        assert (violation.consumer in {hazard.consumer for hazard in found}) or not straight
        assert found, "a path exists on which a register is not there"
    elif straight:
        assert found == ()


@settings(max_examples=150, deadline=None)
@given(programs())
def test_a_hazard_comes_with_a_real_path(program: tuple[str, str, bool]) -> None:
    gpu, text, _ = program
    analysis = WaitAnalysis(written(text, gpu))
    for hazard in analysis.hazards:
        witness = witness_of(analysis, hazard)
        assert witness.path[-1] == hazard.block
        assert hazard.producer in {each.id for each in analysis.kernel.blocks[witness.path[0]].instructions}
        for before, after in zip(witness.path, witness.path[1:], strict=False):
            assert after in analysis.flow.successors[before]
        if witness.found is not None:
            assert witness.found > witness.needed


@settings(max_examples=100, deadline=None)
@given(programs(), st.randoms(use_true_random=False))
def test_a_candidate_is_judged_as_if_alone(program: tuple[str, str, bool], chance: random.Random) -> None:
    gpu, text, _ = program
    kernel = written(text, gpu)
    parent = WaitAnalysis(kernel)
    assert parent.hazards is not None
    blocks = list(kernel.blocks)
    which = chance.randrange(len(blocks))
    body = list(blocks[which].instructions)
    end = body.pop() if body and body[-1].target is not None else None
    chance.shuffle(body)
    blocks[which] = Block(which, blocks[which].labels, (*body, *([end] if end else [])))
    candidate = kernel.with_blocks(tuple(blocks))
    after, alone = WaitAnalysis(candidate, parent), WaitAnalysis(candidate)
    assert after.hazards == alone.hazards
    assert wait_requirements(after) == wait_requirements(alone)
    assert after.order_points() == alone.order_points()
