"""Exact binary floating point on Python integers.

Idea. A finite number is (sign, significand, exponent) with value (-1)**sign * significand * 2**exponent and an
unbounded integer significand, so sums, products and fused products are exact; quotients and roots are cut at
enough bits and carry a sticky bit below. `rounded` is the one place where a number becomes an encoding: it finds
the unit in the last place (never below the format's smallest denormal), drops the bits below it by the rounding
mode, and handles overflow and flushed denormals. Double rounding cannot happen because nothing else rounds.

Transcendental functions are evaluated as an integer interval at growing precision until both ends round to the
same number, hence are correctly rounded too (Ziv's method); the few exact cases are taken out before.

NaNs. An operation with a NaN operand gives the first such operand (in the order of the arguments), quieted: its
payload and sign stay. An invalid operation gives the quiet NaN with the sign set and no payload, as the
pseudocode of V_DIV_FIXUP_F32 writes it (0xffc00000); AMD documents neither payload choice for the other
operations, so both are this module's decision. Formats without an infinity or NaN say below what replaces them.

Functions take and give encodings (unsigned integers of `Format.bits` bits).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, IntEnum
from functools import cache
from math import isqrt

from msgspec import Struct


class Rounding(IntEnum):
    """Rounding modes, numbered as MODE.FP_ROUND and the kernel descriptor number them."""

    NEAREST_EVEN = 0
    PLUS_INFINITY = 1
    MINUS_INFINITY = 2
    ZERO = 3


class Specials(Enum):
    """What the encodings at the top of the range mean."""

    IEEE = "ieee"  # infinity and NaNs with all exponent bits set
    FN = "fn"  # no infinity; only all bits set is a NaN (OCP E4M3)
    FNUZ = "fnuz"  # no infinity, no negative zero; the sign bit alone is the NaN (gfx940)
    FINITE = "finite"  # finite numbers only (OCP MX formats); what is too large, infinite or NaN becomes the largest


class Format(Struct, frozen=True):
    """One binary format: sign, `exponent_bits`, `fraction_bits`."""

    name: str
    exponent_bits: int
    fraction_bits: int
    bias: int
    specials: Specials = Specials.IEEE

    @property
    def bits(self) -> int:
        """Width of an encoding."""
        return 1 + self.exponent_bits + self.fraction_bits

    @property
    def sign_bit(self) -> int:
        """The encoding of the sign."""
        return 1 << self.bits - 1

    @property
    def quiet_bit(self) -> int:
        """The fraction bit that makes a NaN quiet."""
        return 1 << self.fraction_bits - 1

    @property
    def lowest_exponent(self) -> int:
        """Exponent of the smallest denormal's only bit."""
        return 1 - self.bias - self.fraction_bits

    @property
    def infinity(self) -> int:
        """Encoding of +infinity (formats with IEEE specials)."""
        return (1 << self.exponent_bits) - 1 << self.fraction_bits

    @property
    def largest(self) -> int:
        """Encoding of the largest finite number."""
        if self.specials is Specials.IEEE:
            return self.infinity - 1
        return self.sign_bit - (2 if self.specials is Specials.FN else 1)

    @property
    def default_nan(self) -> int:
        """What an invalid operation gives."""
        if self.specials is Specials.FNUZ:
            return self.sign_bit
        if self.specials is Specials.FN:
            return self.sign_bit - 1
        if self.specials is Specials.FINITE:
            return self.largest
        return self.sign_bit | self.infinity | self.quiet_bit


F16 = Format("f16", 5, 10, 15)
BF16 = Format("bf16", 8, 7, 127)
F32 = Format("f32", 8, 23, 127)
F64 = Format("f64", 11, 52, 1023)
FP8_OCP = Format("fp8", 4, 3, 7, Specials.FN)
BF8_OCP = Format("bf8", 5, 2, 15)
FP8_FNUZ = Format("fp8", 4, 3, 8, Specials.FNUZ)
BF8_FNUZ = Format("bf8", 5, 2, 16, Specials.FNUZ)
FP6 = Format("fp6", 2, 3, 1, Specials.FINITE)
BF6 = Format("bf6", 3, 2, 3, Specials.FINITE)
FP4 = Format("fp4", 2, 1, 1, Specials.FINITE)


class Environment(Struct, frozen=True):
    """How one operation rounds and what it does with denormals.

    `saturate` keeps an overflow of finite operands at the largest finite number (FP16_OVFL).
    """

    rounding: Rounding = Rounding.NEAREST_EVEN
    flush_inputs: bool = False
    flush_outputs: bool = False
    saturate: bool = False


DEFAULT = Environment()


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


# --- encodings -------------------------------------------------------------------------------------------


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


def _increments(quotient: int, rest: int, drop: int, sign: int, rounding: Rounding) -> bool:
    """Whether the magnitude `quotient` + `rest` / 2**drop rounds up."""
    if rounding is Rounding.NEAREST_EVEN:
        half = 1 << drop - 1
        return rest > half or (rest == half and quotient & 1 == 1)
    if rounding is Rounding.ZERO or rest == 0:
        return False
    return (rounding is Rounding.PLUS_INFINITY) != bool(sign)


def _last_place(form: Format, significand: int, exponent: int) -> int:
    """Exponent of the unit in the last place of a number in the format."""
    return max(significand.bit_length() + exponent - 1 - form.fraction_bits, form.lowest_exponent)


def rounded(form: Format, sign: int, significand: int, exponent: int, env: Environment = DEFAULT) -> int:
    """The encoding of a finite number after one rounding. A zero keeps its sign."""
    if significand == 0:
        return zero(form, sign)
    place = _last_place(form, significand, exponent)
    drop = place - exponent
    if drop <= 0:
        quotient = significand << -drop
    else:
        quotient, rest = significand >> drop, significand & (1 << drop) - 1
        quotient += _increments(quotient, rest, drop, sign, env.rounding)
    return _encoded(form, sign, quotient, place, env)


def _encoded(form: Format, sign: int, quotient: int, place: int, env: Environment) -> int:
    # The implicit bit adds itself to the exponent field, and so does a carry out of the fraction.
    encoding = (place - form.lowest_exponent << form.fraction_bits) + quotient
    if encoding > form.largest:
        return _overflow(form, sign, env)
    if encoding == 0 or (env.flush_outputs and encoding < 1 << form.fraction_bits):
        return zero(form, sign)
    return sign << form.bits - 1 | encoding


def _first_nan(form: Format, *values: int) -> int | None:
    for value in values:
        if is_nan(form, value):
            return quiet(form, value)
    return None


# --- arithmetic ------------------------------------------------------------------------------------------


def add(form: Format, a: int, b: int, env: Environment = DEFAULT) -> int:
    """a + b."""
    a, b = flushed(form, a, env.flush_inputs), flushed(form, b, env.flush_inputs)
    nan = _first_nan(form, a, b)
    return nan if nan is not None else _sum(form, number(form, a), number(form, b), env)


def subtract(form: Format, a: int, b: int, env: Environment = DEFAULT) -> int:
    """a - b; a NaN b keeps its sign."""
    return add(form, a, b if is_nan(form, b) else b ^ form.sign_bit, env)


def _sum(form: Format, x: Number, y: Number, env: Environment) -> int:
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


def _product(x: Number, y: Number) -> Number | None:
    """The exact product; None for infinity times zero."""
    sign = x.sign ^ y.sign
    if x.infinite or y.infinite:
        return None if x.zero or y.zero else Number(sign, 0, 0, infinite=True)
    return Number(sign, x.significand * y.significand, x.exponent + y.exponent)


def multiply(form: Format, a: int, b: int, env: Environment = DEFAULT) -> int:
    """a * b."""
    a, b = flushed(form, a, env.flush_inputs), flushed(form, b, env.flush_inputs)
    nan = _first_nan(form, a, b)
    if nan is not None:
        return nan
    product = _product(number(form, a), number(form, b))
    if product is None:
        return form.default_nan
    if product.infinite:
        return infinite(form, product.sign, env)
    return rounded(form, product.sign, product.significand, product.exponent, env)


def fused(form: Format, a: int, b: int, c: int, env: Environment = DEFAULT) -> int:
    """a * b + c with one rounding."""
    a, b, c = (flushed(form, value, env.flush_inputs) for value in (a, b, c))
    nan = _first_nan(form, a, b, c)
    if nan is not None:
        return nan
    product = _product(number(form, a), number(form, b))
    return form.default_nan if product is None else _sum(form, product, number(form, c), env)


def divide(form: Format, a: int, b: int, env: Environment = DEFAULT) -> int:
    """a / b."""
    a, b = flushed(form, a, env.flush_inputs), flushed(form, b, env.flush_inputs)
    nan = _first_nan(form, a, b)
    if nan is not None:
        return nan
    x, y = number(form, a), number(form, b)
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


def square_root(form: Format, a: int, env: Environment = DEFAULT) -> int:
    """The square root; -0 gives -0, other negative numbers are invalid."""
    a = flushed(form, a, env.flush_inputs)
    nan = _first_nan(form, a)
    if nan is not None:
        return nan
    x = number(form, a)
    if x.zero:
        return a
    if x.sign:
        return form.default_nan
    if x.infinite:
        return a
    shift = 2 * form.fraction_bits + 6
    shift += x.exponent - shift & 1  # makes the exponent even
    scaled = x.significand << shift
    root = isqrt(scaled)
    return rounded(form, 0, root << 1 | (root * root != scaled), (x.exponent - shift) // 2 - 1, env)


def reciprocal(form: Format, a: int, env: Environment = DEFAULT) -> int:
    """1 / a."""
    return divide(form, rounded(form, 0, 1, 0), a, env)


def reciprocal_root(form: Format, a: int, env: Environment = DEFAULT) -> int:
    """1 / sqrt(a), correctly rounded; a zero gives the infinity of its sign."""
    a = flushed(form, a, env.flush_inputs)
    nan = _first_nan(form, a)
    if nan is not None:
        return nan
    x = number(form, a)
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
    nan = _first_nan(form, a)
    if nan is not None:
        return nan
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
    return quotient + _increments(quotient, rest, drop, x.sign, rounding)


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


# --- comparison and selection ----------------------------------------------------------------------------


def ordering_key(form: Format, value: int) -> int:
    """An integer that orders numbers, -0 below +0; the encoding must not be a NaN."""
    return ~magnitude(form, value) if sign_of(form, value) else magnitude(form, value)


def compare(form: Format, a: int, b: int, env: Environment = DEFAULT) -> int | None:
    """-1, 0 or 1 as a is below, equal to or above b; None with a NaN."""
    if is_nan(form, a) or is_nan(form, b):
        return None
    a, b = flushed(form, a, env.flush_inputs), flushed(form, b, env.flush_inputs)
    left = -magnitude(form, a) if sign_of(form, a) else magnitude(form, a)
    right = -magnitude(form, b) if sign_of(form, b) else magnitude(form, b)
    return (left > right) - (left < right)


class NanRule(Enum):
    """What minimum and maximum do with NaNs."""

    NUMBER = "number"  # the other operand; with two NaNs the first, quieted
    SIGNALING = "signaling"  # as above, but a signaling NaN is given back, quieted (IEEE 754-2008 minNum)
    PROPAGATE = "propagate"  # a signaling NaN first, then the first NaN (IEEE 754-2019 minimum)


def _choose_nan(form: Format, a: int, b: int, rule: NanRule) -> int | None:
    if rule is not NanRule.NUMBER:
        for value in (a, b):
            if is_signaling(form, value):
                return quiet(form, value)
    if rule is NanRule.PROPAGATE or (is_nan(form, a) and is_nan(form, b)):
        return _first_nan(form, a, b)
    if is_nan(form, a):
        return b
    return a if is_nan(form, b) else None


def minimum(form: Format, a: int, b: int, rule: NanRule, env: Environment = DEFAULT) -> int:
    """The lesser, -0 below +0."""
    a, b = flushed(form, a, env.flush_inputs), flushed(form, b, env.flush_inputs)
    nan = _choose_nan(form, a, b, rule)
    return nan if nan is not None else min(a, b, key=lambda value: ordering_key(form, value))


def maximum(form: Format, a: int, b: int, rule: NanRule, env: Environment = DEFAULT) -> int:
    """The greater, +0 above -0."""
    a, b = flushed(form, a, env.flush_inputs), flushed(form, b, env.flush_inputs)
    nan = _choose_nan(form, a, b, rule)
    return nan if nan is not None else max(a, b, key=lambda value: ordering_key(form, value))


def clamp(form: Format, a: int, nan_to_zero: bool) -> int:
    """a held in [0, 1]; -0 becomes +0; a NaN becomes 0 (DX10_CLAMP) or stays, quieted."""
    if is_nan(form, a):
        return 0 if nan_to_zero else quiet(form, a)
    return 0 if sign_of(form, a) else min(a, rounded(form, 0, 1, 0))


# --- conversion ------------------------------------------------------------------------------------------


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
    place = _last_place(target, x.significand, x.exponent)
    low = min(x.exponent, place - random_bits)
    total = (x.significand << x.exponent - low) + (random << place - random_bits - low)
    return _encoded(target, x.sign, total >> place - low, place, env)


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


# --- transcendental functions, correctly rounded ---------------------------------------------------------

Approximation = Callable[[int], tuple[int, int]]
"""precision -> (sign, value): the true magnitude times 2**precision lies within _ERROR of value."""

_ERROR = 1 << 12  # far above the one unit that each of the at most thousand series terms loses


@cache
def _ln2(precision: int) -> int:
    """ln 2 * 2**precision, within 2: 2 * atanh(1/3)."""
    work = precision + 20
    return 2 * _atanh_reciprocal(3, work) >> 20


def _atanh_reciprocal(divisor: int, precision: int) -> int:
    term = (1 << precision) // divisor
    total, k = 0, 1
    while term:
        total += term // k
        term //= divisor * divisor
        k += 2
    return total


@cache
def _pi(precision: int) -> int:
    """pi * 2**precision, within 2: Machin's formula."""
    work = precision + 20

    def arctangent(divisor: int) -> int:
        term, total, k, sign = (1 << work) // divisor, 0, 1, 1
        while term:
            total += sign * (term // k)
            term //= divisor * divisor
            k, sign = k + 2, -sign
        return total

    return 4 * (4 * arctangent(5) - arctangent(239)) >> 20


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


def exp2(form: Format, a: int, env: Environment = DEFAULT) -> int:
    """2**a."""
    a = flushed(form, a, env.flush_inputs)
    nan = _first_nan(form, a)
    if nan is not None:
        return nan
    x = number(form, a)
    size = x.significand.bit_length() + x.exponent
    if x.infinite:
        return zero(form, 0) if x.sign else a
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


def log2(form: Format, a: int, env: Environment = DEFAULT) -> int:
    """The logarithm to base 2; a zero gives -infinity, a negative number is invalid."""
    a = flushed(form, a, env.flush_inputs)
    nan = _first_nan(form, a)
    if nan is not None:
        return nan
    x = number(form, a)
    if x.zero:
        return infinite(form, 1, env)
    if x.sign:
        return form.default_nan
    if x.infinite:
        return a
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


def sine(form: Format, a: int, env: Environment = DEFAULT) -> int:
    """sin(2 pi a), a in revolutions; a zero result has the sign of a."""
    return _circular(form, a, 0, env)


def cosine(form: Format, a: int, env: Environment = DEFAULT) -> int:
    """cos(2 pi a), a in revolutions."""
    return _circular(form, a, 1, env)


def _circular(form: Format, a: int, quarters: int, env: Environment) -> int:
    """sin(2 pi (a + quarters / 4))."""
    a = flushed(form, a, env.flush_inputs)
    nan = _first_nan(form, a)
    if nan is not None:
        return nan
    x = number(form, a)
    if x.infinite:
        return form.default_nan
    # |a| in units of 2**-places modulo one revolution; places >= 2 so that a quarter is a whole number.
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
