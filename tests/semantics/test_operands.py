"""Operands, modifiers, packed math: against numpy, struct and ml_dtypes, and against tables written by hand."""

from __future__ import annotations

import random
import struct
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from instruction_lanes import Lanes, decoded, run

from asmevo.semantics import destinations, operands, packed
from asmevo.semantics.evaluate import evaluate
from asmevo.semantics.expression import Const, Exactness, Expr, Meaning, Op, Result, Scope, Source
from asmevo.semantics.float_mode import FloatMode

ONE_LANE = 64
GUARD = 0xDEADBEEF


def f16(value: float) -> int:
    return int(np.float16(value).view(np.uint16))


def f32(value: float) -> int:
    return int(np.float32(value).view(np.uint32))


def of_f32(bits: int) -> float:
    return float(np.uint32(bits).view(np.float32))


def seen(text: str, gpu: str, index: int, bits: int, format: str = "", **registers: int) -> int:
    """What the operation sees of an operand; `r1=...` sets the register of printed operand 1 in every lane."""
    instruction, context = decoded(text, gpu)
    values = {int(name[1:]): [value] * ONE_LANE for name, value in registers.items()}
    state = Lanes(context.wave_size, values)
    return evaluate(operands.source(instruction, index, bits, format), state)


def left(text: str, gpu: str, value: Expr, format: str = "", old: int = GUARD) -> int:
    """What a destination register holds after a result."""
    instruction, context = decoded(text, gpu)
    result = destinations.finish(instruction, 0, value, format)
    after = run(Meaning(Scope.LANE, (result,)), {0: [old] * ONE_LANE, 1: [0] * ONE_LANE}, context.wave_size)
    return after[0][0]


def packed_result(text: str, gpu: str, registers: list[int], old: int = GUARD, approximate: bool = False) -> int:
    """The destination of a written (packed, mixed, dot, conversion) instruction in lane 0."""
    instruction, context = decoded(text, gpu)
    meaning = packed.meaning(instruction, context)
    assert meaning is not None
    assert meaning.exactness is (Exactness.APPROXIMATE if approximate else Exactness.EXACT)
    values = {0: [old] * 64} | {n + 1: [value] * 64 for n, value in enumerate(registers)}
    return run(meaning, values, context.wave_size)[0][0]


# --- constants ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [-16, -1, 0, 1, 64])
def test_inline_integers_are_sign_extended(number: int) -> None:
    assert seen(f"v_add_u32 v0, {number}, v1", "gfx942", 1, 32) == number & 0xFFFFFFFF
    assert seen(f"v_add_u16 v0, {number}, v1", "gfx942", 1, 16) == number & 0xFFFF
    assert seen(f"s_mov_b64 s[0:1], {number}", "gfx942", 1, 64) == number & (1 << 64) - 1


@pytest.mark.parametrize("number", [0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 4.0, -4.0])
def test_inline_floats_take_the_operations_format(number: float) -> None:
    assert seen(f"v_add_f32 v0, {number}, v1", "gfx942", 1, 32, "f32") == f32(number)
    assert seen(f"v_add_u32 v0, {number}, v1", "gfx942", 1, 32) == f32(number)
    assert seen(f"v_add_f16 v0, {number}, v1", "gfx942", 1, 16, "f16") == f16(number)
    wanted = struct.unpack("<Q", struct.pack("<d", number))[0]
    assert seen(f"v_add_f64 v[0:1], {number}, v[2:3]", "gfx942", 1, 64, "f64") == wanted
    assert seen(f"v_lshlrev_b64 v[0:1], v2, {number}", "gfx942", 2, 64) == wanted


def test_one_over_two_pi_has_its_own_encodings() -> None:
    assert seen("v_add_f32 v0, 0.15915494, v1", "gfx942", 1, 32, "f32") == 0x3E22F983
    assert seen("v_add_f16 v0, 0.15915494, v1", "gfx942", 1, 16, "f16") == 0x3118
    assert seen("v_add_f64 v[0:1], 0.15915494309189532, v[2:3]", "gfx942", 1, 64, "f64") == 0x3FC45F306DC9C882
    instruction, _ = decoded("v_add_f32 v0, 0.15915494, v1", "gfx942")
    assert operands.constant_value(instruction, "0.15915494", 16, "bf16") == 0x3E22


def test_literals_of_64_bit_operands() -> None:
    assert seen("v_add_f64 v[0:1], 0x3ff12345, v[2:3]", "gfx1100", 1, 64, "f64") == 0x3FF12345 << 32
    assert seen("s_mov_b64 s[0:1], 0x80000001", "gfx942", 1, 64) == 0x80000001
    assert seen("v_cmp_lt_i64 vcc_lo, 0x80000001, v[2:3]", "gfx1100", 1, 64) == 0xFFFFFFFF80000001
    assert seen("v_add_f16 v0.l, 0x3c12, v1.l", "gfx1100", 1, 16, "f16") == 0x3C12


def test_null_is_zero_and_unknown_words_are_refused() -> None:
    assert seen("s_add_u32 s0, null, s1", "gfx1100", 1, 32) == 0
    instruction, _ = decoded("v_add_f32 v0, v1, v2", "gfx942")
    with pytest.raises(operands.UnsupportedOperandError, match="src_lds_direct"):
        operands.constant_value(instruction, "src_lds_direct", 32)


# --- input modifiers, halves --------------------------------------------------------------------------------


def test_neg_and_abs_touch_the_sign_only() -> None:
    nan = 0xFFA00001  # a signaling NaN keeps its payload
    assert seen("v_add_f32_e64 v0, -v1, v2", "gfx942", 1, 32, "f32", r1=nan) == nan ^ 0x80000000
    assert seen("v_add_f32_e64 v0, |v1|, v2", "gfx942", 1, 32, "f32", r1=nan) == nan & 0x7FFFFFFF
    assert seen("v_add_f32_e64 v0, -|v1|, v2", "gfx942", 1, 32, "f32", r1=5) == 0x80000005
    assert seen("v_add_f64 v[0:1], -v[2:3], v[4:5]", "gfx942", 1, 64, "f64", r1=7) == 7 | 1 << 63
    assert seen("v_cndmask_b32_e64 v0, -v1, v2, vcc", "gfx942", 1, 32, r1=1) == 0x80000001


def test_halves_of_registers() -> None:
    both = 0x22221111
    assert seen("v_add_f16 v0.l, v1.l, v2.h", "gfx1100", 1, 16, "f16", r1=both) == 0x1111
    assert seen("v_add_f16 v0.l, v1.l, v2.h", "gfx1100", 2, 16, "f16", r2=both) == 0x2222
    text = "v_mad_f16 v0, v1, s2, -v3 op_sel:[0,1,1,0]"
    assert seen(text, "gfx942", 1, 16, "f16", r1=both) == 0x1111
    assert seen(text, "gfx942", 2, 16, "f16", r2=both) == 0x2222
    assert seen(text, "gfx942", 3, 16, "f16", r3=both) == 0xA222
    assert seen("v_mad_u32_u16 v0, v1, v2, v3 op_sel:[1,0,0,0]", "gfx942", 3, 32, r3=both) == both


@pytest.mark.parametrize(
    ("part", "plain", "signed"),
    [
        ("BYTE_0", 0x81, 0xFFFFFF81),
        ("BYTE_1", 0x92, 0xFFFFFF92),
        ("BYTE_2", 0x73, 0x73),
        ("BYTE_3", 0xF4, 0xFFFFFFF4),
        ("WORD_0", 0x9281, 0xFFFF9281),
        ("WORD_1", 0xF473, 0xFFFFF473),
        ("DWORD", 0xF4739281, 0xF4739281),
    ],
)
def test_sdwa_selects_and_extends(part: str, plain: int, signed: int) -> None:
    rest = f"dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:{part} src1_sel:DWORD"
    assert seen(f"v_add_u32_sdwa v0, v1, v2 {rest}", "gfx900", 1, 32, r1=0xF4739281) == plain
    assert seen(f"v_add_u32_sdwa v0, sext(v1), v2 {rest}", "gfx900", 1, 32, r1=0xF4739281) == signed


# --- results ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gpu", "text", "wanted"),
    [
        ("gfx803", "v_add_f16 v0, v1, v2", 0x00001234),
        ("gfx803", "v_mac_f16 v0, v1, v2", 0x00001234),
        ("gfx803", "v_mad_f16 v0, v1, v2, v3", 0x00001234),
        ("gfx900", "v_add_f16 v0, v1, v2", 0x00001234),
        ("gfx942", "v_cvt_f16_f32 v0, v1", 0x00001234),
        ("gfx900", "v_mad_legacy_f16 v0, v1, v2, v3", 0x00001234),
        ("gfx900", "v_mad_f16 v0, v1, v2, v3", 0xDEAD1234),
        ("gfx900", "v_mac_f16 v0, v1, v2", 0xDEAD1234),
        ("gfx942", "v_mad_f16 v0, v1, v2, v3 op_sel:[0,0,0,1]", 0x1234BEEF),
        ("gfx1010", "v_add_f16 v0, v1, v2", 0xDEAD1234),
        ("gfx1100", "v_add_f16 v0.l, v1.l, v2.l", 0xDEAD1234),
        ("gfx1100", "v_add_f16 v0.h, v1.l, v2.l", 0x1234BEEF),
        ("gfx1151", "s_add_f16 s0, s1, s2", 0x00001234),
    ],
)
def test_the_other_half_of_a_16_bit_result(gpu: str, text: str, wanted: int) -> None:
    assert left(text, gpu, Const(16, 0x1234)) == wanted


@pytest.mark.parametrize(
    ("select", "unused", "wanted"),
    [
        ("BYTE_1", "UNUSED_PAD", 0x00008100),
        ("BYTE_1", "UNUSED_SEXT", 0xFFFF8100),
        ("BYTE_1", "UNUSED_PRESERVE", 0xDEAD81EF),
        ("BYTE_3", "UNUSED_PRESERVE", 0x81ADBEEF),
        ("WORD_1", "UNUSED_PRESERVE", 0x9281BEEF),
        ("WORD_0", "UNUSED_SEXT", 0xFFFF9281),
        ("DWORD", "UNUSED_PAD", 0xF4739281),
    ],
)
def test_sdwa_places_the_result(select: str, unused: str, wanted: int) -> None:
    text = f"v_add_u32_sdwa v0, v1, v2 dst_sel:{select} dst_unused:{unused} src0_sel:DWORD src1_sel:DWORD"
    assert left(text, "gfx900", Const(32, 0xF4739281)) == wanted


@pytest.mark.parametrize(
    ("modifiers", "value", "wanted"),
    [
        ("mul:2", 0.75, 1.5),
        ("mul:4", 0.75, 3.0),
        ("div:2", 0.75, 0.375),
        ("clamp", 1.5, 1.0),
        ("clamp", -2.0, 0.0),
        ("clamp", 0.25, 0.25),
        ("clamp mul:4", 0.5, 1.0),
        ("clamp div:2", 1.5, 0.75),
    ],
)
def test_output_modifiers_of_floats(modifiers: str, value: float, wanted: float) -> None:
    assert left(f"v_add_f32_e64 v0, v1, v2 {modifiers}", "gfx942", Const(32, f32(value)), "f32") == f32(wanted)


def test_a_mask_result_gets_no_bit_where_dpp_switches_off() -> None:
    text = "v_cmp_lt_f32_dpp vcc_lo, v1, v2 row_shl:1 row_mask:0x1 bank_mask:0xf"
    instruction, _ = decoded(text, "gfx1100")
    result = destinations.finish(instruction, 0, Const(1, 1))
    assert result.target == "mask"
    state = Lanes(32, {1: [0] * 32}, execution=(1 << 32) - 1)
    bits = []
    for state.lane in range(32):
        bits.append(evaluate(result.value, state))
    assert bits == [1] * 15 + [0] * 17  # lane 15 has no neighbour, the second row is not in the mask


@given(a=st.integers(0, (1 << 32) - 1), b=st.integers(0, (1 << 32) - 1), c=st.integers(0, (1 << 32) - 1))
def test_integer_clamp_saturates(a: int, b: int, c: int) -> None:
    def signed(value: int, bits: int) -> int:
        return value - (1 << bits) if value >> (bits - 1) else value

    def held(value: int, bits: int, is_signed: bool) -> int:
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)
        return min(max(value, low), high) & ((1 << bits) - 1)

    def op(name: str, bits: int, *args: Expr) -> Op:
        return Op(bits, name, args)

    x, y, z = (Const(32, value) for value in (a, b, c))
    for name, sign, value in (("add", 1, op("add", 32, x, y)), ("sub", -1, op("sub", 32, x, y))):
        unsigned = left(f"v_{name}_u32_e64 v0, v1, v2 clamp", "gfx900", value)
        assert unsigned == held(a + sign * b, 32, False)
        wanted = held(signed(a, 32) + sign * signed(b, 32), 32, True)
        assert left(f"v_{name}_i32 v0, v1, v2 clamp", "gfx900", value) == wanted
    cut = tuple(op("sext", 32, operands.resize(each, 24)) for each in (x, y))
    mad = op("add", 32, op("mul", 32, *cut), z)
    exact = signed(a & 0xFFFFFF, 24) * signed(b & 0xFFFFFF, 24) + signed(c, 32)
    assert left("v_mad_i32_i24 v0, v1, v2, v3 clamp", "gfx900", mad) == held(exact, 32, True)
    assert left("v_mad_i32_i24 v0, v1, v2, v3", "gfx900", mad) == exact & 0xFFFFFFFF


# --- packed math --------------------------------------------------------------------------------------------


def halves(low: int, high: int) -> int:
    return low | high << 16


def test_packed_half_selection_and_signs() -> None:
    a, b = halves(f16(1.0), f16(2.0)), halves(f16(10.0), f16(20.0))
    assert packed_result("v_pk_add_f16 v0, v1, v2", "gfx942", [a, b]) == halves(f16(11), f16(22))
    swapped = packed_result("v_pk_add_f16 v0, v1, v2 op_sel:[1,0] op_sel_hi:[0,1]", "gfx942", [a, b])
    assert swapped == halves(f16(12), f16(21))
    negated = packed_result("v_pk_add_f16 v0, v1, v2 neg_lo:[0,1] neg_hi:[1,0]", "gfx942", [a, b])
    assert negated == halves(f16(-9), f16(18))
    clamped = packed_result("v_pk_mul_f16 v0, v1, v2 clamp", "gfx942", [a, halves(f16(0.5), f16(0.75))])
    assert clamped == halves(f16(0.5), f16(1.0))


def test_packed_constants_as_llvm_encodes_them() -> None:
    """A float stands in the low half; -1 fills both; a float of an integer operation has 32 bits."""
    one = halves(1, 2)
    assert packed_result("v_pk_mul_f16 v0, 2.0, v1 op_sel_hi:[0,1]", "gfx942", [0, halves(f16(3), f16(5))]) == halves(
        f16(6), f16(10)
    )
    assert packed_result("v_pk_add_f16 v0, 2.0, v1", "gfx942", [0, halves(f16(3), f16(5))]) == halves(f16(5), f16(5))
    assert packed_result("v_pk_add_u16 v0, -1, v1", "gfx942", [0, one]) == halves(0, 1)
    assert packed_result("v_pk_add_u16 v0, 1.0, v1", "gfx942", [0, one]) == halves(1, 0x3F80 + 2)
    literal = packed_result("v_pk_fma_f16 v0, v1, v2, 0x3800b800 op_sel_hi:[1,1,1]", "gfx1010", [0, 0])
    assert literal == 0x3800B800


U16 = np.uint16
PACKED = {
    "v_pk_add_u16": lambda a, b: a + b,
    "v_pk_sub_i16": lambda a, b: a - b,
    "v_pk_mul_lo_u16": lambda a, b: a * b,
    "v_pk_min_u16": np.minimum,
    "v_pk_max_i16": lambda a, b: np.maximum(a.view(np.int16), b.view(np.int16)).view(U16),
    "v_pk_lshlrev_b16": lambda a, b: b << (a & 15),
    "v_pk_lshrrev_b16": lambda a, b: b >> (a & 15),
    "v_pk_ashrrev_i16": lambda a, b: (b.view(np.int16) >> (a & 15).astype(np.int16)).view(U16),
}


@pytest.mark.parametrize("name", PACKED)
def test_packed_integers(name: str) -> None:
    rng = random.Random(1)
    for _ in range(20):
        words = [rng.getrandbits(32) for _ in range(2)]
        a, b = (np.array([w & 0xFFFF, w >> 16], dtype=U16) for w in words)
        wanted = PACKED[name](a, b)
        assert packed_result(f"{name} v0, v1, v2", "gfx942", words) == halves(int(wanted[0]), int(wanted[1]))


@pytest.mark.parametrize(("text", "wanted"), [("v_pk_add_u16", 0xFFFF), ("v_pk_add_i16", 0x7FFF)])
def test_packed_integers_saturate(text: str, wanted: int) -> None:
    big = 0xFFFE if text.endswith("u16") else 0x7FFE
    assert packed_result(f"{text} v0, v1, v2 clamp", "gfx942", [halves(big, 1), halves(3, 1)]) == halves(wanted, 2)


def test_packed_double_width() -> None:
    a, b, c = (f32(x) | f32(y) << 32 for x, y in ((2.0, 3.0), (5.0, 7.0), (0.5, 0.25)))
    assert (
        packed_result("v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[6:7]", "gfx942", [a, b, c])
        == f32(10.5) | f32(21.25) << 32
    )
    crossed = "v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[6:7] op_sel:[1,0,0] op_sel_hi:[1,0,1] neg_lo:[0,0,1]"
    assert packed_result(crossed, "gfx942", [a, b, c]) == f32(14.5) | f32(15.25) << 32
    constant = "v_pk_add_f32 v[0:1], v[2:3], 1.0 op_sel_hi:[1,0]"
    assert packed_result(constant, "gfx942", [a]) == f32(3.0) | f32(4.0) << 32
    assert (
        packed_result("v_pk_mov_b32 v[0:1], v[2:3], v[4:5] op_sel:[1,0]", "gfx942", [a, b]) == f32(3.0) | f32(5.0) << 32
    )


def test_fmac_adds_to_its_own_halves() -> None:
    a, b = halves(f16(2), f16(3)), halves(f16(5), f16(7))
    wanted = halves(f16(10.5), f16(21.25))
    assert packed_result("v_pk_fmac_f16 v0, v1, v2", "gfx1100", [a, b], old=halves(f16(0.5), f16(0.25))) == wanted


# --- mixed precision ----------------------------------------------------------------------------------------


def test_mixed_sources() -> None:
    a, b, c = halves(f16(2.0), f16(-3.0)), f32(1.5), halves(f16(0.25), f16(8.0))
    full = "v_fma_mix_f32 v0, v1, v2, v3 op_sel:[1,0,0] op_sel_hi:[1,0,1]"
    assert packed_result(full, "gfx1100", [a, b, c]) == f32(-4.25)
    signs = "v_fma_mix_f32 v0, |v1|, -v2, v3 op_sel:[1,0,1] op_sel_hi:[1,0,1]"
    assert packed_result(signs, "gfx1100", [a, b, c]) == f32(3.5)
    high = "v_fma_mixhi_f16 v0, v1, v2, v3 op_sel_hi:[1,0,1]"
    assert packed_result(high, "gfx1100", [a, b, c]) == halves(0xBEEF, f16(3.25))
    low = "v_fma_mixlo_f16 v0, v1, v2, v3 op_sel_hi:[1,0,1] clamp"
    assert packed_result(low, "gfx1100", [a, b, c]) == halves(f16(1.0), 0xDEAD)


def test_mixed_constants_take_the_width_they_are_read_in() -> None:
    half = "v_fma_mix_f32 v0, v1, 1.0, v1 op_sel:[0,0,1] op_sel_hi:[1,1,1]"
    assert packed_result(half, "gfx1100", [halves(f16(3), f16(4)), 0, halves(f16(3), f16(4))]) == f32(7)
    whole = "v_fma_mix_f32 v0, v1, 2.0, neg(0) op_sel_hi:[1,0,0]"
    assert packed_result(whole, "gfx1100", [f16(-0.0)]) == f32(-0.0)


def test_mixed_rounds_once_for_fma_and_twice_for_mad() -> None:
    """1 + 2**-11 + 2**-24 squared needs more than 24 bits: only one rounding keeps the tie broken."""
    a, b = f32(1 + 2**-12), f32(1 - 2**-12)
    c = f32(-1.0)
    exact = Fraction(1 + 2**-12) * Fraction(1 - 2**-12) - 1
    fused = packed_result("v_fma_mix_f32 v0, v1, v2, v3", "gfx906", [a, b, c])
    rounded = packed_result("v_mad_mix_f32 v0, v1, v2, v3", "gfx900", [a, b, c])
    assert Fraction(of_f32(fused)) == exact == Fraction(-1, 1 << 24)
    assert of_f32(rounded) in (0.0, -(2.0**-24))
    assert rounded == f32(np.float32(np.float32(of_f32(a)) * np.float32(of_f32(b))) - np.float32(1.0))


# --- dot products -------------------------------------------------------------------------------------------


def elements(word: int, bits: int, signed: bool) -> list[int]:
    found = [word >> low & ((1 << bits) - 1) for low in range(0, 32, bits)]
    return [e - (1 << bits) if signed and e >> (bits - 1) else e for e in found]


DOTS = [
    ("gfx906", "v_dot4_i32_i8 v0, v1, v2, v3", 8, True, True),
    ("gfx906", "v_dot4_u32_u8 v0, v1, v2, v3", 8, False, False),
    ("gfx906", "v_dot8_i32_i4 v0, v1, v2, v3", 4, True, True),
    ("gfx906", "v_dot8_u32_u4 v0, v1, v2, v3", 4, False, False),
    ("gfx906", "v_dot2_i32_i16 v0, v1, v2, v3", 16, True, True),
    ("gfx906", "v_dot2_u32_u16 v0, v1, v2, v3", 16, False, False),
    ("gfx1100", "v_dot4_i32_iu8 v0, v1, v2, v3 neg_lo:[1,0,0]", 8, True, False),
    ("gfx1100", "v_dot8_i32_iu4 v0, v1, v2, v3 neg_lo:[0,1,0]", 4, False, True),
    ("gfx908", "v_dot4c_i32_i8 v0, v1, v2", 8, True, True),
]


@pytest.mark.parametrize(("gpu", "text", "bits", "first", "second"), DOTS, ids=[d[1][:20] for d in DOTS])
def test_integer_dot_products(gpu: str, text: str, bits: int, first: bool, second: bool) -> None:
    rng = random.Random(2)
    own = "c_" in text
    result_signed = "_i32_" in text
    for _ in range(20):
        a, b, c = (rng.getrandbits(32) for _ in range(3))
        products = sum(x * y for x, y in zip(elements(a, bits, first), elements(b, bits, second), strict=True))
        found = packed_result(text, gpu, [a, b] if own else [a, b, c], old=c)
        assert found == (c + products) & 0xFFFFFFFF
        if own:
            continue
        start = elements(c, 32, result_signed)[0]
        low, high = (-(1 << 31), (1 << 31) - 1) if result_signed else (0, (1 << 32) - 1)
        held = min(max(start + products, low), high) & 0xFFFFFFFF
        clamped = text + " clamp"
        assert packed_result(clamped, gpu, [a, b, c]) == held


def test_float_dot_products() -> None:
    a, b = halves(f16(2.0), f16(-3.0)), halves(f16(0.5), f16(4.0))
    assert packed_result("v_dot2_f32_f16 v0, v1, v2, v3", "gfx1100", [a, b, f32(0.25)], approximate=True) == f32(-10.75)
    assert packed_result("v_dot2acc_f32_f16 v0, v1, v2", "gfx1100", [a, b], old=f32(1.0), approximate=True) == f32(
        -10.0
    )
    bf = halves(0x4000, 0xC040)  # 2, -3
    text = "v_dot2_f32_bf16 v0, v1, v2, v3"
    assert packed_result(text, "gfx1100", [bf, bf, f32(1.0)], approximate=True) == f32(14.0)
    eights = [int.from_bytes(np.array(v, dtype=t).tobytes(), "little") for v, t in (
        ([1.5, -2.0, 0.5, 4.0], ml_dtypes.float8_e4m3fn),
        ([2.0, 2.0, -1.0, 0.25], ml_dtypes.float8_e5m2),
    )]  # fmt: skip
    text = "v_dot4_f32_fp8_bf8 v0, v1, v2, v3"
    assert packed_result(text, "gfx1200", [*eights, f32(1.0)], approximate=True) == f32(3 - 4 - 0.5 + 1 + 1)
    text = "v_dot2_f16_f16 v0.h, v1, v2, v3.l"
    assert packed_result(text, "gfx1100", [a, b, f16(1.0)], approximate=True) == halves(0xBEEF, f16(-10.0))


# --- conversions --------------------------------------------------------------------------------------------

FP8: dict[str, tuple[Any, Any]] = {
    "gfx1200": (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2),
    "gfx942": (ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2fnuz),
}


@pytest.mark.parametrize("gpu", FP8)
@pytest.mark.parametrize(("name", "which"), [("fp8", 0), ("bf8", 1)])
def test_every_small_float_widens(gpu: str, name: str, which: int) -> None:
    instruction, context = decoded(f"v_cvt_f32_{name} v0, v1", gpu)
    meaning = packed.meaning(instruction, context)
    assert meaning is not None
    for byte in range(256):
        value = float(np.uint8(byte).view(FP8[gpu][which]))
        mode = FloatMode(fnuz=gpu == "gfx942")
        found = of_f32(run(meaning, {0: [0] * 64, 1: [byte | 0xABCDEF00] * 64}, 64, 1, mode)[0][0])
        assert found == value or (np.isnan(found) and np.isnan(value)), byte


def test_byte_and_pair_selection() -> None:
    word = 0x40383028  # fp8 bytes: 0.25, 0.5, 1, 2
    for byte, value in enumerate((0.25, 0.5, 1.0, 2.0)):
        assert packed_result(f"v_cvt_f32_fp8_e64 v0, v1 byte_sel:{byte}", "gfx1200", [word]) == f32(value)
    assert packed_result("v_cvt_pk_f32_fp8 v[0:1], v1.h", "gfx1200", [word]) == f32(1.0) | f32(2.0) << 32
    sdwa = "v_cvt_pk_f32_fp8_sdwa v[0:1], v1 src0_sel:WORD_1"
    assert packed_result(sdwa, "gfx950", [word]) == f32(1.0) | f32(2.0) << 32


def test_narrowing_to_pairs() -> None:
    a, b = 1.3, -0.7
    words = [f32(a), f32(b)]
    pair = [int(np.array(v, dtype=np.float32).astype(ml_dtypes.float8_e4m3fn).view(np.uint8)) for v in (a, b)]
    fp8 = pair[0] | pair[1] << 8
    assert packed_result("v_cvt_pk_fp8_f32 v0, v1, v2 op_sel:[0,0,1]", "gfx950", words) == halves(0xBEEF, fp8)
    assert packed_result("v_cvt_pk_fp8_f32 v0.l, v1, v2", "gfx1200", words) == halves(fp8, 0xDEAD)
    bf = [int(np.array(v, dtype=np.float32).astype(ml_dtypes.bfloat16).view(np.uint16)) for v in (a, b)]
    assert packed_result("v_cvt_pk_bf16_f32 v0, v1, v2", "gfx950", words) == halves(*bf)
    assert packed_result("v_cvt_pk_f16_f32 v0, v1, -v2", "gfx950", words) == halves(f16(a), f16(-b))


def test_stochastic_rounding_lands_on_a_neighbour_with_the_right_chance() -> None:
    """1.1 lies between the fp8 values 1.0 and 1.125, four fifths of the way."""
    low, high = 0x38, 0x39
    text = "v_cvt_sr_fp8_f32 v0, v1, v2 op_sel:[0,0,1,0]"
    chosen = []
    for step in range(100):
        random_bits = int((step + 0.5) / 100 * (1 << 32))
        word = packed_result(text, "gfx950", [f32(1.1), random_bits], approximate=True)
        assert word & 0xFFFF00FF == GUARD & 0xFFFF00FF
        chosen.append(word >> 8 & 0xFF)
    assert set(chosen) == {low, high}
    assert chosen.count(high) == 80


def test_others_are_left_alone() -> None:
    for text in ("v_add_f32 v0, v1, v2", "v_cvt_f32_f16 v0, v1", "v_add_f16 v0, v1, v2"):
        instruction, context = decoded(text, "gfx942")
        assert packed.meaning(instruction, context) is None


def test_results_name_their_place() -> None:
    instruction, _ = decoded("v_add_f16 v0.h, v1.l, v2.l", "gfx1100")
    result = destinations.finish(instruction, 0, Source(16, 1), "f16")
    assert (result.target, result.index, result.low, result.value.bits) == ("operand", 0, 16, 16)
    assert isinstance(result, Result)
