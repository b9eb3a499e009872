"""The asynchronous mode on registers of hand-written kernels: what it must find, and beside each what it must let pass.

What a kernel does wrong follows from AMD's manuals (which counter counts what, what keeps order) and is written by
hand; each case names the instructions that must be named.
"""

from __future__ import annotations

import pytest
from asynchronous_runs import clean, finds, result_of

from asmevo.emulator import Outcome

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


# --- the mode itself


def test_the_reference_engine_finds_the_same() -> None:
    issue = LOADS["gfx942"]
    result = result_of(issue + USE, "gfx942", engine="reference")
    assert result.problems == result_of(issue + USE, "gfx942").problems
    fine = result_of(issue + "  s_waitcnt vmcnt(0)\n" + USE, "gfx942", engine="reference")
    assert fine.outcome is Outcome.RAN, fine.problems


def test_a_fault_of_a_late_access_names_the_access() -> None:
    body = "  global_load_dword v2, v[8:9], off offset:2048\n  v_mov_b32_e32 v3, 0\n  s_waitcnt vmcnt(0)\n"
    finds(body, "gfx942", "`global_load_dword v2, v[8:9], off offset:2048`", "outside of every buffer")
