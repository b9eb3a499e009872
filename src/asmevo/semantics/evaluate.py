"""Evaluates expressions on Python integers: the reference for compiled code and for the solver.

Idea. `evaluate` walks an expression from its leaves, each node once (nodes are shared by identity), and gives the
unsigned integer of `bits` bits that the expression stands for in one lane. Leaves ask a `LaneState`. Floating
point is `softfloat`, hence exact; nothing here uses the host's floating point.

What the operations mean where OPERATIONS leaves a choice:

- `udiv`/`sdiv` by zero give all ones, `urem`/`srem` the dividend; the most negative number by -1 gives itself and
  rest 0. (The hardware has no integer division; a pseudocode that divides guards against it.)
- `popcount`, `ctlz`, `cttz` have the node's width; of zero `ctlz` and `cttz` give the operand's width.
- Shift amounts are unsigned and of any width; the width or more gives 0, or the sign for `ashr`.
- Comparisons of integers take operands of one width and give 1 bit.
- `zext`/`sext` to a narrower width cut.
- `fmin`/`fmax`: the number if one operand is a NaN; `fmin_ieee`/`fmax_ieee`: the same, but a signaling NaN is
  given back, quieted; `fminimum`/`fmaximum` give NaNs back. In all of them -0 is below +0 and input denormals are
  flushed as the mode says; comparisons flush likewise.
- `fclamp` holds in [0, 1]; a NaN gives 0 with DX10_CLAMP, else a quiet NaN. -0 gives +0.
- `fsin`/`fcos` take revolutions: sin(2 pi x). They, `fexp2`, `flog2`, `frcp`, `frsq` and `fsqrt` are correctly
  rounded to the nearest in every mode; their f32 forms flush denormals.
- `fmad` rounds twice, `fma` once.
- `fldexp`'s power is a signed integer of any width. `ffrexp_exp` is 0 for zero, infinity and NaN.
- `fexponent` and `fmantissa` are the raw fields (biased exponent, fraction without the implicit bit).
- `fis_*` and `fsign` look at the encoding only: no denormal is flushed.
- `f_to_sint`/`f_to_uint` cut towards zero and saturate at the node's width; a NaN gives 0.
- `fconvert` rounds as the mode of the result's format says, `fconvert_rtz` towards zero. `fconvert_sr(x, r)` cuts
  the magnitude after adding r / 2**(width of r) units in the last place of the result's format.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from asmevo.semantics.expression import (
    Concat,
    Const,
    Expr,
    Implicit,
    Loaded,
    MaskBit,
    MatrixProduct,
    Op,
    OtherLane,
    Select,
    Slice,
    Source,
    children,
)
from asmevo.semantics.float_mode import IEEE_MODE, FloatMode
from asmevo.semantics.softfloat import arithmetic, comparison, conversion, encodings, transcendental
from asmevo.semantics.softfloat.comparison import NanRule
from asmevo.semantics.softfloat.formats import Environment, Format, Rounding


class LaneState(Protocol):
    """What one lane sees. All values are unsigned integers of the asked width."""

    def source(self, index: int, low: int, bits: int) -> int:
        """`bits` bits of printed operand `index` from bit `low` on."""

    def other_lane(self, index: int, low: int, bits: int, lane: int) -> int:
        """The same of another lane; `lane` is not yet reduced by the wave size."""

    def implicit(self, name: str, bits: int) -> int:
        """A register of `expression.Implicit`."""

    def mask_bit(self, index: int) -> int:
        """This lane's bit of printed operand `index`."""

    def loaded(self, access: int, bits: int) -> int:
        """What memory access `access` gave this lane."""


def evaluate(
    expression: Expr, state: LaneState, mode: FloatMode = IEEE_MODE, memo: dict[int, int] | None = None
) -> int:
    """The value of an expression in one lane, 0 <= value < 2**bits.

    `memo` (node identity -> value) may be shared by expressions of one instruction in one lane. Raises KeyError
    for an operation that is not in OPERATIONS, and what `state` raises.
    """
    values: dict[int, int] = {} if memo is None else memo
    # A stack of its own: pseudocode loops unroll into expressions deeper than Python's.
    waiting = [expression]
    while waiting:
        node = waiting[-1]
        if id(node) in values:
            waiting.pop()
            continue
        missing = [child for child in children(node) if id(child) not in values]
        if missing:
            waiting.extend(missing)
            continue
        values[id(node)] = _value(node, state, mode, values)
        waiting.pop()
    return values[id(expression)]


def _value(node: Expr, state: LaneState, mode: FloatMode, values: dict[int, int]) -> int:
    match node:
        case Const():
            return node.value
        case Source():
            return state.source(node.index, node.low, node.bits)
        case OtherLane():
            return state.other_lane(node.index, node.low, node.bits, values[id(node.lane)])
        case Implicit():
            return state.implicit(node.name, node.bits)
        case MaskBit():
            return state.mask_bit(node.index)
        case Loaded():
            return state.loaded(node.access, node.bits)
        case Select():
            return values[id(node.then)] if values[id(node.condition)] else values[id(node.other)]
        case Slice():
            return values[id(node.value)] >> node.low & _ones(node.bits)
        case Concat():
            return _concatenated(node, values)
        case Op():
            return apply(node, tuple(values[id(argument)] for argument in node.args), mode)
        case MatrixProduct():
            return _matrix_product(node, state, mode)
        case _:
            raise TypeError(f"no rule to evaluate {type(node).__name__}")


def _matrix_product(node: MatrixProduct, state: LaneState, mode: FloatMode) -> int:
    from asmevo.semantics.matrix_definition import evaluate_product

    return evaluate_product(node, state.implicit("lane", 32), state.other_lane, mode.fnuz)


def _concatenated(node: Concat, values: dict[int, int]) -> int:
    total, low = 0, 0
    for part in node.parts:
        total |= values[id(part)] << low
        low += part.bits
    return total


def apply(node: Op, arguments: tuple[int, ...], mode: FloatMode = IEEE_MODE) -> int:
    """The value of one operation on given arguments. Raises KeyError for an unknown operation."""
    integer = _INTEGER.get(node.name)
    if integer is not None:
        return integer(node, *arguments) & _ones(node.bits)
    if ">" in node.format:
        return _CONVERSION[node.name](node, mode, *arguments)
    if node.name in _SCALAR_TESTS:
        return _SCALAR_TESTS[node.name](mode.format(node.format), arguments[0])
    return _FLOAT[node.name](node, _Float(mode, node.format), *arguments)


def _ones(bits: int) -> int:
    return (1 << bits) - 1


# --- integers --------------------------------------------------------------------------------------------


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> bits - 1 else value


def _signed_arguments(node: Op, *arguments: int) -> tuple[int, ...]:
    return tuple(_signed(value, part.bits) for value, part in zip(arguments, node.args, strict=True))


def _shift_left(node: Op, a: int, amount: int) -> int:
    return a << amount if amount < node.bits else 0


def _shift_right(node: Op, a: int, amount: int) -> int:
    return a >> amount if amount < node.bits else 0


def _shift_right_signed(node: Op, a: int, amount: int) -> int:
    return _signed(a, node.args[0].bits) >> min(amount, node.bits)


def _divide(node: Op, a: int, b: int) -> int:
    return a // b if b else -1


def _divide_signed(node: Op, a: int, b: int) -> int:
    x, y = _signed_arguments(node, a, b)
    if y == 0:
        return -1
    return -(abs(x) // abs(y)) if (x < 0) != (y < 0) else abs(x) // abs(y)


def _rest(node: Op, a: int, b: int) -> int:
    return a % b if b else a


def _rest_signed(node: Op, a: int, b: int) -> int:
    x, y = _signed_arguments(node, a, b)
    if y == 0:
        return x
    return -(abs(x) % abs(y)) if x < 0 else abs(x) % abs(y)


def _smulh(node: Op, a: int, b: int) -> int:
    x, y = _signed_arguments(node, a, b)
    return x * y >> node.bits


def _slt(node: Op, a: int, b: int) -> int:
    x, y = _signed_arguments(node, a, b)
    return int(x < y)


def _sle(node: Op, a: int, b: int) -> int:
    x, y = _signed_arguments(node, a, b)
    return int(x <= y)


def _smin(node: Op, a: int, b: int) -> int:
    return min(_signed_arguments(node, a, b))


def _smax(node: Op, a: int, b: int) -> int:
    return max(_signed_arguments(node, a, b))


def _trailing_zeros(node: Op, a: int) -> int:
    return (a & -a).bit_length() - 1 if a else node.args[0].bits


def _reversed(node: Op, a: int) -> int:
    return int(f"{a:0{node.bits}b}"[::-1], 2)


_INTEGER: dict[str, Callable[..., int]] = {
    "add": lambda node, a, b: a + b,
    "sub": lambda node, a, b: a - b,
    "mul": lambda node, a, b: a * b,
    "umulh": lambda node, a, b: a * b >> node.bits,
    "smulh": _smulh,
    "udiv": _divide,
    "urem": _rest,
    "sdiv": _divide_signed,
    "srem": _rest_signed,
    "and": lambda node, a, b: a & b,
    "or": lambda node, a, b: a | b,
    "xor": lambda node, a, b: a ^ b,
    "not": lambda node, a: ~a,
    "neg": lambda node, a: -a,
    "shl": _shift_left,
    "lshr": _shift_right,
    "ashr": _shift_right_signed,
    "eq": lambda node, a, b: int(a == b),
    "ne": lambda node, a, b: int(a != b),
    "ult": lambda node, a, b: int(a < b),
    "ule": lambda node, a, b: int(a <= b),
    "slt": _slt,
    "sle": _sle,
    "umin": lambda node, a, b: min(a, b),
    "umax": lambda node, a, b: max(a, b),
    "smin": _smin,
    "smax": _smax,
    "zext": lambda node, a: a,
    "sext": lambda node, a: _signed(a, node.args[0].bits),
    "popcount": lambda node, a: a.bit_count(),
    "ctlz": lambda node, a: node.args[0].bits - a.bit_length(),
    "cttz": _trailing_zeros,
    "bitreverse": _reversed,
    "abs": lambda node, a: abs(_signed(a, node.bits)),
}


# --- floating point --------------------------------------------------------------------------------------


class _Float:
    """A format with the environments its operations run in."""

    __slots__ = ("env", "form", "mode", "name")

    def __init__(self, mode: FloatMode, name: str) -> None:
        self.mode = mode
        self.name = name
        self.form: Format = mode.format(name)
        self.env: Environment = mode.environment(name)

    @property
    def special(self) -> Environment:
        return self.mode.special_environment(self.name)


def _fmad(node: Op, fp: _Float, a: int, b: int, c: int) -> int:
    env = fp.mode.multiply_add_environment(fp.name)
    a, b, c = (encodings.flushed(fp.form, value, env.flush_inputs) for value in (a, b, c))
    return arithmetic.add(fp.form, arithmetic.multiply(fp.form, a, b, env), c, env)


def _compare(accepted: tuple[int | None, ...]) -> Callable[..., int]:
    return lambda node, fp, a, b: int(comparison.compare(fp.form, a, b, fp.env) in accepted)


def _extreme(function: Callable[..., int], rule: NanRule) -> Callable[..., int]:
    return lambda node, fp, a, b: function(fp.form, a, b, rule, fp.env)


def _integral(rounding: Rounding) -> Callable[..., int]:
    return lambda node, fp, a: conversion.to_integral(fp.form, a, rounding, fp.env)


_FLOAT: dict[str, Callable[..., int]] = {
    "fadd": lambda node, fp, a, b: arithmetic.add(fp.form, a, b, fp.env),
    "fsub": lambda node, fp, a, b: arithmetic.subtract(fp.form, a, b, fp.env),
    "fmul": lambda node, fp, a, b: arithmetic.multiply(fp.form, a, b, fp.env),
    "fma": lambda node, fp, a, b, c: arithmetic.fused(fp.form, a, b, c, fp.env),
    "fmad": _fmad,
    "fdiv": lambda node, fp, a, b: arithmetic.divide(fp.form, a, b, fp.env),
    "fsqrt": lambda node, fp, a: arithmetic.square_root(fp.form, a, fp.special),
    "frcp": lambda node, fp, a: arithmetic.reciprocal(fp.form, a, fp.special),
    "frsq": lambda node, fp, a: arithmetic.reciprocal_root(fp.form, a, fp.special),
    "fexp2": lambda node, fp, a: transcendental.exp2(fp.form, a, fp.special),
    "flog2": lambda node, fp, a: transcendental.log2(fp.form, a, fp.special),
    "fsin": lambda node, fp, a: transcendental.sine(fp.form, a, fp.special),
    "fcos": lambda node, fp, a: transcendental.cosine(fp.form, a, fp.special),
    "fmin": _extreme(comparison.minimum, NanRule.NUMBER),
    "fmax": _extreme(comparison.maximum, NanRule.NUMBER),
    "fmin_ieee": _extreme(comparison.minimum, NanRule.SIGNALING),
    "fmax_ieee": _extreme(comparison.maximum, NanRule.SIGNALING),
    "fminimum": _extreme(comparison.minimum, NanRule.PROPAGATE),
    "fmaximum": _extreme(comparison.maximum, NanRule.PROPAGATE),
    "ftrunc": _integral(Rounding.ZERO),
    "fceil": _integral(Rounding.PLUS_INFINITY),
    "ffloor": _integral(Rounding.MINUS_INFINITY),
    "frint": _integral(Rounding.NEAREST_EVEN),
    "ffract": lambda node, fp, a: arithmetic.fractional_part(fp.form, a, fp.env),
    "fldexp": lambda node, fp, a, n: arithmetic.scale_by_power(fp.form, a, _signed(n, node.args[1].bits), fp.env),
    "ffrexp_mant": lambda node, fp, a: arithmetic.fraction_mantissa(fp.form, a, fp.env),
    "ffrexp_exp": lambda node, fp, a: arithmetic.fraction_exponent(fp.form, a, fp.env) & _ones(node.bits),
    "fneg": lambda node, fp, a: a ^ fp.form.sign_bit,
    "fabs": lambda node, fp, a: a & fp.form.sign_bit - 1,
    "fclamp": lambda node, fp, a: comparison.clamp(fp.form, a, fp.mode.dx10_clamp),
    "fcanonicalize": lambda node, fp, a: encodings.canonical(fp.form, a, fp.env),
    "fquiet": lambda node, fp, a: encodings.quiet(fp.form, a),
    "foeq": _compare((0,)),
    "fone": _compare((-1, 1)),
    "folt": _compare((-1,)),
    "fole": _compare((-1, 0)),
    "fogt": _compare((1,)),
    "foge": _compare((0, 1)),
    "funord": _compare((None,)),
    "ford": _compare((-1, 0, 1)),
    "f_to_sint": lambda node, fp, a: (
        conversion.to_integer(fp.form, a, -(1 << node.bits - 1), _ones(node.bits - 1)) & _ones(node.bits)
    ),
    "f_to_uint": lambda node, fp, a: conversion.to_integer(fp.form, a, 0, _ones(node.bits)),
    "sint_to_f": lambda node, fp, a: conversion.from_integer(fp.form, _signed(a, node.args[0].bits), fp.env),
    "uint_to_f": lambda node, fp, a: conversion.from_integer(fp.form, a, fp.env),
    "fexponent": lambda node, fp, a: encodings.magnitude(fp.form, a) >> fp.form.fraction_bits & _ones(node.bits),
    "fmantissa": lambda node, fp, a: a & _ones(fp.form.fraction_bits) & _ones(node.bits),
}

_SCALAR_TESTS: dict[str, Callable[[Format, int], int]] = {
    "fis_nan": lambda form, a: int(encodings.is_nan(form, a)),
    "fis_snan": lambda form, a: int(encodings.is_signaling(form, a)),
    "fis_inf": lambda form, a: int(encodings.is_infinite(form, a)),
    "fis_zero": lambda form, a: int(encodings.magnitude(form, a) == 0),
    "fis_denorm": lambda form, a: int(encodings.is_denormal(form, a)),
    "fsign": encodings.sign_of,
}


# --- conversions between formats -------------------------------------------------------------------------


def _formats(node: Op, mode: FloatMode) -> tuple[Format, Format, Environment, Environment]:
    source, target = node.format.split(">")
    return mode.format(source), mode.format(target), mode.environment(source), mode.environment(target)


def _convert(node: Op, mode: FloatMode, a: int) -> int:
    source, target, inputs, env = _formats(node, mode)
    return conversion.convert(source, target, a, inputs, env)


def _convert_to_zero(node: Op, mode: FloatMode, a: int) -> int:
    source, target, inputs, env = _formats(node, mode)
    toward_zero = Environment(Rounding.ZERO, env.flush_inputs, env.flush_outputs, env.saturate)
    return conversion.convert(source, target, a, inputs, toward_zero)


def _convert_stochastic(node: Op, mode: FloatMode, a: int, random: int) -> int:
    source, target, inputs, env = _formats(node, mode)
    return conversion.convert_stochastic(source, target, a, random, node.args[1].bits, inputs, env)


_CONVERSION: dict[str, Callable[..., int]] = {
    "fconvert": _convert,
    "fconvert_rtz": _convert_to_zero,
    "fconvert_sr": _convert_stochastic,
}
