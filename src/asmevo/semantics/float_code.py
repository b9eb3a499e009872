"""What the code of every floating-point operation is made of: encodings, host numbers, and rounding between them.

Values are encodings (integers of the format's width). A host number is f32 or f64; each narrower format is widened to
one of them exactly, and rounded back by `narrowed`. Why that gives the right result is told in `float_lowering`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import llvmlite.binding as llvm

from asmevo.semantics.float_mode import FloatMode
from asmevo.semantics.lane_code import LaneCode, bits_of
from asmevo.semantics.softfloat.encodings import infinite
from asmevo.semantics.softfloat.formats import Environment, Format, Rounding, Specials


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
        """The algorithm of `encodings.rounded` (or `convert_stochastic`) on f32 encodings."""
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
