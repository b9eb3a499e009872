"""Conversions between formats and with integers, and the fields and kinds of a number, as LLVM IR.

Each function writes one operation and gives None where it has no host code (see `float_lowering`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from asmevo.semantics.float_arithmetic import nearest
from asmevo.semantics.float_code import FloatCode
from asmevo.semantics.lane_code import bits_of
from asmevo.semantics.softfloat.formats import Environment, Rounding, Specials

# --- tests and fields ------------------------------------------------------------------------------------


def is_infinite(code: FloatCode, a: Any) -> Any:
    if code.form.specials is not Specials.IEEE:
        return code.constant(1, 0)
    top = code.constant(code.form.bits, code.form.infinity)
    return code.builder.icmp_unsigned("==", code.magnitude(a), top)


def is_zero(code: FloatCode, a: Any) -> Any:
    return code.builder.icmp_unsigned("==", code.magnitude(a), code.constant(code.form.bits, 0))


def is_denormal(code: FloatCode, a: Any) -> Any:
    b = code.builder
    return b.and_(code.is_denormal_or_zero(a), b.not_(is_zero(code, a)))


def sign_field(code: FloatCode, a: Any) -> Any:
    return code.builder.icmp_signed("<", a, code.constant(code.form.bits, 0))


def exponent_field(code: FloatCode, a: Any) -> Any:
    field = code.builder.lshr(code.magnitude(a), code.constant(code.form.bits, code.form.fraction_bits))
    return code.resized(field, code.bits)


def fraction_field(code: FloatCode, a: Any) -> Any:
    mask = code.constant(code.form.bits, (1 << code.form.fraction_bits) - 1)
    return code.resized(code.builder.and_(a, mask), code.bits)


def negated(code: FloatCode, a: Any) -> Any:
    return code.builder.xor(a, code.constant(code.form.bits, code.form.sign_bit))


def canonical(code: FloatCode, a: Any) -> Any:
    return code.quiet_if_nan(code.flushed(a, code.env.flush_inputs or code.env.flush_outputs))


# --- conversions -----------------------------------------------------------------------------------------


def to_integer(name: str) -> Callable[..., Any]:
    def write(code: FloatCode, a: Any) -> Any:
        number = code.widened(a)
        result = code.integer(code.bits)
        return code.intrinsic(name, result, number, overloads=(result, number.type))

    return write


def from_integer(method: str) -> Callable[..., Any]:
    def write(code: FloatCode, a: Any) -> Any:
        width = bits_of(a)
        if not nearest(code) or width > 64 or code.name == "bf16":
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


def convert(code: FloatCode, a: Any) -> Any:
    return converted(code, a, code.target_env)


def convert_to_zero(code: FloatCode, a: Any) -> Any:
    env = code.target_env
    return converted(code, a, Environment(Rounding.ZERO, env.flush_inputs, env.flush_outputs, env.saturate))


def converted(code: FloatCode, a: Any, env: Environment) -> Any:
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
    return b.select(nan, converted_nan(code, a), result)


def converted_nan(code: FloatCode, a: Any) -> Any:
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


def convert_stochastic(code: FloatCode, a: Any, random: Any) -> Any:
    if code.name == "f64" or bits_of(random) > 32 or code.target.bits > 16:
        return None
    a = code.flushed(a, code.env.flush_inputs)
    encoding = code.builder.bitcast(code.widened(a), code.integer(32))
    result = code.rounded_with(encoding, code.target, code.target_env, random)
    return code.builder.select(code.is_nan(a), converted_nan(code, a), result)
