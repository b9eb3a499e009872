"""The evaluator against LLVM's own constant folding, AMDGPU intrinsics included.

LLVM computes with its APFloat, independent of this project; what it does not fold is left out (and a minimum of
folded cases is asked for). NaN payloads are LLVM's own choice and are not compared.
"""

from __future__ import annotations

import re
import shutil
import subprocess

import numpy as np
import pytest
from msgspec import Struct

from asmevo.semantics.evaluate import apply
from asmevo.semantics.expression import Const, Op
from asmevo.semantics.softfloat import encodings
from asmevo.semantics.softfloat.formats import F16, F32, F64, Format

OPT = shutil.which("opt-22") or shutil.which("opt", path="/usr/lib/llvm-22/bin")
pytestmark = pytest.mark.skipif(OPT is None, reason="needs LLVM 22's opt as an oracle")
TYPES = {"f16": "half", "f32": "float", "f64": "double"}
FORMS = {"f16": F16, "f32": F32, "f64": F64}


class Folded(Struct, frozen=True):
    """One LLVM operation of `arity` operands in a format, and the operation that must equal it."""

    name: str
    intrinsic: str
    arity: int
    result: str = ""  # LLVM's result type, the format's by default
    bits: int = 0
    minimum: float = 0.9  # part of the cases that LLVM folds


FOLDED = [
    Folded("fma", "llvm.fma.{f}", 3),
    Folded("fsqrt", "llvm.sqrt.{f}", 1, minimum=0.3),
    Folded("ffloor", "llvm.floor.{f}", 1),
    Folded("fceil", "llvm.ceil.{f}", 1),
    Folded("ftrunc", "llvm.trunc.{f}", 1),
    Folded("frint", "llvm.roundeven.{f}", 1),
    Folded("fmin", "llvm.minimumnum.{f}", 2),
    Folded("fmax", "llvm.maximumnum.{f}", 2),
    Folded("fminimum", "llvm.minimum.{f}", 2),
    Folded("fmaximum", "llvm.maximum.{f}", 2),
    Folded("fcanonicalize", "llvm.canonicalize.{f}", 1, minimum=0.5),
    Folded("ffract", "llvm.amdgcn.fract.{f}", 1, minimum=0.5),
    Folded("ffrexp_mant", "llvm.amdgcn.frexp.mant.{f}", 1),
    Folded("ffrexp_exp", "llvm.amdgcn.frexp.exp.i32.{f}", 1, "i32", 32),
    Folded("frcp", "llvm.amdgcn.rcp.{f}", 1, minimum=0.5),
    Folded("f_to_sint", "llvm.fptosi.sat.i32.{f}", 1, "i32", 32),
    Folded("f_to_uint", "llvm.fptoui.sat.i32.{f}", 1, "i32", 32),
]


def values(form: Format, count: int, seed: int) -> list[int]:
    random = np.random.default_rng(seed)
    anywhere = [int(v) & (1 << form.bits) - 1 for v in random.integers(0, 2**63, count // 2)]
    near = [encodings.rounded(form, int(v < 0), int(abs(v) * 2.0**40), -40) for v in random.normal(size=count // 2) * 9]
    least, one = 1 << form.fraction_bits, encodings.rounded(form, 0, 1, 0)
    edge = [0, 1, least - 1, least, one, one + 1, form.largest, form.infinity, form.infinity | form.quiet_bit]
    return [v | s for v in edge for s in (0, form.sign_bit)] + anywhere + near


def fold(bodies: list[str]) -> dict[int, int]:
    """Results of the functions that LLVM turned into a constant, by number."""
    text = "\n".join(f"define {kind}" for kind in bodies)
    assert OPT is not None
    command = [OPT, "-S", "-mtriple=amdgcn-amd-amdhsa", "-mcpu=gfx950", "-passes=instcombine", "-o", "-"]
    done = subprocess.run(command, input=text, text=True, capture_output=True, check=True)
    found = re.findall(r"define i\d+ @f(\d+)\(\)[^{]*{\s*ret i\d+ (-?\d+)\s*}", done.stdout)
    return {int(number): int(value) for number, value in found}


def body(number: int, case: Folded, name: str, operands: list[int]) -> str:
    """i<bits> @f<number>(): encodings in, encoding out."""
    kind, bits = TYPES[name], FORMS[name].bits
    casts = "".join(f"%x{n} = bitcast i{bits} {value} to {kind}\n" for n, value in enumerate(operands))
    arguments = ", ".join(f"{kind} %x{n}" for n in range(len(operands)))
    called = f"%r = call {case.result or kind} @{case.intrinsic.format(f=name)}({arguments})\n"
    if case.result:
        return f"{case.result} @f{number}() {{\n{casts}{called}ret {case.result} %r\n}}"
    return f"i{bits} @f{number}() {{\n{casts}{called}%b = bitcast {kind} %r to i{bits}\nret i{bits} %b\n}}"


def flushed_by_hardware(case: Folded, name: str, value: int) -> bool:
    """V_RCP_F32 and V_SQRT_F32 flush denormal operands and results, which LLVM's folding does not know."""
    denormal = encodings.is_denormal(FORMS[name], value)
    return name == "f32" and (
        (case.name in ("frcp", "fsqrt") and denormal)
        or (case.name == "frcp" and encodings.magnitude(F32, value) > 0x7E000000)
    )


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("case", FOLDED, ids=lambda case: case.intrinsic)
def test_operations_fold_to_the_same(case: Folded, name: str) -> None:
    form = FORMS[name]
    columns = [values(form, 150, seed) for seed in range(case.arity)]
    lanes = [list(lane) for lane in zip(*columns, strict=True)]
    folded = fold([body(number, case, name, lane) for number, lane in enumerate(lanes)])
    assert len(folded) >= case.minimum * len(lanes)
    bits = case.bits or form.bits
    for number, theirs in folded.items():
        lane = lanes[number]
        if flushed_by_hardware(case, name, lane[0]):
            continue
        node = Op(bits, case.name, tuple(Const(form.bits, value) for value in lane), name)
        ours = apply(node, tuple(lane))
        nan = not case.result and encodings.is_nan(form, ours) and encodings.is_nan(form, theirs & (1 << bits) - 1)
        assert nan or ours == theirs & (1 << bits) - 1, [hex(value) for value in lane]


def test_packed_conversion_towards_zero_folds_to_the_same() -> None:
    """V_CVT_PKRTZ_F16_F32, with overflow, denormals and ties."""
    lanes = [*values(F32, 300, 5), 0x477FE000, 0x477FF000, 0x47800000, 0x33000001, 0x387FE000, 0xC77FFFFF]
    bodies = [
        f"i32 @f{number}() {{\n%x = bitcast i32 {value} to float\n"
        "%r = call <2 x half> @llvm.amdgcn.cvt.pkrtz(float %x, float 0.0)\n"
        "%b = bitcast <2 x half> %r to i32\nret i32 %b\n}"
        for number, value in enumerate(lanes)
    ]
    folded = fold(bodies)
    assert len(folded) > 250
    for number, theirs in folded.items():
        node = Op(16, "fconvert_rtz", (Const(32, lanes[number]),), "f32>f16")
        ours = apply(node, (lanes[number],))
        nan = encodings.is_nan(F16, ours) and encodings.is_nan(F16, theirs & 0xFFFF)
        assert nan or ours == theirs & 0xFFFF, hex(lanes[number])


@pytest.mark.parametrize("name", TYPES)
def test_scaling_folds_to_the_same(name: str) -> None:
    form, kind = FORMS[name], TYPES[name]
    powers = np.random.default_rng(3).integers(-60, 60, 400)
    lanes = list(zip(values(form, 300, 6), [int(p) for p in powers], strict=False))
    bodies = [
        f"i{form.bits} @f{number}() {{\n%x = bitcast i{form.bits} {value} to {kind}\n"
        f"%r = call {kind} @llvm.ldexp.{name}.i32({kind} %x, i32 {power})\n"
        f"%b = bitcast {kind} %r to i{form.bits}\nret i{form.bits} %b\n}}"
        for number, (value, power) in enumerate(lanes)
    ]
    folded = fold(bodies)
    assert len(folded) > 250
    for number, theirs in folded.items():
        value, power = lanes[number]
        node = Op(form.bits, "fldexp", (Const(form.bits, value), Const(32, 0)), name)
        ours, theirs = apply(node, (value, power & 0xFFFFFFFF)), theirs & (1 << form.bits) - 1
        assert ours == theirs or (encodings.is_nan(form, ours) and encodings.is_nan(form, theirs)), (hex(value), power)
