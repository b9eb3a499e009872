"""LDS instructions behind slow ones: what the unit's buffer holds, against traces and by hand.

The gaps are those of gfx1100 ops_run0_c2d10d81 and gfx1201 ops_run0_3eb550f0 (discover_ops), from the kernel's first
instructions on.
"""

from __future__ import annotations

import pytest
from timing_kernels import Build, gaps

from asmevo.timing.lds_data import LdsData, LdsFacts, LdsUse

_COMMON = """
    1 v_mov_b32 v1, 0
    15 ds_add_f32 v0, v48
    1 ds_add_rtn_f32 v32, v0, v48
    1 ds_add_rtn_u32 v32, v0, v48
    1 ds_add_rtn_u64 v[32:33], v0, v[48:49]
    1 ds_add_u32 v0, v48
    1 ds_add_u64 v0, v[48:49]
    1 ds_and_b32 v0, v48
    1 ds_and_b64 v0, v[48:49]
    1 ds_and_rtn_b32 v32, v0, v48
    1 ds_and_rtn_b64 v[32:33], v0, v[48:49]
    1 ds_append v32
    1 ds_bpermute_b32 v32, v0, v48
"""
_BEHIND = {
    "gfx1100": """
    3 ds_cmpstore_b32 v0, v48, v64
    1 ds_cmpstore_b64 v0, v[48:49], v[64:65]
    4 ds_cmpstore_f32 v0, v48, v64
    1 ds_cmpstore_f64 v0, v[48:49], v[64:65]
    4 ds_condxchg32_rtn_b64 v[32:33], v0, v[48:49]
    1 ds_consume v32
    4 ds_dec_rtn_u32 v32, v0, v48
    1 ds_dec_rtn_u64 v[32:33], v0, v[48:49]
    1 ds_dec_u32 v0, v48
    4 ds_dec_u64 v0, v[48:49]
    5 ds_inc_rtn_u32 v32, v0, v48
    26 ds_inc_rtn_u64 v[32:33], v0, v[48:49]
    33 ds_inc_u32 v0, v48
    3 ds_inc_u64 v0, v[48:49]
    1 ds_load_2addr_b32 v[32:33], v0
    1 ds_load_2addr_b64 v[32:35], v0
    """,
    "gfx1201": """
    3 ds_bpermute_fi_b32 v32, v0, v48
    1 ds_cmpstore_b32 v0, v48, v64
    4 ds_cmpstore_b64 v0, v[48:49], v[64:65]
    1 ds_cond_sub_rtn_u32 v32, v0, v48
    4 ds_cond_sub_u32 v0, v48
    1 ds_condxchg32_rtn_b64 v[32:33], v0, v[48:49]
    4 ds_consume v32
    1 ds_dec_rtn_u32 v32, v0, v48
    1 ds_dec_rtn_u64 v[32:33], v0, v[48:49]
    3 ds_dec_u32 v0, v48
    3 ds_dec_u64 v0, v[48:49]
    25 ds_inc_rtn_u32 v32, v0, v48
    32 ds_inc_rtn_u64 v[32:33], v0, v[48:49]
    1 ds_inc_u32 v0, v48
    4 ds_inc_u64 v0, v[48:49]
    1 ds_load_2addr_b32 v[32:33], v0
    """,
}


@pytest.mark.parametrize("gpu", sorted(_BEHIND))
def test_slow_additions_fill_the_buffer_then_the_queue(kernel_of: Build, gpu: str) -> None:
    """A wave that was stopped by the full queue goes on a cycle after a place is free."""
    rows = [line.split(maxsplit=1) for line in (_COMMON + _BEHIND[gpu]).strip().splitlines() if line.strip()]
    code = "\n".join(["v_mov_b32 v0, 0", *(text for _, text in rows)])
    assert gaps(kernel_of, gpu, code) == [int(cycles) for cycles, _ in rows]


def test_integers_never_fill_the_buffer(kernel_of: Build) -> None:
    """gfx1100 discover_ops, ds_min_rtn_f32 to ds_sub: 32 instructions of 83 registers execute without a stop."""
    code = "v_mov_b32 v0, 0\n" + "ds_max_u32 v0, v48\nds_max_u64 v0, v[48:49]\n" * 12
    assert max(gaps(kernel_of, "gfx1100", code)[2:]) <= 5


_LOADS = """
    1 ds_load_2addr_stride64_b64 v[32:35], v0
    1 ds_load_addtid_b32 v32
    1 ds_load_b128 v[32:35], v0
    1 ds_load_b32 v32, v0
    1 ds_load_b64 v[32:33], v0
    1 ds_load_b96 v[32:34], v0
    1 ds_load_i16 v32, v0
    1 ds_load_i8 v32, v0
    1 ds_load_u16 v32, v0
    1 ds_load_u16 v32, v0
    1 ds_load_u16 v32, v0
    1 ds_load_u16 v32, v0
    1 ds_load_u16 v32, v0
    1 ds_load_u8 v32, v0
    1 ds_load_u8 v32, v0
    1 ds_load_u8 v32, v0
    1 ds_max_i32 v0, v48
    1 ds_max_i64 v0, v[48:49]
    1 ds_max_num_f32 v0, v48
    1 ds_max_num_f64 v0, v[48:49]
    1 ds_max_num_rtn_f32 v32, v0, v48
    1 ds_max_num_rtn_f64 v[32:33], v0, v[48:49]
    1 ds_max_rtn_i32 v32, v0, v48
    1 ds_max_rtn_i64 v[32:33], v0, v[48:49]
    1 ds_max_rtn_u32 v32, v0, v48
    1 ds_max_rtn_u64 v[32:33], v0, v[48:49]
    5 ds_max_u32 v0, v48
    1 ds_max_u64 v0, v[48:49]
    4 ds_min_i32 v0, v48
    1 ds_min_i64 v0, v[48:49]
    4 ds_min_num_f32 v0, v48
"""


def test_loads_come_at_the_pace_of_their_data(kernel_of: Build) -> None:
    """gfx1201 discover_ops: 17 loads of 27 dwords; a load of 16 bits stands for those that are written in part."""
    rows = [line.split(maxsplit=1) for line in _LOADS.strip().splitlines()]
    code = "\n".join(["v_mov_b32 v0, 0", "ds_load_2addr_stride64_b32 v[32:33], v0", *(text for _, text in rows)])
    assert gaps(kernel_of, "gfx1201", code)[1:] == [int(cycles) for cycles, _ in rows]


def test_place_by_hand() -> None:
    """Two places, free 3 cycles behind the service: the third load waits for the first, the fourth for the second."""
    lds = LdsData(_facts(instructions=2, service_to_place=3))
    load = LdsUse(registers=1, work=4)
    assert [lds.enter(start, load)[0] for start in range(4)] == [0, 1, 7, 11]


def test_room_by_hand() -> None:
    """A buffer of 8 registers, done after 10 cycles, the first instruction after 30."""
    lds = LdsData(_facts())
    assert lds.enter(0, LdsUse(3, 20)) == (0, 3)
    assert lds.enter(3, LdsUse(2, 0)) == (3, 5)
    assert lds.enter(5, LdsUse(5, 0)) == (5, 32)  # the last two wait for the first
    assert lds.enter(32, LdsUse(8, 0)) == (32, 40)  # all are done in order
    assert lds.enter(40, LdsUse(1, 0)) == (42, 43)
    assert lds.enter(43, LdsUse(0, 1)) == (43, 44)  # nothing is sent, but it takes a cycle


def test_looking_for_room_takes_time() -> None:
    """As above, where an instruction looks for room two cycles before it executes: the fourth executes that much behind
    the third, whose last registers had to wait, and the fifth after the fourth is done.
    """
    lds = LdsData(_facts(room_to_execute=2))
    assert lds.enter(0, LdsUse(3, 20)) == (0, 3)
    assert lds.enter(3, LdsUse(2, 0)) == (3, 5)
    assert lds.enter(5, LdsUse(5, 0)) == (5, 32)
    assert lds.enter(32, LdsUse(8, 0)) == (34, 42)
    assert lds.enter(42, LdsUse(1, 0)) == (46, 47)


def _facts(instructions: int = 99, service_to_place: int = 0, room_to_execute: int = 0) -> LdsFacts:
    return LdsFacts(8, instructions, service_to_place, 10, room_to_execute)
