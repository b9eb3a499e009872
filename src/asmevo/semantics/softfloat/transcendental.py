"""Transcendental functions, correctly rounded.

A function is evaluated as an integer interval at growing precision until both ends round to the same number (Ziv's
method); the few exact cases are taken out before, so the loop ends. The series and constants are fixed-point
integers: an argument or value times 2**precision.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from asmevo.semantics.softfloat.arithmetic import unary
from asmevo.semantics.softfloat.conversion import from_integer
from asmevo.semantics.softfloat.encodings import Number, infinite, rounded, zero
from asmevo.semantics.softfloat.formats import Environment, Format

Approximation = Callable[[int], tuple[int, int]]
"""precision -> (sign, value): the true magnitude times 2**precision lies within _ERROR of value."""

_ERROR = 1 << 12  # far above the one unit that each of the at most thousand series terms loses


@cache
def _ln2(precision: int) -> int:
    """ln 2 * 2**precision, within 2: 2 * atanh(1/3)."""
    work = precision + 20
    return 2 * _inverse_tangent(3, work, alternating=False) >> 20


def _inverse_tangent(divisor: int, precision: int, alternating: bool) -> int:
    """Where the terms alternate in sign arctan(1 / divisor), else atanh(1 / divisor)."""
    step = -1 if alternating else 1
    term, total, k, sign = (1 << precision) // divisor, 0, 1, 1
    while term:
        total += sign * (term // k)
        term //= divisor * divisor
        k, sign = k + 2, sign * step
    return total


@cache
def _pi(precision: int) -> int:
    """pi * 2**precision, within 2: Machin's formula."""
    work = precision + 20
    fifth, small = (_inverse_tangent(divisor, work, alternating=True) for divisor in (5, 239))
    return 4 * (4 * fifth - small) >> 20


def _ziv(form: Format, approximation: Approximation, precision: int, scale: int, env: Environment) -> int:
    """The rounding of approximation * 2**scale, at growing precision until both ends of the interval agree."""
    while True:
        sign, value = approximation(precision)
        if value > _ERROR:
            ends = {rounded(form, sign, end, scale - precision, env) for end in (value - _ERROR, value + _ERROR)}
            if len(ends) == 1:
                return ends.pop()
        precision += precision // 2


def _fixed(significand: int, exponent: int, precision: int) -> int:
    shift = exponent + precision
    return significand << shift if shift >= 0 else significand >> -shift


def _exponential(argument: int, precision: int) -> int:
    """exp of a fixed-point argument in [0, 1)."""
    term, total, k = 1 << precision, 0, 1
    while term:
        total += term
        term = (term * argument >> precision) // k
        k += 1
    return total


@unary
def exp2(form: Format, x: Number, env: Environment) -> int:
    """2**x."""
    size = x.significand.bit_length() + x.exponent
    if x.infinite:
        return zero(form, 0) if x.sign else infinite(form, 0, env)
    if size > form.exponent_bits + 2:
        return zero(form, 0) if x.sign else rounded(form, 0, 1, 4 << form.exponent_bits, env)
    if x.zero or size < -form.fraction_bits - 4:
        return rounded(form, 0, 1, 0)  # within a quarter of the unit in the last place
    places = max(0, -x.exponent)
    whole = x.signed << x.exponent if x.exponent >= 0 else x.signed >> places
    part = 0 if x.exponent >= 0 else x.signed - (whole << places)
    if part == 0:
        return rounded(form, 0, 1, whole, env)

    def approximation(precision: int) -> tuple[int, int]:
        return 0, _exponential(part * _ln2(precision) >> places, precision)

    return _ziv(form, approximation, 2 * form.fraction_bits + 48, whole, env)


@unary
def log2(form: Format, x: Number, env: Environment) -> int:
    """The logarithm to base 2; a zero gives -infinity, a negative number is invalid."""
    if x.zero:
        return infinite(form, 1, env)
    if x.sign:
        return form.default_nan
    if x.infinite:
        return infinite(form, 0, env)
    length = x.significand.bit_length()
    whole = length - 1 + x.exponent
    if x.significand == 1 << length - 1:
        return from_integer(form, whole, env)

    def approximation(precision: int) -> tuple[int, int]:
        one = 1 << precision
        mantissa = _fixed(x.significand, 1 - length, precision)
        value = (whole << precision) + 2 * _atanh(mantissa - one, mantissa + one, precision) * one // _ln2(precision)
        return int(value < 0), abs(value)

    return _ziv(form, approximation, 3 * form.fraction_bits + 64, 0, env)


def _atanh(numerator: int, denominator: int, precision: int) -> int:
    """atanh(numerator / denominator) in fixed point, for a ratio up to a third."""
    ratio = (numerator << precision) // denominator
    square = ratio * ratio >> precision
    term, total, k = ratio, 0, 1
    while term:
        total += term // k
        term = term * square >> precision
        k += 2
    return total


@unary
def sine(form: Format, x: Number, env: Environment) -> int:
    """sin(2 pi x), x in revolutions; a zero result has the sign of x."""
    return _circular(form, x, 0, env)


@unary
def cosine(form: Format, x: Number, env: Environment) -> int:
    """cos(2 pi x), x in revolutions."""
    return _circular(form, x, 1, env)


def _circular(form: Format, x: Number, quarters: int, env: Environment) -> int:
    """sin(2 pi (x + quarters / 4))."""
    if x.infinite:
        return form.default_nan
    # |x| in units of 2**-places modulo one revolution; places >= 2 so that a quarter is a whole number.
    places = max(2, -x.exponent)
    turn = _fixed(x.significand, x.exponent, places) % (1 << places)
    quarter, rest = divmod(turn, 1 << places - 2)
    quarter += quarters
    sign = quarter >> 1 & 1 ^ (x.sign if not quarters else 0)
    size = rest.bit_length() - places
    if rest == 0 or (quarter & 1 and size < -(form.fraction_bits + 12) // 2):
        return rounded(form, sign, 1, 0) if quarter & 1 else zero(form, 0 if quarters else x.sign)

    def approximation(precision: int) -> tuple[int, int]:
        angle = 2 * _pi(precision) * rest >> places
        return sign, _sine_or_cosine(angle, precision, bool(quarter & 1))

    return _ziv(form, approximation, 3 * form.fraction_bits + 64 + max(0, -size), 0, env)


def _sine_or_cosine(angle: int, precision: int, cosine_wanted: bool) -> int:
    """Sine or cosine of a fixed-point angle in [0, pi / 2), by its series."""
    square = angle * angle >> precision
    k = 0 if cosine_wanted else 1
    term, total, positive = (1 << precision if cosine_wanted else angle), 0, True
    while term:
        total += term if positive else -term
        term = (term * square >> precision) // ((k + 1) * (k + 2))
        k, positive = k + 2, not positive
    return total
