"""From encodings to exact numbers and, after one rounding, back.

`number` reads an encoding; `rounded` is the only way back. Predicates and the treatment of denormals and NaNs
look at encodings alone.
"""

from __future__ import annotations

from msgspec import Struct

from asmevo.semantics.softfloat.formats import DEFAULT, Environment, Format, Rounding, Specials


class Number(Struct, frozen=True):
    """A finite number, (-1)**sign * significand * 2**exponent, or an infinity."""

    sign: int
    significand: int
    exponent: int
    infinite: bool = False

    @property
    def zero(self) -> bool:
        """Whether it is a zero of either sign."""
        return not self.infinite and self.significand == 0

    @property
    def signed(self) -> int:
        """The significand with its sign."""
        return -self.significand if self.sign else self.significand


def sign_of(form: Format, value: int) -> int:
    """The sign bit as 0 or 1."""
    return value >> form.bits - 1 & 1


def magnitude(form: Format, value: int) -> int:
    """The encoding without its sign."""
    return value & form.sign_bit - 1


def is_nan(form: Format, value: int) -> bool:
    """Whether the encoding is a NaN."""
    if form.specials is Specials.FNUZ:
        return value == form.sign_bit
    if form.specials is Specials.FN:
        return magnitude(form, value) == form.sign_bit - 1
    return form.specials is Specials.IEEE and magnitude(form, value) > form.infinity


def is_signaling(form: Format, value: int) -> bool:
    """Whether the encoding is a signaling NaN."""
    return form.specials is Specials.IEEE and is_nan(form, value) and not value & form.quiet_bit


def is_infinite(form: Format, value: int) -> bool:
    """Whether the encoding is an infinity of either sign."""
    return form.specials is Specials.IEEE and magnitude(form, value) == form.infinity


def is_denormal(form: Format, value: int) -> bool:
    """Whether the encoding is a denormal number (zero is none)."""
    return not is_nan(form, value) and 0 < magnitude(form, value) < 1 << form.fraction_bits


def quiet(form: Format, value: int) -> int:
    """A NaN made quiet; anything else unchanged."""
    return value | form.quiet_bit if is_signaling(form, value) else value


def flushed(form: Format, value: int, flush: bool) -> int:
    """A denormal as zero of its sign if `flush`."""
    return value & form.sign_bit if flush and is_denormal(form, value) else value


def canonical(form: Format, value: int, env: Environment = DEFAULT) -> int:
    """Quieted, and flushed as the environment says."""
    return quiet(form, flushed(form, value, env.flush_inputs or env.flush_outputs))


def number(form: Format, value: int) -> Number:
    """The number an encoding stands for; it must not be a NaN."""
    sign, rest = sign_of(form, value), magnitude(form, value)
    if is_infinite(form, value):
        return Number(sign, 0, 0, infinite=True)
    field, fraction = rest >> form.fraction_bits, rest & (1 << form.fraction_bits) - 1
    if field == 0:
        return Number(sign, fraction, form.lowest_exponent)
    return Number(sign, fraction | 1 << form.fraction_bits, form.lowest_exponent + field - 1)


def zero(form: Format, sign: int) -> int:
    """The zero of a sign (FNUZ formats have one only)."""
    return form.sign_bit if sign and form.specials is not Specials.FNUZ else 0


def infinite(form: Format, sign: int, env: Environment = DEFAULT) -> int:
    """The infinity of a sign, or what the format has instead.

    E4M3 in OCP form and FNUZ formats have only a NaN for it; with `saturate` the largest number.
    """
    if form.specials is Specials.IEEE:
        return sign << form.bits - 1 | form.infinity
    if form.specials is Specials.FNUZ and not env.saturate:
        return form.sign_bit
    if form.specials is Specials.FN and not env.saturate:
        return sign << form.bits - 1 | form.default_nan
    return sign << form.bits - 1 | form.largest


def _overflow(form: Format, sign: int, env: Environment) -> int:
    away = {
        Rounding.NEAREST_EVEN: True,
        Rounding.PLUS_INFINITY: not sign,
        Rounding.MINUS_INFINITY: bool(sign),
        Rounding.ZERO: False,
    }[env.rounding]
    if away and not env.saturate:
        return infinite(form, sign, env)
    return sign << form.bits - 1 | form.largest


def rounds_up(quotient: int, rest: int, drop: int, sign: int, rounding: Rounding) -> bool:
    """Whether the magnitude `quotient` + `rest` / 2**drop rounds up."""
    if rounding is Rounding.NEAREST_EVEN:
        half = 1 << drop - 1
        return rest > half or (rest == half and quotient & 1 == 1)
    if rounding is Rounding.ZERO or rest == 0:
        return False
    return (rounding is Rounding.PLUS_INFINITY) != bool(sign)


def last_place(form: Format, significand: int, exponent: int) -> int:
    """Exponent of the unit in the last place of a number in the format."""
    return max(significand.bit_length() + exponent - 1 - form.fraction_bits, form.lowest_exponent)


def rounded(form: Format, sign: int, significand: int, exponent: int, env: Environment = DEFAULT) -> int:
    """The encoding of a finite number after one rounding. A zero keeps its sign."""
    if significand == 0:
        return zero(form, sign)
    place = last_place(form, significand, exponent)
    drop = place - exponent
    if drop <= 0:
        quotient = significand << -drop
    else:
        quotient, rest = significand >> drop, significand & (1 << drop) - 1
        quotient += rounds_up(quotient, rest, drop, sign, env.rounding)
    return encoded(form, sign, quotient, place, env)


def encoded(form: Format, sign: int, quotient: int, place: int, env: Environment) -> int:
    """The encoding of `quotient` units of 2**`place`, which is the last place of a number already rounded."""
    # The implicit bit adds itself to the exponent field, and so does a carry out of the fraction.
    encoding = (place - form.lowest_exponent << form.fraction_bits) + quotient
    if encoding > form.largest:
        return _overflow(form, sign, env)
    if encoding == 0 or (env.flush_outputs and encoding < 1 << form.fraction_bits):
        return zero(form, sign)
    return sign << form.bits - 1 | encoding


def first_nan(form: Format, *values: int) -> int | None:
    """The first NaN of the operands, quieted; None without one."""
    for value in values:
        if is_nan(form, value):
            return quiet(form, value)
    return None
