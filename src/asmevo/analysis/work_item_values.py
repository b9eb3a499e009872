"""Integers as functions of the work-item: what a register holds in each lane of a workgroup, known or relative.

A value is `lanes` + `rest`: a number for each work-item of the workgroup, worked out, and a sum of atoms with factors,
all modulo 2^32. An atom is a number that nobody knows and that is the same for the whole workgroup: a scalar register
at launch, what a scalar load brought, the counter of a loop. `lds[base + 4 * (id ^ 1)]` has the rest `base` and for
each work-item its 4 * (id ^ 1), so two such addresses are compared exactly, however their lanes were computed.

Operations on lanes alone are worked out; those with atoms where they are linear, or where the atoms do not touch the
bits that matter. Everything else has no value (None). Two atoms of another kind are kept, to say what is not known:

    ARGUMENT    a vector register that a function is called with: the same in all lanes only by what it is used for
    OTHER_AXES  the part of packed work-item ids above x: not the same in all lanes

Lanes are plain integers: so few registers are followed that loading an array library costs more than it saves.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple

from msgspec import Struct

from asmevo.program.dual_halves import stem

_BITS = 32
_WHOLE = 1 << _BITS
_SHIFT = _BITS - 1

Lanes = int | tuple[int, ...]
"""A number from 0 to 2^32 - 1 for each work-item, or one for all."""


class AtomKind(Enum):
    """Where a number comes from that is not known; see the module."""

    LAUNCH = "launch"
    DEFINED = "defined"
    ROUND = "round"
    ARGUMENT = "argument"
    OTHER_AXES = "other axes"


class Atom(NamedTuple):
    """`place` is the instruction (DEFINED) or the loop's header (ROUND), `unit` the register."""

    kind: AtomKind
    place: int
    unit: int


class ItemValue(Struct, frozen=True, eq=False):
    """`lanes` is a tuple with one element for each work-item, or one number where all are the same by their making."""

    lanes: Lanes
    rest: Mapping[Atom, int]

    @property
    def is_common(self) -> bool:
        """Whether it is the same in all work-items."""
        kinds = {atom.kind for atom in self.rest}
        return isinstance(self.lanes, int) and not kinds & {AtomKind.ARGUMENT, AtomKind.OTHER_AXES}

    @property
    def number(self) -> int | None:
        """The number, if it is known and the same in all work-items."""
        return self.lanes if isinstance(self.lanes, int) and not self.rest else None

    def same(self, other: ItemValue) -> bool:
        """Whether both are certainly equal in every work-item."""
        return self is other or (self.rest == other.rest and self.lanes == other.lanes)


def constant(number: int) -> ItemValue:
    """The same known number for all."""
    return ItemValue(number % _WHOLE, {})


def unknown(atom: Atom, factor: int = 1) -> ItemValue:
    """`factor` times an atom."""
    return ItemValue(0, {atom: factor})


def per_item(numbers: Lanes) -> ItemValue:
    """A known number for each work-item."""
    return ItemValue(numbers, {})


def lane_by_lane(operation: Callable[[int, int], int], first: Lanes, second: Lanes) -> Lanes:
    """The results of an operation in each work-item, modulo 2^32."""
    if isinstance(first, int) and isinstance(second, int):
        return operation(first, second) % _WHOLE
    if isinstance(second, int):
        return tuple([operation(one, second) % _WHOLE for one in first])  # type: ignore[union-attr]
    if isinstance(first, int):
        return tuple([operation(first, two) % _WHOLE for two in second])
    return tuple([number % _WHOLE for number in map(operation, first, second)])


def _most(lanes: Lanes) -> int:
    return lanes if isinstance(lanes, int) else max(lanes)


def total(first: ItemValue, second: ItemValue, factor: int = 1) -> ItemValue:
    """first + factor * second."""
    rest = dict(first.rest)
    for atom, count in second.rest.items():
        rest[atom] = (rest.get(atom, 0) + factor * count) % _WHOLE
    lanes = lane_by_lane(lambda one, two: one + factor * two, first.lanes, second.lanes)
    return ItemValue(lanes, {atom: count for atom, count in rest.items() if count})


_ZERO = constant(0)
_Value = ItemValue | None
_Operation = Callable[..., _Value]


def _add(*terms: ItemValue) -> _Value:
    found = _ZERO
    for term in terms:
        found = total(found, term)
    return found


def _subtract(first: ItemValue, second: ItemValue) -> _Value:
    return total(first, second, -1)


def _of_lanes(operation: Callable[[int, int], int], first: ItemValue, second: ItemValue) -> ItemValue:
    return per_item(lane_by_lane(operation, first.lanes, second.lanes))


def _times(first: ItemValue, second: ItemValue) -> _Value:
    if first.number is not None:
        return total(_ZERO, second, first.number)
    if second.number is not None:
        return total(_ZERO, first, second.number)
    return None if first.rest or second.rest else _of_lanes(operator.mul, first, second)


def _times_24(first: ItemValue, second: ItemValue) -> _Value:
    """The product of the low 24 bits, where both have no others."""
    small = not first.rest and not second.rest and max(_most(first.lanes), _most(second.lanes)) < 1 << 24
    return _times(first, second) if small else None


def _left(value: ItemValue, count: ItemValue) -> _Value:
    return None if count.number is None else total(_ZERO, value, 1 << (count.number & _SHIFT))


def _right(value: ItemValue, count: ItemValue) -> _Value:
    if value.rest or count.number is None:
        return None
    return per_item(lane_by_lane(operator.rshift, value.lanes, count.number & _SHIFT))


def _low_bits(value: ItemValue, bits: int) -> Lanes | None:
    """The lanes, if no atom reaches the lowest bits."""
    return None if any(factor % (1 << bits) for factor in value.rest.values()) else value.lanes


def _and(first: ItemValue, second: ItemValue) -> _Value:
    for mask, value in ((first, second), (second, first)):
        if not mask.rest:
            lanes = _low_bits(value, _most(mask.lanes).bit_length())
            if lanes is not None:
                return per_item(lane_by_lane(operator.and_, lanes, mask.lanes))
    return None


def _or(first: ItemValue, second: ItemValue) -> _Value:
    if not first.rest and not second.rest:
        return _of_lanes(operator.or_, first, second)
    for high, low in ((first, second), (second, first)):
        bits = _most(low.lanes).bit_length()
        lanes = None if low.rest else _low_bits(high, bits)
        if lanes is not None and not _most(lane_by_lane(operator.and_, lanes, (1 << bits) - 1)):
            return total(high, low)
    return None


def _xor(first: ItemValue, second: ItemValue) -> _Value:
    return None if first.rest or second.rest else _of_lanes(operator.xor, first, second)


def _field(value: ItemValue, first: ItemValue, width: ItemValue) -> _Value:
    if first.number is None or width.number is None:
        return None
    start, bits = first.number & _SHIFT, width.number & _SHIFT
    lanes = _low_bits(value, min(start + bits, _BITS))
    if lanes is None:
        return None
    return per_item(lane_by_lane(lambda number, mask: number >> start & mask, lanes, (1 << bits) - 1))


def _and_then(first: _Operation, second: _Operation) -> _Operation:
    """An operation of two and one more on what it gives."""

    def both(one: ItemValue, two: ItemValue, three: ItemValue) -> _Value:
        inner = first(one, two)
        return None if inner is None else second(inner, three)

    return both


def _swapped(operation: _Operation) -> _Operation:
    return lambda first, second: operation(second, first)


def _same(value: ItemValue) -> _Value:
    return value


_OPERATIONS: dict[str, _Operation] = {
    **dict.fromkeys(("v_mov_b32", "s_mov_b32", "s_movk_i32"), _same),
    **dict.fromkeys(("v_add_u32", "v_add_nc_u32", "v_add_co_u32", "v_add_i32", "v_add_nc_i32", "v_add3_u32"), _add),
    **dict.fromkeys(("s_add_i32", "s_add_u32", "s_add_co_i32", "s_add_co_u32"), _add),
    **dict.fromkeys(("v_sub_u32", "v_sub_nc_u32", "v_sub_co_u32", "v_sub_i32", "v_sub_nc_i32"), _subtract),
    **dict.fromkeys(("s_sub_i32", "s_sub_u32", "s_sub_co_i32", "s_sub_co_u32"), _subtract),
    **dict.fromkeys(("v_subrev_u32", "v_subrev_nc_u32", "v_subrev_co_u32"), _swapped(_subtract)),
    **dict.fromkeys(("v_mul_lo_u32", "s_mul_i32"), _times),
    "v_mul_u32_u24": _times_24,
    "v_mad_u32_u24": _and_then(_times_24, _add),
    "s_lshl_b32": _left,
    "v_lshlrev_b32": _swapped(_left),
    "s_lshr_b32": _right,
    "v_lshrrev_b32": _swapped(_right),
    **dict.fromkeys(("v_and_b32", "s_and_b32"), _and),
    **dict.fromkeys(("v_or_b32", "s_or_b32"), _or),
    "v_or3_b32": _and_then(_or, _or),
    **dict.fromkeys(("v_xor_b32", "s_xor_b32"), _xor),
    "v_bfe_u32": _field,
    "v_lshl_add_u32": _and_then(_left, _add),
    "v_add_lshl_u32": _and_then(_add, _left),
    "v_lshl_or_b32": _and_then(_left, _or),
    "v_and_or_b32": _and_then(_and, _or),
    "v_xad_u32": _and_then(_xor, _add),
}
"""What the 32-bit result is, by mnemonic without its encoding's ending, from the printed sources in their order."""


def result_of(mnemonic: str, sources: list[ItemValue]) -> ItemValue | None:
    """The first result of an instruction; None where it has no value of this form."""
    operation = _OPERATIONS.get(stem(mnemonic))
    return None if operation is None else operation(*sources)


def has_result(mnemonic: str) -> bool:
    """Whether results of the instruction may have a value of this form."""
    return stem(mnemonic) in _OPERATIONS
