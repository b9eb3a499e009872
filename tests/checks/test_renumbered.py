"""Behind `s_set_vgpr_msb` an encoding's register numbers are not the registers: doubt instead of errors.

The first text is from clang-22 -O2 for gfx1250 (a kernel of more than 256 VGPRs): the load writes v286, the addition
reads v30, and no wait is missing.
"""

from __future__ import annotations

from written_kernels import written

from asmevo.checks import Severity
from asmevo.checks.constraints import check_constraints, constraints_for
from asmevo.checks.families import check_kernel

_LOAD = "global_load_b32 v30, v[2:3], off"
_ADD = "v_add_nc_u32 v4, v30, v30"
_SPARED = ("resources/undefined", "replay.own-address")


def _found(*lines: str) -> list[tuple[str, Severity]]:
    findings = check_kernel(written("\n".join((*lines, "s_wait_loadcnt 0x0", "s_endpgm")), "gfx1250"))
    return [(finding.rule, finding.severity) for finding in findings if finding.rule not in _SPARED]


def test_what_meets_by_number_only_is_a_warning() -> None:
    banked = ("s_set_vgpr_msb 0x40", _LOAD, "s_set_vgpr_msb 0x1", _ADD, "s_set_vgpr_msb 0x0")
    assert ("waits.in-flight", Severity.WARNING) in _found(*banked)
    assert all(severity is not Severity.ERROR for _, severity in _found(*banked))


def test_elsewhere_it_stays_an_error() -> None:
    assert ("waits.in-flight", Severity.ERROR) in _found(_LOAD, _ADD)
    closed = ("s_set_vgpr_msb 0x40", "v_mov_b32 v9, v8", "s_set_vgpr_msb 0x0", _LOAD, _ADD)
    assert ("waits.in-flight", Severity.ERROR) in _found(*closed)


def test_a_bank_above_is_no_callee_saved_register() -> None:
    for opened, clobbers in (("s_set_vgpr_msb 0x40", 0), ("s_nop 0", 1)):
        text = f"{opened}\nv_mov_b32 v40, v0\ns_set_vgpr_msb 0\ns_set_pc_i64 s[30:31]"
        found = check_constraints(written(text, "gfx1250"), constraints_for("gfx1250"))
        assert [finding.rule for finding in found].count("constraints.callee-saved") == clobbers
