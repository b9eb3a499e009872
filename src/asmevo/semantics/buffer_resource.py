"""Buffer resources: the 128 bits of a V# as fields, the address of an element, and whether it is in bounds.

Fields (bit places differ by generation, `_LAYOUTS`): base address, stride and records, whether addresses are
swizzled and in units of what, whether the lane's number is added to the index, and from gfx10 on how bounds are
checked. All are register contents, so everything here is an expression.

Address of byte `offset` of element `index`, with soffset the scalar offset:

    linear     base + soffset + index * stride + offset
    swizzled   base + soffset + ((index / n) * stride + (offset / e) * e) * n + (index % n) * e + offset % e

n being the index stride (8, 16, 32 or 64), e the element size (bytes), divisions whole. offset is the immediate
plus the offset VGPR, index the index VGPR plus the lane where ADD_TID is set. Sums have 64 bits: nothing wraps.

In bounds, for a payload of p bytes at `offset` (each dword of a wide move alone, an atomic as a whole):

    gfx8, gfx9 families (GCN3, Vega and CDNA manuals; Mesa's note on NUM_RECORDS)
        scratch       ADD_TID, swizzled, no index VGPR: never checked
        structured    stride > 0, and swizzled (gfx8) or with an index VGPR (gfx9):
                      index < records and, with an index VGPR or ADD_TID, offset < stride
        raw           soffset + index * stride + offset < records
    gfx10 to gfx12 (RDNA manuals), by the field OOB_SELECT
        0             index < records and offset + p <= stride
        1             index < records
        2             records > 0
        3             swizzled, stride > 0: offset + p <= stride and soffset < records
                      else: soffset + index * stride + offset + p <= records
    gfx1250           soffset + index * stride + offset + p <= records (45 bits)

LLVM's note on out-of-bounds buffers says that the sum saturates and that dwords are checked one by one, as here.

How it is written. Most of this is the same in all lanes, and only what is not should cost a vector operation. So
one formula serves both kinds of address, with n = 1 and the masks 0 in the linear case,

    start + index * stride + (index & (n - 1)) * (e - stride) + (offset & ~(e - 1)) * n + (offset & (e - 1))

and each check is `x < limit` with a limit that all lanes share: all ones where the check does not count.
"""

from __future__ import annotations

from msgspec import Struct

from asmevo.semantics.building import constant
from asmevo.semantics.expression import Expr, Select, Source
from asmevo.semantics.moves import total
from asmevo.semantics.operands import LANE, op, resize

WIDE = 64
"""Width of all sums (bits)."""

Field = tuple[int, int]
"""(lowest bit, bits)."""


class Layout(Struct, frozen=True):
    """Where the fields of a resource are. `element_size` None: 4 bytes. `more_stride`: bits 14 on with ADD_TID."""

    base: Field = (0, 48)
    stride: Field = (48, 14)
    records: Field = (64, 32)
    swizzle: Field = (63, 1)
    element_size: Field | None = None
    index_stride: Field = (117, 2)
    add_tid: Field = (119, 1)
    more_stride: Field | None = None
    out_of_bounds: Field | None = None


_GCN3 = Layout(element_size=(115, 2), more_stride=(111, 4))
_VEGA = Layout(more_stride=(111, 4))
_RDNA = Layout(out_of_bounds=(124, 2))
_RDNA3 = Layout(swizzle=(62, 2), element_size=(62, 2), out_of_bounds=(124, 2))
_GFX1250 = Layout(base=(0, 57), records=(57, 45), stride=(108, 14))

_LAYOUTS = {
    "gfx8": _GCN3,
    "gfx9": _VEGA,
    "gfx90a": _VEGA,
    "gfx940": _VEGA,
    "gfx10": _RDNA,
    "gfx11": _RDNA3,
    "gfx12": _RDNA3,
    "gfx1250": _GFX1250,
}
"""By family. Sources: the buffer resource tables of AMD's ISA manuals; gfx1250: LLVM's make.buffer.rsrc."""

_NEVER: Expr = constant(1, 0)
_ALWAYS: Expr = constant(1, 1)
_NO_LIMIT = constant(WIDE, -1)


def _wide(value: int) -> Expr:
    return constant(WIDE, value)


def _both(*conditions: Expr) -> Expr:
    """The conjunction; what is known beforehand (by identity) costs nothing."""
    if _NEVER in conditions:
        return _NEVER
    result = _ALWAYS
    for condition in conditions:
        if condition is not _ALWAYS:
            result = condition if result is _ALWAYS else op("and", 1, result, condition)
    return result


def _either(a: Expr, b: Expr) -> Expr:
    if _NEVER in (a, b):
        return b if a is _NEVER else a
    return op("or", 1, a, b)


def _not(condition: Expr) -> Expr:
    return op("not", 1, condition)


def _at_most(a: Expr, b: Expr) -> Expr:
    return op("ule", 1, a, b)


def _less(a: Expr, b: Expr) -> Expr:
    return op("ult", 1, a, b)


def _positive(value: Expr) -> Expr:
    return op("ne", 1, value, constant(value.bits, 0))


def _where(condition: Expr, value: Expr) -> Expr:
    """The value, or 0 where the condition does not hold."""
    return Select(value.bits, condition, value, constant(value.bits, 0))


def _and(a: Expr, b: Expr) -> Expr:
    return op("and", WIDE, a, b)


def _ones(count: Expr) -> Expr:
    """A mask of the lowest `count` bits."""
    return op("sub", WIDE, op("shl", WIDE, _wide(1), count), _wide(1))


class Resource:
    """The fields of the resource in printed operand `index`, wide ones extended to 64 bits."""

    def __init__(self, index: int, family: str) -> None:
        self.family = family
        self._index = index
        self.layout = layout = _LAYOUTS[family]
        self.base = resize(self._field(layout.base), WIDE)
        self.records = resize(self._field(layout.records), WIDE)
        self.add_tid = self._field(layout.add_tid)
        self.swizzled = _positive(self._field(layout.swizzle))
        self.stride = self._stride()
        self.has_stride = _positive(self.stride)

    def _field(self, field: Field) -> Expr:
        return Source(field[1], self._index, field[0])

    def _stride(self) -> Expr:
        short = resize(self._field(self.layout.stride), WIDE)
        if self.layout.more_stride is None:
            return short
        more = op("shl", WIDE, resize(self._field(self.layout.more_stride), WIDE), constant(32, 14))
        return op("or", WIDE, short, _where(self.add_tid, more))

    @property
    def element_log2(self) -> Expr:
        """log2 of the element size: the field says 2, 4, 8, 16 from 0 on; without one it is 4 bytes."""
        field = self.layout.element_size
        if field is None:
            return constant(32, 2)
        return op("add", 32, resize(self._field(field), 32), constant(32, 1))

    @property
    def index_log2(self) -> Expr:
        """log2 of the index stride: the field says 8, 16, 32, 64 from 0 on."""
        return op("add", 32, resize(self._field(self.layout.index_stride), 32), constant(32, 3))

    def out_of_bounds_is(self, mode: int) -> Expr:
        """Whether OOB_SELECT (from gfx10 on) has this value; 1 bit."""
        assert self.layout.out_of_bounds is not None
        return op("eq", 1, self._field(self.layout.out_of_bounds), constant(2, mode))


class _Checks(Struct, frozen=True):
    """Which checks count; 1 bit each, the same for all lanes. `allowed` 0: nothing is in bounds.

    `whole`: the payload's last byte has to be inside, else its first.
    """

    index: Expr
    offset: Expr
    raw: Expr
    allowed: Expr
    whole: bool


def _checks(resource: Resource, has_index: bool, scalar: Expr) -> _Checks:
    if resource.layout.out_of_bounds is not None:
        return _checks_by_mode(resource, scalar)
    if resource.family == "gfx1250":
        return _Checks(_NEVER, _NEVER, _ALWAYS, _ALWAYS, whole=True)
    if resource.family == "gfx8":
        structured = _both(resource.has_stride, resource.swizzled)
    else:
        structured = resource.has_stride if has_index else _NEVER
    scratch = _NEVER if has_index else _both(resource.add_tid, resource.swizzled)
    index = _both(structured, _not(scratch))
    offset = index if has_index else _both(index, resource.add_tid)
    return _Checks(index, offset, _not(_either(structured, scratch)), _ALWAYS, whole=False)


def _checks_by_mode(resource: Resource, scalar: Expr) -> _Checks:
    by_structure, by_index, by_emptiness, raw = map(resource.out_of_bounds_is, range(4))
    swizzled_raw = _both(raw, resource.swizzled, resource.has_stride)
    empty = _both(by_emptiness, _not(_positive(resource.records)))
    behind = _both(swizzled_raw, _at_most(resource.records, scalar))
    return _Checks(
        index=_either(by_structure, by_index),
        offset=_either(by_structure, swizzled_raw),
        raw=_both(raw, _not(swizzled_raw)),
        allowed=_not(_either(empty, behind)),
        whole=True,
    )


def _limit(counts: Expr, limit: Expr) -> Expr:
    return Select(WIDE, counts, limit, _NO_LIMIT)


def _below(value: Expr, counts: Expr, limit: Expr) -> Expr:
    """value < limit, where that counts."""
    return _ALWAYS if counts is _NEVER else _less(value, _limit(counts, limit))


def _room_before(room: Expr, end: int) -> Expr:
    """The limit of x in x + end <= room."""
    return _where(_at_most(_wide(end), room), op("sub", WIDE, room, _wide(end - 1)))


class Element:
    """One element of a resource as an instruction names it.

    `index` (32 bits) is None without an index VGPR; `offset` and `scalar` have 64 bits.
    """

    def __init__(self, resource: Resource, index: Expr | None, offset: Expr, scalar: Expr) -> None:
        self._offset = offset
        self._checks = checks = _checks(resource, index is not None, scalar)
        self._stride = resource.stride
        self._room = _where(_at_most(scalar, resource.records), op("sub", WIDE, resource.records, scalar))
        lane = resize(LANE, WIDE)
        step, group, records = resource.stride, _ones(resource.index_log2), resource.records
        if index is not None:
            place = total(resize(index, WIDE), _where(resource.add_tid, lane))
        else:  # the lane where ADD_TID is set, else 0: then it has no weight and only an empty buffer is too small
            place = lane
            step, group = _where(resource.add_tid, step), _where(resource.add_tid, group)
            records = Select(WIDE, resource.add_tid, records, _where(_positive(records), _NO_LIMIT))
        row = op("mul", WIDE, place, step)
        element_size = op("shl", WIDE, _wide(1), resource.element_log2)
        skew = op("sub", WIDE, element_size, resource.stride)
        in_group = op("mul", WIDE, _and(place, _where(resource.swizzled, group)), skew)
        self._start = total(total(resource.base, scalar), row, in_group)
        self._shift = _where(resource.swizzled, resource.index_log2)
        self._inside = _where(resource.swizzled, _ones(resource.element_log2))
        self._outside = op("not", WIDE, self._inside)
        self._buffer_offset = total(row, offset)
        self._index_fits = _below(place, checks.index, records)

    def address(self, start: int) -> Expr:
        """Address of byte `start` of the payload; 64 bits."""
        offset = total(self._offset, _wide(start))
        whole = op("shl", WIDE, _and(offset, self._outside), self._shift)
        return total(self._start, whole, _and(offset, self._inside))

    def in_bounds(self, start: int, size: int) -> Expr:
        """Whether `size` bytes from byte `start` of the payload on may be accessed; 1 bit."""
        checks = self._checks
        end = start + (size if checks.whole else 1)
        in_stride = _below(self._offset, checks.offset, _room_before(self._stride, end))
        raw_limit = _where(checks.allowed, _limit(checks.raw, _room_before(self._room, end)))
        return _both(self._index_fits, in_stride, _less(self._buffer_offset, raw_limit))


def scalar_size(index: int, family: str) -> Expr:
    """Bytes of a resource as scalar loads see it; 64 bits."""
    resource = Resource(index, family)
    whole = op("mul", WIDE, resource.stride, resource.records)
    return Select(WIDE, resource.has_stride, whole, resource.records)
