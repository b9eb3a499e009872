"""Exact floating point against the host's (numpy), ml_dtypes, and the C library's fma."""

from __future__ import annotations

import ctypes
import ctypes.util
import math
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asmevo.semantics.softfloat import arithmetic, comparison, conversion, encodings, transcendental
from asmevo.semantics.softfloat.comparison import NanRule
from asmevo.semantics.softfloat.formats import (
    BF6,
    BF8_FNUZ,
    BF8_OCP,
    BF16,
    DEFAULT,
    F16,
    F32,
    F64,
    FP4,
    FP6,
    FP8_FNUZ,
    FP8_OCP,
    Environment,
    Format,
    Rounding,
)

NUMPY = {
    F16: (np.float16, np.uint16),
    F32: (np.float32, np.uint32),
    F64: (np.float64, np.uint64),
}
SMALL = {
    BF16: (ml_dtypes.bfloat16, np.uint16),
    FP8_OCP: (ml_dtypes.float8_e4m3fn, np.uint8),
    BF8_OCP: (ml_dtypes.float8_e5m2, np.uint8),
    FP8_FNUZ: (ml_dtypes.float8_e4m3fnuz, np.uint8),
    BF8_FNUZ: (ml_dtypes.float8_e5m2fnuz, np.uint8),
}
LIBM = ctypes.CDLL(ctypes.util.find_library("m"))
LIBM.fma.restype = ctypes.c_double
LIBM.fma.argtypes = [ctypes.c_double] * 3
LIBM.fmaf.restype = ctypes.c_float
LIBM.fmaf.argtypes = [ctypes.c_float] * 3


def edges(form: Format) -> list[int]:
    """Encodings at which something happens: zeros, denormals, one, powers, largest, infinity, NaNs."""
    one = encodings.rounded(form, 0, 1, 0)
    least = 1 << form.fraction_bits
    values = [
        0,
        1,
        2,
        least - 1,
        least,
        least + 1,
        one - 1,
        one,
        one + 1,
        one + least,
        form.largest - 1,
        form.largest,
    ]
    values += [
        form.infinity,
        form.infinity + 1,
        form.infinity | form.quiet_bit,
        form.infinity | form.quiet_bit | 5,
    ]
    return [value | sign for value in values for sign in (0, form.sign_bit)]


def samples(form: Format, count: int, seed: int) -> list[int]:
    """Edges, random encodings, and random numbers near one (where sums and products do not just overflow)."""
    random = np.random.default_rng(seed)
    width = NUMPY[form][1]
    anywhere = random.integers(0, np.iinfo(width).max, count, dtype=width, endpoint=True)
    near = random.normal(size=count).astype(NUMPY[form][0]).view(width)
    return edges(form) + [int(value) for value in np.concatenate([anywhere, near])]


def same(form: Format, ours: int, theirs: int) -> bool:
    """Equal, or both NaNs: numpy's payload is the host's matter."""
    return ours == theirs or (encodings.is_nan(form, ours) and encodings.is_nan(form, theirs))


def numpy_value(form: Format, encoding: int) -> np.generic:
    kind, width = NUMPY[form]
    return np.array([encoding], width).view(kind)[0]


def encoding_of(form: Format, value: np.generic) -> int:
    kind, width = NUMPY[form]
    return int(np.array([value], kind).view(width)[0])


BINARY = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide}


@pytest.mark.parametrize("form", NUMPY, ids=lambda form: form.name)
@pytest.mark.parametrize("name", BINARY)
def test_arithmetic_is_the_hosts(form: Format, name: str) -> None:
    left, right = samples(form, 1500, 1), samples(form, 1500, 2)[::-1]
    pairs = list(zip(left, right, strict=True)) + [(a, b) for a in edges(form) for b in edges(form)]
    kind, width = NUMPY[form]
    a, b = (np.array(side, width).view(kind) for side in zip(*pairs, strict=True))
    with np.errstate(all="ignore"):
        expected = BINARY[name](a, b).view(width)
    ours = [getattr(arithmetic, name)(form, x, y) for x, y in pairs]
    wrong = [(p, o, int(e)) for p, o, e in zip(pairs, ours, expected, strict=True) if not same(form, o, int(e))]
    assert not wrong


@pytest.mark.parametrize("form", NUMPY, ids=lambda form: form.name)
@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("square_root", np.sqrt),
        ("floor", np.floor),
        ("ceil", np.ceil),
        ("trunc", np.trunc),
        ("rint", np.rint),
    ],
)
def test_root_and_integral_are_the_hosts(form: Format, name: str, function: np.ufunc) -> None:
    directions = {"floor": 2, "ceil": 1, "trunc": 3, "rint": 0}
    values = samples(form, 2000, 3)
    kind, width = NUMPY[form]
    with np.errstate(all="ignore"):
        expected = function(np.array(values, width).view(kind)).view(width)
    for value, theirs in zip(values, expected, strict=True):
        if name == "square_root":
            ours = arithmetic.square_root(form, value)
        else:
            ours = conversion.to_integral(form, value, Rounding(directions[name]))
        assert same(form, ours, int(theirs)), hex(value)


def test_fused_is_the_c_librarys() -> None:
    for form, function in ((F32, LIBM.fmaf), (F64, LIBM.fma)):
        a, b, c = (samples(form, 1500, seed) for seed in (4, 5, 6))
        triples = list(zip(a, b[::-1], c, strict=True))
        # Sums that nearly cancel show a product rounded too early.
        near = [(x, y, arithmetic.multiply(form, x, y) ^ form.sign_bit) for x, y, _ in triples]
        for x, y, z in triples + near:
            expected = function(*(float(numpy_value(form, v)) for v in (x, y, z)))
            assert same(form, arithmetic.fused(form, x, y, z), encoding_of(form, expected)), (hex(x), hex(y), hex(z))


@pytest.mark.parametrize("form", SMALL, ids=lambda form: f"{form.name}-{form.specials.value}")
def test_conversion_to_small_formats(form: Format) -> None:
    """ml_dtypes rounds f32 to nearest even; every 8-bit value comes back."""
    kind, width = SMALL[form]
    values = samples(F32, 6000, 7)
    random = np.random.default_rng(8)
    scaled = (random.normal(size=6000) * 2.0 ** random.integers(-20, 12, 6000)).astype(np.float32)
    values += [int(value) for value in scaled.view(np.uint32)]
    with np.errstate(all="ignore"):
        expected = np.array(values, np.uint32).view(np.float32).astype(kind).view(width)
    for value, theirs in zip(values, expected, strict=True):
        ours = conversion.convert(F32, form, value, DEFAULT, DEFAULT)
        assert same(form, ours, int(theirs)), hex(value)
    every = np.arange(1 << form.bits, dtype=width)
    back = every.view(kind).astype(np.float32).view(np.uint32)
    for value, theirs in zip(every, back, strict=True):
        ours = conversion.convert(form, F32, int(value), DEFAULT, DEFAULT)
        assert same(F32, ours, int(theirs)), hex(value)


@pytest.mark.parametrize(
    ("form", "kind"),
    [
        (FP6, ml_dtypes.float6_e2m3fn),
        (BF6, ml_dtypes.float6_e3m2fn),
        (FP4, ml_dtypes.float4_e2m1fn),
    ],
)
def test_formats_without_specials(form: Format, kind: type) -> None:
    every = np.arange(1 << form.bits, dtype=np.uint8)
    back = every.view(kind).astype(np.float32).view(np.uint32)
    for value, theirs in zip(every, back, strict=True):
        assert conversion.convert(form, F32, int(value), DEFAULT, DEFAULT) == int(theirs)
    values = np.random.default_rng(9).normal(size=3000).astype(np.float32) * 3
    expected = values.astype(kind).view(np.uint8)
    for value, theirs in zip(values.view(np.uint32), expected, strict=True):
        assert conversion.convert(F32, form, int(value), DEFAULT, DEFAULT) == int(theirs)


@pytest.mark.parametrize(("source", "target"), [(s, t) for s in NUMPY for t in NUMPY if s is not t])
def test_conversion_between_host_formats(source: Format, target: Format) -> None:
    values = samples(source, 3000, 10)
    kind, width = NUMPY[source]
    to_kind, to_width = NUMPY[target]
    with np.errstate(all="ignore"):
        expected = np.array(values, width).view(kind).astype(to_kind).view(to_width)
    for value, theirs in zip(values, expected, strict=True):
        ours = conversion.convert(source, target, value, DEFAULT, DEFAULT)
        assert same(target, ours, int(theirs)), hex(value)


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.sampled_from(["add", "multiply", "divide"]))
def test_directed_rounding_brackets_the_exact_value(a: int, b: int, name: str) -> None:
    """Up and down enclose the exact rational value, differ by at most one step, and zero is the inner one."""
    if not all(is_finite(F32, value) for value in (a, b)) or (name == "divide" and encodings.number(F32, b).zero):
        return
    x, y = fraction(F32, a), fraction(F32, b)
    exact = {"add": x + y, "multiply": x * y}[name] if name != "divide" else x / y
    results = {r: getattr(arithmetic, name)(F32, a, b, Environment(r)) for r in Rounding}
    if not all(is_finite(F32, value) for value in results.values()):
        return
    up, down = (
        fraction(F32, results[Rounding.PLUS_INFINITY]),
        fraction(F32, results[Rounding.MINUS_INFINITY]),
    )
    assert down <= exact <= up
    keys = [comparison.ordering_key(F32, results[r]) for r in (Rounding.PLUS_INFINITY, Rounding.MINUS_INFINITY)]
    assert exact == 0 or keys[0] - keys[1] == (up != down)
    inner = fraction(F32, results[Rounding.ZERO])
    assert inner == (down if exact > 0 else up)
    nearest = fraction(F32, results[Rounding.NEAREST_EVEN])
    assert abs(nearest - exact) == min(up - exact, exact - down)


def is_finite(form: Format, value: int) -> bool:
    return not encodings.is_nan(form, value) and not encodings.is_infinite(form, value)


def fraction(form: Format, value: int) -> Fraction:
    x = encodings.number(form, value)
    return Fraction(x.signed) * Fraction(2) ** x.exponent


TRANSCENDENTAL = {
    "exp2": np.exp2,
    "log2": np.log2,
    "reciprocal": lambda x: 1 / x,
    "reciprocal_root": lambda x: 1 / np.sqrt(x),
}


def named(name: str) -> Any:
    """A unary operation."""
    return getattr(transcendental, name, None) or getattr(arithmetic, name)


@pytest.mark.parametrize("name", TRANSCENDENTAL)
def test_transcendental_f32_against_long_double(name: str) -> None:
    """The host's 64-bit significand, rounded to f32, is the correctly rounded value but for near ties."""
    values = [value for value in samples(F32, 1500, 11) if is_finite(F32, value)]
    random = np.random.default_rng(12)
    values += [int(v) for v in random.uniform(-160, 160, 1500).astype(np.float32).view(np.uint32)]
    with np.errstate(all="ignore"):
        wide = TRANSCENDENTAL[name](np.array(values, np.uint32).view(np.float32).astype(np.longdouble))
        expected = wide.astype(np.float32).view(np.uint32)
    for value, theirs in zip(values, expected, strict=True):
        assert same(F32, named(name)(F32, value), int(theirs)), hex(value)


@pytest.mark.parametrize("name", ["sine", "cosine"])
def test_circular_functions_take_revolutions(name: str) -> None:
    function = {"sine": math.sin, "cosine": math.cos}[name]
    for value in np.random.default_rng(13).uniform(-4, 4, 2000).astype(np.float32):
        ours = encodings.number(F64, getattr(transcendental, name)(F64, encoding_of(F64, float(value))))
        turn = math.remainder(float(value), 1.0)
        assert math.isclose(ours.signed * 2.0**ours.exponent, function(2 * math.pi * turn), abs_tol=1e-15)
    exact = {"sine": [0, 1, 0, -1], "cosine": [1, 0, -1, 0]}[name]
    for quarter, expected in enumerate(exact * 3):
        got = encodings.number(F32, getattr(transcendental, name)(F32, encoding_of(F32, quarter / 4)))
        assert got.signed * 2.0**got.exponent == expected


@pytest.mark.parametrize("name", ["exp2", "log2", "sine", "cosine", "square_root", "reciprocal_root"])
def test_f64_within_one_unit_of_long_double(name: str) -> None:
    pi = np.longdouble("3.14159265358979323846264338")
    functions = {
        "exp2": np.exp2,
        "log2": np.log2,
        "sine": lambda x: np.sin(2 * pi * x),
        "cosine": lambda x: np.cos(2 * pi * x),
        "square_root": np.sqrt,
        "reciprocal_root": lambda x: 1 / np.sqrt(x),
    }
    for value in np.random.default_rng(14).uniform(0.01, 0.24, 500):
        ours = named(name)(F64, encoding_of(F64, value))
        theirs = encoding_of(F64, functions[name](np.longdouble(value)))
        assert abs(ours - theirs) <= 1, value


def test_extreme_arguments_of_transcendental_functions_end() -> None:
    for form in NUMPY:
        for value in edges(form):
            for name in ("exp2", "log2", "sine", "cosine"):
                getattr(transcendental, name)(form, value)


def test_nan_payloads_stay_and_become_quiet() -> None:
    signaling, other = 0x7F800123, 0xFFC00456
    assert arithmetic.add(F32, signaling, other) == 0x7FC00123
    assert arithmetic.fused(F32, 0x3F800000, other, signaling) == other
    assert arithmetic.subtract(F32, 0x3F800000, other) == other
    assert arithmetic.add(F32, 0x7F800000, 0xFF800000) == 0xFFC00000  # as V_DIV_FIXUP_F32 writes invalid results
    assert conversion.convert(F32, F16, 0x7F802000, DEFAULT, DEFAULT) == 0x7E01


def test_minimum_and_maximum_rules() -> None:
    quiet, signaling, one = 0x7FC00001, 0x7F800001, 0x3F800000
    assert comparison.minimum(F32, quiet, one, NanRule.NUMBER) == one
    assert comparison.minimum(F32, one, signaling, NanRule.NUMBER) == one
    assert comparison.minimum(F32, one, signaling, NanRule.SIGNALING) == quiet
    assert comparison.maximum(F32, one, quiet, NanRule.PROPAGATE) == quiet
    assert comparison.minimum(F32, 0, 0x80000000, NanRule.NUMBER) == 0x80000000
    assert comparison.maximum(F32, 0x80000000, 0, NanRule.NUMBER) == 0


def test_denormals_are_flushed_with_their_sign() -> None:
    flush_in, flush_out = Environment(flush_inputs=True), Environment(flush_outputs=True)
    assert arithmetic.add(F32, 0x80000001, 0x80000001, flush_in) == 0x80000000
    assert arithmetic.multiply(F32, 0x80800000, 0x3F000000, flush_out) == 0x80000000
    assert arithmetic.multiply(F32, 0x80800000, 0x3F000000) == 0x80400000


def test_overflow_by_rounding_mode() -> None:
    large = F16.largest
    for rounding, positive, negative in (
        (Rounding.NEAREST_EVEN, 0x7C00, 0xFC00),
        (Rounding.PLUS_INFINITY, 0x7C00, 0xFBFF),
        (Rounding.MINUS_INFINITY, 0x7BFF, 0xFC00),
        (Rounding.ZERO, 0x7BFF, 0xFBFF),
    ):
        assert arithmetic.add(F16, large, large, Environment(rounding)) == positive
        assert arithmetic.add(F16, large | 0x8000, large | 0x8000, Environment(rounding)) == negative
    assert arithmetic.add(F16, large, large, Environment(saturate=True)) == large


@settings(max_examples=200)
@given(st.integers(0, 2**32 - 1), st.integers(0, 2**20 - 1))
def test_stochastic_rounding_lands_beside_the_value(value: int, random: int) -> None:
    """Result is the value cut towards zero or one step further, and is monotone in the random bits."""
    if not is_finite(F32, value) or abs(fraction(F32, value)) > 57344:  # the largest of E5M2
        return
    down = conversion.convert(F32, BF8_OCP, value, DEFAULT, Environment(Rounding.ZERO))
    got = conversion.convert_stochastic(F32, BF8_OCP, value, random, 20, DEFAULT, DEFAULT)
    assert got - down in (0, 1)
    if random == 0:
        assert got == down


def test_stochastic_rounding_is_the_pseudocodes_sum() -> None:
    """V_CVT_SR_FP8_F32: the random bits are added to the 20 dropped fraction bits."""
    assert conversion.convert_stochastic(F32, FP8_OCP, 0x3F800001, 0xFFFFF, 20, DEFAULT, DEFAULT) == 0x39
    assert conversion.convert_stochastic(F32, FP8_OCP, 0x3F800001, 0xFFFFE, 20, DEFAULT, DEFAULT) == 0x38


@given(st.floats(width=32), st.integers(-300, 300))
def test_scaling_by_a_power(value: float, power: int) -> None:
    if math.isnan(value):
        return
    # The f64 product is exact here, so numpy rounds once as well.
    with np.errstate(all="ignore"):
        expected = np.ldexp(np.float64(value), power).astype(np.float32)
    assert arithmetic.scale_by_power(F32, encoding_of(F32, value), power) == encoding_of(F32, expected)


@given(st.floats(width=32))
def test_frexp_is_pythons(value: float) -> None:
    if math.isnan(value) or math.isinf(value):
        return
    mantissa, exponent = math.frexp(value)
    encoding = encoding_of(F32, value)
    assert arithmetic.fraction_exponent(F32, encoding) == exponent
    assert arithmetic.fraction_mantissa(F32, encoding) == encoding_of(F32, mantissa)


def test_to_integer_saturates() -> None:
    def convert(value: float) -> int:
        return conversion.to_integer(F32, encoding_of(F32, value), -(2**31), 2**31 - 1)

    assert [convert(v) for v in (1.9, -1.9, 3e9, -3e9, math.inf, -math.inf, math.nan)] == [
        1,
        -1,
        2**31 - 1,
        -(2**31),
        2**31 - 1,
        -(2**31),
        0,
    ]


def test_fraction_stays_below_one() -> None:
    assert arithmetic.fractional_part(F32, encoding_of(F32, -1e-10)) == 0x3F7FFFFF
    assert arithmetic.fractional_part(F32, encoding_of(F32, -0.25)) == encoding_of(F32, 0.75)
    assert encodings.is_nan(F32, arithmetic.fractional_part(F32, F32.infinity))
