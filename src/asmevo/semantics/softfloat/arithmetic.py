"""Arithmetic: one exact result from exact numbers, rounded once.

Most operations are written on numbers; `unary` and `binary` make of them operations on encodings: operands are
flushed as the environment says, the first NaN among them is the answer, quieted.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from math import isqrt
from typing import Protocol

from asmevo.semantics.softfloat.conversion import to_integral
from asmevo.semantics.softfloat.encodings import (
    Number,
    first_nan,
    flushed,
    infinite,
    is_infinite,
    is_nan,
    number,
    quiet,
    rounded,
    zero,
)
from asmevo.semantics.softfloat.formats import DEFAULT, Environment, Format, Rounding


class Unary(Protocol):
    """An operation on one encoding."""

    def __call__(self, form: Format, a: int, env: Environment = DEFAULT) -> int:
        """The result's encoding."""


class Binary(Protocol):
    """An operation on two encodings."""

    def __call__(self, form: Format, a: int, b: int, env: Environment = DEFAULT) -> int:
        """The result's encoding."""


def unary(operation: Callable[[Format, Number, Environment], int]) -> Unary:
    """The operation on encodings that an operation on a number stands for."""

    @wraps(operation)
    def on_encoding(form: Format, a: int, env: Environment = DEFAULT) -> int:
        a = flushed(form, a, env.flush_inputs)
        return quiet(form, a) if is_nan(form, a) else operation(form, number(form, a), env)

    return on_encoding


def binary(operation: Callable[[Format, Number, Number, Environment], int]) -> Binary:
    """The operation on encodings that an operation on two numbers stands for."""

    @wraps(operation)
    def on_encodings(form: Format, a: int, b: int, env: Environment = DEFAULT) -> int:
        a, b = flushed(form, a, env.flush_inputs), flushed(form, b, env.flush_inputs)
        nan = first_nan(form, a, b)
        return nan if nan is not None else operation(form, number(form, a), number(form, b), env)

    return on_encodings


def _sum(form: Format, x: Number, y: Number, env: Environment) -> int:
    """x + y."""
    if x.infinite or y.infinite:
        if x.infinite and y.infinite and x.sign != y.sign:
            return form.default_nan
        return infinite(form, x.sign if x.infinite else y.sign, env)
    low = min(x.exponent, y.exponent)
    total = (x.signed << x.exponent - low) + (y.signed << y.exponent - low)
    if total == 0:
        if x.zero and y.zero and x.sign == y.sign:
            return zero(form, x.sign)
        return zero(form, int(env.rounding is Rounding.MINUS_INFINITY))
    return rounded(form, int(total < 0), abs(total), low, env)


add = binary(_sum)


def subtract(form: Format, a: int, b: int, env: Environment = DEFAULT) -> int:
    """a - b; a NaN b keeps its sign."""
    return add(form, a, b if is_nan(form, b) else b ^ form.sign_bit, env)


def _product(x: Number, y: Number) -> Number | None:
    """The exact product; None for infinity times zero."""
    sign = x.sign ^ y.sign
    if x.infinite or y.infinite:
        return None if x.zero or y.zero else Number(sign, 0, 0, infinite=True)
    return Number(sign, x.significand * y.significand, x.exponent + y.exponent)


@binary
def multiply(form: Format, x: Number, y: Number, env: Environment) -> int:
    """x * y."""
    product = _product(x, y)
    if product is None:
        return form.default_nan
    if product.infinite:
        return infinite(form, product.sign, env)
    return rounded(form, product.sign, product.significand, product.exponent, env)


def fused(form: Format, a: int, b: int, c: int, env: Environment = DEFAULT) -> int:
    """a * b + c with one rounding."""
    a, b, c = (flushed(form, value, env.flush_inputs) for value in (a, b, c))
    nan = first_nan(form, a, b, c)
    if nan is not None:
        return nan
    product = _product(number(form, a), number(form, b))
    return form.default_nan if product is None else _sum(form, product, number(form, c), env)


@binary
def divide(form: Format, x: Number, y: Number, env: Environment) -> int:
    """x / y."""
    sign = x.sign ^ y.sign
    if (x.zero and y.zero) or (x.infinite and y.infinite):
        return form.default_nan
    if x.infinite or y.zero:
        return infinite(form, sign, env)
    if y.infinite or x.zero:
        return zero(form, sign)
    shift = form.fraction_bits + 3 + max(0, y.significand.bit_length() - x.significand.bit_length())
    quotient, rest = divmod(x.significand << shift, y.significand)
    return rounded(form, sign, quotient << 1 | (rest != 0), x.exponent - y.exponent - shift - 1, env)


@unary
def square_root(form: Format, x: Number, env: Environment) -> int:
    """The square root; -0 gives -0, other negative numbers are invalid."""
    if x.zero:
        return zero(form, x.sign)
    if x.sign:
        return form.default_nan
    if x.infinite:
        return infinite(form, 0, env)
    shift = 2 * form.fraction_bits + 6
    shift += x.exponent - shift & 1  # makes the exponent even
    scaled = x.significand << shift
    root = isqrt(scaled)
    return rounded(form, 0, root << 1 | (root * root != scaled), (x.exponent - shift) // 2 - 1, env)


def reciprocal(form: Format, a: int, env: Environment = DEFAULT) -> int:
    """1 / a."""
    return divide(form, rounded(form, 0, 1, 0), a, env)


@unary
def reciprocal_root(form: Format, x: Number, env: Environment) -> int:
    """1 / sqrt(x), correctly rounded; a zero gives the infinity of its sign."""
    if x.zero:
        return infinite(form, x.sign, env)
    if x.sign:
        return form.default_nan
    if x.infinite:
        return zero(form, 0)
    significand, exponent = (x.significand << 1, x.exponent - 1) if x.exponent & 1 else (x.significand, x.exponent)
    scale = form.fraction_bits + 4 + significand.bit_length()
    root = isqrt((1 << 2 * scale) // significand)
    inexact = root * root * significand != 1 << 2 * scale
    return rounded(form, 0, root << 1 | inexact, -scale - exponent // 2 - 1, env)


def scale_by_power(form: Format, a: int, power: int, env: Environment = DEFAULT) -> int:
    """a * 2**power with one rounding."""
    a = flushed(form, a, env.flush_inputs)
    if is_nan(form, a):
        return quiet(form, a)
    x = number(form, a)
    if x.infinite or x.zero:
        return a
    # Beyond four times the exponent range the result is the same overflow or underflow.
    limit = 4 << form.exponent_bits
    return rounded(form, x.sign, x.significand, x.exponent + max(-limit, min(limit, power)), env)


def fraction_exponent(form: Format, a: int, env: Environment = DEFAULT) -> int:
    """The exponent of frexp (mantissa in [0.5, 1)); 0 for zero, infinity and NaN."""
    a = flushed(form, a, env.flush_inputs)
    if is_nan(form, a) or is_infinite(form, a):
        return 0
    x = number(form, a)
    return x.significand.bit_length() + x.exponent if x.significand else 0


def fraction_mantissa(form: Format, a: int, env: Environment = DEFAULT) -> int:
    """The mantissa of frexp, in [0.5, 1) with the sign of a; zero, infinity and NaN (quieted) are themselves."""
    a = flushed(form, a, env.flush_inputs)
    if is_nan(form, a) or is_infinite(form, a):
        return quiet(form, a)
    x = number(form, a)
    return rounded(form, x.sign, x.significand, -x.significand.bit_length())


def fractional_part(form: Format, a: int, env: Environment = DEFAULT) -> int:
    """a - floor(a), held below 1; an infinity is invalid.

    The bound is what LLVM's selection of V_FRACT relies on: min(x - floor(x), largest number below 1).
    """
    if is_infinite(form, a):
        return form.default_nan
    whole = to_integral(form, a, Rounding.MINUS_INFINITY, env)
    part = subtract(form, a, whole, env)
    below_one = rounded(form, 0, 1, 0) - 1
    return part if is_nan(form, part) else min(part, below_one)
