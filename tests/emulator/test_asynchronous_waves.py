"""The asynchronous mode on memory that waves share: what it must find, and beside each what it must let pass.

What a kernel does wrong follows from AMD's manuals (which counter counts what, what keeps order) and is written by
hand; each case names the instructions that must be named.
"""

from __future__ import annotations

from asynchronous_runs import SEEDS, clean, finds, result_of

from asmevo.emulator import Outcome

# --- LDS between waves

EXCHANGE = """
  ds_write_b32 v1, v0
  {before}
  {barrier}
  v_xor_b32_e32 v5, 0x100, v1
  ds_read_b32 v2, v5
  s_waitcnt lgkmcnt(0)
  global_store_dword v[8:9], v2, off
"""


def test_a_barrier_with_a_wait_orders_lds() -> None:
    body = EXCHANGE.format(before="s_waitcnt lgkmcnt(0)", barrier="s_barrier")
    assert clean(body, "gfx942", items=128)[:128] == [item ^ 64 for item in range(128)]


def test_a_barrier_without_the_wait() -> None:
    body = EXCHANGE.format(before="s_nop 0", barrier="s_barrier")
    finds(
        body,
        "gfx942",
        "race on LDS 0x",
        "instruction 9 `ds_write_b32 v1, v0`",
        "`ds_read_b32 v2, v5`",
        "the first was still under way at the barrier",
        items=128,
    )


def test_a_missing_barrier() -> None:
    body = EXCHANGE.format(before="s_waitcnt lgkmcnt(0)", barrier="s_nop 0")
    finds(
        body,
        "gfx942",
        "race on LDS 0x",
        "`ds_write_b32 v1, v0`",
        "`ds_read_b32 v2, v5`",
        "no barrier or atomic orders them",
        items=128,
    )


def test_one_wave_needs_no_barrier() -> None:
    body = EXCHANGE.replace("0x100", "0x80").format(before="s_nop 0", barrier="s_nop 0")
    assert clean(body, "gfx942")[:64] == [lane ^ 32 for lane in range(64)]


def test_a_read_must_be_over_before_others_write() -> None:
    """Write after read: the barrier keeps the waves apart only if each has its value in front of it."""
    body = """
  ds_write_b32 v1, v0
  s_waitcnt lgkmcnt(0)
  s_barrier
  ds_read_b32 v2, v1
  {}
  s_barrier
  v_xor_b32_e32 v5, 0x100, v1
  v_add_u32_e32 v4, 7, v0
  ds_write_b32 v5, v4
  s_waitcnt lgkmcnt(0)
  global_store_dword v[8:9], v2, off
"""
    assert clean(body.format("s_waitcnt lgkmcnt(0)"), "gfx942", items=128)[:128] == list(range(128))
    finds(body.format("s_nop 0"), "gfx942", "`ds_read_b32 v2, v1`", "`ds_write_b32 v5, v4`", items=128)


def test_split_barriers_order_what_came_before_the_signal() -> None:
    body = """
  ds_store_b32 v1, v0
  {}
  s_barrier_signal -1
  {}
  s_barrier_wait -1
  v_xor_b32_e32 v5, 0x80, v1
  ds_load_b32 v2, v5
  s_wait_dscnt 0x0
  global_store_b32 v[8:9], v2, off
"""
    got = clean(body.format("s_wait_dscnt 0x0", "s_nop 0"), "gfx1200", items=64)
    assert got[:64] == [item ^ 32 for item in range(64)]
    finds(body.format("s_nop 0", "s_wait_dscnt 0x0"), "gfx1200", "race on LDS", "still under way", items=64)


def test_waves_may_write_the_same_bytes_to_one_place() -> None:
    body = "  v_mov_b32_e32 v3, {}\n  v_and_b32_e32 v5, 0xfc, v1\n  ds_write_b32 v5, v3\n"
    clean(body.format("5"), "gfx942", items=128)
    finds(body.format("v0"), "gfx942", "race on LDS", "wave 0) writes it", "wave 1) writes it", items=128)


def test_lds_atomics_are_no_race_but_reading_beside_them_is() -> None:
    body = "  v_mov_b32_e32 v5, 0\n  v_mov_b32_e32 v3, 1\n  ds_add_u32 v5, v3\n"
    clean(body, "gfx942", items=128)
    finds(body + "  ds_read_b32 v2, v5\n  s_waitcnt lgkmcnt(0)\n", "gfx942", "race on LDS", "`ds_add_u32", items=128)


TO_LDS = """
  s_mov_b32 s12, s4
  s_mov_b32 s13, s5
  s_movk_i32 s14, 0x400
  s_mov_b32 s15, 0x20000
  s_mov_b32 m0, 0
  s_nop 0
  buffer_load_dword v1, s[12:15], 0 offen lds
  {}
  ds_read_b32 v2, v1
  s_waitcnt lgkmcnt(0)
  global_store_dword v[8:9], v2, off offset:512
"""


def test_a_load_into_lds_is_there_after_vmcnt() -> None:
    assert clean(TO_LDS.format("s_waitcnt vmcnt(0)"), "gfx942")[128:192] == list(range(64))
    finds(TO_LDS.format("s_nop 0"), "gfx942", "race on LDS", " lds`", "`ds_read_b32 v2, v1`", "still under way")
    finds(TO_LDS.format("s_waitcnt lgkmcnt(0)"), "gfx942", "race on LDS", "still under way")


# --- global memory between waves and workgroups

GLOBAL = """
  v_xor_b32_e32 v5, 0x100, v1
  v_add_u32_e32 v2, 100, v0
  global_store_dword v1, v2, s[4:5]
  {}
  {}
  global_load_dword v3, v5, s[4:5]
  s_waitcnt vmcnt(0)
  global_store_dword v1, v3, s[4:5] offset:512
"""


def test_waves_of_a_workgroup_meet_in_global_memory() -> None:
    ordered = GLOBAL.format("s_waitcnt vmcnt(0)", "s_barrier")
    assert clean(ordered, "gfx942", items=128)[128:] == [100 + (item ^ 64) for item in range(128)]
    finds(GLOBAL.format("s_nop 0", "s_barrier"), "gfx942", "race on global memory", "under way", items=128)
    unordered = GLOBAL.format("s_waitcnt vmcnt(0)", "s_nop 0")
    finds(unordered, "gfx942", "race on global memory", "no barrier or atomic", items=128)


def test_workgroups_have_no_barrier() -> None:
    body = "  v_add_u32_e32 v2, s8, v0\n  global_store_dword v1, v2, s[4:5]\n"
    clean(body, "gfx942", groups=1)
    finds(body, "gfx942", "race on global memory", "workgroup [0, 0, 0]", "workgroup [1, 0, 0]", groups=2)
    apart = "  s_lshl_b32 s9, s8, 8\n  v_add_u32_e32 v1, s9, v1\n" + body
    clean(apart, "gfx942", groups=4)


def test_global_atomics_are_no_race() -> None:
    body = "  v_mov_b32_e32 v5, 0\n  v_mov_b32_e32 v3, 1\n  global_atomic_add v5, v3, s[4:5]\n"
    assert clean(body, "gfx942", items=128, groups=3)[0] == 3 * 128


# The last workgroup to arrive, as an atomic counter tells, adds up what all have stored.
LAST = """
  s_lshl_b32 s9, s8, 2
  v_mov_b32_e32 v5, s9
  v_mov_b32_e32 v9, 0
  v_add_u32_e32 v2, 40, v5
  s_mov_b64 exec, 1
  global_store_dword v5, v2, s[4:5] offset:16
  {store_done}
  v_mov_b32_e32 v3, 1
  {count}
  {atomic_done}
  v_cmp_eq_u32_e32 vcc, 1, v4
  s_and_saveexec_b64 s[10:11], vcc
  s_cbranch_execz done
  global_load_dwordx2 v[10:11], v9, s[4:5] offset:16
  s_waitcnt vmcnt(0)
  v_add_u32_e32 v10, v10, v11
  global_store_dword v9, v10, s[4:5] offset:128
done:
"""
COUNT = "global_atomic_add v4, v9, v3, s[4:5] sc0"
WAIT = "s_waitcnt vmcnt(0)"


def test_workgroups_that_synchronise_by_an_atomic() -> None:
    good = LAST.format(store_done=WAIT, count=COUNT, atomic_done=WAIT)
    assert clean(good, "gfx942", groups=2)[32] == 40 + 44
    late = LAST.format(store_done="s_nop 0", count=COUNT, atomic_done=WAIT)
    finds(late, "gfx942", "race on global memory", "`global_store_dword v5, v2, s[4:5] offset:16`", groups=2)


GUESS = """
  v_mov_b32_e32 v9, 0
  s_mov_b64 exec, 1
  global_load_dword v3, v9, s[4:5]
  s_waitcnt vmcnt(0)
again:
  v_add_u32_e32 v2, 1, v3
  v_mov_b32_e32 v4, v3
  v_mov_b32_e32 v10, v2
  v_mov_b32_e32 v11, v3
  {}
  s_waitcnt vmcnt(0)
  v_cmp_ne_u32_e32 vcc, v3, v4
  s_cbranch_vccnz again
"""


def test_the_guess_in_front_of_a_compare_and_swap_is_no_race() -> None:
    swap = "global_atomic_cmpswap v3, v9, v[10:11], s[4:5] sc0"
    assert clean(GUESS.format(swap), "gfx942", items=128, groups=2)[0] == 4


def test_a_load_beside_atomics_that_is_no_guess() -> None:
    body = "  v_mov_b32_e32 v9, 0\n  global_load_dword v3, v9, s[4:5]\n  s_waitcnt vmcnt(0)\n"
    other = "  s_cmp_eq_u32 s8, 0\n  s_cbranch_scc1 reads\n  global_atomic_add v0, v1, s[4:5]\n  s_endpgm\nreads:\n"
    body = "  v_mov_b32_e32 v0, 0\n  v_mov_b32_e32 v1, 1\n" + other + body
    for seed in SEEDS:
        result = result_of(body, "gfx942", seed, groups=2)
        assert result.outcome is Outcome.FAULT
        assert "race on global memory" in result.problems[0]
        assert "`global_atomic_add v0, v1, s[4:5]`" in result.problems[0]


def test_a_seed_is_a_course() -> None:
    """The same seed does the same; atomics of two workgroups come in another order with another seed."""
    body = (
        LAST.format(store_done=WAIT, count=COUNT, atomic_done=WAIT)
        + "  s_mov_b64 exec, 1\n  global_store_dword v5, v4, s[4:5] offset:64\n"
    )
    seen = {seed: result_of(body, "gfx942", seed, groups=2).outputs["out"][16:18].tolist() for seed in range(12)}
    assert set(map(tuple, seen.values())) == {(0, 1), (1, 0)}
    for seed in (0, 5):
        assert result_of(body, "gfx942", seed, groups=2).outputs["out"][16:18].tolist() == seen[seed]
