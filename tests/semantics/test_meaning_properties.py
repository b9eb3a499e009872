"""Meanings against Python's integers and numpy, on random and edge operands; each oracle is written by hand."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from one_lane import execute

W = 0xFFFFFFFF
D = (1 << 64) - 1
EDGES = [0, 1, 2, 3, 15, 16, 31, 32, 33, 63, 64, 127, 128, 255, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFF, 0x800000]
EDGES += [0xFFFFFF, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFE, W, 0x12345678, 0xDEADBEEF]


def i(value: int, bits: int = 32) -> int:
    """Two's complement."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def u24(value: int) -> int:
    return value & 0xFFFFFF


def i24(value: int) -> int:
    return i(value, 24)


def bytes_of(value: int) -> list[int]:
    return [value >> shift & 255 for shift in (0, 8, 16, 24)]


def reverse(value: int, bits: int) -> int:
    return int(f"{value:0{bits}b}"[::-1], 2)


def leading_sign_bits(value: int, bits: int) -> int:
    digits = f"{value:0{bits}b}"
    return next((place for place in range(1, bits) if digits[place] != digits[0]), -1)


def quads(value: int) -> int:
    return sum(1 << place for place in range(8) if value >> 4 * place & 15)


def field(value: int, low: int, width: int) -> int:
    return value >> low & ((1 << width) - 1)


def signed_field(value: int, low: int, width: int) -> int:
    return i(field(i(value), low, width), width) if width else 0


VECTOR: dict[str, Callable[..., int]] = {
    "v_add_u32_e32": lambda a, b: a + b,
    "v_sub_u32_e32": lambda a, b: a - b,
    "v_subrev_u32_e32": lambda a, b: b - a,
    "v_mul_lo_u32": lambda a, b: a * b,
    "v_mul_hi_u32": lambda a, b: a * b >> 32,
    "v_mul_hi_i32": lambda a, b: i(a) * i(b) >> 32,
    "v_mul_u32_u24_e32": lambda a, b: u24(a) * u24(b),
    "v_mul_hi_u32_u24_e32": lambda a, b: u24(a) * u24(b) >> 32,
    "v_mul_i32_i24_e32": lambda a, b: i24(a) * i24(b),
    "v_mul_hi_i32_i24_e32": lambda a, b: i24(a) * i24(b) >> 32,
    "v_mad_u32_u24": lambda a, b, c: u24(a) * u24(b) + c,
    "v_mad_i32_i24": lambda a, b, c: i24(a) * i24(b) + c,
    "v_min_u32_e32": min,
    "v_max_u32_e32": max,
    "v_min_i32_e32": lambda a, b: min(i(a), i(b)),
    "v_max_i32_e32": lambda a, b: max(i(a), i(b)),
    "v_min3_u32": min,
    "v_max3_i32": lambda a, b, c: max(i(a), i(b), i(c)),
    "v_med3_u32": lambda a, b, c: sorted((a, b, c))[1],
    "v_med3_i32": lambda a, b, c: sorted(map(i, (a, b, c)))[1],
    "v_and_b32_e32": lambda a, b: a & b,
    "v_or_b32_e32": lambda a, b: a | b,
    "v_xor_b32_e32": lambda a, b: a ^ b,
    "v_xnor_b32_e32": lambda a, b: ~(a ^ b),
    "v_not_b32_e32": lambda a: ~a,
    "v_lshlrev_b32_e32": lambda a, b: b << (a & 31),
    "v_lshrrev_b32_e32": lambda a, b: b >> (a & 31),
    "v_ashrrev_i32_e32": lambda a, b: i(b) >> (a & 31),
    "v_bfe_u32": lambda a, b, c: field(a, b & 31, c & 31),
    "v_bfe_i32": lambda a, b, c: signed_field(a, b & 31, c & 31),
    "v_bfi_b32": lambda a, b, c: (a & b) | (~a & c),
    "v_bfm_b32": lambda a, b: ((1 << (a & 31)) - 1) << (b & 31),
    "v_bfrev_b32_e32": lambda a: reverse(a, 32),
    "v_bcnt_u32_b32": lambda a, b: a.bit_count() + b,
    "v_ffbh_u32_e32": lambda a: 32 - a.bit_length() if a else -1,
    "v_ffbl_b32_e32": lambda a: (a & -a).bit_length() - 1,
    "v_ffbh_i32_e32": lambda a: leading_sign_bits(a, 32),
    "v_add3_u32": lambda a, b, c: a + b + c,
    "v_lshl_add_u32": lambda a, b, c: (a << (b & 31)) + c,
    "v_add_lshl_u32": lambda a, b, c: (a + b & W) << (c & 31),
    "v_lshl_or_b32": lambda a, b, c: a << (b & 31) | c,
    "v_and_or_b32": lambda a, b, c: a & b | c,
    "v_or3_b32": lambda a, b, c: a | b | c,
    "v_xad_u32": lambda a, b, c: (a ^ b) + c,
    "v_alignbit_b32": lambda a, b, c: (a << 32 | b) >> (c & 31),
    "v_alignbyte_b32": lambda a, b, c: (a << 32 | b) >> 8 * (c & 3),
    "v_sad_u8": lambda a, b, c: c + sum(abs(x - y) for x, y in zip(bytes_of(a), bytes_of(b), strict=True)),
    "v_msad_u8": lambda a, b, c: c + sum(abs(x - y) for x, y in zip(bytes_of(a), bytes_of(b), strict=True) if y),
    "v_sad_u32": lambda a, b, c: abs(a - b) + c,
    "v_sad_hi_u8": lambda a, b, c: (
        (sum(abs(x - y) for x, y in zip(bytes_of(a), bytes_of(b), strict=True)) << 16) + c
    ),
    "v_lerp_u8": lambda a, b, c: sum(
        (x + y + (z & 1) >> 1) << 8 * place
        for place, (x, y, z) in enumerate(zip(bytes_of(a), bytes_of(b), bytes_of(c), strict=True))
    ),
    "v_mad_u32_u16": lambda a, b, c: (a & 0xFFFF) * (b & 0xFFFF) + c,
    "v_mad_i32_i16": lambda a, b, c: i(a, 16) * i(b, 16) + c,
    "v_cvt_pk_u16_u32": lambda a, b: min(a, 0xFFFF) | min(b, 0xFFFF) << 16,
    "v_cvt_pk_i16_i32": lambda a, b: (
        (max(-0x8000, min(i(a), 0x7FFF)) & 0xFFFF) | (max(-0x8000, min(i(b), 0x7FFF)) & 0xFFFF) << 16
    ),
}  # fmt: skip

SCALAR: dict[str, Callable[..., tuple[int, bool]]] = {
    "s_add_u32": lambda a, b: (a + b, a + b > W),
    "s_sub_u32": lambda a, b: (a - b, b > a),
    "s_add_i32": lambda a, b: (a + b, not -(2**31) <= i(a) + i(b) < 2**31),
    "s_sub_i32": lambda a, b: (a - b, not -(2**31) <= i(a) - i(b) < 2**31),
    "s_min_i32": lambda a, b: (min(i(a), i(b)), i(a) < i(b)),
    "s_max_u32": lambda a, b: (max(a, b), a >= b),
    "s_and_b32": lambda a, b: (a & b, a & b != 0),
    "s_andn2_b32": lambda a, b: (a & ~b, a & ~b & W != 0),
    "s_orn2_b32": lambda a, b: (a | ~b, (a | ~b) & W != 0),
    "s_nand_b32": lambda a, b: (~(a & b), ~(a & b) & W != 0),
    "s_nor_b32": lambda a, b: (~(a | b), ~(a | b) & W != 0),
    "s_xnor_b32": lambda a, b: (~(a ^ b), ~(a ^ b) & W != 0),
    "s_lshl_b32": lambda a, b: (a << (b & 31), a << (b & 31) & W != 0),
    "s_lshr_b32": lambda a, b: (a >> (b & 31), a >> (b & 31) != 0),
    "s_ashr_i32": lambda a, b: (i(a) >> (b & 31), i(a) >> (b & 31) != 0),
    "s_bfe_u32": lambda a, b: (field(a, b & 31, b >> 16 & 127), field(a, b & 31, b >> 16 & 127) != 0),
    "s_lshl3_add_u32": lambda a, b: ((a << 3) + b, (a << 3) + b > W),
    "s_absdiff_i32": lambda a, b: (abs(i(i(a) - i(b))), (a - b) & W != 0),
    "s_abs_i32": lambda a: (abs(i(a)), a != 0),
    "s_not_b32": lambda a: (~a, a != W),
    "s_bcnt0_i32_b32": lambda a: (32 - a.bit_count(), a != W),
    "s_bcnt1_i32_b32": lambda a: (a.bit_count(), a != 0),
    "s_quadmask_b32": lambda a: (quads(a), a != 0),
    "s_wqm_b32": lambda a: (sum(15 << 4 * place for place in range(8) if a >> 4 * place & 15), a != 0),
}

COMPARED: dict[str, Callable[[int, int], bool]] = {
    "eq_u32": lambda a, b: a == b,
    "ne_u32": lambda a, b: a != b,
    "lt_u32": lambda a, b: a < b,
    "le_u32": lambda a, b: a <= b,
    "gt_u32": lambda a, b: a > b,
    "ge_u32": lambda a, b: a >= b,
    "lt_i32": lambda a, b: i(a) < i(b),
    "le_i32": lambda a, b: i(a) <= i(b),
    "gt_i32": lambda a, b: i(a) > i(b),
    "ge_i32": lambda a, b: i(a) >= i(b),
    "lt_i16": lambda a, b: i(a, 16) < i(b, 16),
    "ge_u16": lambda a, b: a & 0xFFFF >= b & 0xFFFF,
}


def operands(source: random.Random, count: int) -> list[int]:
    return [source.choice(EDGES) if source.random() < 0.6 else source.getrandbits(32) for _ in range(count)]


def arity(function: Callable[..., object], name: str) -> int:
    if function in (min, max):
        return 3 if "3" in name.split("_")[1] else 2
    return function.__code__.co_argcount


@pytest.mark.parametrize("name", VECTOR)
def test_vector_integers(name):
    function, source = VECTOR[name], random.Random(name)
    count = arity(function, name)
    text = f"{name} v0, " + ", ".join(f"v{place + 1}" for place in range(count))
    for _ in range(60):
        values = operands(source, count)
        outcome = execute(text, "gfx942", dict(enumerate(values, 1)))
        assert outcome == {0: function(*values) & W}, [hex(value) for value in values]


@pytest.mark.parametrize("name", SCALAR)
def test_scalar_integers(name):
    function, source = SCALAR[name], random.Random(name)
    count = arity(function, name)
    text = f"{name} s0, " + ", ".join(f"s{place + 1}" for place in range(count))
    for _ in range(60):
        values = operands(source, count)
        result, condition = function(*values)
        outcome = execute(text, "gfx942", dict(enumerate(values, 1)))
        assert outcome == {0: result & W, "scc": int(condition)}, [hex(value) for value in values]


@pytest.mark.parametrize("name", COMPARED)
def test_comparisons(name):
    source = random.Random(name)
    for _ in range(60):
        values = operands(source, 2)
        outcome = execute(f"v_cmp_{name}_e64 s[4:5], v1, v2", "gfx942", dict(enumerate(values, 1)))
        assert outcome == {0: int(COMPARED[name](*values))}, [hex(value) for value in values]


@pytest.mark.parametrize("gpu", ["gfx803", "gfx906", "gfx942", "gfx1030", "gfx1100", "gfx1201"])
def test_carry_chains_add_64_bits(gpu):
    """Each generation's own names for a 64-bit sum and difference."""
    low, high = {
        "gfx803": ("v_{}_u32_e32 v0, vcc, v1, v2", "v_{}_u32_e32 v0, vcc, v1, v2, vcc"),
        "gfx906": ("v_{}_co_u32_e32 v0, vcc, v1, v2", "v_{}_co_u32_e32 v0, vcc, v1, v2, vcc"),
        "gfx942": ("v_{}_co_u32_e32 v0, vcc, v1, v2", "v_{}_co_u32_e32 v0, vcc, v1, v2, vcc"),
    }.get(gpu, ("v_{}_co_u32 v0, vcc_lo, v1, v2", "v_{}_co_ci_u32_e32 v0, vcc_lo, v1, v2, vcc_lo"))
    old = gpu in ("gfx803", "gfx906", "gfx942")
    source = random.Random(gpu)
    for name, carrying, sign in (("add", "addc" if old else "add", 1), ("sub", "subb" if old else "sub", -1)):
        for _ in range(40):
            a, b = (source.choice((source.getrandbits(64), W, 1 << 32, 0, D)) for _ in range(2))
            first = execute(low.format(name), gpu, {2: a & W, 3: b & W})
            second = execute(high.format(carrying), gpu, {2: a >> 32, 3: b >> 32, 4: first[1]})
            assert second[0] << 32 | first[0] == a + sign * b & D
            assert second[1] == int(a + b > D if sign > 0 else b > a)


# --- floating point -----------------------------------------------------------------------------------------

FLOAT_EDGES = {
    np.float16: [0, 1, 0x3FF, 0x400, 0x3C00, 0x7BFF, 0x7C00, 0x7E00, 0x8000, 0xBC01, 0xFC00],
    np.float32: [0, 1, 0x7FFFFF, 0x800000, 0x3F800000, 0x477FF000, 0x7F7FFFFF, 0x7F800000, 0x7FC00000, 0x80000000],
    np.float64: [0, 1, 1 << 52, 0x3FF << 52, 0x7FEFFFFFFFFFFFFF, 0x7FF << 52, 0x7FF8 << 48, 1 << 63, 0xBFF8 << 48],
}
KINDS = {np.float16: ("f16", "v0", "v1", "v2"), np.float32: ("f32", "v0", "v1", "v2")}
KINDS[np.float64] = ("f64", "v[0:1]", "v[2:3]", "v[4:5]")


def number(bits: int, kind: type) -> np.floating:
    return np.frombuffer(bits.to_bytes(np.dtype(kind).itemsize, "little"), kind)[0]


def encoding(value: np.floating) -> int:
    return int.from_bytes(value.tobytes(), "little")


def floats(source: random.Random, kind: type) -> int:
    return source.choice(FLOAT_EDGES[kind]) if source.random() < 0.5 else source.getrandbits(8 * kind().itemsize)


def agree(bits: int, expected: np.floating) -> bool:
    if np.isnan(expected):
        return bool(np.isnan(number(bits, type(expected))))
    return bits == encoding(expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("name", "function"), [("add", np.add), ("mul", np.multiply)])
def test_sums_and_products(kind, name, function):
    suffix, *registers = KINDS[kind]
    ending = "" if kind is np.float64 else "_e32"
    source = random.Random(name)
    for _ in range(150):
        a, b = floats(source, kind), floats(source, kind)
        with np.errstate(all="ignore"):
            expected = kind(function(number(a, kind), number(b, kind)))
        outcome = execute(f"v_{name}_{suffix}{ending} {', '.join(registers)}", "gfx942", {1: a, 2: b})
        assert agree(outcome[0], expected), (hex(a), hex(b))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("name", "function"),
    [("floor", np.floor), ("ceil", np.ceil), ("trunc", np.trunc), ("rndne", np.rint), ("sqrt", np.sqrt)],
)
def test_roundings_and_roots(kind, name, function):
    suffix, *registers = KINDS[kind]
    source = random.Random(name)
    for _ in range(150):
        a = floats(source, kind)
        if name == "sqrt" and kind is np.float32 and abs(number(a, kind)) < 2.0**-126:
            continue  # v_sqrt_f32 flushes denormals
        with np.errstate(all="ignore"):
            expected = kind(function(number(a, kind)))
        outcome = execute(f"v_{name}_{suffix}_e32 {', '.join(registers[:2])}", "gfx942", {1: a})
        assert agree(outcome[0], expected), hex(a)


@pytest.mark.parametrize(
    ("name", "source_kind", "target_kind"),
    [
        ("v_cvt_f32_f16_e32 v0, v1", np.float16, np.float32),
        ("v_cvt_f16_f32_e32 v0, v1", np.float32, np.float16),
        ("v_cvt_f64_f32_e32 v[0:1], v2", np.float32, np.float64),
        ("v_cvt_f32_f64_e32 v0, v[2:3]", np.float64, np.float32),
    ],
)
def test_conversions_between_floats(name, source_kind, target_kind):
    source = random.Random(name)
    for _ in range(200):
        a = floats(source, source_kind)
        with np.errstate(all="ignore"):
            expected = target_kind(number(a, source_kind))
        assert agree(execute(name, "gfx942", {1: a})[0], expected), hex(a)


def test_conversion_to_bfloat16():
    source = random.Random(3)
    for _ in range(200):
        a, b = floats(source, np.float32), floats(source, np.float32)
        outcome = execute("v_cvt_pk_bf16_f32 v0, v1, v2", "gfx950", {1: a, 2: b})[0]
        for bits, half in ((a, outcome & 0xFFFF), (b, outcome >> 16)):
            value = number(bits, np.float32)
            if np.isnan(value):
                assert half & 0x7FFF > 0x7F80
            else:
                assert half == int.from_bytes(value.astype(ml_dtypes.bfloat16).tobytes(), "little"), hex(bits)


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [("v_cvt_i32_f32_e32 v0, v1", -(2**31), 2**31 - 1), ("v_cvt_u32_f32_e32 v0, v1", 0, W)],
)
def test_conversions_to_integers_saturate(text, low, high):
    source = random.Random(text)
    for _ in range(200):
        a = floats(source, np.float32)
        value = float(number(a, np.float32))
        clipped = 0 if math.isnan(value) else max(low, min(high, value))
        assert execute(text, "gfx942", {1: a})[0] == math.trunc(clipped) & W, hex(a)


@pytest.mark.parametrize(("text", "signed"), [("v_cvt_f32_i32_e32 v0, v1", True), ("v_cvt_f32_u32_e32 v0, v1", False)])
def test_conversions_from_integers(text, signed):
    source = random.Random(text)
    for _ in range(200):
        (a,) = operands(source, 1)
        expected = np.float32(np.int32(i(a)) if signed else np.uint32(a))
        assert execute(text, "gfx942", {1: a})[0] == encoding(expected), hex(a)
