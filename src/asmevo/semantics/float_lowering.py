"""Floating-point operations as LLVM IR, bit for bit as `evaluate` has them.

Each operation in each format, mode and shape becomes one small internal function that LLVM inlines, so an
instruction costs one call to write down. Values are encodings (integers) outside these functions.

What runs natively, all with round to nearest even:

- f32 and f64 add, subtract, multiply, divide, fused and double-rounded multiply-add, square root: the host's
  IEEE instructions. `fma` needs the host's FMA feature; without it LLVM calls libm's `fma`, right but slow.
- f16 through f32: rounding the f32 result again is harmless for add, subtract, multiply, divide and root because
  24 >= 2 * 11 + 2 (Figueroa 1995); the same holds for bf16's 8 bits, where f32 has the same exponent range and a
  product's 16 bits never straddle f32's last denormal place and a midpoint of bf16.
- f16 fused multiply-add through f64: the product's 22 bits are exact. If the sum needs more than 53 bits, one
  operand lies so far below the other that the sum cannot be near a midpoint of f16 (the larger operand has at most
  22 bits, and f16's exponents span 40 binary places), so rounding twice gives the same. The step from f64 to f16
  goes through f32 rounded to odd (the dropped bits' OR lands in the last bit), which never rounds twice
  (Boldo and Melquiond 2008).
- Denormals are flushed by explicit selects; the host keeps them (its own flush bits must be clear).
- A NaN result is replaced by the first NaN operand, quieted, or the default NaN: LLVM and the host leave the choice
  open, and may swap operands.
- Conversions between f32 and narrower formats: integer code for every rounding mode; f16 with the host's F16C
  where it has it.
- exp2, log2, sine, cosine and reciprocal root of f16 and f32: polynomials in f64 with an error below 2**-50, then
  rounded; they differ from the correctly rounded value, by one unit in the last place, only where that lies within
  2**-50 of a midpoint (f32: about one argument in fifty million). f64 reciprocal root: root and quotient, within one
  unit in the last place.

The slow path (`slow_path`, a call into Python): the other rounding modes of arithmetic, of f64 -> f32 and of
integer -> float; arithmetic in 8 and fewer bits; bf16 fused multiply-add and bf16 transcendental functions; f64
exp2, log2, sine, cosine; f64 -> bf16.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

from asmevo.semantics import slow_path
from asmevo.semantics.float_mode import FloatMode
from asmevo.semantics.lane_code import LaneCode, bits_of, lanes_of
from asmevo.semantics.softfloat import Environment, Format, Rounding, Specials, infinite


@cache
def host_has(feature: str) -> bool:
    """Whether the host's processor has an LLVM feature such as "f16c" or "fma"."""
    return bool(llvm.get_host_cpu_features().get(feature, False))


class FloatCode(LaneCode):
    """Code for one operation: its formats and environments, and the pieces operations share."""

    def __init__(self, builder: Any, lanes: int | None, mode: FloatMode, name: str, bits: int) -> None:
        super().__init__(builder, lanes)
        source, _, target = name.partition(">")
        self.name = source
        self.target_name = target or source
        self.mode = mode
        self.bits = bits
        self.form = mode.format(self.name)
        self.target = mode.format(self.target_name)
        self.env = mode.environment(self.name)
        self.target_env = mode.environment(self.target_name)

    # --- encodings

    def magnitude(self, value: Any, form: Format | None = None) -> Any:
        """The encoding without its sign."""
        form = form or self.form
        return self.builder.and_(value, self.constant(form.bits, form.sign_bit - 1))

    def sign(self, value: Any, form: Format | None = None) -> Any:
        """The encoding's sign bit in place."""
        form = form or self.form
        return self.builder.and_(value, self.constant(form.bits, form.sign_bit))

    def is_nan(self, value: Any, form: Format | None = None) -> Any:
        """Whether an encoding is a NaN."""
        form = form or self.form
        if form.specials is Specials.FNUZ:
            return self.builder.icmp_unsigned("==", value, self.constant(form.bits, form.sign_bit))
        if form.specials is Specials.FN:
            top = self.constant(form.bits, form.sign_bit - 1)
            return self.builder.icmp_unsigned("==", self.magnitude(value, form), top)
        if form.specials is Specials.FINITE:
            return self.constant(1, 0)
        top = self.constant(form.bits, form.infinity)
        return self.builder.icmp_unsigned(">", self.magnitude(value, form), top)

    def is_denormal_or_zero(self, value: Any, form: Format | None = None) -> Any:
        """Whether the exponent field is zero."""
        form = form or self.form
        least = self.constant(form.bits, 1 << form.fraction_bits)
        return self.builder.icmp_unsigned("<", self.magnitude(value, form), least)

    def flushed(self, value: Any, flush: bool, form: Format | None = None) -> Any:
        """A denormal as zero of its sign if `flush`."""
        if not flush:
            return value
        form = form or self.form
        return self.builder.select(self.is_denormal_or_zero(value, form), self.sign(value, form), value)

    def quieted(self, value: Any, form: Format | None = None) -> Any:
        """A value known to be a NaN, quieted."""
        form = form or self.form
        if form.specials is not Specials.IEEE:
            return value
        return self.builder.or_(value, self.constant(form.bits, form.quiet_bit))

    def quiet_if_nan(self, value: Any) -> Any:
        """A NaN quieted, anything else unchanged."""
        return self.builder.select(self.is_nan(value), self.quieted(value), value)

    def nan_fixed(self, result: Any, is_nan: Any, operands: Sequence[Any], numbers: Sequence[Any]) -> Any:
        """`result`, or where it is a NaN the first NaN operand or the default NaN.

        `numbers` are the operands as host numbers, which compare in one instruction.
        """
        chosen = self.constant(self.form.bits, self.form.default_nan)
        for operand, number in zip(reversed(operands), reversed(numbers), strict=True):
            operand_is_nan = self.builder.fcmp_unordered("uno", number, number)
            chosen = self.builder.select(operand_is_nan, self.quieted(operand), chosen)
        return self.builder.select(is_nan, chosen, result)

    # --- host arithmetic

    @property
    def host(self) -> str:
        """The host format that computes for this one."""
        return "f64" if self.name == "f64" else "f32"

    def widened(self, value: Any, host: str | None = None) -> Any:
        """An encoding as a host number (f32, or f64 where asked for); exact."""
        host = host or self.host
        if self.name == "f64":
            return self.builder.bitcast(value, self.real_type("f64"))
        number = self.builder.bitcast(self._f32_encoding(value), self.real_type("f32"))
        return number if host == "f32" else self.builder.fpext(number, self.real_type("f64"))

    def _f32_encoding(self, value: Any) -> Any:
        """A narrower format's encoding as that of the same number in f32 (a NaN's payload is not kept)."""
        if self.name == "f32":
            return value
        if self.name == "bf16":
            return self.builder.shl(self.resized(value, 32), self.constant(32, 16))
        if self.name == "f16" and host_has("f16c"):
            half = self.builder.bitcast(value, self.real_type("f16"))
            return self.builder.bitcast(self.builder.fpext(half, self.real_type("f32")), self.integer(32))
        return self._small_as_f32(value)

    def _small_as_f32(self, value: Any) -> Any:
        """Any narrower format by integer code.

        The magnitude put where f32 has exponent and fraction is the number times 2**(bias - 127), denormals
        included, so one exact multiplication puts it right.
        """
        b, form = self.builder, self.form
        wide = self.resized(self.magnitude(value), 32)
        placed = b.bitcast(b.shl(wide, self.constant(32, 23 - form.fraction_bits)), self.real_type("f32"))
        scaled = b.bitcast(b.fmul(placed, self.real("f32", 2.0 ** (127 - form.bias))), self.integer(32))
        if form.specials is Specials.IEEE:
            top = b.icmp_unsigned(">=", self.magnitude(value), self.constant(form.bits, form.infinity))
            special = b.or_(b.shl(wide, self.constant(32, 23 - form.fraction_bits)), self.constant(32, 0xFF << 23))
            scaled = b.select(top, special, scaled)
        sign = b.shl(self.resized(self.sign(value), 32), self.constant(32, 32 - form.bits))
        encoding = b.or_(scaled, sign)
        if form.specials in (Specials.FN, Specials.FNUZ):
            encoding = b.select(self.is_nan(value), self.constant(32, 0x7FC00000), encoding)
        return encoding

    def narrowed(self, number: Any, env: Environment) -> Any:
        """A host number rounded to this format, NaNs aside; `env` for rounding, flush and saturation."""
        if number.type == self.real_type("f64") and self.name != "f64":
            number = self.to_f32(number, odd=self.name != "f32")
        b = self.builder
        if self.name in ("f32", "f64"):
            return self.flushed(b.bitcast(number, self.integer(self.form.bits)), env.flush_outputs)
        encoding = b.bitcast(number, self.integer(32))
        return self.rounded_from_f32(encoding, self.form, env)

    def to_f32(self, number: Any, *, odd: bool) -> Any:
        """f64 to f32: rounded to nearest, or to odd so that a further rounding is the only one."""
        b = self.builder
        if odd:
            encoding = b.bitcast(number, self.integer(64))
            dropped = b.and_(encoding, self.constant(64, (1 << 29) - 1))
            sticky = b.icmp_unsigned("!=", dropped, self.constant(64, 0))
            kept = b.and_(encoding, self.constant(64, -1 << 29))
            kept = b.or_(kept, b.select(sticky, self.constant(64, 1 << 29), self.constant(64, 0)))
            number = b.bitcast(kept, self.real_type("f64"))
        return b.fptrunc(number, self.real_type("f32"))

    def held_in_f32_range(self, number: Any) -> Any:
        """An f64 number beyond f32's normal range moved to its end; zeros and infinities stay.

        For every format narrower than bf16 both ends still overflow or underflow, in each rounding mode.
        """
        b = self.builder
        encoding = b.bitcast(number, self.integer(64))
        mag = b.and_(encoding, self.constant(64, (1 << 63) - 1))
        low, high = self.constant(64, 0x3810000000000000), self.constant(64, 0x47EFFFFFE0000000)
        held = self.intrinsic("umax", mag.type, self.intrinsic("umin", mag.type, mag, high), low)
        special = b.or_(
            b.icmp_unsigned("==", mag, self.constant(64, 0)),
            b.icmp_unsigned(">=", mag, self.constant(64, 0x7FF << 52)),
        )
        held = b.or_(b.select(special, mag, held), b.xor(encoding, mag))
        return b.bitcast(held, self.real_type("f64"))

    # --- rounding to a narrower format by integer code

    def rounded_from_f32(self, encoding: Any, form: Format, env: Environment) -> Any:
        """An f32 encoding rounded to a narrower format; a NaN gives any NaN."""
        native = form.bits == 16 and form.fraction_bits == 10 and host_has("f16c")
        if native and env.rounding is Rounding.NEAREST_EVEN and not env.saturate:
            number = self.builder.bitcast(encoding, self.real_type("f32"))
            half = self.builder.bitcast(self.builder.fptrunc(number, self.real_type("f16")), self.integer(16))
            return self.flushed(half, env.flush_outputs, form)
        return self.rounded_with(encoding, form, env, None)

    def rounded_with(self, encoding: Any, form: Format, env: Environment, random: Any | None) -> Any:
        """The algorithm of `softfloat.rounded` (or `convert_stochastic`) on f32 encodings."""
        b, work = self.builder, 64 if random is not None else 32
        mag = b.and_(encoding, self.constant(32, 0x7FFFFFFF))
        sign = b.lshr(encoding, self.constant(32, 31))
        field = b.lshr(mag, self.constant(32, 23))
        normal = b.icmp_unsigned("!=", field, self.constant(32, 0))
        significand = b.or_(
            b.and_(mag, self.constant(32, 0x7FFFFF)),
            b.shl(b.zext(normal, self.integer(32)), self.constant(32, 23)),
        )
        field = b.select(normal, field, self.constant(32, 1))
        lowest = self.constant(32, 128 - form.bias)  # exponent field of the target's smallest normal number
        above = b.icmp_unsigned(">", field, lowest)
        place = b.select(above, b.sub(field, lowest), self.constant(32, 0))
        below = b.select(above, self.constant(32, 0), b.sub(lowest, field))
        drop = b.add(below, self.constant(32, 23 - form.fraction_bits))
        # Beyond this the whole significand lies below half (or the random bits' last place) of the last place.
        limit = self.constant(32, 26 + (bits_of(random) if random is not None else 0))
        drop = b.select(b.icmp_unsigned("<", drop, limit), drop, limit)
        increment = self._increment(significand, drop, sign, env, random)
        total = b.add(self.resized(significand, work), increment)
        quotient = self.resized(b.lshr(total, self.resized(drop, work)), 32)
        result = b.add(b.shl(place, self.constant(32, form.fraction_bits)), quotient)
        return self._finished(result, mag, sign, form, env)

    def _increment(self, significand: Any, drop: Any, sign: Any, env: Environment, random: Any | None) -> Any:
        """What is added before the dropped bits are cut."""
        b, one = self.builder, self.constant(32, 1)
        if random is not None:
            width = self.constant(64, bits_of(random))
            wide, drop = self.resized(random, 64), self.resized(drop, 64)
            up = b.shl(wide, b.sub(drop, width))
            down = b.lshr(wide, b.sub(width, drop))
            return b.select(b.icmp_unsigned(">=", drop, width), up, down)
        if env.rounding is Rounding.ZERO:
            return self.constant(32, 0)
        if env.rounding is Rounding.NEAREST_EVEN:
            last = b.and_(b.lshr(significand, drop), one)
            return b.add(b.sub(b.shl(one, b.sub(drop, one)), one), last)
        all_below = b.sub(b.shl(one, drop), one)
        away = 0 if env.rounding is Rounding.PLUS_INFINITY else 1
        return b.select(b.icmp_unsigned("==", sign, self.constant(32, away)), all_below, self.constant(32, 0))

    def _finished(self, result: Any, mag: Any, sign: Any, form: Format, env: Environment) -> Any:
        """Overflow, infinities, flush and sign."""
        b = self.builder
        sign_place = b.shl(sign, self.constant(32, form.bits - 1))
        if env.flush_outputs:
            denormal = b.icmp_unsigned("<", result, self.constant(32, 1 << form.fraction_bits))
            result = b.select(denormal, self.constant(32, 0), result)
        signed = b.or_(result, sign_place)
        if form.specials is Specials.FNUZ:
            signed = b.select(b.icmp_unsigned("==", result, self.constant(32, 0)), result, signed)
        over = b.icmp_unsigned(">", result, self.constant(32, form.largest))
        signed = b.select(over, self._beyond(sign, form, env), signed)
        infinity = b.icmp_unsigned(">=", mag, self.constant(32, 0xFF << 23))
        exact = self._by_sign(sign, infinite(form, 0, env), infinite(form, 1, env))
        return self.resized(b.select(infinity, exact, signed), form.bits)

    def _beyond(self, sign: Any, form: Format, env: Environment) -> Any:
        """What a finite number beyond the largest becomes, by sign."""
        away = {
            Rounding.NEAREST_EVEN: (True, True),
            Rounding.PLUS_INFINITY: (True, False),
            Rounding.MINUS_INFINITY: (False, True),
            Rounding.ZERO: (False, False),
        }[env.rounding]
        values = [
            infinite(form, side, env) if away[side] and not env.saturate else side << form.bits - 1 | form.largest
            for side in (0, 1)
        ]
        return self._by_sign(sign, values[0], values[1])

    def _by_sign(self, sign: Any, positive: int, negative: int) -> Any:
        is_positive = self.builder.icmp_unsigned("==", sign, self.constant(32, 0))
        return self.builder.select(is_positive, self.constant(32, positive), self.constant(32, negative))


# --- arithmetic ------------------------------------------------------------------------------------------

_ARITHMETIC_FORMATS = ("f16", "bf16", "f32", "f64")


def _arithmetic(code: FloatCode, env: Environment, operands: tuple[Any, ...], host: str, compute: Any) -> Any:
    """Flush, widen, compute, narrow, and choose the NaN."""
    values = [code.flushed(value, env.flush_inputs) for value in operands]
    numbers = [code.widened(value, host) for value in values]
    result = compute(*numbers)
    is_nan = code.builder.fcmp_unordered("uno", result, result)
    return code.nan_fixed(code.narrowed(result, env), is_nan, values, numbers)


def _nearest(code: FloatCode) -> bool:
    return code.name in _ARITHMETIC_FORMATS and code.env.rounding is Rounding.NEAREST_EVEN


def _binary(method: str) -> Callable[..., Any]:
    def write(code: FloatCode, a: Any, b: Any) -> Any:
        if not _nearest(code):
            return None
        return _arithmetic(code, code.env, (a, b), code.host, getattr(code.builder, method))

    return write


def _fma(code: FloatCode, a: Any, b: Any, c: Any) -> Any:
    if not _nearest(code) or code.name == "bf16":
        return None
    host = "f32" if code.name == "f32" else "f64"

    def compute(x: Any, y: Any, z: Any) -> Any:
        return code.intrinsic("fma", code.real_type(host), x, y, z)

    return _arithmetic(code, code.env, (a, b, c), host, compute)


def _fmad(code: FloatCode, a: Any, b: Any, c: Any) -> Any:
    if not _nearest(code):
        return None
    env = code.mode.multiply_add_environment(code.name)
    product = _arithmetic(code, env, (a, b), code.host, code.builder.fmul)
    # A NaN product is a NaN operand's, or the default one, which a NaN addend does not displace.
    return _arithmetic(code, env, (product, c), code.host, code.builder.fadd)


def _special(compute: Callable[[FloatCode, Any], Any], formats: tuple[str, ...], host: str = "") -> Callable[..., Any]:
    """A function of one operand in the environment of special functions; `host` "" for the format's own."""

    def write(code: FloatCode, a: Any) -> Any:
        if code.name not in formats:
            return None
        env = code.mode.special_environment(code.name)
        return _arithmetic(code, env, (a,), host or code.host, lambda x: compute(code, x))

    return write


def _root(code: FloatCode, x: Any) -> Any:
    return code.intrinsic("sqrt", x.type, x)


def _reciprocal(code: FloatCode, x: Any) -> Any:
    return code.builder.fdiv(code.real(_host_name(code, x), 1.0), x)


def _host_name(code: FloatCode, x: Any) -> str:
    return "f64" if x.type == code.real_type("f64") else "f32"


def _reciprocal_root(code: FloatCode, x: Any) -> Any:
    return _reciprocal(code, _root(code, x))


def _polynomial(code: FloatCode, x: Any, coefficients: list[float]) -> Any:
    """Horner's rule, lowest power first in `coefficients`."""
    total = code.real("f64", coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = code.intrinsic("fma", x.type, total, x, code.real("f64", coefficient))
    return total


# Powers of two that over- or underflow every number of the format. With f16's the result stays finite in f32, which
# keeps an overflow apart from an infinity.
_POWER_LIMIT = {"f16": 100, "f32": 300, "f64": 4000}

_EXP2 = [math.log(2) ** k / math.factorial(k) for k in range(15)]
_LOG2 = [2 / math.log(2) / (2 * k + 1) for k in range(12)]
_SINE = [(-1) ** k / math.factorial(2 * k + 1) for k in range(10)]
_COSINE = [(-1) ** k / math.factorial(2 * k) for k in range(11)]


def _exp2(code: FloatCode, x: Any) -> Any:
    """2**n * 2**f with n the nearest integer, held where all powers over- or underflow alike."""
    b = code.builder
    limit = code.real("f64", float(_POWER_LIMIT[code.name]))
    x = b.select(b.fcmp_ordered(">", x, limit), limit, x)
    low = code.real("f64", -float(_POWER_LIMIT[code.name]))
    x = b.select(b.fcmp_ordered("<", x, low), low, x)
    whole = code.intrinsic("roundeven", x.type, x)
    power = _polynomial(code, b.fsub(x, whole), _EXP2)
    # A NaN makes `n` arbitrary but defined: the saturating conversion gives 0.
    n = code.intrinsic("fptosi.sat", code.integer(32), whole, overloads=(code.integer(32), whole.type))
    scale = b.shl(b.add(code.resized(n, 64, signed=True), code.constant(64, 1023)), code.constant(64, 52))
    return b.fmul(power, b.bitcast(scale, x.type))


def _log2(code: FloatCode, x: Any) -> Any:
    """e + log2(m), m in [sqrt(1/2), sqrt(2)), by the series of atanh((m - 1) / (m + 1)); x is normal in f64."""
    b = code.builder
    encoding = b.bitcast(x, code.integer(64))
    # Adding the distance from sqrt(1/2) to 1 carries into the exponent exactly for m >= sqrt(1/2).
    root = 0x3FE6A09E667F3BCD
    shifted = b.add(encoding, code.constant(64, 0x3FF0000000000000 - root))
    e = b.sub(b.ashr(shifted, code.constant(64, 52)), code.constant(64, 1023))
    m = b.bitcast(b.sub(encoding, b.shl(e, code.constant(64, 52))), x.type)
    one = code.real("f64", 1.0)
    s = b.fdiv(b.fsub(m, one), b.fadd(m, one))
    fraction = b.fmul(s, _polynomial(code, b.fmul(s, s), _LOG2))
    result = b.fadd(b.sitofp(code.resized(e, 32), x.type), fraction)
    infinity, zero = code.real("f64", math.inf), code.real("f64", 0.0)
    result = b.select(b.fcmp_ordered("==", x, infinity), infinity, result)
    result = b.select(b.fcmp_ordered("==", x, zero), code.real("f64", -math.inf), result)
    nan = code.real("f64", math.nan)
    return b.select(b.fcmp_unordered("<", x, zero), nan, result)


def _circular(quarters: int) -> Callable[[FloatCode, Any], Any]:
    """sin(2 pi (x + quarters / 4)): the reduction to an eighth of a revolution is exact."""

    def compute(code: FloatCode, x: Any) -> Any:
        b = code.builder
        turn = b.fsub(x, code.intrinsic("roundeven", x.type, x))
        quarter = code.intrinsic("roundeven", x.type, b.fmul(turn, code.real("f64", 4.0)))
        angle = b.fmul(b.fsub(turn, b.fmul(quarter, code.real("f64", 0.25))), code.real("f64", 2 * math.pi))
        square = b.fmul(angle, angle)
        sine, cosine = b.fmul(angle, _polynomial(code, square, _SINE)), _polynomial(code, square, _COSINE)
        number = code.intrinsic("fptosi.sat", code.integer(32), quarter, overloads=(code.integer(32), x.type))
        number = b.add(number, code.constant(32, quarters))
        odd = b.trunc(number, code.integer(1))
        negative = b.trunc(b.lshr(number, code.constant(32, 1)), code.integer(1))
        value = b.select(odd, cosine, sine)
        value = b.select(negative, b.fneg(value), value)
        zero = code.real("f64", 0.0)
        signed_zero = zero if quarters else code.intrinsic("copysign", x.type, zero, x)
        return b.select(b.fcmp_ordered("==", value, zero), signed_zero, value)

    return compute


# --- minimum, maximum, comparison ------------------------------------------------------------------------


def _extreme(relation: str, both: str, rule: str) -> Callable[..., Any]:
    """`relation` picks a; equal numbers are zeros or the same, where `both` (OR or AND) finds the sign."""

    def write(code: FloatCode, a: Any, b: Any) -> Any:
        if code.name not in _ARITHMETIC_FORMATS:
            return None
        builder = code.builder
        a, b = (code.flushed(value, code.env.flush_inputs) for value in (a, b))
        x, y = code.widened(a), code.widened(b)
        chosen = builder.select(builder.fcmp_ordered(relation, x, y), a, b)
        equal = builder.fcmp_ordered("==", x, y)
        chosen = builder.select(equal, getattr(builder, both)(a, b), chosen)
        return _nan_rule(code, rule, chosen, a, b)

    return write


def _nan_rule(code: FloatCode, rule: str, chosen: Any, a: Any, b: Any) -> Any:
    """The NaN part of `softfloat.minimum`, last rule first."""
    builder = code.builder
    a_nan, b_nan = code.is_nan(a), code.is_nan(b)
    quiet_a, quiet_b = code.quieted(a), code.quieted(b)
    if rule == "propagate":
        chosen = builder.select(b_nan, quiet_b, chosen)
        chosen = builder.select(a_nan, quiet_a, chosen)
    else:
        chosen = builder.select(b_nan, builder.select(a_nan, quiet_a, a), builder.select(a_nan, b, chosen))
    if rule == "number":
        return chosen
    a_signals, b_signals = (_is_signaling(code, value) for value in (a, b))
    chosen = builder.select(b_signals, quiet_b, chosen)
    return builder.select(a_signals, quiet_a, chosen)


def _is_signaling(code: FloatCode, value: Any) -> Any:
    if code.form.specials is not Specials.IEEE:
        return code.constant(1, 0)
    bit = code.builder.and_(value, code.constant(code.form.bits, code.form.quiet_bit))
    loud = code.builder.icmp_unsigned("==", bit, code.constant(code.form.bits, 0))
    return code.builder.and_(code.is_nan(value), loud)


def _comparison(operator: str, *, ordered: bool = True) -> Callable[..., Any]:
    def write(code: FloatCode, a: Any, b: Any) -> Any:
        if code.form.bits < 16:
            return None
        x, y = (code.widened(code.flushed(value, code.env.flush_inputs)) for value in (a, b))
        compare = code.builder.fcmp_ordered if ordered else code.builder.fcmp_unordered
        return compare(operator, x, y)

    return write


def _clamp(code: FloatCode, a: Any) -> Any:
    form, b = code.form, code.builder
    one = form.bias << form.fraction_bits
    above = b.icmp_signed(">", a, code.constant(form.bits, one))
    held = b.select(above, code.constant(form.bits, one), a)
    negative = b.icmp_signed("<", a, code.constant(form.bits, 0))
    held = b.select(negative, code.constant(form.bits, 0), held)
    nan = code.constant(form.bits, 0) if code.mode.dx10_clamp else code.quieted(a)
    return b.select(code.is_nan(a), nan, held)


# --- integral values, powers, fields ---------------------------------------------------------------------


def _integral(name: str) -> Callable[..., Any]:
    def write(code: FloatCode, a: Any) -> Any:
        if code.name not in _ARITHMETIC_FORMATS:
            return None
        env = Environment(flush_inputs=code.env.flush_inputs)
        return _arithmetic(code, env, (a,), code.host, lambda x: code.intrinsic(name, x.type, x))

    return write


def _fract(code: FloatCode, a: Any) -> Any:
    if not _nearest(code):
        return None

    def compute(x: Any) -> Any:
        b = code.builder
        part = b.fsub(x, code.intrinsic("floor", x.type, x))
        below_one = code.real(code.host, 1.0 - 2.0 ** -(code.form.fraction_bits + 1))
        return b.select(b.fcmp_ordered(">", part, below_one), below_one, part)

    return _arithmetic(code, code.env, (a,), code.host, compute)


def _ldexp(code: FloatCode, a: Any, power: Any) -> Any:
    """f16 and f32: one exact multiplication in f64, then one rounding; f64: see `_ldexp_f64`."""
    if not _nearest(code) or code.name == "bf16":
        return None
    b, wide = code.builder, 64
    n = code.resized(power, wide, signed=True) if bits_of(power) < wide else power
    bits = bits_of(n)
    limit = _POWER_LIMIT[code.name]
    high, low = code.constant(bits, limit), code.constant(bits, -limit)
    n = b.select(b.icmp_signed(">", n, high), high, n)
    n = code.resized(b.select(b.icmp_signed("<", n, low), low, n), 64)
    if code.name == "f64":
        return _arithmetic(code, code.env, (a,), "f64", lambda x: _ldexp_f64(code, x, n))
    return _arithmetic(code, code.env, (a,), "f64", lambda x: b.fmul(x, _power_of_two(code, n)))


def _power_of_two(code: FloatCode, n: Any) -> Any:
    b = code.builder
    encoding = b.shl(b.add(n, code.constant(64, 1023)), code.constant(64, 52))
    return b.bitcast(encoding, code.real_type("f64"))


def _ldexp_f64(code: FloatCode, x: Any, n: Any) -> Any:
    """x = m * 2**e with m in [1, 2); m times two powers of two, of which only the second can round."""
    b = code.builder
    encoding = b.bitcast(x, code.integer(64))
    mag = b.and_(encoding, code.constant(64, (1 << 63) - 1))
    denormal = b.icmp_unsigned("<", mag, code.constant(64, 1 << 52))
    normal = b.bitcast(
        b.select(denormal, b.bitcast(b.fmul(x, code.real("f64", 2.0**64)), encoding.type), encoding), x.type
    )
    bits = b.bitcast(normal, code.integer(64))
    field = b.and_(b.lshr(bits, code.constant(64, 52)), code.constant(64, 0x7FF))
    e = b.sub(field, b.select(denormal, code.constant(64, 1023 + 64), code.constant(64, 1023)))
    e = b.add(e, n)
    high, low = code.constant(64, 1100), code.constant(64, -1200)
    e = b.select(b.icmp_signed(">", e, high), high, e)
    e = b.select(b.icmp_signed("<", e, low), low, e)
    m = b.bitcast(b.or_(b.and_(bits, code.constant(64, ~(0x7FF << 52))), code.constant(64, 1023 << 52)), x.type)
    half = b.ashr(e, code.constant(64, 1))
    scaled = b.fmul(b.fmul(m, _power_of_two(code, half)), _power_of_two(code, b.sub(e, half)))
    zero, top = code.constant(64, 0), code.constant(64, 0x7FF << 52)
    itself = b.or_(b.icmp_unsigned("==", mag, zero), b.icmp_unsigned(">=", mag, top))
    return b.select(itself, x, scaled)


def _normalised(code: FloatCode, a: Any) -> tuple[Any, Any, Any, Any, str]:
    """(host encoding without denormals, its exponent offset, zero/inf/NaN?, flushed a, host format)."""
    b = code.builder
    a = code.flushed(a, code.env.flush_inputs)
    host = code.host
    form = code.mode.format(host)
    encoding = b.bitcast(code.widened(a), code.integer(form.bits))
    denormal = code.is_denormal_or_zero(encoding, form)
    number = b.bitcast(encoding, code.real_type(host))
    raised = b.bitcast(b.fmul(number, code.real(host, 2.0**64)), encoding.type)
    normal = b.select(denormal, raised, encoding)
    offset = b.select(denormal, code.constant(form.bits, 64), code.constant(form.bits, 0))
    mag = code.magnitude(encoding, form)
    is_zero = b.icmp_unsigned("==", mag, code.constant(form.bits, 0))
    beyond = b.icmp_unsigned(">=", mag, code.constant(form.bits, form.infinity))
    return normal, offset, b.or_(is_zero, beyond), a, host


def _frexp_exponent(code: FloatCode, a: Any) -> Any:
    if code.name not in _ARITHMETIC_FORMATS:
        return None
    b = code.builder
    normal, offset, special, _, host = _normalised(code, a)
    form = code.mode.format(host)
    field = b.lshr(code.magnitude(normal, form), code.constant(form.bits, form.fraction_bits))
    exponent = b.sub(b.sub(field, code.constant(form.bits, form.bias - 1)), offset)
    return code.resized(b.select(special, code.constant(form.bits, 0), exponent), code.bits, signed=True)


def _frexp_mantissa(code: FloatCode, a: Any) -> Any:
    if code.name not in _ARITHMETIC_FORMATS:
        return None
    b = code.builder
    normal, _, special, a, host = _normalised(code, a)
    form = code.mode.format(host)
    kept = b.and_(normal, code.constant(form.bits, ~form.infinity))
    mantissa = b.or_(kept, code.constant(form.bits, form.bias - 1 << form.fraction_bits))
    exact = Environment()
    result = code.narrowed(b.bitcast(mantissa, code.real_type(host)), exact)
    return b.select(special, code.quiet_if_nan(a), result)


# --- tests and fields ------------------------------------------------------------------------------------


def _is_infinite(code: FloatCode, a: Any) -> Any:
    if code.form.specials is not Specials.IEEE:
        return code.constant(1, 0)
    top = code.constant(code.form.bits, code.form.infinity)
    return code.builder.icmp_unsigned("==", code.magnitude(a), top)


def _is_zero(code: FloatCode, a: Any) -> Any:
    return code.builder.icmp_unsigned("==", code.magnitude(a), code.constant(code.form.bits, 0))


def _is_denormal(code: FloatCode, a: Any) -> Any:
    b = code.builder
    return b.and_(code.is_denormal_or_zero(a), b.not_(_is_zero(code, a)))


def _sign_field(code: FloatCode, a: Any) -> Any:
    return code.builder.icmp_signed("<", a, code.constant(code.form.bits, 0))


def _exponent_field(code: FloatCode, a: Any) -> Any:
    field = code.builder.lshr(code.magnitude(a), code.constant(code.form.bits, code.form.fraction_bits))
    return code.resized(field, code.bits)


def _fraction_field(code: FloatCode, a: Any) -> Any:
    mask = code.constant(code.form.bits, (1 << code.form.fraction_bits) - 1)
    return code.resized(code.builder.and_(a, mask), code.bits)


def _negated(code: FloatCode, a: Any) -> Any:
    return code.builder.xor(a, code.constant(code.form.bits, code.form.sign_bit))


def _canonical(code: FloatCode, a: Any) -> Any:
    return code.quiet_if_nan(code.flushed(a, code.env.flush_inputs or code.env.flush_outputs))


# --- conversions -----------------------------------------------------------------------------------------


def _to_integer(name: str) -> Callable[..., Any]:
    def write(code: FloatCode, a: Any) -> Any:
        number = code.widened(a)
        result = code.integer(code.bits)
        return code.intrinsic(name, result, number, overloads=(result, number.type))

    return write


def _from_integer(method: str) -> Callable[..., Any]:
    def write(code: FloatCode, a: Any) -> Any:
        width = bits_of(a)
        if not _nearest(code) or width > 64 or code.name == "bf16":
            return None
        # f16: every integer up to 32 bits is exact in f64, so the rounding to f16 is the only one.
        if code.name == "f16" and width > 32:
            return None
        host = "f64" if code.name == "f16" else code.name
        if width not in (8, 16, 32, 64):
            extended = 32 if width < 32 else 64
            a = code.resized(a, extended, signed=method == "sitofp")
        number = getattr(code.builder, method)(a, code.real_type(host))
        return code.narrowed(number, code.env)

    return write


def _convert(code: FloatCode, a: Any) -> Any:
    return _converted(code, a, code.target_env)


def _convert_to_zero(code: FloatCode, a: Any) -> Any:
    env = code.target_env
    return _converted(code, a, Environment(Rounding.ZERO, env.flush_inputs, env.flush_outputs, env.saturate))


def _converted(code: FloatCode, a: Any, env: Environment) -> Any:
    b = code.builder
    a = code.flushed(a, code.env.flush_inputs)
    nan = code.is_nan(a)
    if code.target_name == "f64":
        result = b.bitcast(code.widened(a, "f64"), code.integer(64))
    elif code.target_name == "f32":
        if code.name == "f64" and env.rounding is not Rounding.NEAREST_EVEN:
            return None
        number = code.widened(a)
        if code.name == "f64":
            number = b.fptrunc(number, code.real_type("f32"))
        result = code.flushed(b.bitcast(number, code.integer(32)), env.flush_outputs, code.target)
    else:
        number = code.widened(a)
        if code.name == "f64":
            if code.target_name == "bf16":
                return None
            number = code.to_f32(code.held_in_f32_range(number), odd=True)
        result = code.rounded_from_f32(b.bitcast(number, code.integer(32)), code.target, env)
    return b.select(nan, _converted_nan(code, a), result)


def _converted_nan(code: FloatCode, a: Any) -> Any:
    """`softfloat`'s rule for NaNs between formats."""
    b, source, target = code.builder, code.form, code.target
    if target.specials is Specials.FNUZ:
        return code.constant(target.bits, target.sign_bit)
    width = max(source.bits, target.bits)
    sign = b.shl(
        b.lshr(code.resized(a, width), code.constant(width, source.bits - 1)),
        code.constant(width, target.bits - 1),
    )
    fixed = target.default_nan & target.sign_bit - 1
    value = b.or_(code.resized(sign, target.bits), code.constant(target.bits, fixed))
    if target.specials is not Specials.IEEE or source.specials is not Specials.IEEE:
        return value
    payload = b.and_(code.resized(a, width), code.constant(width, (1 << source.fraction_bits) - 1))
    shift = target.fraction_bits - source.fraction_bits
    move = b.shl if shift >= 0 else b.lshr
    return b.or_(value, code.resized(move(payload, code.constant(width, abs(shift))), target.bits))


def _convert_stochastic(code: FloatCode, a: Any, random: Any) -> Any:
    if code.name == "f64" or bits_of(random) > 32 or code.target.bits > 16:
        return None
    a = code.flushed(a, code.env.flush_inputs)
    encoding = code.builder.bitcast(code.widened(a), code.integer(32))
    result = code.rounded_with(encoding, code.target, code.target_env, random)
    return code.builder.select(code.is_nan(a), _converted_nan(code, a), result)


_NARROW = ("f16", "f32")
_WRITERS: dict[str, Callable[..., Any]] = {
    "fadd": _binary("fadd"),
    "fsub": _binary("fsub"),
    "fmul": _binary("fmul"),
    "fdiv": _binary("fdiv"),
    "fma": _fma,
    "fmad": _fmad,
    "fsqrt": _special(_root, ("f16", "bf16", "f32", "f64")),
    "frcp": _special(_reciprocal, ("f16", "bf16", "f32", "f64")),
    "frsq": _special(_reciprocal_root, ("f16", "f32", "f64"), "f64"),
    "fexp2": _special(_exp2, _NARROW, "f64"),
    "flog2": _special(_log2, _NARROW, "f64"),
    "fsin": _special(_circular(0), _NARROW, "f64"),
    "fcos": _special(_circular(1), _NARROW, "f64"),
    "fmin": _extreme("<", "or_", "number"),
    "fmax": _extreme(">", "and_", "number"),
    "fmin_ieee": _extreme("<", "or_", "signaling"),
    "fmax_ieee": _extreme(">", "and_", "signaling"),
    "fminimum": _extreme("<", "or_", "propagate"),
    "fmaximum": _extreme(">", "and_", "propagate"),
    "ftrunc": _integral("trunc"),
    "fceil": _integral("ceil"),
    "ffloor": _integral("floor"),
    "frint": _integral("roundeven"),
    "ffract": _fract,
    "fldexp": _ldexp,
    "ffrexp_mant": _frexp_mantissa,
    "ffrexp_exp": _frexp_exponent,
    "fneg": _negated,
    "fabs": FloatCode.magnitude,
    "fclamp": _clamp,
    "fcanonicalize": _canonical,
    "fquiet": FloatCode.quiet_if_nan,
    "foeq": _comparison("=="),
    "fone": _comparison("!="),
    "folt": _comparison("<"),
    "fole": _comparison("<="),
    "fogt": _comparison(">"),
    "foge": _comparison(">="),
    "funord": _comparison("uno", ordered=False),
    "ford": _comparison("ord"),
    "fis_nan": FloatCode.is_nan,
    "fis_snan": _is_signaling,
    "fis_inf": _is_infinite,
    "fis_zero": _is_zero,
    "fis_denorm": _is_denormal,
    "fsign": _sign_field,
    "fexponent": _exponent_field,
    "fmantissa": _fraction_field,
    "fconvert": _convert,
    "fconvert_rtz": _convert_to_zero,
    "fconvert_sr": _convert_stochastic,
    "f_to_sint": _to_integer("fptosi.sat"),
    "f_to_uint": _to_integer("fptoui.sat"),
    "sint_to_f": _from_integer("sitofp"),
    "uint_to_f": _from_integer("uitofp"),
}


def call(
    builder: Any,
    name: str,
    form: str,
    bits: int,
    arguments: tuple[Any, ...],
    mode: FloatMode,
    inline: bool = True,
) -> Any:
    """A call of the function that does operation `name` on encodings, written into the module when first needed.

    `inline` says whether LLVM puts the function's code at the call. All `arguments` have one shape (vectors of one
    length, or single numbers). Raises KeyError for an unknown operation.
    """
    widths = ".".join(str(bits_of(argument)) for argument in arguments)
    lanes = lanes_of(arguments[0])
    symbol = f"{name}.{form}.{bits}.{widths}.{lanes}.{mode.register()}.{int(mode.fnuz)}.{inline:d}"
    function = builder.module.globals.get(symbol)
    if function is None:
        function = _function(builder.module, symbol, name, form, bits, arguments, mode, inline)
    return builder.call(function, arguments)


def _function(
    module: Any, symbol: str, name: str, form: str, bits: int, arguments: tuple[Any, ...], mode: FloatMode, inline: bool
) -> Any:
    lanes = lanes_of(arguments[0])
    result = LaneCode(None, lanes).integer(bits)
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    function = ir.Function(module, kind, name=symbol)
    function.linkage = "internal"
    builder = ir.IRBuilder(function.append_basic_block())
    code = FloatCode(builder, lanes, mode, form, bits)
    value = _WRITERS[name](code, *function.args)
    if value is None:
        function.attributes.add("noinline")
        value = _slow(code, name, form, function.args)
    else:
        function.attributes.add("alwaysinline" if inline else "noinline")
    builder.ret(value)
    return function


def is_native(name: str, form: str, bits: int, argument_bits: tuple[int, ...], mode: FloatMode) -> bool:
    """Whether an operation compiles to host code rather than a call into the reference evaluator."""
    module = ir.Module()
    kind = ir.FunctionType(ir.VoidType(), [ir.IntType(width) for width in argument_bits])
    function = ir.Function(module, kind, name="probe")
    builder = ir.IRBuilder(function.append_basic_block())
    return _WRITERS[name](FloatCode(builder, None, mode, form, bits), *function.args) is not None


def _slow(code: FloatCode, name: str, form: str, arguments: Any) -> Any:
    """Hands the operands to `slow_path` through arrays on the stack."""
    b, lanes = code.builder, code.lanes or 1
    word = ir.IntType(64)
    widths = tuple(bits_of(argument) for argument in arguments)
    text = slow_path.spelling(name, form, code.bits, widths, code.mode).encode() + b"\0"
    literal = ir.GlobalVariable(b.module, ir.ArrayType(ir.IntType(8), len(text)), b.function.name + ".text")
    literal.linkage, literal.global_constant = "internal", True
    literal.initializer = ir.Constant(literal.value_type, bytearray(text))
    operands = b.alloca(word, lanes * len(arguments))
    results = b.alloca(word, lanes)
    whole = code.integer(64).as_pointer()
    for place, argument in enumerate(arguments):
        where = b.gep(operands, [ir.Constant(word, place * lanes)])
        b.store(code.resized(argument, 64), b.bitcast(where, whole), align=8)
    helper = b.module.globals.get(slow_path.SYMBOL)
    if helper is None:
        byte = ir.IntType(8).as_pointer()
        words = word.as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, ir.IntType(32), words, words])
        helper = ir.Function(b.module, kind, name=slow_path.SYMBOL)
    text_at = b.bitcast(literal, ir.IntType(8).as_pointer())
    b.call(helper, [text_at, ir.Constant(ir.IntType(32), lanes), operands, results])
    return code.resized(b.load(b.bitcast(results, whole), align=8), code.bits)
