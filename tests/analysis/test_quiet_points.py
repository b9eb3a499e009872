"""Where a load may be under way without anybody being able to tell, and where it may not.

One kernel as matrix kernels are made: a loop that reads global memory, writes LDS between two barriers, and stores at
its end. The wait for the load is moved from the first barrier to the use of the load. That is harmless; each variant
below adds one reason for which somebody could tell, thought out by hand, and must be refused.
"""

from __future__ import annotations

import pytest
from described_kernels import kernel

from asmevo.analysis.quiet_points import QuietPoints
from asmevo.analysis.uniformity import Uniformity
from asmevo.analysis.wait_counters import WaitAnalysis
from asmevo.checks.waits import check_order, hard_findings
from asmevo.program.edit import EditScript, Move, apply_script
from asmevo.program.kernel import Kernel

LOOP = """
s_load_dword s4, s[0:1], 0x0
s_waitcnt lgkmcnt(0)
{before}
loop:
global_load_dword v2, v[0:1], off {bits}
{with_load}
s_waitcnt vmcnt(0)
s_barrier
{between}
ds_write_b32 v3, v2
s_waitcnt lgkmcnt(0)
s_barrier
ds_read_b32 v4, v5
s_waitcnt lgkmcnt(0)
s_add_i32 s4, s4, -1
{count}
s_cmp_lg_u32 s4, 0
s_cbranch_scc1 loop
global_store_dword v[0:1], v4, off
s_endpgm
"""
EMPTY = {"before": "", "bits": "", "with_load": "", "between": "", "count": ""}
INPUTS = {"user_sgpr_kernarg_segment_ptr": 1}


def made(gpu: str = "gfx942", text: str = LOOP, **parts: str) -> Kernel:
    return kernel(text.format(**(EMPTY | parts)), gpu, INPUTS)


def with_the_wait_at(parent: Kernel, wait: str, consumer: str) -> Kernel:
    """The first wait of that spelling moved in front of the first instruction of that name."""
    ids = {}
    for each in reversed(parent.instructions):
        ids[each.text] = ids[each.mnemonic] = each.id
    script = EditScript(base=parent.hash, kernel=parent.name, edits=(Move(id=ids[wait], before=ids[consumer]),))
    return apply_script(parent, script)


def refused(parent: Kernel, wait: str = "s_waitcnt vmcnt(0)", consumer: str = "ds_write_b32") -> bool:
    candidate = with_the_wait_at(parent, wait, consumer)
    assert candidate.hash != parent.hash
    before, after = WaitAnalysis(parent), WaitAnalysis(candidate)
    assert hard_findings(after) == ()
    return bool(check_order(before, after))


def test_a_load_may_be_under_way_where_only_lds_is_written() -> None:
    assert not refused(made())


def test_the_barrier_in_front_of_the_store_is_not_quiet() -> None:
    parent = made()
    barriers = [each.id for each in parent.instructions if each.mnemonic == "s_barrier"]
    assert QuietPoints(parent).points == {barriers[0]}


SOMEBODY_CAN_TELL = {
    "a store behind the barrier": {"between": "global_store_dword v[6:7], v4, off"},
    "an atomic behind the barrier": {"between": "global_atomic_add v[6:7], v4, off"},
    "a store in front of the loop": {"before": "global_store_dword v[6:7], v4, off"},
    "a coherent load in front of the loop": {
        "before": "global_load_dword v6, v[0:1], off sc1\ns_waitcnt vmcnt(0) lgkmcnt(0)"
    },
    "a coherent load": {"bits": "sc1"},
    "a message": {"between": "s_sendmsg sendmsg(MSG_INTERRUPT)"},
    "waves that count differently": {"count": "v_readfirstlane_b32 s4, v7"},
    "waves that part at the loop": {"count": "v_cmp_ne_u32 vcc, v6, v7\ns_cbranch_vccnz loop"},
    "a count from memory that is no argument": {"before": "s_load_dword s4, s[2:3], 0x0\ns_waitcnt lgkmcnt(0)"},
    "an overwritten argument pointer": {
        "before": "s_mov_b32 s1, s7\ns_load_dword s4, s[0:1], 0x0\ns_waitcnt lgkmcnt(0)"
    },
    "a write back": {"between": "buffer_wbl2 sc1"},
    "an LDS atomic, which waves may spin on": {"between": "ds_add_u32 v6, v7"},
}


@pytest.mark.parametrize("parts", SOMEBODY_CAN_TELL.values(), ids=SOMEBODY_CAN_TELL)
def test_it_may_not_where_somebody_can_tell(parts: dict[str, str]) -> None:
    assert refused(made(**parts))


def test_a_branch_that_waves_take_alike_is_no_reason() -> None:
    assert not refused(made(between="s_cmp_lt_i32 s4, 3\ns_cbranch_scc1 on\nv_mov_b32 v6, 0\non:"))


def test_a_branch_of_lanes_without_a_barrier_is_no_reason() -> None:
    assert not refused(made(between="v_cmp_lt_i32 vcc, v6, v7\ns_cbranch_vccnz on\nv_mov_b32 v6, 0\non:"))


def test_a_branch_of_lanes_around_the_barrier_is_one() -> None:
    text = LOOP.replace(
        "s_barrier\n{between}", "v_cmp_lt_i32 vcc, v6, v7\ns_cbranch_vccnz on\ns_barrier\non:\n{between}"
    )
    assert refused(made(text=text))


def test_lds_reads_stay_settled() -> None:
    parent = made(with_load="ds_read_b32 v6, v7\ns_waitcnt lgkmcnt(0)", between="v_mov_b32 v7, v6")
    waits = [each.id for each in parent.instructions if each.text == "s_waitcnt lgkmcnt(0)"]
    use = next(each.id for each in parent.instructions if each.mnemonic.startswith("v_mov_b32"))
    script = EditScript(base=parent.hash, kernel=parent.name, edits=(Move(id=waits[1], before=use),))
    assert check_order(WaitAnalysis(parent), WaitAnalysis(apply_script(parent, script)))


def test_a_load_that_is_under_way_at_a_loud_point_too_is_refused() -> None:
    """No wait at either barrier: the load may be read after another wave's store."""
    text = LOOP.replace("ds_write_b32 v3, v2", "ds_write_b32 v3, v6").replace(
        "s_add_i32", "v_mov_b32 v6, v2\ns_add_i32"
    )
    assert refused(made(text=text), consumer="v_mov_b32_e32")


SPLIT = """
s_load_b32 s4, s[0:1], 0x0
s_wait_kmcnt 0x0
loop:
global_load_b32 v2, v[0:1], off
s_wait_loadcnt 0x0
s_barrier_signal {barrier}
{first}
s_barrier_wait {barrier}
global_inv scope:SCOPE_SE
{second}
ds_store_b32 v3, v2
s_wait_dscnt 0x0
s_barrier_signal -1
s_barrier_wait -1
ds_load_b32 v4, v5
s_wait_dscnt 0x0
s_add_co_i32 s4, s4, -1
s_cmp_lg_u32 s4, 0
s_cbranch_scc1 loop
global_store_b32 v[0:1], v4, off
s_endpgm
"""


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({}, False),
        ({"first": "global_store_b32 v[6:7], v4, off"}, True),
        ({"second": "global_store_b32 v[6:7], v4, off"}, True),
        ({"barrier": "1"}, True),
    ],
    ids=["quiet", "store before the wait", "store behind the wait", "a barrier of some waves"],
)
def test_split_barriers(parts: dict[str, str], expected: bool) -> None:
    parent = kernel(SPLIT.format(**({"first": "", "second": "", "barrier": "-1"} | parts)), "gfx1201", INPUTS)
    assert refused(parent, "s_wait_loadcnt 0x0", "ds_store_b32") is expected


def test_divergence_reaches_as_far_as_waves_are_apart() -> None:
    """Block 0 parts, block 1 is one side, block 2 is where all meet."""
    apart = kernel("v_cmp_lt_i32 vcc, v0, v1\ns_cbranch_vccnz on\nv_mov_b32 v2, 0\non:\ns_endpgm", "gfx942", INPUTS)
    assert Uniformity(apart).divergent_blocks == {1}
    together = kernel(
        "s_load_dword s4, s[0:1], 0x0\ns_waitcnt lgkmcnt(0)\ns_cmp_lt_i32 s4, 3\ns_cbranch_scc1 on\n"
        "v_mov_b32 v2, 0\non:\ns_endpgm",
        "gfx942",
        INPUTS,
    )
    assert Uniformity(together).divergent_blocks == frozenset()


def test_what_is_written_where_waves_are_apart_is_not_uniform() -> None:
    """The count is the same on each side, but not the side: the second branch parts waves as well."""
    text = (
        "s_mov_b32 s4, 1\nv_cmp_lt_i32 vcc, v0, v1\ns_cbranch_vccnz on\ns_mov_b32 s4, 2\non:\n"
        "s_cmp_lt_i32 s4, 2\ns_cbranch_scc1 end\nv_mov_b32 v2, 0\nend:\ns_endpgm"
    )
    assert Uniformity(kernel(text, "gfx942", INPUTS)).divergent_blocks == {1, 3}


MASKS = """
s_load_dword s4, s[0:1], 0x0
s_waitcnt lgkmcnt(0)
s_cmp_lt_i32 s4, 3
s_cselect_b64 s[2:3], {choice}
{change}
s_and_b64 vcc, exec, s[2:3]
s_cbranch_vccnz on
v_mov_b32 v2, 0
on:
s_endpgm
"""


@pytest.mark.parametrize(
    ("choice", "change", "apart"),
    [
        ("-1, 0", "", False),
        ("-1, 0", "s_not_b64 s[2:3], s[2:3]", False),
        ("-1, 0", "s_and_saveexec_b64 s[6:7], s[2:3]\ns_or_b64 exec, exec, s[6:7]", False),
        ("-1, 1", "", True),
        ("-1, 0", "s_mov_b32 s3, s7", True),
        ("-1, 0", "s_and_saveexec_b64 s[6:7], s[2:3]", True),
        ("-1, 0", "v_cmp_lt_i32 s[2:3], v0, v1", True),
        ("-1, 0", "v_cmpx_lt_i32 v0, v1", True),
        ("-1, 0", "v_cmp_lt_i32 vcc, v0, v1\ns_and_b64 s[2:3], s[2:3], vcc", True),
    ],
)
def test_a_uniform_condition_kept_as_a_mask_of_lanes(choice: str, change: str, apart: bool) -> None:
    """1 as a mask asks for lane 0 alone, and a wave may have no lane there; without lanes in EXEC nothing is asked."""
    found = Uniformity(kernel(MASKS.format(choice=choice, change=change), "gfx942", INPUTS)).divergent_blocks
    assert bool(found) is apart


@pytest.mark.parametrize(("between", "apart"), [("", False), ("s_and_saveexec_b64 s[6:7], vcc", True)])
def test_a_branch_over_code_without_lanes(between: str, apart: bool) -> None:
    text = f"v_cmp_lt_i32 vcc, v0, v1\n{between}\ns_cbranch_execz on\nv_mov_b32 v2, 0\non:\ns_endpgm"
    assert bool(Uniformity(kernel(text, "gfx942", INPUTS)).divergent_blocks) is apart


def test_masks_of_narrow_waves_are_single_registers() -> None:
    """s3 is written in between: with 32 lanes that is no part of the mask in s2, with 64 it is."""
    text = (
        "s_load_b32 s4, s[0:1], 0x0\ns_waitcnt lgkmcnt(0)\ns_cmp_lt_i32 s4, 3\ns_cselect_b32 s2, -1, 0\n"
        "s_mov_b32 s3, s9\ns_and_b32 vcc_lo, exec_lo, s2\ns_cbranch_vccnz on\nv_mov_b32 v2, 0\non:\ns_endpgm"
    )
    narrow = kernel(text, "gfx1100", INPUTS | {"next_free_sgpr": 16})
    assert narrow.wave_size == 32
    assert Uniformity(narrow).divergent_blocks == frozenset()
