"""Text that llvm-mc 22.1.8 takes and the LLVM in this process refuses is read all the same."""

from __future__ import annotations

import pytest

from asmevo.program import Program, UnreadableProgramError, assemble_text, disassemble, read_program

_KERNEL = """.amdgcn_target "amdgcn-amd-amdhsa--gfx1201"
.text
.globl w
.p2align 8
.type w,@function
w:
  s_endpgm
.Lend:
.size w, .Lend-w
.rodata
.p2align 6
.amdhsa_kernel w
  .amdhsa_next_free_vgpr 8
  .amdhsa_next_free_sgpr 8
.end_amdhsa_kernel
.amdgpu_metadata
amdhsa.kernels:
  - .args:
      - .name: NAME
        .offset: 0
        .size: 4
        .value_kind: by_value
    .group_segment_fixed_size: 0
    .kernarg_segment_align: 8
    .kernarg_segment_size: 8
    .max_flat_workgroup_size: 1024
    .name: w
    .private_segment_fixed_size: 0
    .sgpr_count: 8
    .symbol: w.kd
    .uses_dynamic_stack: false
    .vgpr_count: 8
    .wavefront_size: 32
amdhsa.version:
  - 1
  - 2
.end_amdgpu_metadata
"""


def _argument(program: Program) -> object:
    metadata = program.kernels[0].metadata
    assert metadata is not None
    assert metadata[".uses_dynamic_stack"] is False
    return metadata[".args"][0][".name"]


@pytest.mark.parametrize("name", ["n", "y", "N", "Yes", "no", "off", "On", "True", "FALSE", "'n'", '"y"', "size"])
def test_an_argument_may_be_named_like_a_truth_value_of_old_yaml(name: str) -> None:
    text = _KERNEL.replace("NAME", name)
    assert _argument(read_program(text.encode(), "k.s")) == name.strip("'\"")
    again = read_program(assemble_text(text, "k.s"), "k.hsaco")
    assert _argument(again) == name.strip("'\"")
    assert _argument(read_program(disassemble(again).encode(), "again.s")) == name.strip("'\"")


def test_metadata_that_is_wrong_stays_refused() -> None:
    for wrong in (_KERNEL.replace("NAME", "7"), _KERNEL.replace("NAME", "n").replace(".size: 4", ".size: four")):
        with pytest.raises(UnreadableProgramError, match=r"k.s:37: LLVM refuses `.end_amdgpu_metadata`"):
            read_program(wrong.encode(), "k.s")


def test_vgpr_banks_with_the_modes_before() -> None:
    """llvm-mc 22.1.8 writes `s_set_vgpr_msb 0x4001` as 01 40 86 bf."""
    text = "s_set_vgpr_msb 0x4001 // after 0x40\nv_mov_b32_e32 v0, v1\ns_set_vgpr_msb 0x100\ns_endpgm\n"
    codes = [each.decoded.code.hex() for each in read_program(text.encode(), "k.s", "gfx1250").kernels[0].instructions]
    assert codes[0] == "014086bf"
    assert codes[2] == "000186bf"
    for value, gpu in (("0x14001", "gfx1250"), ("0x4001", "gfx1200")):
        with pytest.raises(UnreadableProgramError, match=r"k\.s:1: LLVM refuses `s_set_vgpr_msb"):
            read_program(f"s_set_vgpr_msb {value}\ns_endpgm\n".encode(), "k.s", gpu)
