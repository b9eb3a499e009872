"""The resources check: each fault must be found and its mended form must pass.

Several texts are minimal inputs after public bug reports; what must be said of each comes from the reports.
"""

from __future__ import annotations

import pytest
from described_kernels import kernel
from msgspec.structs import replace
from written_kernels import written

from asmevo.checks.finding import Finding, Severity
from asmevo.checks.resources import check_resources
from asmevo.checks.undefined import launch_state
from asmevo.program.kernel import Kernel
from asmevo.program.registers import SGPR_MASK, VGPR_MASK, register_names


def rules(piece: Kernel) -> list[tuple[str, Severity]]:
    return [(finding.rule, finding.severity) for finding in check_resources(piece)]


def only(piece: Kernel) -> Finding:
    findings = check_resources(piece)
    assert len(findings) == 1, [str(finding) for finding in findings]
    return findings[0]


# --- registers against the descriptor ----------------------------------------------------------------------


def test_too_few_vgprs() -> None:
    code = "v_mov_b32_e32 v40, 0\ns_endpgm"
    finding = only(kernel(code, "gfx1100"))
    assert (finding.rule, finding.severity) == ("resources/vgpr", Severity.ERROR)
    for part in ("v40", "encodes 8", "allocates 24", "granule 24"):
        assert part in finding.message
    assert finding.instructions == (0,)
    assert not rules(kernel(code, "gfx1100", {"next_free_vgpr": 41}))


@pytest.mark.parametrize(("gpu", "severity"), [("gfx1100", Severity.WARNING), ("gfx1030", Severity.ERROR)])
def test_the_granule_may_save_it(gpu: str, severity: Severity) -> None:
    finding = only(kernel("v_mov_b32_e32 v20, 0\ns_endpgm", gpu))
    assert finding.severity is severity
    assert ("by luck" in finding.message) == (severity is Severity.WARNING)


def test_accum_offset() -> None:
    code = "v_accvgpr_write_b32 a3, v0\nv_mov_b32_e32 v13, 0\ns_endpgm"
    finding = only(kernel(code, "gfx90a", {"next_free_vgpr": 16}))
    assert (finding.rule, finding.severity) == ("resources/accum-offset", Severity.ERROR)
    assert "v13 is a5" in finding.message
    assert "accum_offset 16" in finding.mend
    assert not rules(kernel(code, "gfx90a", {"next_free_vgpr": 20, "accum_offset": 16}))


def test_agprs() -> None:
    code = "v_accvgpr_write_b32 a9, v0\ns_endpgm"
    assert rules(kernel(code, "gfx90a", {"next_free_vgpr": 16})) == [("resources/agpr", Severity.ERROR)]
    assert not rules(kernel(code, "gfx90a", {"next_free_vgpr": 18}))
    assert rules(kernel(code, "gfx908")) == [("resources/agpr", Severity.ERROR)]
    assert not rules(kernel(code, "gfx908", {"next_free_vgpr": 10}))


def test_sgprs() -> None:
    code = "s_mov_b32 s30, 0\ns_endpgm"
    finding = only(kernel(code, "gfx906"))
    assert finding.rule == "resources/sgpr"
    assert "s30" in finding.message
    assert not rules(kernel(code, "gfx906", {"next_free_sgpr": 31}))
    assert not rules(kernel(code, "gfx1100"))


# --- limits and metadata -----------------------------------------------------------------------------------


def test_workgroup_larger_than_the_register_file() -> None:
    code = "v_mov_b32_e32 v255, 0\ns_endpgm"
    metadata = {"max_flat_workgroup_size": 1024, "wavefront_size": 32, "vgpr_count": 256}
    finding = only(kernel(code, "gfx1102", {"next_free_vgpr": 256}, metadata))
    assert (finding.rule, finding.severity) == ("resources/workgroup", Severity.ERROR)
    for part in ("1024", "32 waves of 256 VGPRs", "largest legal workgroup is 512"):
        assert part in finding.message
    fits = metadata | {"max_flat_workgroup_size": 512}
    assert not rules(kernel(code, "gfx1102", {"next_free_vgpr": 256}, fits))
    # 256 are 264 in granules of 24, of which 1,536 hold 5; 4 SIMDs make 20 waves
    larger = only(kernel(code, "gfx1100", {"next_free_vgpr": 256}, metadata))
    assert "largest legal workgroup is 640" in larger.message


def test_too_much_lds() -> None:
    good = kernel("s_endpgm", "gfx942", {"group_segment_fixed_size": 65536})
    assert not rules(good)
    assert good.descriptor is not None
    larger = replace(good, descriptor=replace(good.descriptor, group_segment_size=65537))
    assert rules(larger) == [("resources/lds", Severity.ERROR)]


@pytest.mark.parametrize(
    ("directives", "metadata", "rule"),
    [
        ({}, {"vgpr_count": 9}, "resources/metadata"),
        ({}, {"agpr_count": 4}, "resources/metadata"),
        ({}, {"sgpr_count": 40}, "resources/metadata"),
        ({"group_segment_fixed_size": 1024}, {}, "resources/metadata"),
        ({}, {"private_segment_fixed_size": 16}, "resources/metadata"),
        ({"kernarg_size": 16}, {"kernarg_segment_size": 24}, "resources/metadata"),
        ({}, {"wavefront_size": 32}, "resources/wave-size"),
    ],
)
def test_metadata_disagrees(directives: dict[str, int], metadata: dict[str, int], rule: str) -> None:
    finding = only(kernel("s_endpgm", "gfx942", directives, metadata))
    assert finding.rule == rule
    assert finding.blocks_candidate
    assert finding.subject.strip(".") in (*metadata, *directives)


def test_a_kernarg_size_of_zero_says_nothing() -> None:
    assert not rules(kernel("s_endpgm", "gfx942", {"kernarg_size": 0}, {"kernarg_segment_size": 24}))


# --- undefined registers -----------------------------------------------------------------------------------

UNDEFINED_BASE = """
s_load_dwordx2 s[10:11], s[0:1], 0x8
s_mov_b32 s7, 0x27000
s_waitcnt lgkmcnt(0)
s_mov_b32 s6, s10
buffer_load_dword v1, v0, s[4:7], 0 offen
s_endpgm
"""
DEFINED_BASE = UNDEFINED_BASE.replace("s_mov_b32 s7", "s_mov_b64 s[4:5], 0\ns_mov_b32 s7")
KERNARG = {"next_free_sgpr": 16, "user_sgpr_kernarg_segment_ptr": 1}


def test_a_descriptor_base_nobody_wrote() -> None:
    for piece in (kernel(UNDEFINED_BASE, "gfx950", KERNARG), written(UNDEFINED_BASE, "gfx950")):
        finding = only(piece)
        assert (finding.rule, finding.severity) == ("resources/undefined", Severity.ERROR)
        assert finding.subject == "s[4:5]"
        assert finding.instructions == (4,)
        assert finding.path == (0,)
    assert not rules(kernel(DEFINED_BASE, "gfx950", KERNARG))
    assert not rules(written(DEFINED_BASE, "gfx950"))


def test_functions_may_be_given_any_register() -> None:
    assert not rules(written(UNDEFINED_BASE.replace("s_endpgm", "s_setpc_b64 s[30:31]"), "gfx950"))
    assert not rules(written("buffer_load_dword v1, v0, s[4:7], 0 offen", "gfx950"))


def test_user_sgprs_are_written_by_the_launch() -> None:
    code = "s_add_u32 s10, s3, s4\ns_endpgm"
    directives = {"next_free_sgpr": 16, "user_sgpr_dispatch_ptr": 1, "user_sgpr_kernarg_segment_ptr": 1}
    # s[0:3] are two pointers, s4 the workgroup id
    assert not rules(kernel(code, "gfx906", directives))
    assert only(kernel(code.replace("s4", "s5"), "gfx906", directives)).subject == "s5"
    assert not rules(kernel(code.replace("s4", "s5"), "gfx906", directives | {"system_sgpr_workgroup_id_y": 1}))
    assert only(kernel("v_mov_b32 v1, v2\ns_endpgm", "gfx906", directives)).subject == "v2"
    assert not rules(kernel("v_mov_b32 v1, v2\ns_endpgm", "gfx906", directives | {"system_vgpr_workitem_id": 2}))
    # packed ids: there is v0 only
    assert only(kernel("v_mov_b32 v1, v2\ns_endpgm", "gfx90a", {"system_vgpr_workitem_id": 2})).subject == "v2"


def test_workgroup_ids_of_gfx12_take_no_sgpr() -> None:
    assert not rules(kernel("s_mov_b32 s0, ttmp9\ns_endpgm", "gfx1200"))
    assert only(kernel("s_mov_b32 s0, s4\ns_endpgm", "gfx1200", {"user_sgpr_count": 4})).subject == "s4"
    assert not rules(kernel("s_mov_b32 s0, s4\ns_endpgm", "gfx1100", {"user_sgpr_count": 4}))


def test_a_write_on_one_path_is_enough() -> None:
    code = """
    s_cmp_eq_u32 s0, 0
    s_cbranch_scc1 there
    s_mov_b32 s6, 1
    there:
    s_mov_b32 s5, s6
    s_endpgm
    """
    assert not rules(kernel(code, "gfx942", {"user_sgpr_count": 2}))
    swapped = code.replace("s6, 1", "s5, 1")
    finding = only(kernel(swapped, "gfx942", {"user_sgpr_count": 2}))
    assert finding.subject == "s6"
    assert finding.path in ((0, 2), (0, 1, 2))


def test_branches_on_bits_nobody_wrote() -> None:
    assert only(kernel("s_cbranch_vccz out\nout:\ns_endpgm", "gfx942")).subject == "vcc"
    assert only(kernel("s_cbranch_vccz out\nout:\ns_endpgm", "gfx1100")).subject == "vcc_lo"
    assert only(kernel("s_cbranch_scc0 out\nout:\ns_endpgm", "gfx942")).subject == "scc"


def test_half_of_an_addend_is_a_note() -> None:
    code = "v_mov_b32 v2, 0\nv_mad_u64_u32 v[4:5], s[2:3], v0, v2, v[2:3]\ns_endpgm"
    assert rules(kernel(code, "gfx942")) == [("resources/undefined", Severity.NOTE)]


@pytest.mark.parametrize(
    ("gpu", "matrix", "operands"),
    [
        ("gfx942", "v_mfma_f32_16x16x16_f16", "v[0:3], v[8:9], v[10:11], 0"),
        ("gfx942", "v_smfmac_f32_16x16x32_f16", "v[0:3], v[8:9], v[12:15], v20"),
        ("gfx1100", "v_wmma_f32_16x16x16_f16", "v[0:7], v[8:15], v[16:23], v[0:7]"),
        ("gfx1200", "v_swmmac_f32_16x16x32_f16", "v[0:7], v[8:11], v[12:19], v20"),
    ],
)
def test_a_part_of_a_matrix_is_an_error(gpu: str, matrix: str, operands: str) -> None:
    """Dense and sparse: every register of an operand is multiplied."""
    others = "\n".join(f"v_mov_b32 v{n}, 0" for n in range(24) if n != 9)
    code = f"{others}\n{matrix} {operands}\ns_endpgm"
    directives = {"next_free_vgpr": 24} | ({"accum_offset": 24} if gpu == "gfx942" else {})
    finding = only(kernel(code, gpu, directives))
    assert (finding.severity, finding.subject) == (Severity.ERROR, "v9")
    assert not rules(kernel(f"v_mov_b32 v9, 0\n{code}", gpu, directives))


def test_an_offset_of_scratch_that_nobody_asked_for_is_a_note() -> None:
    """LLVM's kernels that call set up s[0:3] even where the descriptor asks for no scratch, so no offset comes."""
    directives = {"user_sgpr_private_segment_buffer": 1, "user_sgpr_kernarg_segment_ptr": 1, "next_free_sgpr": 16}
    code = "s_add_u32 s0, s0, s7\ns_addc_u32 s1, s1, 0\ns_endpgm"  # s6 is the workgroup id
    assert rules(kernel(code, "gfx90a", directives)) == [("resources/undefined", Severity.NOTE)]
    needed = directives | {"private_segment_fixed_size": 16}
    assert rules(kernel(code, "gfx90a", needed)) == [("resources/undefined", Severity.ERROR)]
    asked = needed | {"system_sgpr_private_segment_wavefront_offset": 1}
    assert not rules(kernel(code, "gfx90a", asked))
    other = code.replace("s0, s0, s7", "s4, s4, s7")
    assert rules(kernel(other, "gfx90a", directives)) == [("resources/undefined", Severity.ERROR)]


def test_a_call_may_write_anything() -> None:
    code = "s_mov_b64 s[4:5], 0\ns_swappc_b64 s[6:7], s[4:5]\nv_mov_b32 v1, v5\ns_endpgm"
    assert not rules(kernel(code, "gfx942"))


def test_launch_state() -> None:
    built = kernel("s_endpgm", "gfx803", {"user_sgpr_private_segment_buffer": 1, "user_sgpr_kernarg_segment_ptr": 1})
    assert built.descriptor is not None
    state = launch_state(built, built.descriptor)
    assert register_names(state & (SGPR_MASK | VGPR_MASK)) == "v0, s[0:6]"


# --- ends --------------------------------------------------------------------------------------------------


def test_running_off_the_end() -> None:
    finding = only(kernel("v_mov_b32 v1, 0", "gfx942"))
    assert (finding.rule, finding.severity) == ("resources/no-end", Severity.ERROR)
    assert not rules(kernel("s_endpgm\ns_nop 0", "gfx942"))
    assert rules(kernel("again:\ns_branch again", "gfx942")) == [("resources/no-end", Severity.WARNING)]


DIVERGENT_END = """
v_cmp_ge_u32_e32 vcc_lo, v0, v9
s_cbranch_vccz body
s_endpgm
body:
v_mov_b32_e32 v1, 0
s_endpgm
"""


def test_a_wave_that_ends_for_some_lanes() -> None:
    finding = only(written(DIVERGENT_END, "gfx1100"))
    assert (finding.rule, finding.severity) == ("resources/divergent-end", Severity.WARNING)
    assert finding.instructions[0] == 1


@pytest.mark.parametrize(
    "text",
    [
        DIVERGENT_END.replace("v0, v9", "s0, v9"),  # the same in every lane
        DIVERGENT_END.replace("vccz", "vccnz"),  # ends only when no lane is left
        DIVERGENT_END.replace("s_cbranch_vccz", "s_and_b32 vcc_lo, exec_lo, s0\ns_cbranch_vccz"),
        "v_cmp_lt_u32_e32 vcc_lo, v0, v9\ns_and_saveexec_b32 s0, vcc_lo\ns_cbranch_execz out\n"
        "v_mov_b32 v1, 0\nout:\ns_endpgm",
    ],
)
def test_a_wave_that_ends_for_all_lanes(text: str) -> None:
    assert not rules(written(text, "gfx1100"))
