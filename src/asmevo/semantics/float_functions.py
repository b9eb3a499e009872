"""Roots, reciprocals, exponential, logarithm and circular functions as LLVM IR; polynomials where they are narrow."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from asmevo.semantics.float_arithmetic import POWER_LIMIT, arithmetic
from asmevo.semantics.float_code import FloatCode


def special(compute: Callable[[FloatCode, Any], Any], formats: tuple[str, ...], host: str = "") -> Callable[..., Any]:
    """A function of one operand in the environment of special functions; `host` "" for the format's own."""

    def write(code: FloatCode, a: Any) -> Any:
        if code.name not in formats:
            return None
        env = code.mode.special_environment(code.name)
        return arithmetic(code, env, (a,), host or code.host, lambda x: compute(code, x))

    return write


def root(code: FloatCode, x: Any) -> Any:
    return code.intrinsic("sqrt", x.type, x)


def reciprocal(code: FloatCode, x: Any) -> Any:
    return code.builder.fdiv(code.real(host_name(code, x), 1.0), x)


def host_name(code: FloatCode, x: Any) -> str:
    return "f64" if x.type == code.real_type("f64") else "f32"


def reciprocal_root(code: FloatCode, x: Any) -> Any:
    return reciprocal(code, root(code, x))


def polynomial(code: FloatCode, x: Any, coefficients: list[float]) -> Any:
    """Horner's rule, lowest power first in `coefficients`."""
    total = code.real("f64", coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = code.intrinsic("fma", x.type, total, x, code.real("f64", coefficient))
    return total


_EXP2 = [math.log(2) ** k / math.factorial(k) for k in range(15)]
_LOG2 = [2 / math.log(2) / (2 * k + 1) for k in range(12)]
_SINE = [(-1) ** k / math.factorial(2 * k + 1) for k in range(10)]
_COSINE = [(-1) ** k / math.factorial(2 * k) for k in range(11)]


def exp2(code: FloatCode, x: Any) -> Any:
    """2**n * 2**f with n the nearest integer, held where all powers over- or underflow alike."""
    b = code.builder
    limit = code.real("f64", float(POWER_LIMIT[code.name]))
    x = b.select(b.fcmp_ordered(">", x, limit), limit, x)
    low = code.real("f64", -float(POWER_LIMIT[code.name]))
    x = b.select(b.fcmp_ordered("<", x, low), low, x)
    whole = code.intrinsic("roundeven", x.type, x)
    power = polynomial(code, b.fsub(x, whole), _EXP2)
    # A NaN makes `n` arbitrary but defined: the saturating conversion gives 0.
    n = code.intrinsic("fptosi.sat", code.integer(32), whole, overloads=(code.integer(32), whole.type))
    scale = b.shl(b.add(code.resized(n, 64, signed=True), code.constant(64, 1023)), code.constant(64, 52))
    return b.fmul(power, b.bitcast(scale, x.type))


def log2(code: FloatCode, x: Any) -> Any:
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
    fraction = b.fmul(s, polynomial(code, b.fmul(s, s), _LOG2))
    result = b.fadd(b.sitofp(code.resized(e, 32), x.type), fraction)
    infinity, zero = code.real("f64", math.inf), code.real("f64", 0.0)
    result = b.select(b.fcmp_ordered("==", x, infinity), infinity, result)
    result = b.select(b.fcmp_ordered("==", x, zero), code.real("f64", -math.inf), result)
    nan = code.real("f64", math.nan)
    return b.select(b.fcmp_unordered("<", x, zero), nan, result)


def circular(quarters: int) -> Callable[[FloatCode, Any], Any]:
    """sin(2 pi (x + quarters / 4)): the reduction to an eighth of a revolution is exact."""

    def compute(code: FloatCode, x: Any) -> Any:
        b = code.builder
        turn = b.fsub(x, code.intrinsic("roundeven", x.type, x))
        quarter = code.intrinsic("roundeven", x.type, b.fmul(turn, code.real("f64", 4.0)))
        angle = b.fmul(b.fsub(turn, b.fmul(quarter, code.real("f64", 0.25))), code.real("f64", 2 * math.pi))
        square = b.fmul(angle, angle)
        sine, cosine = b.fmul(angle, polynomial(code, square, _SINE)), polynomial(code, square, _COSINE)
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
