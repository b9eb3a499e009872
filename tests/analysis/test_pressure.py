"""Register pressure: worked by hand, and bounded by what compiled kernels have."""

from __future__ import annotations

import pytest
from written_kernels import compiled_kernels, written

from asmevo.analysis.liveness import Liveness
from asmevo.analysis.pressure import pressure_profile, register_use
from asmevo.program.kernel import Kernel
from asmevo.program.registers import RegisterFile


def test_by_hand() -> None:
    kernel = written(
        """
        v_mov_b32 v2, v0
        v_add_u32 v3, v0, v1
        v_add_u32 v4, v2, v3
        v_mov_b32 v9, 0
        v_accvgpr_write_b32 a0, v4
        s_mov_b32 s0, 1
        v_accvgpr_read_b32 v5, a0
        global_store_dword v[4:5], v5, off
        s_endpgm
        """
    )
    profile = pressure_profile(kernel)
    assert [point.vgprs for point in profile.points] == [3, 3, 2, 2, 1, 1, 2, 2, 0]
    assert [point.agprs for point in profile.points] == [0, 0, 0, 0, 1, 1, 1, 0, 0]
    assert [point.sgprs for point in profile.points] == [0, 0, 0, 0, 0, 1, 0, 0, 0]
    most = profile.maximum(RegisterFile.VGPR)
    assert most is not None
    assert most.instruction is kernel.instructions[0]


@pytest.mark.parametrize("kernel", compiled_kernels(), ids=lambda kernel: kernel.name)
def test_never_more_than_the_code_names(kernel: Kernel) -> None:
    use = register_use(kernel)
    profile = pressure_profile(kernel, Liveness(kernel))
    assert len(profile.points) == len(kernel.instructions)
    for file, most in (
        (RegisterFile.VGPR, use.vgprs),
        (RegisterFile.AGPR, use.agprs),
        (RegisterFile.SGPR, use.sgprs),
    ):
        top = profile.maximum(file)
        assert top is not None
        count = {RegisterFile.VGPR: top.vgprs, RegisterFile.AGPR: top.agprs, RegisterFile.SGPR: top.sgprs}[file]
        assert count <= most


def test_straight_matrix_code_is_close_to_what_the_compiler_allocated() -> None:
    """Register allocation of a large straight kernel leaves few registers idle at its peak."""
    for kernel in compiled_kernels():
        if kernel.name == "matmul_f16" and kernel.target.name in ("gfx942", "gfx1100", "gfx1201", "gfx1151"):
            top = pressure_profile(kernel).maximum(RegisterFile.VGPR)
            assert top is not None
            assert top.vgprs >= 0.8 * register_use(kernel).vgprs
