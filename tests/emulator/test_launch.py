"""What waves start with, for every launch of the project's own kernels.

The manifests' collection was written with a packing of its own; what it says about offsets and registers was
checked against LLVM's metadata reader. Here the values are those of the AMDGPU user guide.
"""

from __future__ import annotations

import struct

import numpy as np
import pytest
from emulated_launches import all_pairs, launch, program_of

from asmevo.emulator.launch import DISPATCH, KERNARG, SCRATCH, Launch, prepare
from asmevo.program.registers import RegisterFile, RegisterSpan


def prepared(name: str, target: str) -> Launch:
    program = program_of(name, target)
    return prepare(program, program.kernel(launch(name).symbol), launch(name))


def sgpr(number: int, file: RegisterFile = RegisterFile.SGPR) -> int:
    return RegisterSpan(file, number).base_unit


def pair(scalars: dict[int, int], first: int) -> int:
    return scalars[sgpr(first)] | scalars[sgpr(first + 1)] << 32


@pytest.mark.parametrize(("name", "target"), all_pairs()[::11])
def test_arguments_lie_where_the_metadata_says(name: str, target: str) -> None:
    made = prepared(name, target)
    listed = made.kernel.metadata[".args"]  # type: ignore[index]
    visible = [entry for entry in listed if not entry[".value_kind"].startswith("hidden_")]
    for entry, argument in zip(visible, made.manifest.arguments, strict=False):
        raw = made.kernarg[entry[".offset"] : entry[".offset"] + entry[".size"]]
        if argument.kind == "buffer":
            assert int.from_bytes(raw, "little") == made.memory.address(argument.name)
        elif argument.kind == "scalar" and argument.dtype.startswith(("i", "u")):
            assert int.from_bytes(raw, "little", signed=argument.dtype[0] == "i") == argument.value
    content = made.memory.content(KERNARG)
    assert content == made.kernarg.ljust(len(content), b"\0")


@pytest.mark.parametrize("target", ["gfx803", "gfx90a", "gfx1010", "gfx1100", "gfx1200"])
def test_hidden_arguments(target: str) -> None:
    """Code object version 5: three block counts (4 bytes), then group sizes and remainders (2 bytes each)."""
    made = prepared("hidden_arguments_partial", target)
    assert struct.unpack_from("<IIIHHHHHH", made.kernarg, 8) == (2, 2, 1, 16, 8, 1, 8, 4, 0)
    packet = made.memory.content(DISPATCH)
    assert struct.unpack_from("<HHH", packet, 4) == (16, 8, 1)
    assert struct.unpack_from("<III", packet, 12) == (40, 20, 1)
    assert struct.unpack_from("<Q", packet, 40)[0] == made.memory.address(KERNARG)


def test_user_and_system_sgprs_in_order() -> None:
    made = prepared("scratch_sort", "gfx900")  # buffer 0-3, arguments 4-5, workgroup id 6, scratch offset 7
    scalars = made.start((1, 0, 0), 0, slot=0).scalars
    assert pair(scalars, 4) == made.memory.address(KERNARG)
    assert scalars[sgpr(0)] | (scalars[sgpr(1)] & 0xFFFF) << 32 == made.memory.address(SCRATCH)
    assert scalars[sgpr(6)] == 1
    assert scalars[sgpr(7)] == 0


def test_system_sgprs_begin_behind_the_count_of_user_sgprs() -> None:
    """gfx1100 reserves 15 user SGPRs for two values, so that the workgroup id comes to stand in s15."""
    made = prepared("saxpy", "gfx1100")
    scalars = made.start((3, 0, 0), 0, 0).scalars
    assert pair(scalars, 0) == made.memory.address(KERNARG)
    assert scalars[sgpr(15)] == 3


def test_preloaded_arguments_and_the_entry_behind_the_loader() -> None:
    made = prepared("softmax", "gfx90a")  # user SGPRs: buffer 4, arguments 2, then 10 dwords of arguments
    scalars = made.start((0, 0, 0), 0, 0).scalars
    preloaded = b"".join(scalars[sgpr(6 + n)].to_bytes(4, "little") for n in range(10))
    assert preloaded == made.kernarg[:40]
    assert made.entry == made.kernel.address + 256


def test_gfx12_has_the_workgroup_in_trap_temporaries() -> None:
    made = prepared("transpose", "gfx1200")
    scalars = made.start((2, 1, 0), 3, 0).scalars
    assert scalars[sgpr(9, RegisterFile.TTMP)] == 2
    assert scalars[sgpr(7, RegisterFile.TTMP)] == 1
    assert scalars[sgpr(8, RegisterFile.TTMP)] >> 25 & 31 == 3


@pytest.mark.parametrize(
    ("target", "packed"), [("gfx906", False), ("gfx90a", True), ("gfx1030", False), ("gfx1151", True)]
)
def test_work_item_ids(target: str, packed: bool) -> None:
    made = prepared("transpose_tile", target)  # workgroup 16 x 4
    start = made.start((0, 0, 0), 1 if made.kernel.wave_size == 32 else 0, 0)
    lane = 5 if made.kernel.wave_size == 32 else 37
    x, y = 5, 2
    if packed:
        assert start.vectors[0][lane] == x | y << 10
    else:
        assert (start.vectors[0][lane], start.vectors[1][lane]) == (x, y)


def test_partial_workgroups_have_fewer_lanes() -> None:
    made = prepared("hidden_arguments_partial", "gfx942")  # 40 x 20 work-items in groups of 16 x 8
    assert made.group_size((0, 0, 0)) == (16, 8, 1)
    assert made.group_size((2, 2, 0)) == (8, 4, 1)
    assert made.wave_count((0, 0, 0)) == 2
    assert made.wave_count((2, 2, 0)) == 1
    start = made.start((2, 2, 0), 0, 0)
    assert start.exec_mask == (1 << 32) - 1
    ids = start.vectors[0][:32]
    assert sorted(ids.tolist()) == sorted(x | y << 10 for x in range(8) for y in range(4))


def test_mode_has_the_descriptors_floating_point_fields() -> None:
    assert prepared("dot_f64", "gfx803").mode & 0xFF == 0xC0, "gfx803 flushes f32 denormals"
    assert prepared("dot_f64", "gfx942").mode & 0xFF == 0xF0
    assert prepared("dot_f64", "gfx942").mode >> 8 & 3 == 3, "DX10_CLAMP and IEEE are on"
    assert prepared("dot_f64", "gfx1200").mode >> 8 & 3 == 1, "gfx12 has no IEEE mode"


def test_lds_is_static_and_dynamic_together() -> None:
    assert prepared("lds_reduce", "gfx942").lds_bytes == 2048
    assert prepared("softmax", "gfx942").lds_bytes == 16


def test_other_data_can_be_handed_in() -> None:
    name = "saxpy"
    program = program_of(name, "gfx942")
    data = {argument.name: np.zeros(argument.shape, np.float32) for argument in launch(name).buffers}
    made = prepare(program, program.kernel(name), launch(name), data)
    assert made.memory.content("x_ptr") == bytes(4 * 1003)
