"""Constructors of expressions that keep them small.

Pseudocode is written for readers: loops over bits, table look-ups, conditions on instruction fields. Unrolled
with numbers in place of loop variables most of it is constant. These constructors fold constants, take slices of
what is already in pieces, and recognise `a < b ? a : b`; nothing else is simplified, and every rewriting is an
identity of the operations as `expression` defines them.
"""

from __future__ import annotations

from collections.abc import Callable

from asmevo.semantics.expression import Concat, Const, Expr, Op, Select, Slice


def constant(bits: int, value: int) -> Const:
    """`value` modulo 2**bits."""
    return Const(bits, value & ((1 << bits) - 1))


TRUE, FALSE = Const(1, 1), Const(1, 0)


def signed_value(number: Const) -> int:
    """A constant read as two's complement."""
    return number.value - (1 << number.bits) if number.value >> (number.bits - 1) else number.value


def extended(value: Expr, bits: int, signed: bool) -> Expr:
    """The low `bits` of a value, or the value with zeros or copies of its sign in front."""
    if bits <= value.bits:
        return part(value, 0, bits)
    if isinstance(value, Const):
        return constant(bits, signed_value(value) if signed else value.value)
    if isinstance(value, Op) and value.name == "zext":
        return extended(value.args[0], bits, False)
    return Op(bits, "sext" if signed else "zext", (value,))


def part(value: Expr, low: int, bits: int) -> Expr:
    """Bits low .. low+bits-1; the value must have them."""
    if low == 0 and bits == value.bits:
        return value
    if isinstance(value, Const):
        return constant(bits, value.value >> low)
    if isinstance(value, Slice):
        return part(value.value, value.low + low, bits)
    if isinstance(value, Concat):
        return _part_of_parts(value, low, bits)
    if isinstance(value, Op) and value.name in ("zext", "sext"):
        inner = value.args[0]
        if low + bits <= inner.bits:
            return part(inner, low, bits)
        if low >= inner.bits and value.name == "zext":
            return constant(bits, 0)
    if isinstance(value, Op) and value.name == "lshr" and isinstance(value.args[1], Const):
        shifted, amount = value.args[0], value.args[1].value
        if amount + low + bits <= shifted.bits:
            return part(shifted, amount + low, bits)
    return Slice(bits, value, low)


def _part_of_parts(whole: Concat, low: int, bits: int) -> Expr:
    taken: list[Expr] = []
    start = 0
    for piece in whole.parts:
        first, last = max(low, start), min(low + bits, start + piece.bits)
        if first < last:
            taken.append(part(piece, first - start, last - first))
        start += piece.bits
    return joined(taken)


def joined(parts: list[Expr]) -> Expr:
    """Parts one behind the other, the first in the lowest bits."""
    flat: list[Expr] = []
    for piece in parts:
        for each in piece.parts if isinstance(piece, Concat) else (piece,):
            last = flat[-1] if flat else None
            if isinstance(last, Const) and isinstance(each, Const):
                flat[-1] = constant(last.bits + each.bits, last.value | each.value << last.bits)
            elif isinstance(last, Slice) and isinstance(each, Slice) and _adjacent(last, each):
                flat[-1] = part(last.value, last.low, last.bits + each.bits)
            else:
                flat.append(each)
    return flat[0] if len(flat) == 1 else Concat(sum(each.bits for each in flat), tuple(flat))


def _adjacent(first: Slice, second: Slice) -> bool:
    return first.value is second.value and second.low == first.low + first.bits


def replaced(value: Expr, low: int, piece: Expr) -> Expr:
    """`value` with its bits from `low` on replaced by `piece`; it must be wide enough."""
    parts = []
    if low:
        parts.append(part(value, 0, low))
    parts.append(piece)
    above = value.bits - low - piece.bits
    if above:
        parts.append(part(value, low + piece.bits, above))
    return joined(parts)


_FOLDED: dict[str, Callable[[Const, Const], int]] = {
    "add": lambda a, b: a.value + b.value,
    "sub": lambda a, b: a.value - b.value,
    "mul": lambda a, b: a.value * b.value,
    "and": lambda a, b: a.value & b.value,
    "or": lambda a, b: a.value | b.value,
    "xor": lambda a, b: a.value ^ b.value,
    "shl": lambda a, b: a.value << b.value if b.value < a.bits else 0,
    "lshr": lambda a, b: a.value >> b.value if b.value < a.bits else 0,
    "ashr": lambda a, b: signed_value(a) >> min(b.value, a.bits),
    "udiv": lambda a, b: a.value // b.value,
    "urem": lambda a, b: a.value % b.value,
}
_COMPARED: dict[str, Callable[[Const, Const], bool]] = {
    "eq": lambda a, b: a.value == b.value,
    "ne": lambda a, b: a.value != b.value,
    "ult": lambda a, b: a.value < b.value,
    "ule": lambda a, b: a.value <= b.value,
    "slt": lambda a, b: signed_value(a) < signed_value(b),
    "sle": lambda a, b: signed_value(a) <= signed_value(b),
}
_ZERO_IS_NEUTRAL_RIGHT = frozenset({"add", "sub", "or", "xor", "shl", "lshr", "ashr"})
_ZERO_IS_NEUTRAL_LEFT = frozenset({"add", "or", "xor"})


def integer(name: str, a: Expr, b: Expr) -> Expr:
    """A binary integer operation; both of one width except for shift amounts."""
    if isinstance(a, Const) and isinstance(b, Const) and name in _FOLDED:
        return constant(a.bits, _FOLDED[name](a, b))
    if isinstance(b, Const) and b.value == 0 and name in _ZERO_IS_NEUTRAL_RIGHT:
        return a
    if isinstance(a, Const) and a.value == 0 and name in _ZERO_IS_NEUTRAL_LEFT:
        return b
    if name == "or":
        for one in (a, b):
            if isinstance(one, Const) and one.value == (1 << one.bits) - 1:
                return one
    if name == "and":
        for one, other in ((a, b), (b, a)):
            if isinstance(one, Const) and one.value in (0, (1 << one.bits) - 1):
                return one if one.value == 0 else other
    return Op(a.bits, name, (a, b))


def compared(name: str, a: Expr, b: Expr) -> Expr:
    """An integer comparison of two values of one width; 1 bit."""
    if isinstance(a, Const) and isinstance(b, Const):
        return TRUE if _COMPARED[name](a, b) else FALSE
    if a.bits == 1 and isinstance(b, Const) and name in ("eq", "ne"):
        return a if (name == "eq") == bool(b.value) else negated(a)
    return Op(1, name, (a, b))


def negated(value: Expr) -> Expr:
    """All bits turned over."""
    if isinstance(value, Const):
        return constant(value.bits, ~value.value)
    if isinstance(value, Op) and value.name == "not":
        return value.args[0]
    return Op(value.bits, "not", (value,))


_EXTREMES = {"ult": "umin", "ule": "umin", "slt": "smin", "sle": "smin"}
_OPPOSITE = {"umin": "umax", "smin": "smax"}


def selected(condition: Expr, then: Expr, other: Expr) -> Expr:
    """`then` where the condition is 1, else `other`."""
    if isinstance(condition, Const):
        return then if condition.value else other
    if then is other or (isinstance(then, Const) and isinstance(other, Const) and then.value == other.value):
        return then
    if then is condition:
        then = TRUE
    if then.bits == 1 and isinstance(then, Const) and isinstance(other, Const):
        return condition if then.value else negated(condition)
    if isinstance(condition, Op) and condition.name == "not":
        return selected(condition.args[0], other, then)
    if isinstance(condition, Op) and condition.name in _EXTREMES:
        left, right = condition.args
        least = _EXTREMES[condition.name]
        if left is then and right is other:
            return Op(then.bits, least, (then, other))
        if left is other and right is then:
            return Op(then.bits, _OPPOSITE[least], (then, other))
    return Select(then.bits, condition, then, other)
