"""Occupancy and register use against what LLVM wrote into its assembly, and against tables worked by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from written_kernels import compiled_kernels, written

from asmevo.analysis.occupancy import occupancy
from asmevo.analysis.pressure import allocation, register_use
from asmevo.program.descriptor import SIZE, KernelDescriptor
from asmevo.program.kernel import Block, Kernel
from asmevo.target import load_target

TABLE = json.loads((Path(__file__).parent.parent / "data" / "occupancy_llvm.json").read_text())
ROWS: list[dict[str, Any]] = [dict(zip(TABLE["columns"], row, strict=True)) for row in TABLE["rows"]]

# LLVM fits 13 workgroups of 4,864 bytes into 65,536; the hardware hands out LDS in granules of 512 bytes,
# which makes 12. The occupancy is lower by one where that is what limits.
UNROUNDED_LDS = {("gfx90a", "attention_4heads"), ("gfx942", "attention_4heads")}


def kernel_of(row: dict[str, Any]) -> Kernel:
    """A kernel with the row's descriptor and no code: occupancy is a matter of the descriptor."""
    return Kernel(
        name=row["kernel"],
        target=load_target(row["target"]),
        wave_size=row["wave_size"],
        blocks=(Block(0, (), ()),),
        address=0,
        size=0,
        descriptor=KernelDescriptor.from_bytes(bytes.fromhex(row["descriptor"])),
        metadata={".max_flat_workgroup_size": row["max_flat_workgroup_size"]},
    )


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['target']}-{row['kernel']}")
def test_agrees_with_llvm(row: dict[str, Any]) -> None:
    """LLVM assumes the best workgroup size a kernel allows, so the smallest one counts, too."""
    kernel = kernel_of(row)
    found = occupancy(kernel, lds_bytes=row["lds_bytes"]).waves
    if (row["target"], row["kernel"]) in UNROUNDED_LDS:
        assert found == row["occupancy"] - 1
    elif found != row["occupancy"]:
        assert not row["required_size"]
        assert found < row["occupancy"]
        assert occupancy(kernel, kernel.wave_size, row["lds_bytes"]).waves == row["occupancy"]


def test_the_default_size_agrees_almost_always() -> None:
    same = sum(occupancy(kernel_of(row)).waves == row["occupancy"] for row in ROWS)
    assert len(ROWS) == 439
    assert same >= 431


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['target']}-{row['kernel']}")
def test_descriptor_holds_what_llvm_counts(row: dict[str, Any]) -> None:
    kernel = kernel_of(row)
    assert kernel.descriptor is not None
    given = allocation(kernel.target, kernel.wave_size, kernel.descriptor)
    assert row["vgprs"] <= given.vgprs
    assert row["agprs"] <= given.agprs or not row["agprs"]
    # Where other things limit the waves, LLVM gives each all the registers that come for free.
    assert (row["total_vgprs"] or row["vgprs"]) <= given.total_vgprs
    assert kernel.target.waves_for_vgprs(given.total_vgprs, kernel.wave_size) >= row["occupancy"]


def test_register_use_is_llvms() -> None:
    rows = {(row["target"], row["kernel"]): row for row in ROWS}
    compared = 0
    for kernel in compiled_kernels():
        row = rows.get((kernel.target.name, kernel.name))
        calls = any("call" in instruction.flags for instruction in kernel.instructions)
        if row is not None and kernel.is_entry and not calls:
            use = register_use(kernel)
            assert (use.vgprs, use.agprs) == (row["vgprs"], row["agprs"])
            total = row["total_vgprs"] or row["vgprs"]
            assert use.total_vgprs(kernel.target) == total
            compared += 1
    assert compared >= 12


class Shape(Struct, frozen=True):
    """A kernel by its descriptor's fields."""

    target: str
    vgprs: int
    sgprs: int = 16
    lds: int = 0
    wave_size: int = 0
    accum_offset: int = 4
    wgp: bool = True

    def kernel(self) -> Kernel:
        target = load_target(self.target)
        wave_size = self.wave_size or target.default_wave_size
        raw = self.lds.to_bytes(4, "little") + bytes(SIZE - 4)
        descriptor = (
            KernelDescriptor.from_bytes(raw)
            .with_field("granulated_vgpr_count", -(-self.vgprs // target.vgpr_encoding_granule(wave_size)) - 1)
            .with_field("granulated_sgpr_count", -(-self.sgprs // 8) - 1)
            .with_field("accum_offset_encoded", self.accum_offset // 4 - 1)
            .with_field("workgroup_processor_mode", int(self.wgp))
        )
        return Kernel("k", target, wave_size, (Block(0, (), ()),), 0, 0, descriptor, None)


@pytest.mark.parametrize(
    ("target", "table"),
    [
        # the most VGPRs for so many waves, from an llc 22 sweep
        ("gfx906", {10: 24, 9: 28, 8: 32, 7: 36, 6: 40, 5: 48, 4: 64, 3: 84, 2: 128, 1: 256}),
        ("gfx942", {8: 64, 7: 72, 6: 80, 5: 96, 4: 128, 3: 168, 2: 256, 1: 512}),
        ("gfx1010", {20: 48, 18: 56, 16: 64, 14: 72, 12: 80, 11: 88, 10: 96, 9: 112, 8: 128, 7: 144, 5: 200}),
        ("gfx1030", {16: 64, 12: 80, 10: 96, 9: 112, 8: 128, 7: 144, 6: 160, 5: 192, 4: 256}),
        ("gfx1201", {16: 96, 12: 120, 10: 144, 9: 168, 8: 192, 7: 216, 6: 240, 5: 256}),
    ],
)
def test_vgpr_steps(target: str, table: dict[int, int]) -> None:
    lane_group = load_target(target).default_wave_size
    for waves, most in table.items():
        assert occupancy(Shape(target, most).kernel(), lane_group).waves == waves
        if most < 256:
            assert occupancy(Shape(target, most + 1).kernel(), lane_group).waves < waves


@pytest.mark.parametrize(
    ("target", "table"),
    [
        # bytes of LDS for so many waves at workgroups of 256, from an llc 22 sweep
        ("gfx900", {8: 8192, 4: 16384, 2: 32768}),
        ("gfx950", {8: 20480, 4: 40960, 2: 81920, 1: 163840}),
        ("gfx1100", {16: 16384, 8: 32768, 4: 65536}),
    ],
)
def test_lds_steps(target: str, table: dict[int, int]) -> None:
    for waves, most in table.items():
        assert occupancy(Shape(target, 8, lds=most).kernel(), 256).waves == waves
        assert occupancy(Shape(target, 8).kernel(), 256, lds_bytes=most + 1).waves < waves


def test_sgpr_steps() -> None:
    for waves, most in {10: 80, 9: 88, 8: 96, 7: 104}.items():
        assert occupancy(Shape("gfx906", 16, sgprs=most).kernel(), 64).waves == waves
    assert occupancy(Shape("gfx1100", 16, sgprs=128).kernel(), 32).waves == 16


def test_the_limiter_and_the_next_step() -> None:
    found = occupancy(Shape("gfx942", 128).kernel(), 64)
    assert [limit.resource for limit in found.limiters] == ["VGPRs"]
    used = written("v_mov_b32 v127, 0\ns_endpgm")
    kernel = Kernel("k", used.target, 64, used.blocks, 0, 0, Shape("gfx942", 128, accum_offset=128).kernel().descriptor)
    assert occupancy(kernel, 64).limit("VGPRs").step == "32 VGPRs fewer give 5 waves instead of 4"
    lds = occupancy(Shape("gfx1100", 8, lds=65536).kernel(), 256)
    assert [limit.resource for limit in lds.limiters] == ["LDS"]
    assert lds.limit("LDS").step == "22,528 bytes of LDS fewer give 6 waves instead of 4"
    assert lds.workgroups == 2


def test_a_descriptor_larger_than_the_code() -> None:
    used = written("v_mov_b32 v9, 0\ns_endpgm")
    kernel = Kernel("k", used.target, 64, used.blocks, 0, 0, Shape("gfx942", 256, accum_offset=256).kernel().descriptor)
    step = occupancy(kernel, 64).limit("VGPRs").step
    assert step == "the code names 10 only: a smaller descriptor gives 8 waves"


def test_unified_file_counts_agprs_behind_the_vgprs() -> None:
    kernel = written("v_mov_b32 v13, 0\nv_accvgpr_write_b32 a3, v0\ns_endpgm", "gfx90a")
    assert register_use(kernel).total_vgprs(kernel.target) == 16 + 4
    separate = written("v_mov_b32 v13, 0\nv_accvgpr_write_b32 a30, v0\ns_endpgm", "gfx908")
    assert register_use(separate).total_vgprs(separate.target) == 31


def test_workgroup_does_not_fit() -> None:
    found = occupancy(Shape("gfx1102", 256).kernel(), 1024)
    assert found.limit("VGPRs").waves == 4
    assert found.workgroups == 0


def test_cu_mode_has_half_the_lds() -> None:
    assert occupancy(Shape("gfx1100", 8, lds=32768).kernel(), 256).waves == 8
    assert occupancy(Shape("gfx1100", 8, lds=32768, wgp=False).kernel(), 256).waves == 8
    assert occupancy(Shape("gfx1100", 8, lds=65536, wgp=False).kernel(), 1024).waves == 16
