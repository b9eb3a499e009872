"""What atomics write back: the new value of a memory cell from its old one and the operands.

One table for scalar, buffer, flat and LDS atomics of all generations; names differ (`atomic_smax_x2`,
`atomic_max_i64`, `max_rtn_i64`), the operations do not. They follow AMD's pseudocode:

    inc        old >= data ? 0 : old + 1
    dec        old == 0 || old > data ? data : old - 1
    csub       old < data ? 0 : old - data            (also called sub_clamp)
    cond_sub   old >= data ? old - data : old
    fmin       data < old ? data : old                (before gfx12; a NaN on either side keeps the old value)
    min_num    the number if one is a NaN             (gfx12)
    wrap       old >= data ? old - data : old + data2
    mskor      (old & ~data) | data2

Floating-point additions round as MODE says where the pseudocode says nothing. What memory does with denormals
is not MODE's matter; see `adds_exactly`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct

from asmevo.semantics.building import constant
from asmevo.semantics.expression import Concat, Expr, Op, Select, Slice
from asmevo.semantics.operands import op

NewValue = Callable[[Expr, Expr, Expr], Expr]
"""(old, data, second operand) -> new; operations with one operand get it twice."""


class Atomic(Struct, frozen=True):
    """`bits` of the memory cell, and what is written; `operands` is 2 for compare-and-swap and the like.

    `format` is the floating-point format it calculates in, "" for integers.
    """

    bits: int
    operands: int
    new_value: NewValue
    format: str = ""

    @property
    def size(self) -> int:
        """Bytes."""
        return self.bits // 8


def _simple(name: str) -> NewValue:
    return lambda old, data, _: op(name, old.bits, old, data)


def _reverse_subtract(old: Expr, data: Expr, _: Expr) -> Expr:
    return op("sub", old.bits, data, old)


def _swap(_old: Expr, data: Expr, _: Expr) -> Expr:
    return data


def _less(a: Expr, b: Expr) -> Expr:
    return op("ult", 1, a, b)


def _increment(old: Expr, data: Expr, _: Expr) -> Expr:
    zero, one = constant(old.bits, 0), constant(old.bits, 1)
    return Select(old.bits, _less(old, data), op("add", old.bits, old, one), zero)


def _decrement(old: Expr, data: Expr, _: Expr) -> Expr:
    restarts = op("or", 1, op("eq", 1, old, constant(old.bits, 0)), _less(data, old))
    return Select(old.bits, restarts, data, op("sub", old.bits, old, constant(old.bits, 1)))


def _clamped_subtract(old: Expr, data: Expr, _: Expr) -> Expr:
    return Select(old.bits, _less(old, data), constant(old.bits, 0), op("sub", old.bits, old, data))


def _conditional_subtract(old: Expr, data: Expr, _: Expr) -> Expr:
    return Select(old.bits, _less(old, data), old, op("sub", old.bits, old, data))


def _wrap(old: Expr, data: Expr, second: Expr) -> Expr:
    below = op("add", old.bits, old, second)
    return Select(old.bits, _less(old, data), below, op("sub", old.bits, old, data))


def _mask_or(old: Expr, data: Expr, second: Expr) -> Expr:
    kept = op("and", old.bits, old, op("not", old.bits, data))
    return op("or", old.bits, kept, second)


def _compare_swap(old: Expr, data: Expr, compared: Expr) -> Expr:
    return Select(old.bits, op("eq", 1, old, compared), data, old)


def _float_compare_swap(format: str) -> NewValue:
    return lambda old, data, compared: Select(old.bits, Op(1, "foeq", (old, compared), format), data, old)


def _float_extreme(comparison: str, format: str) -> NewValue:
    return lambda old, data, _: Select(old.bits, Op(1, comparison, (data, old), format), data, old)


def _float_operation(name: str, format: str) -> NewValue:
    return lambda old, data, _: op(name, old.bits, old, data, format=format)


def _packed_add(format: str) -> NewValue:
    def new_value(old: Expr, data: Expr, _: Expr) -> Expr:
        sums = tuple(op("fadd", 16, Slice(16, old, low), Slice(16, data, low), format=format) for low in (0, 16))
        return Concat(32, sums)

    return new_value


_INTEGER: dict[str, NewValue] = {
    "add": _simple("add"), "sub": _simple("sub"), "rsub": _reverse_subtract, "and": _simple("and"),
    "or": _simple("or"), "xor": _simple("xor"), "smin": _simple("smin"), "smax": _simple("smax"),
    "umin": _simple("umin"), "umax": _simple("umax"), "inc": _increment, "dec": _decrement, "swap": _swap,
    "csub": _clamped_subtract, "sub_clamp": _clamped_subtract, "cond_sub": _conditional_subtract,
    "wrchg": _swap, "wrxchg": _swap, "storexchg": _swap,
}  # fmt: skip

_TWO_OPERANDS: dict[str, NewValue] = {
    "cmpswap": _compare_swap, "cmpst": _compare_swap, "cmpstore": _compare_swap, "wrap": _wrap, "mskor": _mask_or,
}  # fmt: skip

_FLOAT_TYPES = {"f32": 32, "f64": 64}
_NAME = re.compile(r"(?P<base>[a-z]+(?:_[a-z]+)*?)(?P<wide>_x2)?(?:_(?P<type>[uifb]\d+|bf16))?")


def atomic_named(name: str) -> Atomic | None:
    """The operation of a name without its prefix and `_rtn`: `smax_x2`, `max_i64`, `pk_add_f16`. None if unknown."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    base, kind = found["base"], found["type"] or ""
    if base == "pk_add" and kind in ("f16", "bf16"):
        return Atomic(32, 1, _packed_add(kind), kind)
    if base in ("fmin", "fmax", "fcmpswap"):
        return _float_atomic(base.removeprefix("f"), "f64" if found["wide"] else "f32")
    if kind in _FLOAT_TYPES:
        return _float_atomic(base, kind)
    if base in ("min", "max") and kind:
        base = ("s" if kind.startswith("i") else "u") + base
    bits = 64 if found["wide"] or kind.endswith("64") else 32
    if base in _TWO_OPERANDS:
        return Atomic(bits, 2, _TWO_OPERANDS[base])
    return Atomic(bits, 1, _INTEGER[base]) if base in _INTEGER else None


def _float_atomic(base: str, format: str) -> Atomic | None:
    bits = _FLOAT_TYPES[format]
    if base in ("cmpswap", "cmpst", "cmpstore"):
        return Atomic(bits, 2, _float_compare_swap(format), format)
    one_operand = {
        "add": _float_operation("fadd", format),
        "min": _float_extreme("folt", format),
        "max": _float_extreme("fogt", format),
        "min_num": _float_operation("fmin", format),
        "max_num": _float_operation("fmax", format),
    }
    return Atomic(bits, 1, one_operand[base], format) if base in one_operand else None


_DENORMALS_IN_MEMORY = ("gfx940", "gfx12", "gfx1250")


def adds_exactly(atomic: Atomic, family: str) -> bool:
    """Whether memory (not LDS) calculates just as MODE says.

    Integers always. LLVM's feature `memory-atomic-fadd-f32-denormal-support` names the families whose additions
    keep denormals; the others flush them, whatever MODE says.
    """
    return not atomic.format or family in _DENORMALS_IN_MEMORY
