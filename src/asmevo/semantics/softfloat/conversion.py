"""Between formats, to and from integers, and to integral numbers of the same format.

Integers have their own rounding here (`_integral`): the units that are dropped are those below 1, whatever the
format's last place is.
"""

from __future__ import annotations

from asmevo.semantics.softfloat.encodings import (
    Number,
    encoded,
    flushed,
    infinite,
    is_infinite,
    is_nan,
    last_place,
    number,
    quiet,
    rounded,
    rounds_up,
    sign_of,
    zero,
)
from asmevo.semantics.softfloat.formats import DEFAULT, Environment, Format, Rounding, Specials


def convert(source: Format, target: Format, a: int, inputs: Environment, env: Environment) -> int:
    """a in another format; `inputs` says whether the source is flushed, `env` how the result is rounded.

    A NaN keeps its sign and the upper bits of its payload and becomes quiet.
    """
    a = flushed(source, a, inputs.flush_inputs)
    if is_nan(source, a):
        return _converted_nan(source, target, a)
    x = number(source, a)
    if x.infinite:
        return infinite(target, x.sign, env)
    return rounded(target, x.sign, x.significand, x.exponent, env)


def _converted_nan(source: Format, target: Format, a: int) -> int:
    if target.specials is Specials.FNUZ:
        return target.sign_bit
    sign = sign_of(source, a) << target.bits - 1
    if target.specials is not Specials.IEEE:
        return sign | target.default_nan
    if source.specials is not Specials.IEEE:
        return sign | target.infinity | target.quiet_bit
    shift = target.fraction_bits - source.fraction_bits
    payload = a & (1 << source.fraction_bits) - 1
    return sign | target.infinity | target.quiet_bit | (payload << shift if shift >= 0 else payload >> -shift)


def convert_stochastic(
    source: Format,
    target: Format,
    a: int,
    random: int,
    random_bits: int,
    inputs: Environment,
    env: Environment,
) -> int:
    """a in another format, its magnitude cut after adding random / 2**random_bits units in the last place."""
    a = flushed(source, a, inputs.flush_inputs)
    if is_nan(source, a) or is_infinite(source, a):
        return convert(source, target, a, inputs, env)
    x = number(source, a)
    if x.significand == 0:
        return zero(target, x.sign)
    place = last_place(target, x.significand, x.exponent)
    low = min(x.exponent, place - random_bits)
    total = (x.significand << x.exponent - low) + (random << place - random_bits - low)
    return encoded(target, x.sign, total >> place - low, place, env)


def from_integer(form: Format, value: int, env: Environment = DEFAULT) -> int:
    """The encoding of a Python integer."""
    return rounded(form, int(value < 0), abs(value), 0, env)


def to_integer(form: Format, a: int, low: int, high: int, rounding: Rounding = Rounding.ZERO) -> int:
    """a as an integer held in low .. high; a NaN gives 0."""
    if is_nan(form, a):
        return 0
    x = number(form, a)
    if x.infinite:
        return low if x.sign else high
    # Numbers far outside saturate alike; the cut keeps the integers short.
    if x.significand.bit_length() + x.exponent > 130:
        return low if x.sign else high
    whole = _integral(x, rounding)
    return max(low, min(high, -whole if x.sign else whole))


def to_integral(form: Format, a: int, rounding: Rounding, env: Environment = DEFAULT) -> int:
    """The integral number next to a in the direction of `rounding`, with the sign of a."""
    a = flushed(form, a, env.flush_inputs)
    if is_nan(form, a) or is_infinite(form, a):
        return quiet(form, a)
    x = number(form, a)
    if x.exponent >= 0:
        return a
    return rounded(form, x.sign, _integral(x, rounding), 0)


def _integral(x: Number, rounding: Rounding) -> int:
    """Magnitude of a finite number after rounding to an integer."""
    if x.exponent >= 0:
        return x.significand << x.exponent
    drop = -x.exponent
    quotient, rest = x.significand >> drop, x.significand & (1 << drop) - 1
    return quotient + rounds_up(quotient, rest, drop, x.sign, rounding)
