"""llvm-mca's answers in cycles: LLVM's latencies (SISchedule.td) are known from its source."""

from __future__ import annotations

import re

import pytest
from written_kernels import written

from asmevo.timing.second_opinion import McaGaps, ask_mca
from asmevo.toolchain.mca import find_mca

MFMA = "v_mfma_f32_4x4x4_16b_f16"
pytestmark = pytest.mark.skipif(find_mca() is None, reason="llvm-mca is not installed (Debian: apt install llvm-22)")


@pytest.mark.parametrize(
    ("gpu", "text", "gaps"),
    [
        ("gfx1100", "v_mov_b32_e32 v0, 1\nv_mov_b32_e32 v1, 1\nv_mov_b32_e32 v2, 1", (1, 1)),
        ("gfx1100", "v_mov_b32_e32 v0, 1\nv_add_f32_e32 v1, v0, v0\nv_mov_b32_e32 v2, 1", (5, 1)),  # 5: a result
        ("gfx942", "v_mov_b32_e32 v0, 1\nv_mov_b32_e32 v1, 1", (4,)),  # LLVM's unit is an issue slot of 4 cycles
        ("gfx942", f"{MFMA} a[0:3], v[0:1], v[2:3], 0\n{MFMA} a[4:7], v[0:1], v[2:3], 0", (8,)),  # two passes
    ],
)
def test_gaps_between_issues(gpu: str, text: str, gaps: tuple[int, ...]) -> None:
    kernel = written(f"{text}\ns_endpgm", gpu)
    assert McaGaps(kernel).of([i.id for i in kernel.instructions[:-1]]) == gaps


def test_a_wave_of_cdna_issues_every_four_cycles_for_llvm_too() -> None:
    kernel = written("\n".join(f"v_mov_b32_e32 v{n}, 1" for n in range(100)) + "\ns_endpgm", "gfx942")
    assert 400 <= ask_mca(kernel).cycles <= 440


def test_its_error_on_traces_stands_beside_ours() -> None:
    traced = ask_mca(written("v_mov_b32_e32 v0, 1\ns_endpgm", "gfx1201")).notes[-1]
    assert re.fullmatch(r"on traces of gfx1201 its waves were off by \d+\.\d%, the own model by \d+\.\d%, .*", traced)
    assert "no traces of gfx90a" in ask_mca(written("v_mov_b32_e32 v0, 1\ns_endpgm", "gfx90a")).notes[-1]
