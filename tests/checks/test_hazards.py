"""Hazard findings: reported cases, their harmless neighbours."""

from __future__ import annotations

from pathlib import Path

import pytest
from written_kernels import written

from asmevo.checks.finding import Severity
from asmevo.checks.hazards import check_hazards
from asmevo.program import read_program
from asmevo.program.codeobject import CodeObject
from asmevo.program.kernel import Kernel
from asmevo.program.reading import read_kernels
from asmevo.toolchain import Processor, toolchain

DATA = Path(__file__).parents[1] / "data"

Expected = tuple[str, Severity, int, str]  # rule, severity, consumer, part of the mend


def kernel_of(text: str, gpu: str) -> Kernel:
    return written(f"{text}\ns_endpgm", gpu)


def found(text: str, gpu: str) -> list[tuple[str, Severity, int]]:
    return [(f.rule, f.severity, f.instructions[0]) for f in check_hazards(kernel_of(text, gpu))]


CASES: dict[str, list[Expected]] = {
    "21_mfma-inline-acc-read.gfx950.s": [
        ("hazards.xdl-valu", Severity.ERROR, 1, "insert s_nop 7 before #1"),
        ("hazards.xdl-valu", Severity.ERROR, 2, "insert s_nop 6 before #2"),
    ],
    "23_mfma-diff-srcc.gfx950.s": [
        ("hazards.mfma-src-c-other-opcode", Severity.WARNING, 1, "insert s_nop 5 before #1")
    ],
    "25_wide-store-war.gfx942.s": [("hazards.wide-store-data", Severity.ERROR, 4, "insert s_nop 0 before #4")],
    "27_trans-fwd.gfx942.s": [("hazards.trans-use", Severity.ERROR, 1, "insert s_nop 0 before #1")],
    "29_permlane-gfx950.gfx950.s": [("hazards.vgpr-permlane", Severity.ERROR, 1, "insert s_nop 1 before #1")],
    "30_dpp-after-valu.gfx906.s": [("hazards.vgpr-dpp", Severity.ERROR, 2, "insert s_nop 0 before #2")],
    "31_valu-sgpr-vmem.gfx906.s": [("hazards.valu-sgpr-vmem", Severity.ERROR, 2, "insert s_nop 4 before #2")],
    "33_gfx12-sgpr-read.gfx1200.s": [
        ("hazards.valu-read-sgpr-salu", Severity.ERROR, 2, "insert s_wait_alu depctr_sa_sdst(0) before #2")
    ],
    "34_wmma-gfx11.gfx1100.s": [("hazards.wmma-src-ab", Severity.ERROR, 1, "insert v_nop before #1")],
}


@pytest.mark.parametrize("name", CASES)
def test_reported_cases_are_found(name: str) -> None:
    findings = check_hazards(kernel_of((DATA / "cases" / name).read_text(), name.split(".")[1]))
    assert [(f.rule, f.severity, f.instructions[0], f.mend) for f in findings] == CASES[name]


@pytest.mark.parametrize("name", CASES)
def test_the_mend_mends(name: str) -> None:
    """Putting in what the messages say, from the last place to the first, leaves nothing to find."""
    gpu = name.split(".")[1]
    lines = [line for line in (DATA / "cases" / name).read_text().splitlines() if line.strip()]
    for _ in range(3):
        places = [n for n, line in enumerate(lines) if not line.strip().endswith(":")]
        findings = check_hazards(kernel_of("\n".join(lines), gpu))
        if not findings:
            return
        mend = findings[0].mend.removeprefix("insert ").split(" before #")
        lines.insert(places[int(mend[1])], mend[0])
    pytest.fail("still findings")


SILENT = {
    "21: unrelated AGPRs": (
        "gfx950",
        "v_mfma_f32_16x16x32_bf16 a[0:3], v[0:3], v[4:7], 0\nv_accvgpr_read_b32 v20, a4",
    ),
    "23: one opcode": (
        "gfx950",
        "v_mfma_f32_16x16x32_f16 v[0:3], v[8:11], v[12:15], v[0:3]\n" * 2,
    ),
    "23: gfx942 forwards": (
        "gfx942",
        "v_mfma_f32_16x16x16_f16 v[0:3], v[8:9], v[12:13], v[0:3]\n"
        "v_mfma_f32_32x32x8_f16 v[16:31], v[8:9], v[12:13], v[16:31]",
    ),
    "25: other registers": ("gfx942", "global_store_dwordx4 v26, v[34:37], s[20:21]\nv_mov_b32_e32 v38, v0"),
    "25: narrow store": ("gfx942", "global_store_dwordx2 v26, v[34:35], s[20:21]\nv_mov_b32_e32 v34, v0"),
    "27: gfx90a": ("gfx90a", "v_rcp_f32_e32 v1, v0\nv_mul_f32_e32 v2, v1, v3"),
    "27: trans to trans": ("gfx942", "v_rcp_f32_e32 v1, v0\nv_exp_f32_e32 v2, v1"),
    "29: other register": ("gfx950", "v_add_f32_e32 v1, v2, v3\nv_permlane32_swap_b32_e32 v5, v4"),
    "30: only src0 goes through DPP": (
        "gfx906",
        "v_add_f32_e32 v4, v4, v4\nv_add_f32_dpp v5, v6, v4 row_shr:1 row_mask:0xf bank_mask:0xf",
    ),
    "31: gfx10": (
        "gfx1030",
        "v_readfirstlane_b32 s8, v0\nv_readfirstlane_b32 s9, v1\nbuffer_load_dword v4, v5, s[8:11], 0 offen",
    ),
    "33: gfx11": ("gfx1100", "v_add_f32_e32 v1, s4, v2\ns_mov_b32 s4, s9\nv_add_f32_e32 v3, s4, v2"),
    "33: gfx1250": ("gfx1250", "v_add_f32_e32 v1, s4, v2\ns_mov_b32 s4, s9\nv_add_f32_e32 v3, s4, v2"),
    "34: chain through C": ("gfx1100", "v_wmma_f32_16x16x16_f16 v[0:7], v[16:23], v[24:31], v[0:7]\n" * 2),
}  # fmt: skip


@pytest.mark.parametrize("name", SILENT)
def test_harmless_neighbours_are_silent(name: str) -> None:
    gpu, text = SILENT[name]
    assert found(text, gpu) == []


def test_an_s_nop_does_not_part_wmma() -> None:
    text = (DATA / "cases" / "34_wmma-gfx11.gfx1100.s").read_text().strip().splitlines()
    assert found("\n".join([text[0], "s_nop 7", text[1]]), "gfx1100") != []


CLAUSE = "global_load_dword v1, v[2:3], off\nglobal_load_dword v4, v[1:2], off"


@pytest.mark.parametrize(("pinned", "xnack"), [("", None), ("+", True), ("-", False)])
def test_clauses_matter_only_where_accesses_may_be_replayed(pinned: str, xnack: bool | None) -> None:
    name = f"gfx906:xnack{pinned}" if pinned else "gfx906"
    source = f'.amdgcn_target "amdgcn-amd-amdhsa--{name}"\n.globl f\n.type f,@function\nf:\n{CLAUSE}\ns_endpgm'
    processor = Processor("gfx906", f"{pinned}xnack" if pinned else "")
    (kernel,) = read_kernels(CodeObject(toolchain().assemble(source, processor), "test.o"))
    assert kernel.xnack is xnack
    rules = [(finding.rule, finding.severity) for finding in check_hazards(kernel)]
    assert rules == ([] if xnack is False else [("hazards.vmem-clause-write-read", Severity.WARNING)])


def test_shift_by_the_last_register_of_a_block() -> None:
    shift = "v_lshlrev_b64 v[0:1], v7, v[2:3]"
    rule = "hazards.shift64-high-register"
    assert found(shift, "gfx90a") == [(rule, Severity.ERROR, 0)]
    assert found(f"{shift}\nv_mov_b32_e32 v8, 0", "gfx90a") == []
    assert found(shift, "gfx942") == found(shift.replace("v7", "v6"), "gfx90a") == []


def test_unknown_code_is_named() -> None:
    (finding,) = check_hazards(kernel_of(".long 0xffffffff", "gfx942"))
    assert (finding.rule, finding.severity) == ("hazards.unknown", Severity.WARNING)
    assert ".long 0xffffffff" in finding.message


def test_message_names_both_the_distance_and_the_mend() -> None:
    (finding,) = check_hazards(kernel_of("v_rcp_f32_e32 v1, v0\nv_mul_f32_e32 v2, v1, v3", "gfx942"))
    for part in ("v_rcp_f32_e32 v1, v0", "v_mul_f32_e32 v2, v1, v3", "through v1", "found 0", "s_nop 0"):
        assert part in finding.message
    assert (finding.subject, finding.path, finding.instructions) == ("v1", (0,), (1, 0))


def test_of_several_producers_the_same_one_is_named_every_time() -> None:
    """Two ways lead to the overwritten EXEC; which object lies where in memory must not choose between them."""
    text = """
    s_cbranch_scc1 other
    ds_write_b32 v0, v1
    s_branch meet
    other:
    ds_write_b32 v2, v3
    meet:
    s_or_b32 exec_lo, exec_lo, s0
    s_endpgm
    """
    kernels = [written.__wrapped__(text, "gfx1010") for _ in range(40)]
    found = [[finding.to_dict() for finding in check_hazards(kernel)] for kernel in kernels]
    assert found[0]
    assert found == [found[0]] * len(kernels)


def test_an_image_store_with_a_whole_resource_takes_its_data_in_time() -> None:
    """GCN3 ISA document: image stores with a resource of 256 bits need no wait state; llc 22.1.8 inserts none."""
    store = "image_store v[0:3], v4, s[0:7] dmask:0xf unorm"
    assert not found(f"{store}\nv_mov_b32 v0, s10\ns_endpgm", "gfx803")
    assert found(f"{store} r128\nv_mov_b32 v0, s10\ns_endpgm", "gfx803")
    assert found("buffer_store_dwordx4 v[0:3], v4, s[0:3], 0 offen\nv_mov_b32 v0, s10\ns_endpgm", "gfx803")


@pytest.mark.parametrize(("gpu", "silent"), [("gfx1100", False), ("gfx1200", False), ("gfx1250", True)])
def test_vgprs_handed_back_behind_a_store(gpu: str, silent: bool) -> None:
    """llc 22.1.8 puts an s_nop before the message, but not for gfx1250."""
    text = "global_store_b32 v0, v1, s[2:3]\ns_sendmsg sendmsg(MSG_DEALLOC_VGPRS)\ns_endpgm"
    assert (not found(text, gpu)) == silent


def in_waves_of(lanes: int, *lines: str) -> Kernel:
    text = "\n".join((".text", ".globl f", ".type f,@function", "f:", *lines, "s_endpgm", ""))
    return read_program(text.encode(), "k.s", "gfx1100", lanes).kernels[0]


MASKS = ("v_cndmask_b32_e64 v1, v2, v3, {0}", "v_cmp_eq_u32_e64 {0}, v4, v5", "v_cndmask_b32_e64 v6, v7, v8, {0}")


@pytest.mark.parametrize(("mask", "field"), [("s[4:5]", "va_sdst"), ("vcc", "va_vcc")])
def test_a_lane_mask_that_valu_rewrites(mask: str, field: str) -> None:
    """clang-22 -mwavefrontsize64 waits behind the comparison, and never where only SALU reads the mask again."""
    read, write, again = (line.format(mask) for line in MASKS)

    def rules(*lines: str, lanes: int = 64) -> list[str]:
        return [each.rule for each in check_hazards(in_waves_of(lanes, *lines))]

    wrong = ["hazards.valu-mask-rewrite-vcc" if mask == "vcc" else "hazards.valu-mask-rewrite-sgpr"]
    assert rules(read, write, again) == wrong
    assert rules(read, write, f"s_waitcnt_depctr depctr_{field}(0)", again) == []
    assert rules(read, write, "s_waitcnt_depctr depctr_sa_sdst(0)", again) == wrong
    assert rules(read, write, f"s_and_b64 exec, exec, {mask}") == []
    assert rules(write, again, "v_add_f32 v1, v2, v3") == []
    once = (read, write, f"s_waitcnt_depctr depctr_{field}(0)")
    assert rules(*once, write, again) == []
    wave32 = [line.replace("s[4:5]", "s4").replace("vcc", "vcc_lo") for line in (read, write, again)]
    assert rules(*wave32, lanes=32) == []


def test_a_chain_of_carries_in_wave64() -> None:
    """llc 22.1.8 waits behind an addition with carry that rewrites VCC after another one has read it."""
    first, more = "v_add_co_u32 v0, vcc, v1, v2", "v_add_co_ci_u32 v3, vcc, v4, v5, vcc"
    found_in = check_hazards(in_waves_of(64, first, more, more, more))
    assert [set(each.instructions) for each in found_in] == [{2, 3}]
