"""What the launch brings, and where lanes part: each fault must be found, and its mended form must pass.

Limits are those of the AMDGPU backend user guide. That compilers' output raises no warning is `test_compiler_output`.
"""

from __future__ import annotations

import pytest
from described_kernels import kernel
from msgspec.structs import replace
from written_kernels import written

from asmevo.checks.finding import Finding, Severity
from asmevo.checks.resources import check_resources
from asmevo.program.kernel import Kernel


def found(kernel: Kernel, rule: str) -> list[Finding]:
    return [each for each in check_resources(kernel) if each.rule == rule]


def test_scratch_that_nobody_gives() -> None:
    code = "scratch_store_dword off, v0, off\ns_endpgm"
    (finding,) = found(kernel(code, "gfx1030"), "resources/scratch")
    assert finding.severity is Severity.ERROR
    assert finding.message == (
        "`scratch_store_dword off, v0, off` (#0) uses scratch memory, the descriptor gives a lane 0 bytes of it"
    )
    assert not found(kernel(code, "gfx1030", {"private_segment_fixed_size": 16}), "resources/scratch")


@pytest.mark.parametrize(
    ("load", "is_beyond"),
    [
        ("s_load_dwordx2 s[4:5], s[0:1], 0x10", False),
        ("s_load_dwordx4 s[4:7], s[0:1], 0x10", False),  # 24 bytes round up to 32: compilers widen loads
        ("s_load_dwordx2 s[4:5], s[0:1], 0x18", True),
        ("s_load_dword s4, s[0:1], 0x18", True),
        ("s_load_dword s4, s[0:1], 0x14", False),
        ("s_load_dword s4, s[2:3], 0x18", False),
    ],
)
def test_loads_beyond_the_arguments(load: str, is_beyond: bool) -> None:
    asked = {"user_sgpr_kernarg_segment_ptr": 1, "user_sgpr_dispatch_id": 1}
    checked = kernel(f"{load}\ns_endpgm", "gfx906", asked, {"kernarg_segment_size": 24})
    assert bool(found(checked, "resources/kernarg")) is is_beyond


def test_what_a_load_beyond_the_arguments_is_told() -> None:
    checked = kernel(
        "s_load_dword s4, s[0:1], 0x18\ns_endpgm",
        "gfx906",
        {"user_sgpr_kernarg_segment_ptr": 1},
        {"kernarg_segment_size": 24},
    )
    (finding,) = found(checked, "resources/kernarg")
    assert finding.message == (
        "`s_load_dword s4, s[0:1], 0x18` (#0) reads bytes 24 to 28 of the kernel arguments, there are 24"
    )
    assert finding.missing == "4 bytes of arguments"


def test_an_address_that_is_overwritten_is_no_longer_that_of_the_arguments() -> None:
    code = "s_add_u32 s0, s0, 64\ns_load_dword s4, s[0:1], 0x18\ns_endpgm"
    checked = kernel(code, "gfx906", {"user_sgpr_kernarg_segment_ptr": 1}, {"kernarg_segment_size": 24})
    assert not found(checked, "resources/kernarg")


def test_more_preloaded_than_there_is() -> None:
    asked = {"user_sgpr_kernarg_segment_ptr": 1, "user_sgpr_kernarg_preload_length": 6}
    asked["user_sgpr_count"] = 8
    few = kernel("s_endpgm", "gfx942", asked, {"kernarg_segment_size": 16})
    (finding,) = found(few, "resources/kernarg-preload")
    assert finding.message == "the descriptor preloads arguments up to byte 24, there are 16 bytes"
    assert not found(kernel("s_endpgm", "gfx942", asked, {"kernarg_segment_size": 24}), "resources/kernarg-preload")


def test_preloading_where_the_target_cannot() -> None:
    """The assembler refuses it, so the field is set in the descriptor itself."""
    given = kernel("s_endpgm", "gfx906", {"user_sgpr_kernarg_segment_ptr": 1}, {"kernarg_segment_size": 24})
    assert given.descriptor is not None
    forged = replace(given, descriptor=given.descriptor.with_field("kernarg_preload_length", 2))
    (finding,) = found(forged, "resources/kernarg-preload")
    assert finding.message == "the descriptor preloads 2 dwords of arguments, gfx906 cannot preload"


def test_more_user_sgprs_than_the_target_sets_up() -> None:
    given = kernel("s_endpgm", "gfx906", {"user_sgpr_kernarg_segment_ptr": 1})
    assert given.descriptor is not None
    forged = replace(given, descriptor=given.descriptor.with_field("user_sgpr_count", 17))
    (finding,) = found(forged, "resources/user-sgprs")
    assert finding.message == "the descriptor asks for 17 user SGPRs, gfx906 sets up at most 16"
    assert not found(given, "resources/user-sgprs")


def test_a_required_size_beyond_the_largest() -> None:
    given = kernel("s_endpgm", "gfx942", {}, {})
    forged = replace(given, metadata={**(given.metadata or {}), ".reqd_workgroup_size": [64, 2, 1]})
    (finding,) = found(forged, "resources/required-size")
    assert finding.message == "workgroups of 128 work-items are required, the largest declared is 64"
    fits = replace(given, metadata={**(given.metadata or {}), ".reqd_workgroup_size": [32, 2, 1]})
    assert not found(fits, "resources/required-size")


def test_more_code_fetched_ahead_than_there_is() -> None:
    (finding,) = found(kernel("s_endpgm", "gfx1100", {"inst_pref_size": 3}), "resources/prefetch")
    assert finding.message == (
        "the descriptor has 3 cache lines of code fetched ahead, the code has 1 (4 bytes): the last 2 lie behind its "
        "end and must be mapped"
    )
    assert not found(kernel("s_endpgm", "gfx1100", {"inst_pref_size": 1}), "resources/prefetch")
    assert not found(kernel("s_nop 0\n" * 32 + "s_endpgm", "gfx1200", {"inst_pref_size": 2}), "resources/prefetch")


SKIPPED = "v_cmp_gt_u32_e32 vcc, 64, {}\n{}s_cbranch_{} L\ns_barrier\nL:\ns_endpgm"


@pytest.mark.parametrize(
    ("compared", "between", "branch"),
    [
        ("v0", "", "vccz"),
        ("v0", "s_and_b64 vcc, exec, vcc\n", "vccnz"),
        ("v0", "s_and_saveexec_b64 s[0:1], vcc\n", "execz"),
    ],
)
def test_a_barrier_that_some_waves_skip(compared: str, between: str, branch: str) -> None:
    (finding,) = found(written(SKIPPED.format(compared, between, branch)), "resources/divergent-barrier")
    assert finding.severity is Severity.WARNING
    assert "`s_barrier`" in finding.message
    assert "lies on one side of `s_cbranch_" in finding.message
    assert "`v_cmp_gt_u32_e32 vcc, 64, v0` (#0) decides by values of lanes" in finding.message


def test_barriers_that_all_waves_reach() -> None:
    uniform = "s_cmp_gt_u32 s0, 64\ns_cbranch_scc1 L\ns_barrier\nL:\ns_endpgm"
    unwritten = SKIPPED.format("v7", "", "vccz")
    behind = "v_cmp_gt_u32_e32 vcc, 64, v0\ns_cbranch_vccz L\nv_mov_b32_e32 v1, 0\nL:\ns_barrier\ns_endpgm"
    both = "v_cmp_gt_u32_e32 vcc, 64, v0\ns_cbranch_vccz L\ns_barrier\ns_branch M\nL:\ns_barrier\nM:\ns_endpgm"
    for text in (uniform, unwritten, behind, both):
        assert not found(written(text), "resources/divergent-barrier"), text


@pytest.mark.parametrize(("compared", "is_found"), [("v0", False), ("v7", False), ("v31", True)])
def test_arguments_of_a_function_are_not_known_to_differ(compared: str, is_found: bool) -> None:
    """LLVM's call convention: work-item ids in v31, arguments from v0 on; what v7 holds later says nothing."""
    body = SKIPPED.format(compared, "", "vccz").replace("s_endpgm", "v_mov_b32 v7, v31\ns_setpc_b64 s[30:31]")
    assert bool(found(written(body), "resources/divergent-barrier")) == is_found


ROUNDS_OF_A_FUNCTION = """
    v_and_b32_e32 v3, 0x3ff, v31
    {first}
L:
    s_barrier
    v_add_u32_e32 v7, -1, v7
    v_cmp_eq_u32_e32 vcc, 0, v7
    s_or_b64 s[4:5], vcc, s[4:5]
    s_andn2_b64 exec, exec, s[4:5]
    s_cbranch_execnz L
    s_or_b64 exec, exec, s[4:5]
    v_mov_b32_e32 v7, v3
    {last}
    s_setpc_b64 s[30:31]
"""


@pytest.mark.parametrize(
    ("first", "last", "is_found"),
    [
        ("", "", False),  # the register of an argument holds an id only behind the loop
        ("v_mov_b32_e32 v7, v3", "", True),
        ("v_mov_b32_e32 v7, v3\nv_mov_b32_e32 v7, v4", "", False),  # an id before, the argument in the loop
        ("v_mov_b32_e32 v7, v3\ns_and_b64 exec, exec, s[6:7]\nv_mov_b32_e32 v7, v4", "", True),  # some keep the id
        ("", "s_cbranch_scc1 L", True),  # a way back to the loop with the id
    ],
)
def test_a_counter_differs_where_the_id_can_have_come_to_it(first: str, last: str, is_found: bool) -> None:
    code = written(ROUNDS_OF_A_FUNCTION.format(first=first, last=last))
    assert bool(found(code, "resources/divergent-barrier")) == is_found


@pytest.mark.parametrize(("source", "is_found"), [("v8", False), ("v0", True)])
def test_halves_of_a_dual_instruction_depend_on_their_own_sources(source: str, is_found: bool) -> None:
    dual = f"v_dual_mov_b32 v5, v0 :: v_dual_add_nc_u32 v6, 1, {source}\n"
    text = dual + "v_cmp_gt_u32_e32 vcc_lo, 64, v6\ns_cbranch_vccz L\ns_barrier\nL:\ns_endpgm"
    assert bool(found(written(text, "gfx1100"), "resources/divergent-barrier")) == is_found


def test_a_barrier_in_a_loop_that_waves_leave_at_different_times() -> None:
    text = "L:\ns_barrier\nv_add_u32_e32 v0, 1, v0\nv_cmp_gt_u32_e32 vcc, 64, v0\ns_cbranch_vccnz L\ns_endpgm"
    assert found(written(text), "resources/divergent-barrier")
    assert not found(written(text.replace("v0", "v9")), "resources/divergent-barrier")


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("s_mov_b64 exec, 0\nv_readfirstlane_b32 s0, v0\ns_endpgm", True),
        ("s_mov_b64 exec, 0\ns_mov_b64 exec, -1\nv_readfirstlane_b32 s0, v0\ns_endpgm", False),
        ("s_mov_b64 exec, 0\nv_mov_b32_e32 v1, v0\ns_endpgm", False),
        ("s_cbranch_execz L\ns_endpgm\nL:\nv_readfirstlane_b32 s0, v0\ns_endpgm", True),
        ("s_cbranch_execnz L\nv_readfirstlane_b32 s0, v0\ns_endpgm\nL:\ns_endpgm", True),
        ("s_cbranch_execz L\nv_mov_b32_e32 v1, 0\nL:\nv_readfirstlane_b32 s0, v0\ns_endpgm", False),
        ("s_cbranch_execz L\nv_readfirstlane_b32 s0, v0\nL:\ns_endpgm", False),
        ("s_cbranch_execz L\ns_endpgm\nL:\ns_or_b64 exec, exec, s[2:3]\nv_readfirstlane_b32 s0, v0\ns_endpgm", False),
    ],
)
def test_what_acts_without_lanes(text: str, is_found: bool) -> None:
    assert bool(found(written(text), "resources/exec-zero")) is is_found


def test_code_that_nothing_reaches() -> None:
    (finding,) = found(written("s_endpgm\nv_mov_b32_e32 v0, 0\ns_endpgm"), "resources/unreachable")
    assert (finding.severity, finding.message) == (Severity.NOTE, "nothing reaches `v_mov_b32_e32 v0, 0` (#1)")
    assert not found(written("s_endpgm\ns_nop 0\ns_nop 0"), "resources/unreachable")
    assert not found(written("s_branch L\nL:\nv_mov_b32_e32 v0, 0\ns_endpgm"), "resources/unreachable")
