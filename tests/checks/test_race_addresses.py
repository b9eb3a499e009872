"""LDS races and addresses: accesses of different waves that touch no common byte are silent, others are found.

The kernels are steps of tree reductions and of tiles as compilers write them. What is expected comes from going through
all work-items one by one.
"""

from __future__ import annotations

from itertools import product

import pytest
from msgspec.structs import replace
from written_kernels import written

from asmevo.checks.races import check_races

ITEMS, WAVE = 256, 64


def races(text: str, gpu: str = "gfx900", workgroup: int = ITEMS) -> list[str]:
    kernel = replace(written(text, gpu), metadata={".max_flat_workgroup_size": workgroup})
    return [found.rule for found in check_races(kernel)]


STEP = """
    v_lshl_add_u32 v3, v0, 2, s2
    ds_write_b32 v3, v4
    v_cmp_gt_u32_e32 vcc, {guard}, v0
    s_waitcnt lgkmcnt(0)
    s_barrier
    s_and_saveexec_b64 s[0:1], vcc
    s_cbranch_execz L
    ds_read2_b32 v[4:5], v3 offset1:{distance}
    s_waitcnt lgkmcnt(0)
    v_add_f32_e32 v4, v5, v4
    ds_write_b32 v3, v4
L:
    s_or_b64 exec, exec, s[0:1]
    s_endpgm
"""


def meets(guard: int, distance: int) -> bool:
    """Whether a wave writes a dword that another one reads, both being below the guard."""
    written_by = {item: item // WAVE for item in range(min(guard, ITEMS))}
    return any(written_by.get(item + far, item // WAVE) != item // WAVE for item in written_by for far in (0, distance))


@pytest.mark.parametrize(
    ("guard", "distance"), [*product((1, 32, 64, 65, 96, 128, 192, 256), (1, 32, 63, 64, 96, 128, 192, 255))]
)
def test_a_step_of_a_tree_is_a_race_where_some_waves_meet(guard: int, distance: int) -> None:
    found = races(STEP.format(guard=guard if guard <= 64 else hex(guard), distance=distance))
    assert found == (["races.write-after-read"] if meets(guard, distance) else [])


def test_two_steps_need_a_barrier_between_them() -> None:
    two = STEP.format(guard=hex(128), distance=128).replace(
        "s_endpgm",
        """
        v_cmp_gt_u32_e32 vcc, 64, v0
        s_waitcnt lgkmcnt(0)
        {barrier}
        s_and_saveexec_b64 s[0:1], vcc
        s_cbranch_execz M
        ds_read2_b32 v[4:5], v3 offset1:64
        s_waitcnt lgkmcnt(0)
        v_add_f32_e32 v4, v5, v4
        ds_write_b32 v3, v4
    M:
        s_or_b64 exec, exec, s[0:1]
        s_endpgm
        """,
    )
    assert races(two.format(barrier="s_barrier")) == []
    assert "races.read-after-write" in races(two.format(barrier=""))


ROUNDS = """
    v_lshl_add_u32 v3, v0, 2, s3
    ds_write_b32 v3, v4
    s_movk_i32 s2, 0x80
    s_waitcnt lgkmcnt(0)
    s_barrier
    s_branch HEAD
LATCH:
    s_or_b64 exec, exec, s[0:1]
    s_lshr_b32 s2, s2, 1
    s_cmp_eq_u32 s2, 0
    s_waitcnt lgkmcnt(0)
    {barrier}
    s_cbranch_scc1 DONE
HEAD:
    {before}
    v_cmp_gt_u32_e32 vcc, {limit}, v0
    s_and_saveexec_b64 s[0:1], vcc
    s_cbranch_execz LATCH
    v_lshl_add_u32 v4, s2, {shift}, v3
    ds_read_b32 v4, v4
    ds_read_b32 v5, v3
    s_waitcnt lgkmcnt(0)
    v_add_f32_e32 v4, v4, v5
    ds_write_b32 v3, v4
    s_branch LATCH
DONE:
    s_endpgm
"""
GOOD = {"barrier": "s_barrier", "before": "", "limit": "s2", "shift": "2"}


def test_a_loop_over_the_steps_is_silent() -> None:
    assert races(ROUNDS.format(**GOOD)) == []


@pytest.mark.parametrize(
    "fault",
    [
        {"barrier": ""},
        {"before": "s_lshl_b32 s5, s2, 1", "limit": "s5"},
        {"before": "s_add_u32 s5, s2, 1", "limit": "s5"},
        {"limit": "0x80"},
        {"shift": "1"},
    ],
    ids=["no barrier", "twice as many items", "one item too many", "the limit of the first round", "half as far"],
)
def test_faults_of_such_a_loop_are_found(fault: dict[str, str]) -> None:
    assert races(ROUNDS.format(**GOOD | fault)) != []


NARROWED = """
    s_mov_b32 s1, exec_lo
    v_lshl_add_u32 v3, v0, 2, s2
    ds_store_b32 v3, v4
    s_waitcnt lgkmcnt(0)
    s_barrier
    v_cmpx_gt_u32_e32 0x80, v0
    s_cbranch_execz L
    {inside}
    ds_load_2addr_stride64_b32 v[4:5], v3 offset1:2
    s_waitcnt lgkmcnt(0)
    {outside}
    ds_store_b32 v3, v4
L:
    s_or_b32 exec_lo, exec_lo, s1
    s_endpgm
"""


@pytest.mark.parametrize("gpu", ["gfx1030", "gfx1100"])
def test_comparisons_that_narrow_exec(gpu: str) -> None:
    names = (lambda text: text) if gpu == "gfx1100" else _older_names
    assert races(names(NARROWED.format(inside="", outside="")), gpu) == []
    assert races(names(NARROWED.format(inside="s_mov_b32 exec_lo, s1", outside="")), gpu) != []
    assert races(names(NARROWED.format(inside="s_or_b32 exec_lo, exec_lo, s3", outside="")), gpu) != []


def _older_names(text: str) -> str:
    return text.replace("ds_load_2addr_stride64", "ds_read2st64").replace("ds_store", "ds_write")


SWAPPED = """
    v_lshlrev_b32_e32 v1, 2, v0
    v_xor_b32_e32 v2, {bits}, v1
    ds_write_b32 v1, v4
    s_waitcnt lgkmcnt(0)
    ds_read_b32 v5, v2
    s_endpgm
"""


@pytest.mark.parametrize("bits", [4, 8, 0x40, 0x80, 0xFC, 0x100, 0x104, 0x200])
def test_neighbours_within_a_wave_are_no_race(bits: int) -> None:
    """Work-item i reads what i ^ (bits / 4) wrote: in another wave from 64 work-items on."""
    assert (races(SWAPPED.format(bits=hex(bits)).replace("s_endpgm", "s_barrier\ns_endpgm")) != []) == (
        bits >= 4 * WAVE
    )


MIXED = """
    v_lshlrev_b32_e32 v7, 2, v0
    v_mov_b32_e32 v3, 0
    v_cmp_gt_u32_e32 vcc, 64, v0
    s_and_saveexec_b64 s[0:1], vcc
    v_lshlrev_b32_e32 v3, 2, v0
    {back}
    ds_write_b32 v3, v4
    s_waitcnt lgkmcnt(0)
    ds_read_b32 v5, v7
    s_barrier
    s_endpgm
"""


def test_a_register_written_for_some_items_has_no_place_for_all() -> None:
    assert races(MIXED.format(back="s_mov_b64 exec, s[0:1]")) == ["races.read-after-write"]
    assert races(MIXED.format(back="")) == []


FUNCTION = """
    v_and_b32_e32 v3, {mask}, v31
    v_lshl_add_u32 v4, v3, 2, {base}
    ds_write_b32 v4, v5
    s_waitcnt lgkmcnt(0)
    s_barrier
    ds_read_b32 v6, v4
    s_waitcnt lgkmcnt(0)
    ds_write_b32 v4, v6 offset:{offset}
    s_setpc_b64 s[30:31]
"""


@pytest.mark.parametrize("gpu", ["gfx900", "gfx942"])
def test_functions_know_their_work_items_and_take_a_base_as_common(gpu: str) -> None:
    def found(mask: str, base: str, offset: int) -> bool:
        return bool(races(FUNCTION.format(mask=mask, base=base, offset=offset).replace("offset:0", ""), gpu))

    assert not found("0x3ff", "v2", 0)
    assert not found("0x3ff", "s4", 0)
    assert found("0x7f", "v2", 0)  # two work-items share a place
    assert found("0xfffff", "v2", 0)  # with the y axis in it
