"""Short branches as selections: the same values on drawn data, and nothing proposed where a condition would be lost."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from launchable_kernels import launchable

from asmevo.emulator import Outcome as Ending
from asmevo.emulator import parse_manifest, run
from asmevo.program import Program
from asmevo.program.edit import apply_script
from asmevo.program.kernel import Kernel
from asmevo.proposers import Facts
from asmevo.proposers.branches import Branches
from asmevo.prover import Outcome, ProofLimits, prove_kernels

LANES = 64
STORE, STORE_B32 = "global_store_dword v[8:9], v2, off", "global_store_b32 v[8:9], v2, off"
FLAT_STORE = "flat_store_dword v[8:9], v2"
TARGETS = {
    "gfx803": (64, "s_load_dwordx2", "s_waitcnt lgkmcnt(0)", "flat_load_dword v2, v[8:9]", FLAT_STORE),
    "gfx90a": (64, "s_load_dwordx2", "s_waitcnt lgkmcnt(0)", "global_load_dword v2, v[8:9], off", STORE),
    "gfx942": (64, "s_load_dwordx2", "s_waitcnt lgkmcnt(0)", "global_load_dword v2, v[8:9], off", STORE),
    "gfx1030": (32, "s_load_dwordx2", "s_waitcnt lgkmcnt(0)", "global_load_dword v2, v[8:9], off", STORE),
    "gfx1100": (32, "s_load_b64", "s_waitcnt lgkmcnt(0)", "global_load_b32 v2, v[8:9], off", STORE_B32),
    "gfx1201": (32, "s_load_b64", "s_wait_kmcnt 0x0", "global_load_b32 v2, v[8:9], off", STORE_B32),
}  # fmt: skip

Numbers = np.ndarray[Any, np.dtype[np.uint32]]
Wanted = Callable[[Numbers, Numbers, Numbers], Numbers]
"""The results of one wave from v2 as it was loaded, v3, and v4, which is other data."""


def body_of(text: str, gpu: str) -> str:
    """Code for 64 lanes in the words of a target."""
    wave = TARGETS[gpu][0]
    words = {
        "_bW": f"_b{wave}",
        "SAVED": "s[4:5]",
        "EXEC": "exec",
        "VCC": "vcc",
        "ADD": "v_add_u32",
        "MAC": "v_fmac_f32",
    }
    if wave != LANES:
        words |= {"SAVED": "s4", "EXEC": "exec_lo", "VCC": "vcc_lo", "ADD": "v_add_nc_u32"}
    words |= {"CARRY": "", "INTO": "vcc, " if wave == LANES else ""}
    if gpu == "gfx803":
        words |= {"CARRY": "vcc, ", "MAC": "v_mac_f32"}
    for word, meaning in words.items():
        text = text.replace(word, meaning)
    return text


def program_of(text: str, gpu: str) -> Program:
    """A kernel that loads, does something, and stores; s10 is the first lane's value, odd or even by data."""
    wave, load_pointer, wait, load, store = TARGETS[gpu]
    address = {
        "gfx803": "v_mov_b32_e32 v9, s5\nv_add_u32_e32 v8, vcc, s4, v1\nv_addc_u32_e32 v9, vcc, 0, v9, vcc",
        64: "v_mov_b32_e32 v9, s5\nv_add_co_u32_e32 v8, vcc, s4, v1\nv_addc_co_u32_e32 v9, vcc, 0, v9, vcc",
        32: "v_mov_b32_e32 v9, s5\nv_add_co_u32 v8, vcc_lo, s4, v1\nv_add_co_ci_u32_e32 v9, vcc_lo, 0, v9, vcc_lo",
    }[gpu if gpu == "gfx803" else wave]
    wait_load = "s_wait_loadcnt 0x0" if gpu == "gfx1201" else "s_waitcnt vmcnt(0)"
    if gpu == "gfx803":
        wait_load = "s_waitcnt vmcnt(0) lgkmcnt(0)"
    code = f"""{load_pointer} s[4:5], s[0:1], 0x0
v_and_b32_e32 v0, 0x3ff, v0
v_lshlrev_b32_e32 v1, 2, v0
{wait}
{address}
{load}
{wait_load}
v_lshrrev_b32_e32 v3, 3, v2
v_xor_b32_e32 v4, 0x55, v2
v_readfirstlane_b32 s10, v2
s_and_b32 s11, s10, 15
v_mov_b32_e32 v6, v0
v_mov_b32_e32 v14, 0
s_mov_b32 s20, 0
{body_of(text, gpu)}
{store}
"""
    argument = ".offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global"
    return launchable(code, gpu, [argument], wave=wave)


def results(program: Program, kernel: Kernel, data: Numbers) -> Numbers:
    manifest = parse_manifest(
        {
            "symbol": "k",
            "groups": [1, 1, 1],
            "workgroup": [LANES, 1, 1],
            "arguments": [
                {
                    "name": "out", "kind": "buffer", "dtype": "u32", "shape": [LANES],
                    "init": {"kind": "values", "values": data.tolist()},
                },
            ],
        }
    )  # fmt: skip
    result = run(program, kernel, manifest)
    assert result.outcome is Ending.RAN, result.problems
    return result.outputs["out"]


def conditions(kernel: Kernel) -> float:
    """A cost by which what has fewer conditions is better: what is asked here is not whether it pays."""
    return float(len(re.findall("saveexec|s_cbranch", texts(kernel))))


def versions(kernel: Kernel) -> list[Kernel]:
    scripts = list(Branches().propose(Facts(kernel, cost=conditions)))
    return [apply_script(kernel, script) for script in scripts]


def texts(kernel: Kernel) -> str:
    return "\n".join(each.text for each in kernel.instructions)


COMPARE, NARROW = "v_cmp_lt_u32_e32 VCC, v4, v2\n", "s_and_saveexec_bW SAVED, VCC\n"
MASK = COMPARE + NARROW
BACK = "\ns_or_bW EXEC, EXEC, SAVED"
ONLY_EXEC = "EXEC kept, then compared by what writes nothing else"
SKIP, LABEL = "s_cbranch_execz L\n", "\nL:"


def _where(then: Wanted) -> Wanted:
    return lambda v2, v3, v4: np.where(v4 < v2, then(v2, v3, v4), v2)


def _if(condition: Callable[[int], bool], then: Wanted) -> Wanted:
    return lambda v2, v3, v4: then(v2, v3, v4) if condition(int(v2[0])) else v2


REGIONS: dict[str, tuple[str, Wanted]] = {
    "a sum": (MASK + SKIP + "ADD v2, CARRYv2, v3" + LABEL + BACK, _where(lambda v2, v3, v4: v2 + v3)),
    "no branch": (MASK + "v_xor_b32_e32 v2, v2, v3" + BACK, _where(lambda v2, v3, v4: v2 ^ v3)),
    "a move": (MASK + SKIP + "v_mov_b32_e32 v2, v3" + LABEL + BACK, _where(lambda v2, v3, v4: v3)),
    "a number": (MASK + SKIP + "v_mov_b32_e32 v2, 0x12345" + LABEL + BACK,
                 _where(lambda v2, v3, v4: np.full_like(v2, 0x12345))),
    "a step on the way": (
        MASK + SKIP + "v_mul_u32_u24_e32 v5, v3, v4\nv_xor_b32_e32 v2, v5, v2" + LABEL + BACK,
        _where(lambda v2, v3, v4: ((v3 & 0xFFFFFF) * (v4 & 0xFFFFFF)) ^ v2),
    ),
    "a scalar on the way": (
        MASK + SKIP + "s_mov_b32 s12, 0x1234567\nv_xor_b32_e32 v2, s12, v2" + LABEL + BACK,
        _where(lambda v2, v3, v4: v2 ^ 0x1234567),
    ),
    "a sum where it is kept": (
        COMPARE + "v_and_b32_e32 v2, 63, v2\nv_cvt_f32_u32_e32 v2, v2\n"
        + "v_and_b32_e32 v5, 31, v3\nv_cvt_f32_u32_e32 v5, v5\n" + NARROW + SKIP
        + "MAC_e32 v2, v5, v5" + LABEL + BACK + "\nv_cvt_u32_f32_e32 v2, v2",
        lambda v2, v3, v4: (v2 & 63) + np.where(v4 < v2, (v3 & 31) ** 2, 0),
    ),
    "a wide result": (
        MASK + SKIP + "v_lshlrev_b64 v[2:3], 3, v[2:3]" + LABEL + BACK + "\nv_xor_b32_e32 v2, v2, v3",
        lambda v2, v3, v4: np.where(v4 < v2, v2 << 3 ^ (v3 << 3 | v2 >> 29), v2 ^ v3),
    ),
    "its own mask again": (
        MASK + SKIP + "v_cmp_gt_u32_e32 VCC, 77, v3\nv_cndmask_b32_e32 v2, v3, v4, VCC" + LABEL + BACK,
        lambda v2, v3, v4: np.where(v4 < v2, np.where(v3 < 77, v4, v3), v2),
    ),
    "a mask that keeps EXEC itself": (
        "v_cmp_lt_u32_e64 SAVED, v4, v2\ns_and_saveexec_bW SAVED, SAVED\n" + SKIP + "v_xor_b32_e32 v2, v2, v3"
        + LABEL + BACK, _where(lambda v2, v3, v4: v2 ^ v3),
    ),
    "EXEC moved back": (
        MASK + SKIP + "v_xor_b32_e32 v2, v2, v3" + LABEL + "\ns_mov_bW EXEC, SAVED", _where(lambda v2, v3, v4: v2 ^ v3),
    ),
    "EXEC kept, then narrowed": (
        COMPARE + "s_mov_bW SAVED, EXEC\ns_and_bW EXEC, EXEC, VCC\n" + SKIP + "v_xor_b32_e32 v2, v2, v3" + LABEL + BACK,
        _where(lambda v2, v3, v4: v2 ^ v3),
    ),
    "EXEC kept, then compared": (
        "s_mov_bW SAVED, EXEC\nv_cmpx_lt_u32_e32 INTOv4, v2\n" + SKIP + "v_xor_b32_e32 v2, v2, v3" + LABEL + BACK,
        _where(lambda v2, v3, v4: v2 ^ v3),
    ),
    ONLY_EXEC: (
        "s_mov_bW SAVED, EXEC\nv_cmpx_lt_u32_e64 v4, v2\n" + SKIP + "v_cmp_gt_u32_e32 VCC, 77, v3\n"
        "v_cndmask_b32_e32 v2, v3, v4, VCC" + LABEL + BACK,
        lambda v2, v3, v4: np.where(v4 < v2, np.where(v3 < 77, v4, v3), v2),
    ),
    "a body that jumps": (
        "s_branch M\nL:" + BACK + "\ns_branch END\nM:\n" + MASK + SKIP + "v_xor_b32_e32 v2, v2, v3\ns_branch L\nEND:",
        _where(lambda v2, v3, v4: v2 ^ v3),
    ),
    "a scalar branch": (
        "s_mov_b32 s12, 3\ns_cmp_lt_u32 s11, 8\ns_cbranch_scc0 L\ns_add_u32 s12, s12, s10" + LABEL
        + "\nv_xor_b32_e32 v2, s12, v2",
        lambda v2, v3, v4: v2 ^ ((3 + v2[0]) if v2[0] % 16 < 8 else np.uint32(3)),
    ),
    "a scalar branch the other way": (
        "s_mov_b32 s12, 3\ns_cmp_lt_u32 s11, 8\ns_cbranch_scc1 L\ns_mov_b32 s12, s10" + LABEL
        + "\nv_xor_b32_e32 v2, s12, v2", lambda v2, v3, v4: v2 ^ (v2[0] if v2[0] % 16 >= 8 else np.uint32(3)),
    ),
    "a pair of scalars": (
        "s_mov_b32 s12, 3\ns_mov_b32 s13, 4\ns_cmp_lt_u32 s11, 8\ns_cbranch_scc0 L\n"
        "s_lshl_b64 s[12:13], s[10:11], 4" + LABEL + "\ns_xor_b32 s12, s12, s13\nv_xor_b32_e32 v2, s12, v2",
        lambda v2, v3, v4: v2 ^ ((v2[0] << 4) ^ (v2[0] % 16 << 4 | v2[0] >> 28) if v2[0] % 16 < 8 else np.uint32(7)),
    ),
    "an operand of its own comparison": (
        "s_cmp_lt_u32 s11, 8\ns_cbranch_scc0 L\ns_add_u32 s11, s11, 77" + LABEL + "\nv_xor_b32_e32 v2, s11, v2",
        lambda v2, v3, v4: v2 ^ ((v2[0] % 16 + 77) if v2[0] % 16 < 8 else v2[0] % 16),
    ),
    "vectors by a scalar": (
        "s_cmp_lt_u32 s11, 8\ns_cbranch_scc0 L\nv_xor_b32_e32 v2, v2, v3" + LABEL,
        _if(lambda first: first % 16 < 8, lambda v2, v3, v4: v2 ^ v3),
    ),
    "both by a scalar": (
        "s_mov_b32 s12, 3\ns_cmp_lt_u32 s11, 8\ns_cbranch_scc1 L\nv_xor_b32_e32 v2, v2, v3\ns_add_u32 s12, s12, s10"
        + LABEL + "\nv_xor_b32_e32 v2, s12, v2",
        lambda v2, v3, v4: v2 ^ v3 ^ (3 + v2[0]) if v2[0] % 16 >= 8 else v2 ^ np.uint32(3),
    ),
    "vectors if any lane compares": (
        "v_cmp_gt_u32_e32 VCC, 0x7fffff, v2\ns_cbranch_vccz L\nv_xor_b32_e32 v2, v2, v3" + LABEL,
        lambda v2, v3, v4: v2 ^ v3 if (v2 < 0x7FFFFF).any() else v2,
    ),
    "SCC says it of VCC already": (
        "v_cmp_gt_u32_e32 VCC, 0x7fffff, v2\ns_and_bW VCC, EXEC, VCC\ns_cbranch_vccz L\nv_xor_b32_e32 v2, v2, v3"
        + LABEL,
        lambda v2, v3, v4: v2 ^ v3 if (v2 < 0x7FFFFF).any() else v2,
    ),
    "scalars if no lane compares": (
        "s_mov_b32 s12, 3\nv_cmp_gt_u32_e32 VCC, 0x7fffff, v2\ns_cbranch_vccnz L\ns_add_u32 s12, s12, s10" + LABEL
        + "\nv_xor_b32_e32 v2, s12, v2",
        lambda v2, v3, v4: v2 ^ (np.uint32(3) if (v2 < 0x7FFFFF).any() else 3 + v2[0]),
    ),
}  # fmt: skip


def drawn(seed: int, wave: int) -> list[Numbers]:
    """Data of one launch by wave; some of it small, so that conditions fall either way."""
    rng = np.random.default_rng(seed)
    data = rng.integers(0, 1 << 32, LANES, dtype=np.uint32)
    data = np.where(rng.random(LANES) < 0.02, data & 0xFFFFF, data).astype(np.uint32)
    return [data[start : start + wave] for start in range(0, LANES, wave)]


@pytest.mark.parametrize(
    ("gpu", "name"), [(gpu, name) for gpu in TARGETS for name in REGIONS if name != ONLY_EXEC or gpu.startswith("gfx1")]
)
def test_the_condition_is_gone_and_the_values_are_the_same(gpu: str, name: str) -> None:
    text, wanted = REGIONS[name]
    program = program_of(text, gpu)
    kernel = program.kernel("k")
    made = versions(kernel)
    assert made, texts(kernel)
    version = made[0]
    for word in ("saveexec", "s_cbranch", "cmpx", "s_or_b", "s_mov_b64 exec", "s_mov_b32 exec"):
        assert word not in texts(version), texts(version)
    proof = prove_kernels(kernel, version, limits=ProofLimits(draws=0))
    assert proof.outcome is Outcome.PROVED, f"{proof.reason}\n{texts(version)}"
    for seed in range(3):
        waves = drawn(seed, TARGETS[gpu][0])
        data = np.concatenate(waves)
        with np.errstate(over="ignore"):
            expected = [wanted(v2, v2 >> np.uint32(3), v2 ^ np.uint32(0x55)).astype(np.uint32) for v2 in waves]
        for each in (kernel, version):
            np.testing.assert_array_equal(results(program, each, data), np.concatenate(expected), texts(each))


# What may not be selected, on gfx942; some of it may lose its branch.
REFUSED = {
    "a store": MASK + SKIP + "global_store_dword v[8:9], v3, off" + LABEL + BACK,
    "a load that may fault": MASK + SKIP + "global_load_dword v2, v[8:9], off\ns_waitcnt vmcnt(0)" + LABEL + BACK,
    "EXEC is read": MASK + SKIP + "s_mov_b32 s12, exec_lo\nv_mov_b32_e32 v2, s12" + LABEL + BACK,
    "EXEC is written": MASK + SKIP + "v_cmpx_lt_u32_e32 vcc, v3, v4\nv_mov_b32_e32 v2, v3" + LABEL + BACK,
    "a first lane": MASK + SKIP + "v_readfirstlane_b32 s12, v3\nv_xor_b32_e32 v2, s12, v2" + LABEL + BACK,
    "other lanes": MASK + SKIP + "v_mov_b32_dpp v2, v3 row_shl:1 row_mask:0xf bank_mask:0xf" + LABEL + BACK,
    "a lane whatever EXEC is": MASK + SKIP + "v_writelane_b32 v2, s10, 3" + LABEL + BACK,
    "a matrix product": MASK + SKIP + "v_mfma_f32_4x4x1_16b_f32 v[4:7], v2, v3, v[4:7]" + LABEL + BACK,
    "SCC lives": MASK + "v_xor_b32_e32 v2, v2, v3" + BACK + "\ns_cselect_b32 s12, 1, 2\nv_xor_b32_e32 v2, s12, v2",
    "a scalar that some waves count": MASK + SKIP + "s_add_u32 s11, s11, 1" + LABEL + BACK
    + "\nv_xor_b32_e32 v2, s11, v2",
    "a mask that lives": MASK + SKIP + "v_cmp_lt_u32_e64 s[12:13], v3, v0" + LABEL + BACK
    + "\nv_cndmask_b32_e64 v2, v2, v3, s[12:13]",
    "a mask as a number": MASK + SKIP + "v_cmp_lt_u32_e64 s[12:13], v3, v0\ns_lshl_b64 s[12:13], s[12:13], 1\n"
    "v_cndmask_b32_e64 v2, v2, v3, s[12:13]" + LABEL + BACK,
    "the kept EXEC is read": MASK + SKIP + "v_xor_b32_e32 v2, v2, v3" + LABEL + BACK + "\nv_xor_b32_e32 v2, s4, v2",
    "another EXEC comes back": MASK + SKIP + "v_xor_b32_e32 v2, v2, v3" + LABEL + "\ns_mov_b64 exec, s[12:13]",
    "a second way in": "s_cmp_lt_u32 s11, 8\ns_mov_b64 s[4:5], exec\ns_cbranch_scc1 M\n" + MASK + SKIP + "M:\n"
    + "v_xor_b32_e32 v2, v2, v3" + LABEL + BACK,
    "a second way to the end": "s_mov_b64 s[4:5], exec\ns_cmp_lt_u32 s11, 8\ns_cbranch_scc1 L\n" + MASK + SKIP
    + "v_xor_b32_e32 v2, v2, v3" + LABEL + BACK,
    "the copy of EXEC is read": COMPARE + "s_mov_b64 s[4:5], exec\nv_xor_b32_e32 v2, s4, v2\n"
    + "s_and_b64 exec, exec, vcc\n" + SKIP + "v_xor_b32_e32 v2, v2, v3" + LABEL + BACK,
    "EXEC is another one, not a part": COMPARE + "s_mov_b64 s[4:5], exec\ns_and_b64 exec, s[12:13], vcc\n"
    + SKIP + "v_xor_b32_e32 v2, v2, v3" + LABEL + BACK,
    "an old copy": "s_mov_b64 s[4:5], exec\ns_mov_b64 exec, 0xff\n" + COMPARE + "s_and_b64 exec, exec, vcc\n"
    + SKIP + "v_xor_b32_e32 v2, v2, v3" + LABEL + BACK,
    "a barrier": MASK + SKIP + "s_barrier\nv_xor_b32_e32 v2, v2, v3" + LABEL + BACK,
    "a branch inside": MASK + SKIP + "s_cmp_lt_u32 s11, 8\ns_cbranch_scc1 L\n" + FLAT_STORE + LABEL + BACK,
    "priority": MASK + SKIP + "s_setprio 1\nv_xor_b32_e32 v2, v2, v3" + LABEL + BACK,
    "a scalar load": "s_mov_b32 s12, 3\ns_cmp_lt_u32 s11, 8\ns_cbranch_scc0 L\ns_load_dword s12, s[0:1], 0x0\n"
    "s_waitcnt lgkmcnt(0)" + LABEL + "\nv_xor_b32_e32 v2, s12, v2",
    "a store by a scalar": "s_cmp_lt_u32 s11, 8\ns_cbranch_scc0 L\nglobal_store_dword v[8:9], v3, off" + LABEL,
    "SCC behind a scalar branch": "s_cmp_lt_u32 s11, 8\ns_cbranch_scc0 L\nv_xor_b32_e32 v2, v2, v3" + LABEL
    + "\ns_cselect_b32 s12, 1, 2\nv_xor_b32_e32 v2, s12, v2",
    "a carry that goes in": "s_mov_b32 s12, 3\ns_cmp_lt_u32 s11, 8\ns_cbranch_scc0 L\ns_addc_u32 s12, s12, s10" + LABEL
    + "\nv_xor_b32_e32 v2, s12, v2",
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_where_a_condition_would_be_lost_no_selection_is_proposed(name: str) -> None:
    """What is proposed instead, that no branch leads over it, is right all the same."""
    program = program_of(REFUSED[name], "gfx942")
    kernel = program.kernel("k")
    for version in versions(kernel):
        assert texts(version).count("exec") >= texts(kernel).count("exec") - 1  # of the branch
        assert texts(version).count("s_cbranch_scc") == texts(kernel).count("s_cbranch_scc")
        proof = prove_kernels(kernel, version, limits=ProofLimits(draws=0))
        assert proof.outcome is Outcome.PROVED, f"{name}: {proof.reason}\n{texts(version)}"


SKIPPED = {
    "a store": ("global_store_dword v[8:9], v3, off", True),
    "vectors": ("v_xor_b32_e32 v2, v2, v3", True),
    "a first lane that nobody reads behind it": ("v_readfirstlane_b32 s12, v3\nv_xor_b32_e32 v2, s12, v2", True),
    "a scalar that is read behind it": ("s_add_u32 s11, s11, 1", False),
    "a scalar load": ("s_load_dword s12, s[0:1], 0x0\ns_waitcnt lgkmcnt(0)\nv_xor_b32_e32 v2, s12, v2", False),
    "a barrier": ("s_barrier", False),
    "more than a branch takes": ("v_xor_b32_e32 v2, v2, v3\n" * 30, False),
    "a load that is waited for": ("global_load_dword v2, v[8:9], off\ns_waitcnt vmcnt(0)", False),
}


@pytest.mark.parametrize("name", SKIPPED)
def test_a_branch_over_code_that_does_nothing_without_lanes_goes(name: str) -> None:
    """EXEC is made by something else than a narrowing that is given back, so that nothing else is proposed."""
    body, goes = SKIPPED[name]
    text = f"s_mov_b64 s[4:5], exec\ns_and_b64 exec, exec, s[10:11]\n{SKIP}{body}{LABEL}\ns_mov_b64 exec, s[4:5]\n"
    kernel = program_of(text + "v_xor_b32_e32 v2, s11, v2", "gfx942").kernel("k")
    made = versions(kernel)
    assert bool(made) is goes
    for version in made:
        assert "s_cbranch" not in texts(version)
        assert prove_kernels(kernel, version, limits=ProofLimits(draws=0)).outcome is Outcome.PROVED


def test_what_does_not_pay_is_not_proposed() -> None:
    kernel = program_of(REGIONS["a sum"][0], "gfx942").kernel("k")
    assert not list(Branches().propose(Facts(kernel, cost=lambda version: 1.0)))


def test_all_branches_of_a_kernel_go_at_once() -> None:
    one = MASK + "s_cbranch_execz L{0}\nv_xor_b32_e32 v2, v2, v{1}\nL{0}:" + BACK + "\nv_mov_b32_e32 v14, 0\n"
    kernel = program_of(one.format(1, 3) + one.format(2, 0) + one.format(3, 4), "gfx942").kernel("k")
    version = versions(kernel)[0]
    assert "s_cbranch" not in texts(version)
    assert prove_kernels(kernel, version, limits=ProofLimits(draws=0)).outcome is Outcome.PROVED
