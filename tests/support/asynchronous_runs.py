"""Hand-written kernels run in the asynchronous mode with several seeds."""

from __future__ import annotations

from typing import Any

from launchable_kernels import launchable

from asmevo.emulator import Outcome, RunOptions, RunResult, parse_manifest, run

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

ARGUMENT = ".offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global"


def result_of(body: str, target: str, seed: int = 0, items: int = 64, groups: int = 1, **options: Any) -> RunResult:
    """One asynchronous run on a buffer of 256 u32 with 0, 1, 2, ..."""
    wave = 64 if target in ("gfx803", "gfx942") else 32
    made = launchable(PREAMBLE[target] + body, target, [ARGUMENT], lds=1024, wave=wave)
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
