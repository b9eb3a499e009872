"""The functions that pseudocode calls, on typed values.

Three kinds: those with a rule of their own (`signext`, `isNAN`, ...), conversions by name (`f32_to_f16`,
`u32_to_f32`, `bf8_to_f32_scale`), and operations of the expression form called by their own
name (`fmin_ieee(a, b)`), which only texts of `data/names.yaml` do. Instructions called as functions
(`v_max_f32(a, b)`) are the interpreter's matter.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from asmevo.semantics import building as build
from asmevo.semantics.expression import FORMATS, OPERATIONS, Expr, Op
from asmevo.semantics.values import (
    MeaninglessError,
    Value,
    arithmetic,
    as_bits,
    float_constant,
    in_format,
    tested,
    unsigned,
)

_FIELDS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}
"""Exponent and fraction bits."""


def apply(name: str, arguments: list[Value], rounding: str = "") -> Value | None:
    """The value of a call; None when there is no function of that name.

    `rounding` is "rtz" while pseudocode has set ROUND_MODE to ROUND_TOWARD_ZERO, "rne" for ROUND_NEAREST_EVEN
    and "" for the wave's own mode. Raises MeaninglessError for arguments that the function does not take.
    """
    known = _FUNCTIONS.get(name)
    if known is not None:
        return known(*arguments)
    conversion = _CONVERSION.match(name)
    if conversion is not None and len(arguments) == 1:
        return _converted(conversion[1], conversion[2], arguments[0], rounding)
    scaled = _SCALED.match(name)
    if scaled is not None:
        return _scaled(scaled[1], scaled[2], arguments, stochastic=scaled[3] is not None)
    if name in OPERATIONS and len(arguments) == OPERATIONS[name]:
        return _operation(name, arguments)
    return None


# --- operations by their own name ---------------------------------------------------------------------------

_ONE_BIT = re.compile(r"^f(is_|o(eq|ne|lt|le|gt|ge)$|unord$|ord$)")


def _operation(name: str, arguments: list[Value]) -> Value:
    first = arguments[0]
    if not name.startswith("f"):
        kind = "i" if first.kind == "i" else "u"
        return Value(kind, Op(first.bits, name, tuple(each.expr for each in arguments)))
    if not first.is_float:
        raise MeaninglessError(f"{name} of an integer")
    arguments = [in_format(each, first.format) if each.is_float else each for each in arguments]
    expressions = tuple(each.expr for each in arguments)
    if _ONE_BIT.match(name):
        return unsigned(Op(1, name, expressions, first.format))
    if name == "ffrexp_exp":
        return Value("i", Op(32, name, expressions, first.format))
    return _float(name, first.format, *expressions)


def _float(name: str, format: str, *arguments: Expr) -> Value:
    result = format.rpartition(">")[2]
    return Value("f", Op(FORMATS[result], name, arguments, format), result)


def _unary_float(name: str) -> Callable[[Value], Value]:
    def function(value: Value) -> Value:
        return _float(name, _demand_float(value).format, value.expr)

    return function


def _demand_float(value: Value) -> Value:
    if not value.is_float:
        raise MeaninglessError("an integer where a float is wanted")
    return value


# --- floats -------------------------------------------------------------------------------------------------


def _fma(a: Value, b: Value, c: Value) -> Value:
    format = max((a, b, c), key=lambda each: 0 if each.number is not None else each.bits).format
    a, b, c = (in_format(_demand_float(each), format) for each in (a, b, c))
    return _float("fma", format, a.expr, b.expr, c.expr)


def _power(base: Value, exponent: Value) -> Value:
    if base.number != 2.0:
        raise MeaninglessError("a power of another base than 2")
    return _float("fexp2", exponent.format, exponent.expr)


def _ldexp(value: Value, exponent: Value) -> Value:
    return _float("fldexp", _demand_float(value).format, value.expr, as_bits(exponent, 32))


def _absolute(value: Value) -> Value:
    """Of a widened float the narrow one's, widened: so a later cast back still finds it."""
    if not value.is_float:
        return Value(value.kind, Op(value.bits, "abs", (value.expr,)))
    narrow = tested(value)
    return in_format(_float("fabs", narrow.format, narrow.expr), value.format)


def _quieted(value: Value) -> Value:
    narrow = tested(_demand_float(value))
    return in_format(_float("fquiet", narrow.format, narrow.expr), value.format)


def _is_nan(value: Value) -> Value:
    narrow = tested(_demand_float(value))
    return unsigned(Op(1, "fis_nan", (narrow.expr,), narrow.format))


def _is_signaling(value: Value) -> Value:
    narrow = tested(_demand_float(value))
    return unsigned(Op(1, "fis_snan", (narrow.expr,), narrow.format))


def _is_quiet(value: Value) -> Value:
    return unsigned(build.integer("and", _is_nan(value).expr, build.negated(_is_signaling(value).expr)))


def _sign(value: Value) -> Value:
    narrow = tested(_demand_float(value))
    return unsigned(build.part(narrow.expr, narrow.bits - 1, 1))


def _exponent(value: Value) -> Value:
    """The biased exponent field."""
    narrow = tested(_demand_float(value))
    width, fraction = _FIELDS[narrow.format]
    return Value("i", build.extended(build.part(narrow.expr, fraction, width), 32, False))


_SEGMENT_BITS, _TWO_OVER_PI_BITS = 53, 1201
"""V_TRIG_PREOP_F64 takes 53 bits out of the first 1201 of 2/pi."""


@cache
def two_over_pi() -> int:
    """The first 1201 bits of 2/pi, by Machin's formula: pi = 16 atan(1/5) - 4 atan(1/239)."""
    one = 1 << (_TWO_OVER_PI_BITS + 64)

    def arctangent_of_inverse(number: int) -> int:
        term, total, place = one // number, 0, 1
        while term:
            total += term // place if place % 4 == 1 else -(term // place)
            term //= number * number
            place += 2
        return total

    pi = 16 * arctangent_of_inverse(5) - 4 * arctangent_of_inverse(239)
    return 2 * one * one // pi >> 64


def _two_over_pi_from(shift: Value) -> Value:
    """53 bits of 2/pi behind the first `shift` ones, as an integer of 64 bits."""
    shifted = Op(_TWO_OVER_PI_BITS, "shl", (build.constant(_TWO_OVER_PI_BITS, two_over_pi()), as_bits(shift, 32)))
    segment = build.part(shifted, _TWO_OVER_PI_BITS - _SEGMENT_BITS, _SEGMENT_BITS)
    return unsigned(build.extended(segment, 64, False))


# --- integers -----------------------------------------------------------------------------------------------


def _sign_extended(value: Value) -> Value:
    return Value("i", value.expr)


def _sign_extended_from(value: Value, width: Value) -> Value:
    """`width` low bits as a signed number; a width of 0 or of all bits and more leaves the value."""
    bits = value.bits
    top = arithmetic("-", Value("u", as_bits(width, bits)), Value("u", build.constant(bits, 1))).expr
    sign = build.integer("shl", build.constant(bits, 1), top)
    return Value("i", build.integer("sub", build.integer("xor", value.expr, sign), sign))


def _bit_count(value: Value) -> Value:
    counted = Op(value.bits, "popcount", (value.expr,))
    return unsigned(build.extended(counted, 32, False))


def _leading(name: str) -> Callable[[Value], Value]:
    """Counts zeros from one end; -1 when there is no one."""

    def function(value: Value) -> Value:
        counted = build.extended(Op(value.bits, name, (value.expr,)), 32, False)
        none = build.compared("eq", value.expr, build.constant(value.bits, 0))
        return Value("i", build.selected(none, build.constant(32, -1), counted))

    return function


def _sign_length(value: Value) -> Value:
    """Place of the first bit below the top that differs from it, counted from the top; -1 when none does."""
    bits = value.bits
    spread = build.integer("ashr", value.expr, build.constant(32, bits - 1))
    return _leading("ctlz")(unsigned(build.integer("xor", value.expr, spread)))


# --- conversions --------------------------------------------------------------------------------------------

_KIND = r"(f16|f32|f64|bf16|fp8|bf8|fp6|bf6|fp4|[ui]\d+)"
_CONVERSION = re.compile(rf"^(?:v_cvt_)?{_KIND}_to_({_KIND}|snorm|unorm)$")


def _converted(source: str, target: str, value: Value, rounding: str) -> Value:
    if target in ("snorm", "unorm"):
        return _normalised(value, source, target == "snorm")
    if source in FORMATS and target in FORMATS:
        return _float_to_float(value, source, target, rounding)
    if source in FORMATS:
        bits, signed = int(target[1:]), target[0] == "i"
        name = "f_to_sint" if signed else "f_to_uint"
        return Value(target[0], Op(bits, name, (value.expr,), source))
    if target in FORMATS:
        name = "sint_to_f" if source[0] == "i" else "uint_to_f"
        return _float(name, target, as_bits(value, int(source[1:])))
    return _integer_to_integer(value, source, target)


def _float_to_float(value: Value, source: str, target: str, rounding: str) -> Value:
    name = "fconvert_rtz" if rounding == "rtz" else "fconvert"
    converted = Op(FORMATS[target], name, (build.part(value.expr, 0, FORMATS[source]),), f"{source}>{target}")
    return Value("f", converted, target)


_SCALED = re.compile(rf"^{_KIND}_to_{_KIND}(_sr)?_scale$")
_WIDE = frozenset({"f16", "bf16", "f32"})
_SCALE_BIAS = 127


def _scaled(source: str, target: str, arguments: list[Value], stochastic: bool) -> Value:
    """V_CVT_SCALEF32: a narrow number times the scale, or a wide one divided by it and then rounded once.

    The scale is a biased exponent, so scaling in single precision is exact unless the result is far below every
    narrow format's smallest number. With `stochastic` the second argument holds the random bits.
    """
    value, scale = arguments[0], arguments[-1]
    wide = _float_to_float(value, source, "f32", "") if source != "f32" else Value("f", value.expr, "f32")
    biased, bias = Value("i", build.extended(scale.expr, 32, False)), Value("i", build.constant(32, _SCALE_BIAS))
    power = arithmetic("-", *((bias, biased) if source in _WIDE else (biased, bias)))
    moved = _ldexp(wide, power)
    if target == "f32":
        return moved
    if stochastic:
        return _float("fconvert_sr", f"f32>{target}", moved.expr, arguments[1].expr)
    return _float_to_float(moved, "f32", target, "")


def _integer_to_integer(value: Value, source: str, target: str) -> Value:
    """Widening keeps the value; narrowing stops at the ends of the range (V_CVT_PK_U16_U32 and its kind)."""
    width, signed = int(target[1:]), target[0] == "i"
    if width >= int(source[1:]):
        return Value(target[0], build.extended(value.expr, width, source[0] == "i"))
    if signed:
        low, high = build.constant(value.bits, -(1 << (width - 1))), build.constant(value.bits, (1 << (width - 1)) - 1)
        bounded = Op(value.bits, "smax", (Op(value.bits, "smin", (value.expr, high)), low))
    else:
        bounded = Op(value.bits, "umin", (value.expr, build.constant(value.bits, (1 << width) - 1)))
    return Value(target[0], build.part(bounded, 0, width))


def _normalised(value: Value, source: str, signed: bool) -> Value:
    """x in [-1, 1] or [0, 1] scaled to the largest 16-bit integer and rounded to nearest, even on a tie."""
    wide = in_format(Value("f", value.expr, source), "f32")
    scale = float_constant(32767.0 if signed else 65535.0, "f32")
    product = _float("frint", "f32", arithmetic("*", wide, scale).expr)
    least, most = float_constant(-32767.0 if signed else 0.0, "f32"), scale
    bounded = Op(32, "fmin", (Op(32, "fmax", (product.expr, least.expr), "f32"), most.expr), "f32")
    whole = Op(16, "f_to_sint" if signed else "f_to_uint", (bounded,), "f32")
    is_nan = Op(1, "fis_nan", (wide.expr,), "f32")
    return Value("i" if signed else "u", build.selected(is_nan, build.constant(16, 0), whole))


def _to_integer16(signed: bool) -> Callable[[Value], Value]:
    def function(value: Value) -> Value:
        return _converted("f32", "i16" if signed else "u16", value, "")

    return function


_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "fma": _fma,
    "pow": _power,
    "ldexp": _ldexp,
    "trunc": _unary_float("ftrunc"),
    "floor": _unary_float("ffloor"),
    "fract": _unary_float("ffract"),
    "sqrt": _unary_float("fsqrt"),
    "log2": _unary_float("flog2"),
    "abs": _absolute,
    "sign": _sign,
    "exponent": _exponent,
    "twoOverPiFrom": _two_over_pi_from,
    "isNAN": _is_nan,
    "isSignalNAN": _is_signaling,
    "isQuietNAN": _is_quiet,
    "cvtToQuietNAN": _quieted,
    "signext": _sign_extended,
    "signext_from_bit": _sign_extended_from,
    "bitCount": _bit_count,
    "leadingZeros": _leading("ctlz"),
    "trailingZeros": _leading("cttz"),
    "signLength": _sign_length,
    "v_cvt_i16_f32": _to_integer16(True),
    "v_cvt_u16_f32": _to_integer16(False),
}
