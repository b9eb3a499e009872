"""16-bit results: whether the rest of the register counts as read, against what llc makes of zero extension.

llc leaves out the mask behind a 16-bit operation exactly where it holds that the operation clears the other half.
"""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from written_kernels import written

from asmevo.program.half_results import keeps_other_half
from asmevo.program.instruction import Decoded
from asmevo.target import load_target

OPERATIONS = {
    "fadd half %a, %b": "half",
    "fmul half %a, %b": "half",
    "call half @llvm.fma.f16(half %a, half %b, half %c)": "half",
    "call half @llvm.sqrt.f16(half %a)": "half",
    "add i16 %a, %b": "i16",
    "mul i16 %a, %b": "i16",
    "lshr i16 %a, %b": "i16",
}
MASKED = re.compile(r"v_and_b32\S* \w+, (0xffff|s\d+), ")


def decoded_of(text: str, gpu: str) -> Decoded:
    return written(text, gpu, "+real-true16" if gpu.startswith("gfx11") else "").instructions[0].decoded


def llcs_answer(operation: str, kind: str, gpu: str) -> tuple[str, bool]:
    """(mnemonic of the operation, whether llc masks its result)."""
    cast = "%w = bitcast half %r to i16" if kind == "half" else "%w = or i16 %r, 0"
    source = f"""define i32 @f({kind} %a, {kind} %b, {kind} %c) {{
        %r = {operation}
        {cast}
        %z = zext i16 %w to i32
        ret i32 %z
    }}
    declare half @llvm.fma.f16(half, half, half)
    declare half @llvm.sqrt.f16(half)"""
    command = ["llc-22", "-mtriple=amdgcn-amd-amdhsa", f"-mcpu={gpu}", "-o", "-"]
    text = subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout
    lines = [line.split(";")[0].strip() for line in text.splitlines() if re.match(r"\s+v_", line)]
    return next(line.split()[0] for line in lines if "16" in line), any(map(MASKED.match, lines))


@pytest.mark.skipif(shutil.which("llc-22") is None, reason="needs LLVM 22's llc as oracle")
@pytest.mark.parametrize("gpu", ["gfx803", "gfx900", "gfx942", "gfx1030"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_halves_are_cleared_where_llc_relies_on_it(operation: str, gpu: str) -> None:
    mnemonic, masked = llcs_answer(operation, OPERATIONS[operation], gpu)
    assert keeps_other_half(mnemonic, load_target(gpu)) is masked, mnemonic


@pytest.mark.parametrize(
    ("gpu", "text", "reads_destination"),
    [
        ("gfx1030", "v_add_f16 v0, v1, v2", True),
        ("gfx1030", "v_med3_f16 v0, v1, v2, v3", True),
        ("gfx1030", "v_cvt_f32_f16 v0, v1", False),
        ("gfx1030", "v_pack_b32_f16 v0, v1, v2", False),
        ("gfx1030", "v_pk_add_f16 v0, v1, v2", False),
        ("gfx1030", "v_cvt_pkrtz_f16_f32 v0, v1, v2", False),
        ("gfx1030", "v_sad_u16 v0, v1, v2, v3", False),
        ("gfx906", "v_add_f16 v0, v1, v2", False),
        ("gfx906", "v_fma_f16 v0, v1, v2, v3", True),
        ("gfx906", "v_fma_legacy_f16 v0, v1, v2, v3", False),
        ("gfx1100", "v_cvt_f32_f16 v0, v1.l", False),
        ("gfx1200", "v_wmma_f16_16x16x16_f16 v[0:3], v[8:11], v[12:15], v[4:7]", False),
    ],
)
def test_what_is_kept_is_read(gpu: str, text: str, reads_destination: bool) -> None:
    decoded = decoded_of(text, gpu)
    written = decoded.destinations[0].registers
    assert written is not None
    assert bool(decoded.reads & written.mask) is reads_destination


def test_a_compare_of_halves_reads_no_lane_mask() -> None:
    decoded = decoded_of("v_cmp_lt_f16 vcc_lo, v1, v2", "gfx1030")
    assert not decoded.reads & decoded.writes
