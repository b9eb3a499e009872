"""The reported cases of tests/data/cases, one by one: the message itself, at the right instruction.

What must be said of each is the last column of cases.tsv, which comes from the reports. `SILENT` cases must raise
nothing that counts. Each case that must be found has siblings in the tests below and in the tests of its family.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from msgspec import Struct

from asmevo.checks.file_report import CheckOptions, PlacedFinding, check_file

CASES = Path(__file__).resolve().parents[1] / "data" / "cases"


class Said(Struct, frozen=True):
    """One finding: its rule and severity, its first place (line), and what message and mend must hold."""

    rule: str
    severity: str
    line: int | None
    words: tuple[str, ...]
    mend: str = ""


def error(rule: str, line: int | None, *words: str, mend: str = "") -> Said:
    return Said(rule, "error", line, words, mend)


def warning(rule: str, line: int | None, *words: str, mend: str = "") -> Said:
    return Said(rule, "warning", line, words, mend)


def perf(rule: str, line: int | None, *words: str, mend: str = "") -> Said:
    return Said(rule, "perf", line, words, mend)


IN_FLIGHT = "waits.in-flight"
EXPERT = "waits.expert-mode"
SAID: dict[str, tuple[Said, ...]] = {
    "01_lgkm-off-by-one.gfx950.s": (
        error(
            IN_FLIGHT,
            6,
            "v[0:3] may still be in flight when v_mfma_f32_16x16x32_f16 (#5) reads it",
            "ds_read_b128 (#0) is followed by 3 younger LDS operations",
            "needs lgkmcnt(3) or lower, found lgkmcnt(4)",
            mend="lower lgkmcnt of s_waitcnt (#4) to 3",
        ),
    ),
    "02_nll-path.gfx950.s": (
        error(IN_FLIGHT, 8, "v[0:1]", "needs lgkmcnt(0), found lgkmcnt(2) on the path through blocks 0 -> 2"),
    ),
    "03_loop-carried.gfx942.s": (
        error(IN_FLIGHT, 5, "v1", "(#4)", "needs lgkmcnt(0), found no wait on the path through blocks 1 -> 1"),
    ),
    "05_lds-dma-partial-vmcnt.gfx950.s": (
        warning(
            "waits.lds-dma",
            6,
            "at s_barrier (#5) 1 LDS-DMA write still outstanding (vmcnt(2) retires only 1 of 2)",
            "ds_read_b32 (#6) behind s_barrier (#5) may read LDS that buffer_load_dword (#2) has not written",
            "addresses are not compared",
            "needs vmcnt(1), found vmcnt(2)",
            mend="lower vmcnt of s_waitcnt (#4) to 1",
        ),
        error("hazards.m0-lds-dma", 2, "needs 1 wait state between, found 0"),
    ),
    "07_expert-mode-va-vdst.gfx1250.s": (
        error(EXPERT, 3, "v10", "v_add_nc_u32_e32 (#1)", "needs s_wait_alu depctr_va_vdst(0)"),
        error(EXPERT, 5, "v20", "v_add_f32_e32 (#3)", "needs s_wait_alu depctr_va_vdst(0)"),
    ),
    "09_tensorcnt.gfx1250.s": (
        error(
            "waits.lds-dma",
            2,
            "no wait for tensorcnt anywhere",
            "ds_load_b128 (#3) behind s_barrier_signal (#1) may read LDS that tensor_load_to_lds (#0) has not written",
            "needs tensorcnt(0), found no wait",
            mend="insert s_wait_tensorcnt for tensorcnt(0) before s_barrier_signal (#1)",
        ),
    ),
    "11_gfx12-store-counter.gfx1250.s": (
        error(IN_FLIGHT, 4, "v1", "buffer_load_b32 (#0) is followed by 0 younger", "loadcnt(0), found loadcnt(1)"),
    ),
    "12_counter-backpressure.gfx950.s": (),
    "14_xcnt-phantom.gfx1250.s": (),
    "17_ds2-split-wait.gfx1250.s": (error(IN_FLIGHT, 4, "v1", "needs dscnt(0), found dscnt(1)"),),
    "19_wbl2-inv-vmcnt.gfx942.s": (
        warning(
            "waits.write-back",
            3,
            "global_store_dword (#2) stores while the write-back buffer_wbl2 (#1) is under way",
            "a release needs vmcnt(0), found no wait",
        ),
    ),
    "21_mfma-inline-acc-read.gfx950.s": (
        error("hazards.xdl-valu", 2, "through a0", "needs 8 wait states between, found 0", mend="insert s_nop 7"),
        error("hazards.xdl-valu", 3, "through a1", "needs 8 wait states between, found 1", mend="insert s_nop 6"),
    ),
    "23_mfma-diff-srcc.gfx950.s": (
        warning("hazards.mfma-src-c-other-opcode", 2, "not forwarded through v[0:3]", "needs 6 wait states", "found 0"),
    ),
    "25_wide-store-war.gfx942.s": (
        error("hazards.wide-store-data", 6, "v[34:35]", "needs 2 wait states between, found 1", mend="insert s_nop 0"),
    ),
    "27_trans-fwd.gfx942.s": (error("hazards.trans-use", 2, "v1", "needs 1 wait state between, found 0"),),
    "29_permlane-gfx950.gfx950.s": (
        error("hazards.vgpr-permlane", 2, "v1", "needs 2 wait states between, found 0", mend="insert s_nop 1"),
    ),
    "30_dpp-after-valu.gfx906.s": (error("hazards.vgpr-dpp", 3, "v2", "needs 2 wait states between, found 1"),),
    "31_valu-sgpr-vmem.gfx906.s": (
        error("hazards.valu-sgpr-vmem", 3, "s9", "needs 5 wait states between, found 0", mend="insert s_nop 4"),
    ),
    "33_gfx12-sgpr-read.gfx1200.s": (
        error("hazards.valu-read-sgpr-salu", 3, "s4", mend="insert s_wait_alu depctr_sa_sdst(0) before #2"),
    ),
    "34_wmma-gfx11.gfx1100.s": (error("hazards.wmma-src-ab", 2, "v[0:7]", mend="insert v_nop before #1"),),
    "36_vopd-parity.gfx1100.s": (
        warning(
            "hazards.vopd-parity",
            2,
            "src0X=v4 and src0Y=v6 differ in bank but share parity",
            "v_add_f32_e32 (#0) right in front writes v4",
            "low confidence",
        ),
    ),
    "38_vopd-legality.gfx1100.s": (),
    "40_xnack-sload-overlap.gfx1250.s": (
        warning("replay.own-address", 1, "s[4:5]", "replayed after an XNACK it reads a clobbered address"),
    ),
    "42_undef-srsrc.gfx950.s": (
        error("resources/undefined", 5, "reads s[4:5] as part of s[4:7]", "neither the launch nor any path to it"),
    ),
    "44_endpgm-divergent.gfx1100.s": (
        warning("resources/divergent-end", 2, "s_endpgm ignores EXEC", "the lanes that did not pass end with it"),
    ),
    "46_null-saddr.gfx1250.s": (
        error(
            "resources/undefined",
            1,
            "uses v[0:1] as a 64-bit address at entry, but only v0 (work-item ids) is defined by the ABI",
        ),
    ),
    "47_kd-vgpr-under.gfx1100.s": (
        error("resources/vgpr", 3, "uses v40, the descriptor encodes 8 VGPRs", "really allocates 24 (granule 24"),
    ),
    "48_kd-accum-offset.gfx90a.s": (
        error("resources/accum-offset", 4, "v13, which lies in the AGPR half: accum_offset is 8", "v13 is a5"),
    ),
    "50_too-many-vgprs-for-wg.gfx1102.s": (
        error("resources/workgroup", None, "1024 is 32 waves of 256 VGPRs", "the largest legal workgroup is 512"),
    ),
    "53_new-triple.gfx1201.s": (),
    "54_redundant-wait.gfx1100.s": (
        perf("waits.idle", 2, "0 outstanding in lgkmcnt", "allows lgkmcnt(0)", mend="delete it"),
        perf("waits.idle", 6, "at most 2 outstanding in lgkmcnt", "allows lgkmcnt(2)", mend="delete it"),
    ),
    "56_gfx12-legacy-waitcnt.gfx1200.s": (
        perf("waits.legacy", 2, "waits for everything on gfx1200", "use s_wait_dscnt 0x0", mend="use s_wait_dscnt 0x0"),
    ),
}


def said_of(file: Path, gpu: str) -> list[PlacedFinding]:
    report = check_file(file, CheckOptions(gpu=gpu))
    assert not report.error, report.error
    return list(report.findings)


def of_text(folder: Path, text: str, gpu: str) -> list[PlacedFinding]:
    file = folder / "case.s"
    file.write_text(text)
    return said_of(file, gpu)


def test_every_case_is_here() -> None:
    with (CASES / "cases.tsv").open() as rows:
        listed = {row["file"] for row in csv.DictReader(rows, delimiter="\t")}
    assert listed == set(SAID) == {file.name for file in CASES.glob("*.s")}


@pytest.mark.parametrize("name", sorted(SAID))
def test_a_reported_case(name: str) -> None:
    found = said_of(CASES / name, name.split(".")[-2])
    assert [(each.finding.rule, each.finding.severity.value, each.at_line) for each in found] == [
        (said.rule, said.severity, said.line) for said in SAID[name]
    ]
    for each, said in zip(found, SAID[name], strict=True):
        assert [words for words in said.words if words not in each.finding.message] == []
        assert said.mend in each.finding.mend


# --- siblings: the same kinds on other targets, counters and instruction classes ---------------------------

LDS_DMA_SIBLINGS = [
    ("gfx942", "buffer_load_dword v0, s[8:11], 0 offen lds", "s_waitcnt vmcnt(1)", "s_barrier", "ds_read_b32", "vmcnt"),
    ("gfx950", "global_load_lds_dwordx4 v[0:1], off", "s_waitcnt vmcnt(1)", "s_barrier", "ds_read_b32", "vmcnt"),
    (
        "gfx1250",
        "global_load_async_to_lds_b128 v0, v[2:3], off",
        "s_wait_asynccnt 0x1",
        "s_barrier_signal -1\ns_barrier_wait -1",
        "ds_load_b32",
        "asynccnt",
    ),
]


@pytest.mark.parametrize(("gpu", "load", "wait", "barrier", "read", "counter"), LDS_DMA_SIBLINGS)
def test_loads_into_lds_left_open(
    tmp_path: Path, gpu: str, load: str, wait: str, barrier: str, read: str, counter: str
) -> None:
    """Two loads, one of them retired: the wait must be for 0. With no wait at all it is an error."""
    text = f"{load}\n{load}\n{{}}\n{barrier}\n{read} v4, v5\n"
    (found,) = of_text(tmp_path, text.format(wait), gpu)
    assert (found.finding.rule, found.finding.severity.value) == ("waits.lds-dma", "warning")
    assert f"1 LDS-DMA write still outstanding ({counter}(1) retires only 1 of 2)" in found.finding.message
    assert f"needs {counter}(0), found {counter}(1)" in found.finding.message
    (never,) = of_text(tmp_path, text.format(""), gpu)
    assert never.finding.severity.value == "error"
    assert f"2 LDS-DMA writes still outstanding (no wait for {counter} anywhere)" in never.finding.message
    settled = wait.replace("(1)", "(0)").replace("0x1", "0x0")
    assert of_text(tmp_path, text.format(settled), gpu) == []


def test_a_wait_that_is_settled_on_another_path_only_is_no_error(tmp_path: Path) -> None:
    """The read may not follow: without it on one of the paths it is not certain."""
    text = """
    tensor_load_to_lds s[0:3], s[4:11]
    s_barrier_signal -1
    s_barrier_wait -1
    s_cbranch_scc1 done
    ds_load_b128 v[0:3], v40
    done:
    s_endpgm
    """
    (found,) = of_text(tmp_path, text, "gfx1250")
    assert (found.finding.rule, found.finding.severity.value) == ("waits.lds-dma", "warning")


LEGACY = [
    ("ds_load_b32 v1, v0", "s_waitcnt 0xfc07", "use s_wait_dscnt 0x0"),
    ("s_load_b32 s4, s[2:3], 0x0", "s_waitcnt lgkmcnt(0)", "use s_wait_kmcnt 0x0"),
    ("global_load_b32 v1, v[2:3], off", "s_waitcnt vmcnt(0)", "use s_wait_loadcnt 0x0"),
    ("global_load_b32 v1, v[2:3], off\nds_load_b32 v4, v0", "s_waitcnt vmcnt(0) lgkmcnt(1)", "use s_wait_loadcnt 0x0"),
    ("v_nop", "s_waitcnt lgkmcnt(0)", "delete it"),
]


@pytest.mark.parametrize(("before", "wait", "mend"), LEGACY)
def test_the_wait_to_use_instead_of_a_legacy_one(tmp_path: Path, before: str, wait: str, mend: str) -> None:
    found = [
        each for each in of_text(tmp_path, f"{before}\n{wait}\n", "gfx1200") if each.finding.rule == "waits.legacy"
    ]
    assert [mend in each.finding.mend for each in found] == [True]


def test_a_legacy_wait_that_gfx1250_does_not_have(tmp_path: Path) -> None:
    file = tmp_path / "k.s"
    file.write_text("ds_load_b32 v1, v0\ns_waitcnt lgkmcnt(0)\n")
    report = check_file(file, CheckOptions(gpu="gfx1250"))
    assert report.error
    (found,) = report.findings
    assert (found.finding.rule, found.line) == ("waits.legacy", 2)
    assert "s_wait_dscnt 0x0 and s_wait_kmcnt 0x0" in found.finding.mend


# What llvm-mc 22 refuses, and the rule of hardware.md's section on VOPD that the pair breaks.
ILLEGAL_PAIRS = [
    (
        "v_dual_and_b32 v16, v21, v25 :: v_dual_add_f32 v17, v22, v26",
        "v_dual_and_b32 is a Y-only opcode",
        "swap the halves: `v_dual_add_f32 v17, v22, v26 :: v_dual_and_b32 v16, v21, v25`",
    ),
    ("v_dual_lshlrev_b32 v16, 1, v25 :: v_dual_mul_f32 v17, v22, v26", "v_dual_lshlrev_b32 is a Y-only", "swap"),
    ("v_dual_add_nc_u32 v16, v1, v25 :: v_dual_and_b32 v17, v22, v26", "and so is v_dual_and_b32", "other opcodes"),
    ("v_dual_add_f32 v17, v22, v26 :: v_dual_and_b32 v15, v21, v25", "v17 and v15 are both odd", "even register"),
    ("v_dual_add_f32 v17, v22, v26 :: v_dual_mul_f32 v16, v26, v25", "src0X=v22 and src0Y=v26 lie in the same", "swap"),
    ("v_dual_add_f32 v17, v22, v27 :: v_dual_mul_f32 v16, v25, v23", "src1X=v27 and src1Y=v23 lie in the same", "swap"),
    ("v_dual_add_f32 v17, v22, s27 :: v_dual_mul_f32 v16, v25, v23", "src1 of v_dual_add_f32 is s27", "swap"),
    (
        "v_dual_add_f32 v17, s1, v26 :: v_dual_cndmask_b32 v16, s2, v25",
        "reads 3 different SGPRs and literals (s1, s2, vcc_lo",
        "move one",
    ),
    (
        "v_dual_fmaak_f32 v17, v1, v26, 0x1234567 :: v_dual_fmamk_f32 v16, v2, 0x333333, v25",
        "2 different literals (0x1234567, 0x333333)",
        "move one",
    ),
    ("v_dual_frob_f32 v17, v1, v26 :: v_dual_mul_f32 v16, v2, v25", "gfx1100 has no v_dual_frob_f32", ""),
]


@pytest.mark.parametrize(("line", "why", "mend"), ILLEGAL_PAIRS)
def test_why_a_pair_is_refused(tmp_path: Path, line: str, why: str, mend: str) -> None:
    file = tmp_path / "k.s"
    file.write_text(f"v_nop\n{line}\n")
    report = check_file(file, CheckOptions(gpu="gfx1100"))
    assert report.error
    (found,) = report.findings
    assert (found.finding.rule, found.line) == ("hazards.vopd-legality", 2)
    assert why in found.finding.message
    assert mend in found.finding.mend


def test_a_pair_on_a_target_without_pairs_or_in_wave64(tmp_path: Path) -> None:
    file = tmp_path / "k.s"
    file.write_text("v_dual_add_f32 v17, v22, v26 :: v_dual_and_b32 v16, v21, v25\n")
    (old,) = check_file(file, CheckOptions(gpu="gfx1030")).findings
    assert "gfx1030 has no dual instructions" in old.finding.message
    (wide,) = check_file(file, CheckOptions(gpu="gfx1100", wave_size=64)).findings
    assert "dual instructions need waves of 32" in wide.finding.message


PARITY = [
    ("gfx1151", "v_add_f32_e32 v5, v8, v9", "v_dual_mov_b32 v10, v5 :: v_dual_mov_b32 v13, v7", 1),
    ("gfx1102", "v_add_f32_e32 v7, v8, v9", "v_dual_add_f32 v10, v4, v7 :: v_dual_mul_f32 v13, v3, v5", 1),
    ("gfx1100", "v_add_f32_e32 v30, v8, v9", "v_dual_add_f32 v10, v4, v7 :: v_dual_mul_f32 v13, v6, v5", 0),
    ("gfx1100", "v_add_f32_e32 v4, v8, v9", "v_dual_add_f32 v10, v4, v7 :: v_dual_mul_f32 v13, v5, v6", 0),
    ("gfx1200", "v_add_f32_e32 v4, v8, v9", "v_dual_add_f32 v10, v4, v7 :: v_dual_mul_f32 v13, v6, v5", 0),
]


@pytest.mark.parametrize(("gpu", "before", "pair", "count"), PARITY)
def test_sources_of_one_parity(tmp_path: Path, gpu: str, before: str, pair: str, count: int) -> None:
    found = of_text(tmp_path, f"{before}\n{pair}\n", gpu)
    assert [each.finding.rule for each in found] == ["hazards.vopd-parity"] * count


def test_an_address_that_no_launch_defines(tmp_path: Path) -> None:
    """gfx9 has work-item ids in v1 and v2; with ids packed into v0 nothing writes v1."""
    text = "{} v[0:1], off\ns_endpgm\n"
    packed = of_text(tmp_path, text.format("global_load_dword v4,"), "gfx90a")
    assert [(each.finding.rule, each.finding.severity.value) for each in packed] == [("resources/undefined", "warning")]
    assert of_text(tmp_path, text.format("global_load_dword v4,"), "gfx906") == []
    assert of_text(tmp_path, "v_mov_b32_e32 v1, 0\n" + text.format("global_load_dword v4,"), "gfx90a") == []
    (prefetch,) = of_text(tmp_path, text.format("global_prefetch_b8"), "gfx1250")
    assert prefetch.finding.severity.value == "error"
    assert of_text(tmp_path, "global_prefetch_b8 v0, s[0:1]\ns_endpgm\n", "gfx1250") == []


# What a wait for a count says of operations that finish out of order: nothing (hardware.md, wait counters).
OUT_OF_ORDER = [
    ("gfx942", "s_load_dword s4, s[0:1], 0x0\ns_load_dword s5, s[0:1], 0x4", "s_waitcnt lgkmcnt(1)", "lgkmcnt", 1),
    ("gfx1200", "s_load_b32 s4, s[0:1], 0x0\ns_load_b32 s5, s[0:1], 0x4", "s_wait_kmcnt 0x1", "kmcnt", 1),
]


@pytest.mark.parametrize(("gpu", "loads", "wait", "counter", "value"), OUT_OF_ORDER)
def test_a_count_that_says_nothing(tmp_path: Path, gpu: str, loads: str, wait: str, counter: str, value: int) -> None:
    (found,) = of_text(tmp_path, f"{loads}\n{wait}\ns_mov_b32 s6, s4\n", gpu)
    assert found.finding.rule == IN_FLIGHT
    assert f"needs {counter}(0), found {counter}({value}), which says nothing about operations" in found.finding.message
    assert found.finding.mend.startswith(f"lower {counter} of ")
    nothing = of_text(tmp_path, f"{loads}\ns_nop 0\ns_mov_b32 s6, s4\n", gpu)
    assert ["found no wait" in each.finding.message for each in nothing] == [True]


def test_a_hardware_register_is_not_called_a_vgpr(tmp_path: Path) -> None:
    text = "s_setreg_b32 hwreg(HW_REG_MODE), s4\ns_getreg_b32 s5, hwreg(HW_REG_MODE)\n"
    (found,) = of_text(tmp_path, text, "gfx906")
    assert found.finding.rule == "hazards.setreg-getreg"
    assert "needs 2 wait states between, found 0" in found.finding.message
    assert "v0" not in found.finding.message
