"""Pieces of wide values.

Memory moves up to 64 bytes a lane and matrix results fill many registers, but nobody computes with such a value
as a whole: it is put together from parts and taken apart again. `piece` takes bits out of an expression by asking
the parts, so that an engine never has to hold a value wider than its arithmetic.
"""

from __future__ import annotations

from asmevo.semantics.expression import Concat, Const, Expr, Op, OtherLane, Select, Slice, Source


def piece(value: Expr, low: int, bits: int) -> Expr:
    """Bits low .. low+bits-1 of a value."""
    if low == 0 and bits == value.bits:
        return value
    match value:
        case Const():
            return Const(bits, value.value >> low & ((1 << bits) - 1))
        case Source():
            return Source(bits, value.index, value.low + low)
        case OtherLane():
            return OtherLane(bits, value.index, value.low + low, value.lane)
        case Slice():
            return piece(value.value, value.low + low, bits)
        case Concat():
            return _of_parts(value, low, bits)
        case Select() if value.bits > 64:
            return Select(bits, value.condition, piece(value.then, low, bits), piece(value.other, low, bits))
        case Op(name="zext") if value.bits > 64:
            return _of_extended(value.args[0], low, bits)
        case Op(name="and" | "or" | "xor" | "not") if value.bits > 64:
            return Op(bits, value.name, tuple(piece(part, low, bits) for part in value.args))
        case _:
            return Slice(bits, value, low)


def _of_extended(inner: Expr, low: int, bits: int) -> Expr:
    if low >= inner.bits:
        return Const(bits, 0)
    if low + bits <= inner.bits:
        return piece(inner, low, bits)
    there = inner.bits - low
    return Concat(bits, (piece(inner, low, there), Const(bits - there, 0)))


def _of_parts(value: Concat, low: int, bits: int) -> Expr:
    parts, place = [], 0
    for part in value.parts:
        start, end = max(low, place), min(low + bits, place + part.bits)
        if start < end:
            parts.append(piece(part, start - place, end - start))
        place += part.bits
    return parts[0] if len(parts) == 1 else Concat(bits, tuple(parts))
