"""The asynchronous mode on hand-written kernels: what it must find, and beside each what it must let pass.

What a kernel does wrong follows from AMD's manuals (which counter counts what, what keeps order) and is written by
hand; each case names the instructions that must be named.
"""

from __future__ import annotations

from typing import Any

import pytest

from asmevo.emulator import Outcome, RunOptions, RunResult, parse_manifest, run
from asmevo.program import read_program
from asmevo.toolchain import Processor, toolchain

SEEDS = range(4)

# Per target: words that only its kernel descriptor has, and the kernel's beginning: buffer in s[4:5], v1 = 4 * lane.
PREAMBLE = {
    "gfx803": """
  s_load_dwordx2 s[4:5], s[0:1], 0x0
  s_waitcnt lgkmcnt(0)
  s_mov_b32 m0, -1
  v_lshlrev_b32_e32 v1, 2, v0
  v_mov_b32_e32 v9, s5
  v_add_u32_e32 v8, vcc, s4, v1
  v_addc_u32_e32 v9, vcc, 0, v9, vcc
""",
    "gfx942": """
  s_load_dwordx2 s[4:5], s[0:1], 0x0
  s_mov_b32 s8, s2
  v_and_b32_e32 v0, 0x3ff, v0
  v_lshlrev_b32_e32 v1, 2, v0
  s_waitcnt lgkmcnt(0)
  v_mov_b32_e32 v8, s4
  v_mov_b32_e32 v9, s5
  v_add_co_u32_e32 v8, vcc, v8, v1
  v_addc_co_u32_e32 v9, vcc, 0, v9, vcc
""",
    "gfx1030": """
  s_load_dwordx2 s[4:5], s[0:1], 0x0
  s_mov_b32 s8, s2
  v_lshlrev_b32_e32 v1, 2, v0
  s_waitcnt lgkmcnt(0)
  v_add_co_u32 v8, vcc_lo, s4, v1
  v_mov_b32_e32 v9, s5
  v_add_co_ci_u32_e32 v9, vcc_lo, 0, v9, vcc_lo
""",
    "gfx1200": """
  s_load_b64 s[4:5], s[0:1], 0x0
  v_and_b32_e32 v0, 0x3ff, v0
  v_lshlrev_b32_e32 v1, 2, v0
  s_wait_kmcnt 0x0
  v_add_co_u32 v8, vcc_lo, s4, v1
  v_mov_b32_e32 v9, s5
  v_add_co_ci_u32_e32 v9, vcc_lo, 0, v9, vcc_lo
""",
}

TEXT = """
.amdgcn_target "amdgcn-amd-amdhsa--{target}"
.text
.globl k
.p2align 8
.type k,@function
k:
{body}
  s_endpgm
.size k, .-k
.rodata
.p2align 6
.amdhsa_kernel k
  .amdhsa_user_sgpr_count 2
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_group_segment_fixed_size 1024
  .amdhsa_next_free_vgpr 16
  .amdhsa_next_free_sgpr 32
{extra}
.end_amdhsa_kernel
.amdgpu_metadata
amdhsa.version: [1, 2]
amdhsa.kernels:
  - .name: k
    .symbol: k.kd
    .kernarg_segment_size: 8
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 1024
    .private_segment_fixed_size: 0
    .wavefront_size: {wave}
    .sgpr_count: 32
    .vgpr_count: 16
    .max_flat_workgroup_size: 256
    .args:
      - {{.offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global}}
.end_amdgpu_metadata
"""


def result_of(body: str, target: str, seed: int = 0, items: int = 64, groups: int = 1, **options: Any) -> RunResult:
    """One asynchronous run on a buffer of 256 u32 with 0, 1, 2, ..."""
    extra = ".amdhsa_accum_offset 16" if target == "gfx942" else ""
    wave = 64 if target in ("gfx803", "gfx942") else 32
    extra += "\n  .amdhsa_wavefront_size32 1" if wave == 32 else ""
    text = TEXT.format(target=target, body=PREAMBLE[target] + body, extra=extra, wave=wave)
    made = read_program(toolchain().link(toolchain().assemble(text, Processor(target))), "test.hsaco")
    manifest = parse_manifest(
        {
            "symbol": "k",
            "groups": [groups, 1, 1],
            "workgroup": [items, 1, 1],
            "arguments": [
                {
                    "name": "out",
                    "kind": "buffer",
                    "dtype": "u32",
                    "shape": [256],
                    "init": {"kind": "values", "values": list(range(256))},
                },
            ],
        }
    )
    chosen = RunOptions(asynchronous=True, seed=seed, **options)
    return run(made, made.kernel("k"), manifest, options=chosen)


def clean(body: str, target: str, **launch: Any) -> list[int]:
    """Nothing is found with any seed; gives the buffer at the end, which must not depend on the seed."""
    found = []
    for seed in SEEDS:
        result = result_of(body, target, seed, **launch)
        assert result.outcome is Outcome.RAN, result.problems
        found.append(result.outputs["out"].tolist())
    assert all(each == found[0] for each in found)
    return found[0]


def finds(body: str, target: str, *words: str, **launch: Any) -> None:
    """Every seed finds it, and says these words."""
    for seed in SEEDS:
        result = result_of(body, target, seed, **launch)
        assert result.outcome is Outcome.FAULT
        for each in words:
            assert each in result.problems[0], result.problems[0]


# --- registers: (target, body with {wait}, a wait that is enough, one that is not, words)

LOADS = {
    "gfx942": "  global_load_dword v2, v[8:9], off\n  global_load_dword v3, v[8:9], off offset:4\n",
    "gfx1030": "  global_load_dword v2, v[8:9], off\n  global_load_dword v3, v[8:9], off offset:4\n",
    "gfx1200": "  global_load_b32 v2, v[8:9], off\n  global_load_b32 v3, v[8:9], off offset:4\n",
}
LDS = {
    "gfx942": "  ds_read_b32 v2, v1\n  ds_read_b32 v3, v1 offset:4\n",
    "gfx1030": "  ds_read_b32 v2, v1\n  ds_read_b32 v3, v1 offset:4\n",
    "gfx1200": "  ds_load_b32 v2, v1\n  ds_load_b32 v3, v1 offset:4\n",
}
SCALAR = {
    "gfx942": "  s_load_dword s10, s[4:5], 0x0\n  s_load_dword s11, s[4:5], 0x4\n",
    "gfx1030": "  s_load_dword s10, s[4:5], 0x0\n  s_load_dword s11, s[4:5], 0x4\n",
    "gfx1200": "  s_load_b32 s10, s[4:5], 0x0\n  s_load_b32 s11, s[4:5], 0x4\n",
}
USE = "  v_xor_b32_e32 v4, 1, v2\n"
USE_SCALAR = "  s_xor_b32 s12, s10, 1\n"

REGISTER_CASES = [
    # vector memory: the first of two is there when one is left
    ("gfx942", LOADS["gfx942"], USE, "s_waitcnt vmcnt(1)", "s_waitcnt vmcnt(2)", "vmcnt <= 1"),
    ("gfx1030", LOADS["gfx1030"], USE, "s_waitcnt vmcnt(1)", "s_waitcnt lgkmcnt(0)", "vmcnt <= 1"),
    ("gfx1200", LOADS["gfx1200"], USE, "s_wait_loadcnt 0x1", "s_wait_loadcnt 0x2", "loadcnt <= 1"),
    # LDS: off by one, and the wrong counter
    ("gfx942", LDS["gfx942"], USE, "s_waitcnt lgkmcnt(1)", "s_waitcnt lgkmcnt(2)", "lgkmcnt <= 1"),
    ("gfx1030", LDS["gfx1030"], USE, "s_waitcnt lgkmcnt(1)", "s_waitcnt vmcnt(0)", "lgkmcnt <= 1"),
    ("gfx1200", LDS["gfx1200"], USE, "s_wait_dscnt 0x1", "s_wait_loadcnt 0x0", "dscnt <= 1"),
    # scalar loads come in any order: only 0 proves anything
    ("gfx942", SCALAR["gfx942"], USE_SCALAR, "s_waitcnt lgkmcnt(0)", "s_waitcnt lgkmcnt(1)", "lgkmcnt <= 0"),
    ("gfx1030", SCALAR["gfx1030"], USE_SCALAR, "s_waitcnt lgkmcnt(0)", "s_waitcnt lgkmcnt(1)", "lgkmcnt <= 0"),
    ("gfx1200", SCALAR["gfx1200"], USE_SCALAR, "s_wait_kmcnt 0x0", "s_wait_kmcnt 0x1", "kmcnt <= 0"),
    # FLAT counts twice, and on gfx9 and before in no order
    (
        "gfx942",
        "  flat_load_dword v2, v[8:9]\n",
        USE,
        "s_waitcnt vmcnt(0) lgkmcnt(0)",
        "s_waitcnt vmcnt(0)",
        "lgkmcnt <= 0",
    ),
    (
        "gfx942",
        "  flat_load_dword v2, v[8:9]\n",
        USE,
        "s_waitcnt vmcnt(0) lgkmcnt(0)",
        "s_waitcnt lgkmcnt(0)",
        "vmcnt <= 0",
    ),
    (
        "gfx1030",
        "  flat_load_dword v2, v[8:9]\n",
        USE,
        "s_waitcnt vmcnt(0) lgkmcnt(0)",
        "s_waitcnt vmcnt(0)",
        "lgkmcnt <= 0",
    ),
    ("gfx1200", "  flat_load_b32 v2, v[8:9]\n", USE, "s_wait_loadcnt_dscnt 0x0", "s_wait_loadcnt 0x0", "dscnt <= 0"),
    # stores count in vscnt from gfx10 on, in vmcnt before: a wait that was enough there is too much here
    (
        "gfx1030",
        "  global_load_dword v2, v[8:9], off\n  global_store_dword v[8:9], v1, off offset:512\n",
        USE,
        "s_waitcnt vmcnt(0)",
        "s_waitcnt vmcnt(1)",
        "vmcnt <= 0",
    ),
    # a returning atomic, and an overwritten destination
    (
        "gfx942",
        "  global_atomic_add v2, v[8:9], v1, off sc0\n",
        USE,
        "s_waitcnt vmcnt(0)",
        "s_nop 0",
        "vmcnt <= 0",
    ),
    (
        "gfx942",
        "  global_load_dword v2, v[8:9], off\n",
        "  v_mov_b32_e32 v2, 0\n",
        "s_waitcnt vmcnt(0)",
        "s_nop 0",
        "overwrites v2, which is still under way from instruction 9 `global_load_dword",
    ),
]


@pytest.mark.parametrize(
    ("target", "issue", "use", "enough", "short", "words"),
    REGISTER_CASES,
    ids=[f"{case[0]}:{case[1].split()[0]}:{case[4]}" for case in REGISTER_CASES],
)
def test_registers_are_unknown_until_the_wait(
    target: str, issue: str, use: str, enough: str, short: str, words: str
) -> None:
    clean(issue + f"  {enough}\n" + use, target)
    finds(issue + f"  {short}\n" + use, target, words, use.strip())


def test_both_instructions_are_named() -> None:
    body = "  global_load_dword v2, v[8:9], off\n  v_mov_b32_e32 v3, 0\n  v_xor_b32_e32 v4, 1, v2\n"
    finds(
        body,
        "gfx942",
        "k: instruction 11 `v_xor_b32_e32 v4, 1, v2` (workgroup [0, 0, 0], wave 0) reads v2, "
        "which is still under way from instruction 9 `global_load_dword v2, v[8:9], off`; wait for vmcnt <= 0",
    )


def test_address_and_data_registers_are_free_after_issue() -> None:
    """From gfx8 on hardware holds back who overwrites what a store still reads; no wait is needed."""
    body = "  global_store_dword v[8:9], v1, off\n  v_mov_b32_e32 v1, 0\n  v_mov_b32_e32 v8, 0\n"
    assert clean(body, "gfx942")[:64] == [4 * lane for lane in range(64)]


def test_a_load_after_a_load_keeps_order_before_gfx12() -> None:
    """One destination twice: loads write in order (gfx9), or the second has to wait (gfx12)."""
    again = "  global_load_dword v2, v[8:9], off\n  global_load_dword v2, v[8:9], off offset:4\n"
    clean(again + "  s_waitcnt vmcnt(0)\n" + USE, "gfx942")
    text = again.replace("dword", "b32") + "  s_wait_loadcnt 0x0\n" + USE
    finds(text, "gfx1200", "overwrites v2", "loadcnt <= 0")


def test_stores_in_flight_at_the_end() -> None:
    assert clean("  global_store_dword v[8:9], v1, off\n", "gfx942")[63] == 252


def test_a_load_sees_the_waves_own_store() -> None:
    """One path to the cache: the load may not overtake the store to its bytes, though nothing waits for that."""
    body = """
  global_store_dword v[8:9], v1, off
  global_load_dword v2, v[8:9], off
  s_waitcnt vmcnt(0)
  global_store_dword v[8:9], v2, off offset:512
"""
    for target in ("gfx942", "gfx1030"):
        lanes = 64 if target == "gfx942" else 32
        assert clean(body, target, items=lanes)[128 : 128 + lanes] == [4 * lane for lane in range(lanes)]


def test_a_full_counter_holds_the_issue_back() -> None:
    """vmcnt of gfx8 counts to 15: with fifteen younger loads the first one is there."""
    load = "  buffer_load_dword v{}, v1, s[12:15], 0 offen\n"
    resource = "  s_mov_b32 s12, s4\n  s_mov_b32 s13, s5\n  s_movk_i32 s14, 0x400\n  s_mov_b32 s15, 0x20000\n"
    finds(resource + load.format(2) + load.format(3) * 14 + USE, "gfx803", "reads v2", "vmcnt <= 14")
    clean(resource + load.format(2) + load.format(3) * 15 + USE, "gfx803")


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


# --- the mode itself


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


def test_the_reference_engine_finds_the_same() -> None:
    issue = LOADS["gfx942"]
    result = result_of(issue + USE, "gfx942", engine="reference")
    assert result.problems == result_of(issue + USE, "gfx942").problems
    fine = result_of(issue + f"  {WAIT}\n" + USE, "gfx942", engine="reference")
    assert fine.outcome is Outcome.RAN, fine.problems


def test_a_fault_of_a_late_access_names_the_access() -> None:
    body = "  global_load_dword v2, v[8:9], off offset:2048\n  v_mov_b32_e32 v3, 0\n  s_waitcnt vmcnt(0)\n"
    finds(body, "gfx942", "`global_load_dword v2, v[8:9], off offset:2048`", "outside of every buffer")
