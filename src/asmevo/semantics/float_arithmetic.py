"""Arithmetic, minimum and maximum, comparison, integral values and powers as LLVM IR.

Each function writes one operation and gives None where it has no host code (see `float_lowering`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from asmevo.semantics.float_code import FloatCode
from asmevo.semantics.lane_code import bits_of
from asmevo.semantics.softfloat.formats import Environment, Rounding, Specials

ARITHMETIC_FORMATS = ("f16", "bf16", "f32", "f64")


def arithmetic(code: FloatCode, env: Environment, operands: tuple[Any, ...], host: str, compute: Any) -> Any:
    """Flush, widen, compute, narrow, and choose the NaN."""
    values = [code.flushed(value, env.flush_inputs) for value in operands]
    numbers = [code.widened(value, host) for value in values]
    result = compute(*numbers)
    is_nan = code.builder.fcmp_unordered("uno", result, result)
    return code.nan_fixed(code.narrowed(result, env), is_nan, values, numbers)


def nearest(code: FloatCode) -> bool:
    return code.name in ARITHMETIC_FORMATS and code.env.rounding is Rounding.NEAREST_EVEN


def binary(method: str) -> Callable[..., Any]:
    def write(code: FloatCode, a: Any, b: Any) -> Any:
        if not nearest(code):
            return None
        return arithmetic(code, code.env, (a, b), code.host, getattr(code.builder, method))

    return write


def fma(code: FloatCode, a: Any, b: Any, c: Any) -> Any:
    if not nearest(code) or code.name == "bf16":
        return None
    host = "f32" if code.name == "f32" else "f64"

    def compute(x: Any, y: Any, z: Any) -> Any:
        return code.intrinsic("fma", code.real_type(host), x, y, z)

    return arithmetic(code, code.env, (a, b, c), host, compute)


def fmad(code: FloatCode, a: Any, b: Any, c: Any) -> Any:
    if not nearest(code):
        return None
    env = code.mode.multiply_add_environment(code.name)
    product = arithmetic(code, env, (a, b), code.host, code.builder.fmul)
    # A NaN product is a NaN operand's, or the default one, which a NaN addend does not displace.
    return arithmetic(code, env, (product, c), code.host, code.builder.fadd)


# --- minimum, maximum, comparison ------------------------------------------------------------------------


def extreme(relation: str, both: str, rule: str) -> Callable[..., Any]:
    """`relation` picks a; equal numbers are zeros or the same, where `both` (OR or AND) finds the sign."""

    def write(code: FloatCode, a: Any, b: Any) -> Any:
        if code.name not in ARITHMETIC_FORMATS:
            return None
        builder = code.builder
        a, b = (code.flushed(value, code.env.flush_inputs) for value in (a, b))
        x, y = code.widened(a), code.widened(b)
        chosen = builder.select(builder.fcmp_ordered(relation, x, y), a, b)
        equal = builder.fcmp_ordered("==", x, y)
        chosen = builder.select(equal, getattr(builder, both)(a, b), chosen)
        return nan_rule(code, rule, chosen, a, b)

    return write


def nan_rule(code: FloatCode, rule: str, chosen: Any, a: Any, b: Any) -> Any:
    """The NaN part of `comparison.minimum`, last rule first."""
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
    a_signals, b_signals = (is_signaling(code, value) for value in (a, b))
    chosen = builder.select(b_signals, quiet_b, chosen)
    return builder.select(a_signals, quiet_a, chosen)


def is_signaling(code: FloatCode, value: Any) -> Any:
    if code.form.specials is not Specials.IEEE:
        return code.constant(1, 0)
    bit = code.builder.and_(value, code.constant(code.form.bits, code.form.quiet_bit))
    loud = code.builder.icmp_unsigned("==", bit, code.constant(code.form.bits, 0))
    return code.builder.and_(code.is_nan(value), loud)


def comparison(operator: str, *, ordered: bool = True) -> Callable[..., Any]:
    def write(code: FloatCode, a: Any, b: Any) -> Any:
        if code.form.bits < 16:
            return None
        x, y = (code.widened(code.flushed(value, code.env.flush_inputs)) for value in (a, b))
        compare = code.builder.fcmp_ordered if ordered else code.builder.fcmp_unordered
        return compare(operator, x, y)

    return write


def clamp(code: FloatCode, a: Any) -> Any:
    form, b = code.form, code.builder
    one = form.bias << form.fraction_bits
    above = b.icmp_signed(">", a, code.constant(form.bits, one))
    held = b.select(above, code.constant(form.bits, one), a)
    negative = b.icmp_signed("<", a, code.constant(form.bits, 0))
    held = b.select(negative, code.constant(form.bits, 0), held)
    nan = code.constant(form.bits, 0) if code.mode.dx10_clamp else code.quieted(a)
    return b.select(code.is_nan(a), nan, held)


# --- integral values, powers, fields ---------------------------------------------------------------------


def integral(name: str) -> Callable[..., Any]:
    def write(code: FloatCode, a: Any) -> Any:
        if code.name not in ARITHMETIC_FORMATS:
            return None
        env = Environment(flush_inputs=code.env.flush_inputs)
        return arithmetic(code, env, (a,), code.host, lambda x: code.intrinsic(name, x.type, x))

    return write


def fraction_part(code: FloatCode, a: Any) -> Any:
    if not nearest(code):
        return None

    def compute(x: Any) -> Any:
        b = code.builder
        part = b.fsub(x, code.intrinsic("floor", x.type, x))
        below_one = code.real(code.host, 1.0 - 2.0 ** -(code.form.fraction_bits + 1))
        return b.select(b.fcmp_ordered(">", part, below_one), below_one, part)

    return arithmetic(code, code.env, (a,), code.host, compute)


# Powers of two that over- or underflow every number of the format. With f16's the result stays finite in f32, which
# keeps an overflow apart from an infinity.
POWER_LIMIT = {"f16": 100, "f32": 300, "f64": 4000}


def ldexp(code: FloatCode, a: Any, power: Any) -> Any:
    """f16 and f32: one exact multiplication in f64, then one rounding; f64: see `ldexp_f64`."""
    if not nearest(code) or code.name == "bf16":
        return None
    b, wide = code.builder, 64
    n = code.resized(power, wide, signed=True) if bits_of(power) < wide else power
    bits = bits_of(n)
    limit = POWER_LIMIT[code.name]
    high, low = code.constant(bits, limit), code.constant(bits, -limit)
    n = b.select(b.icmp_signed(">", n, high), high, n)
    n = code.resized(b.select(b.icmp_signed("<", n, low), low, n), 64)
    if code.name == "f64":
        return arithmetic(code, code.env, (a,), "f64", lambda x: ldexp_f64(code, x, n))
    return arithmetic(code, code.env, (a,), "f64", lambda x: b.fmul(x, power_of_two(code, n)))


def power_of_two(code: FloatCode, n: Any) -> Any:
    b = code.builder
    encoding = b.shl(b.add(n, code.constant(64, 1023)), code.constant(64, 52))
    return b.bitcast(encoding, code.real_type("f64"))


def ldexp_f64(code: FloatCode, x: Any, n: Any) -> Any:
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
    scaled = b.fmul(b.fmul(m, power_of_two(code, half)), power_of_two(code, b.sub(e, half)))
    zero, top = code.constant(64, 0), code.constant(64, 0x7FF << 52)
    itself = b.or_(b.icmp_unsigned("==", mag, zero), b.icmp_unsigned(">=", mag, top))
    return b.select(itself, x, scaled)


def normalised(code: FloatCode, a: Any) -> tuple[Any, Any, Any, Any, str]:
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


def frexp_exponent(code: FloatCode, a: Any) -> Any:
    if code.name not in ARITHMETIC_FORMATS:
        return None
    b = code.builder
    normal, offset, special, _, host = normalised(code, a)
    form = code.mode.format(host)
    field = b.lshr(code.magnitude(normal, form), code.constant(form.bits, form.fraction_bits))
    exponent = b.sub(b.sub(field, code.constant(form.bits, form.bias - 1)), offset)
    return code.resized(b.select(special, code.constant(form.bits, 0), exponent), code.bits, signed=True)


def frexp_mantissa(code: FloatCode, a: Any) -> Any:
    if code.name not in ARITHMETIC_FORMATS:
        return None
    b = code.builder
    normal, _, special, a, host = normalised(code, a)
    form = code.mode.format(host)
    kept = b.and_(normal, code.constant(form.bits, ~form.infinity))
    mantissa = b.or_(kept, code.constant(form.bits, form.bias - 1 << form.fraction_bits))
    exact = Environment()
    result = code.narrowed(b.bitcast(mantissa, code.real_type(host)), exact)
    return b.select(special, code.quiet_if_nan(a), result)
