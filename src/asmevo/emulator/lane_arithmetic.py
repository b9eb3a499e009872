"""The operations of expressions on numpy arrays, one element a lane.

The meaning of every operation is `semantics.evaluate.apply`, which works on one lane's Python integers. What is
common is written here once more for arrays, where the processor's arithmetic is known to give the same bits:
integers up to 64 bits; f32 and f64 with rounding to nearest (add, subtract, multiply, divide and root are
correctly rounded in IEEE arithmetic; f16 through f64, whose 53 bits hold products of 11 and let a single
rounding remain; fused f32 through f64 with the sum rounded to odd, which makes the second rounding exact,
Boldo and Melquiond 2008). Everything else, any other rounding mode, and wide integers go lane by lane through
`apply`. Arrays are uint64, or objects (Python integers) where a value is wider; a length of 1 stands for all lanes.

Reciprocal roots, exponentials and logarithms of f32 are computed in f64 and rounded: what the hardware does is
only known to one unit in the last place, and so is the whole operation (its meaning is marked approximate).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asmevo.semantics.evaluate import apply
from asmevo.semantics.expression import Op
from asmevo.semantics.float_mode import FloatMode
from asmevo.semantics.softfloat.formats import Environment, Rounding

Lanes = NDArray[Any]
Operation = Callable[..., Lanes]

U64 = np.uint64
_FLOATS: dict[str, tuple[type, type]] = {
    "f16": (np.uint16, np.float16), "f32": (np.uint32, np.float32), "f64": (np.uint64, np.float64),
}  # fmt: skip
_NATIVE = frozenset({"f16", "f32", "f64"})


def operation(node: Op, mode: FloatMode) -> Operation:
    """A function of arrays that does what the node says in the given floating-point mode."""
    if node.format:
        found = _float_operation(node, mode)
    elif node.bits <= 64 and all(argument.bits <= 64 for argument in node.args):
        found = _integer_operation(node)
    else:
        found = None
    return found or _lane_by_lane(node, mode)


def _lane_by_lane(node: Op, mode: FloatMode) -> Operation:
    kind: Any = U64 if node.bits <= 64 else object

    def run(*arguments: Lanes) -> Lanes:
        lanes = np.broadcast_arrays(*arguments)
        results = [apply(node, tuple(int(each[n]) for each in lanes), mode) for n in range(lanes[0].size)]
        made = np.empty(len(results), kind)
        made[:] = results
        return made

    return run


_SWAPS = (
    (1, 0x5555555555555555), (2, 0x3333333333333333), (4, 0x0F0F0F0F0F0F0F0F), (8, 0x00FF00FF00FF00FF),
    (16, 0x0000FFFF0000FFFF), (32, 0x00000000FFFFFFFF),
)  # fmt: skip


# --- integers -------------------------------------------------------------------------------------------------


def signed(value: Lanes, bits: int) -> Lanes:
    """The values as int64, the top bit of `bits` taken as the sign."""
    shift = U64(64 - bits)
    found: Lanes = (value << shift).view(np.int64) >> np.int64(64 - bits)
    return found


def _mask(bits: int) -> np.uint64:
    return U64((1 << bits) - 1)


def _shift(direction: str, bits: int) -> Operation:
    width = U64(bits)

    def left(a: Lanes, n: Lanes) -> Lanes:
        return np.where(n < width, a << np.minimum(n, U64(63)), U64(0)) & _mask(bits)

    def right(a: Lanes, n: Lanes) -> Lanes:
        return np.where(n < width, a >> np.minimum(n, U64(63)), U64(0))

    def right_signed(a: Lanes, n: Lanes) -> Lanes:
        shifted = signed(a, bits) >> np.minimum(n, width - U64(1)).astype(np.int64)
        return shifted.view(U64) & _mask(bits)

    return {"shl": left, "lshr": right, "ashr": right_signed}[direction]


def _integer_operation(node: Op) -> Operation | None:
    bits, mask = node.bits, _mask(node.bits)
    width = node.args[0].bits
    if node.name in ("shl", "lshr", "ashr"):
        return _shift(node.name, bits) if width == bits else None
    if node.name in ("umulh", "smulh") and bits > 32:
        return None

    def s(value: Lanes) -> Lanes:
        return signed(value, width)

    def flag(value: Lanes) -> Lanes:
        return value.astype(U64)

    table: dict[str, Operation] = {
        "add": lambda a, b: (a + b) & mask,
        "sub": lambda a, b: (a - b) & mask,
        "mul": lambda a, b: (a * b) & mask,
        "umulh": lambda a, b: (a * b) >> U64(bits),
        "smulh": lambda a, b: ((s(a) * s(b)) >> np.int64(bits)).view(U64) & mask,
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
        "not": lambda a: ~a & mask,
        "neg": lambda a: (U64(0) - a) & mask,
        "eq": lambda a, b: flag(a == b),
        "ne": lambda a, b: flag(a != b),
        "ult": lambda a, b: flag(a < b),
        "ule": lambda a, b: flag(a <= b),
        "slt": lambda a, b: flag(s(a) < s(b)),
        "sle": lambda a, b: flag(s(a) <= s(b)),
        "umin": np.minimum,
        "umax": np.maximum,
        "smin": lambda a, b: np.minimum(s(a), s(b)).view(U64) & mask,
        "smax": lambda a, b: np.maximum(s(a), s(b)).view(U64) & mask,
        "zext": lambda a: a & mask,
        "sext": lambda a: s(a).view(U64) & mask,
        "popcount": lambda a: np.bitwise_count(a).astype(U64),
        "abs": lambda a: np.abs(s(a)).view(U64) & mask,
        "ctlz": lambda a: U64(width) - _bit_length(a),
        "cttz": lambda a: np.where(a == 0, U64(width), np.bitwise_count((a & (U64(0) - a)) - U64(1))).astype(U64),
        "bitreverse": lambda a: _reversed(a) >> U64(64 - bits),
    }
    return table.get(node.name)


def _bit_length(value: Lanes) -> Lanes:
    """Bits up to the highest one, by the exponent of each 32-bit half (exact in f64)."""
    high, low = np.frexp((value >> U64(32)).astype(np.float64))[1], np.frexp((value & U64(0xFFFFFFFF)).astype(float))[1]
    found: Lanes = np.where(high > 0, high + 32, low).astype(U64)
    return found


def _reversed(value: Lanes) -> Lanes:
    """All 64 bits in reverse order, by swapping ever larger groups."""
    for shift, mask in _SWAPS:
        value = ((value >> U64(shift)) & U64(mask)) | ((value & U64(mask)) << U64(shift))
    return value


# --- floating point -------------------------------------------------------------------------------------------


def to_float(value: Lanes, name: str) -> Lanes:
    """Encodings as numpy's floating-point type of the format."""
    unsigned, floating = _FLOATS[name]
    return value.astype(unsigned).view(floating)


def from_float(value: Lanes, name: str) -> Lanes:
    """The reverse."""
    unsigned, floating = _FLOATS[name]
    return value.astype(floating, copy=False).view(unsigned).astype(U64)


def _flush(value: Lanes, name: str) -> Lanes:
    """Denormals replaced by zeros of their sign."""
    tiny = np.finfo(_FLOATS[name][1]).smallest_normal
    return np.where(np.abs(value) < tiny, np.copysign(np.zeros((), value.dtype), value), value)


class _Arithmetic:
    """Reads and writes encodings of one format as an environment says."""

    def __init__(self, name: str, env: Environment) -> None:
        self.name = name
        self.env = env

    def read(self, value: Lanes) -> Lanes:
        found = to_float(value, self.name)
        return _flush(found, self.name) if self.env.flush_inputs else found

    def write(self, value: Lanes) -> Lanes:
        _, floating = _FLOATS[self.name]
        narrow: Lanes = value.astype(floating, copy=False)
        return from_float(_flush(narrow, self.name) if self.env.flush_outputs else narrow, self.name)


def _wide(value: Lanes) -> Lanes:
    return value.astype(np.float64)


def fused_to_odd(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """a * b + c in f64 with the product exact (f32 operands) and the sum rounded to odd."""
    product, addend = _wide(a) * _wide(b), _wide(c)
    total = product + addend
    back = total - product
    error = (product - (total - back)) + (addend - back)
    bits = total.view(np.int64)
    inexact = np.isfinite(total) & (error != 0) & (bits & 1 == 0)
    # Towards the error's sign: the neighbour is the odd one, since the total itself is even.
    step = np.where((error > 0) == (total > 0), 1, -1)
    return np.where(inexact, bits + step, bits).view(np.float64)


def _float_operation(node: Op, mode: FloatMode) -> Operation | None:
    if ">" in node.format:
        return _conversion(node, mode)
    if node.format not in _NATIVE:
        return None
    return _bit_operation(node) or _compare_operation(node, mode) or _rounded_operation(node, mode)


def _bit_operation(node: Op) -> Operation | None:
    if node.bits > 64:
        return None
    sign = U64(1 << node.args[0].bits - 1)
    name = node.format
    table: dict[str, Operation] = {
        "fneg": lambda a: a ^ sign,
        "fabs": lambda a: a & (sign - U64(1)),
        "fis_nan": lambda a: np.isnan(to_float(a, name)).astype(U64),
        "fis_inf": lambda a: np.isinf(to_float(a, name)).astype(U64),
        "fis_zero": lambda a: (to_float(a, name) == 0).astype(U64),
        "fsign": lambda a: (a & sign != 0).astype(U64),
    }
    return table.get(node.name)


def _compare_operation(node: Op, mode: FloatMode) -> Operation | None:
    read = _Arithmetic(node.format, mode.environment(node.format)).read
    comparisons: dict[str, Operation] = {
        "foeq": lambda a, b: a == b,
        "fone": lambda a, b: (a < b) | (a > b),
        "folt": lambda a, b: a < b,
        "fole": lambda a, b: a <= b,
        "fogt": lambda a, b: a > b,
        "foge": lambda a, b: a >= b,
        "funord": lambda a, b: np.isnan(a) | np.isnan(b),
        "ford": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    }
    test = comparisons.get(node.name)
    return None if test is None else lambda a, b: test(read(a), read(b)).astype(U64)


def _rounded_operation(node: Op, mode: FloatMode) -> Operation | None:
    name = node.format
    env = mode.environment(name)
    if env.rounding is not Rounding.NEAREST_EVEN or env.saturate:
        return None
    calc = _Arithmetic(name, env)
    special = _Arithmetic(name, mode.special_environment(name))
    both = _FUNCTIONS.get(node.name)
    if both is not None:
        widen = _wide if name == "f16" else (lambda value: value)
        return lambda *args: calc.write(both(*(widen(calc.read(each)) for each in args)))
    if node.name == "fma" and name != "f64":
        return lambda a, b, c: calc.write(fused_to_odd(calc.read(a), calc.read(b), calc.read(c)))
    if node.name == "fmad" and name == "f32":
        return _multiply_add(_Arithmetic(name, mode.multiply_add_environment(name)))
    if node.name in _SPECIAL and name != "f64":
        function = _SPECIAL[node.name]
        return lambda a: special.write(function(_wide(special.read(a))))
    if node.name in ("sint_to_f", "uint_to_f"):
        return _from_integer(node, calc)
    return None


def _multiply_add(calc: _Arithmetic) -> Operation:
    """Rounds the product, flushes it, then rounds the sum."""

    def run(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
        product = calc.read(calc.write(calc.read(a) * calc.read(b)))
        return calc.write(product + calc.read(c))

    return run


_FUNCTIONS: dict[str, Operation] = {
    "fadd": lambda a, b: a + b,
    "fsub": lambda a, b: a - b,
    "fmul": lambda a, b: a * b,
    "fdiv": lambda a, b: a / b,
    "ftrunc": np.trunc,
    "fceil": np.ceil,
    "ffloor": np.floor,
    "frint": np.rint,
}

_SPECIAL: dict[str, Operation] = {
    "frcp": lambda a: 1.0 / a,
    "fsqrt": np.sqrt,
    "frsq": lambda a: 1.0 / np.sqrt(a),
    "fexp2": np.exp2,
    "flog2": np.log2,
}


def _from_integer(node: Op, calc: _Arithmetic) -> Operation | None:
    """Exact in f64 up to 53 bits, then rounded once."""
    width = node.args[0].bits
    if width > 32:
        return None
    if node.name == "sint_to_f":
        return lambda a: calc.write(_wide(signed(a, width)))
    return lambda a: calc.write(_wide(a))


def _conversion(node: Op, mode: FloatMode) -> Operation | None:
    source, target = node.format.split(">")
    env = mode.environment(target)
    if node.name != "fconvert" or source not in _NATIVE or target not in _NATIVE:
        return None
    if env.rounding is not Rounding.NEAREST_EVEN or env.saturate:
        return None
    read, write = _Arithmetic(source, mode.environment(source)).read, _Arithmetic(target, env).write
    return lambda a: write(read(a))
