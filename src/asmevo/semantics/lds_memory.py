"""LDS instructions (DS): the workgroup's on-chip memory, addressed by 32-bit byte offsets.

    ds_read_b64 v[0:1], v2 offset:16              address VGPR + offset
    ds_read2_b32 v[0:1], v2 offset0:1 offset1:3   two accesses, offsets in units of the element
    ds_read2st64_b32 ...                          in units of 64 elements
    ds_read_addtid_b32 v0 offset:16               M0[15:0] + offset + 4 * lane

Bounds. On gfx8 an address of M0 or beyond is out of bounds (the ABI's -1 switches that off). Later targets check
against the workgroup's allocation only; going beyond that is an error of the kernel and the emulator's to report.

Alignment. The ABI turns unaligned access on from gfx9 on, so addresses are taken as they are. gfx8 has no such
mode: the address bits below the size of the access are ignored (16 bytes for b96 and b128).

Operands of compare-and-store: `ds_cmpst` has (compared, new), `ds_cmpstore` of gfx11 (new, compared).

`ds_append` and `ds_consume` change a counter once for the wave, by its number of enabled lanes, and give all of
them its old value: a load by every lane, then an atomic by the lowest enabled one. AMD's manuals and LLVM do not
agree on where M0 holds the address, so these are approximate.

Transposing reads (gfx950) permute within 16 lanes. Each lane addresses 64 bits (with 6-bit elements 96). A row is
16 elements: the data of as many consecutive lanes as it takes; lane i gets column i. With n elements a lane,
element j of lane i is element i % n of what lane j * (16 / n) + i / n addresses. It is written as an access of that
lane's address, one an element.

Left out by name: GDS, `src2` forms, ray-tracing stacks, hardware semaphores, ordered counts and
asynchronous barriers. Lane permutations (`ds_permute` and so on) touch no memory and are not here.
"""

from __future__ import annotations

import re
from functools import partial

from asmevo.program.decode import DecodingContext
from asmevo.program.instruction import Decoded
from asmevo.semantics import moves
from asmevo.semantics.atomics import Atomic, atomic_named
from asmevo.semantics.building import constant
from asmevo.semantics.expression import (
    Access,
    AccessKind,
    Concat,
    Control,
    Exactness,
    Expr,
    Implicit,
    Loaded,
    Meaning,
    OtherLane,
    Result,
    Scope,
    Select,
    Slice,
    Source,
    Space,
)
from asmevo.semantics.memory_names import DWORD_BITS, LOADS, STORES, Width
from asmevo.semantics.moves import DWORD, Piece
from asmevo.semantics.operands import LANE, lane_and, op, resize

LANE_PERMUTATIONS = ("ds_permute_b32", "ds_bpermute_b32", "ds_bpermute_fi_b32", "ds_swizzle_b32")

_TWO = re.compile(
    r"(?P<action>read|load|write|store|wrxchg|storexchg_)(?:2|_?2addr)(?P<far>st64|_stride64)?_(?P<rtn>rtn_)?b(?P<bits>32|64)"
)
_TRANSPOSED = {
    "read_b64_tr_b16": (16, 4),
    "read_b64_tr_b8": (8, 8),
    "read_b64_tr_b4": (4, 16),
    "read_b96_tr_b6": (6, 16),
}
"""(bits of an element, elements a lane)."""
_ADDTID = {
    "read_addtid_b32": True,
    "load_addtid_b32": True,
    "write_addtid_b32": False,
    "store_addtid_b32": False,
}
_COUNTERS = {"append": "add", "consume": "sub"}
_FAR = 64
_CONDITIONAL_EXCHANGE_ADDRESS = 0xFFF8
_GROUP = 16
_SOURCE = "written: DS"
_meaning = partial(moves.lane_meaning, _SOURCE)


def offset_unit(mnemonic: str) -> int:
    """Bytes that one step of a DS instruction's offsets is; 1 where it has one offset."""
    two = _TWO.fullmatch(mnemonic.removeprefix("ds_"))
    if two is None:
        return 1
    return int(two["bits"]) // 8 * (_FAR if two["far"] else 1)


def accessed_bytes(decoded: Decoded) -> tuple[tuple[int, int], ...] | None:
    """(offset, size) in bytes of the pieces that a plain read or write moves, from the lane's address on; None else."""
    rest = decoded.mnemonic.removeprefix("ds_")
    two = _TWO.fullmatch(rest)
    if two is not None:
        unit, size = offset_unit(decoded.mnemonic), int(two["bits"]) // 8
        return tuple((moves.modifier_number(decoded, f"offset{n}") * unit, size) for n in (0, 1))
    action, _, what = rest.partition("_")
    width = {"read": LOADS, "load": LOADS, "write": STORES, "store": STORES}.get(action, {}).get(what)
    return None if width is None else ((moves.modifier_number(decoded, "offset"), width.size),)


def lds_memory(decoded: Decoded, context: DecodingContext) -> Meaning | None:
    """The meaning of a DS instruction; None for lane permutations."""
    if decoded.mnemonic in LANE_PERMUTATIONS:
        return None
    if decoded.modifier("gds") is not None:
        return moves.unsupported(decoded, "there is no GDS here")
    rest = decoded.mnemonic.removeprefix("ds_")
    if rest == "nop":
        return Meaning(Scope.LANE, control=Control.HINT, source=_SOURCE)
    two = _TWO.fullmatch(rest)
    if two is not None:
        return _two(decoded, two, context)
    if rest in _ADDTID:
        return _by_lane_number(decoded, loads=_ADDTID[rest])
    if rest in _COUNTERS:
        return _count(decoded, _COUNTERS[rest], context)
    if rest == "condxchg32_rtn_b64":
        return _conditional_exchange(decoded)
    if rest in _TRANSPOSED:
        return _transposed(decoded, *_TRANSPOSED[rest])
    return _one(decoded, rest, context)


def _piece(address: Expr, size: int, context: DecodingContext) -> Piece:
    if context.target.family.value != "gfx8":
        return Piece(0, size, address)
    unit = 1 << (size - 1).bit_length()
    aligned = op("and", DWORD_BITS, address, constant(DWORD_BITS, -unit)) if unit > 1 else address
    return Piece(0, size, aligned, op("ult", 1, aligned, Implicit(DWORD_BITS, "m0")))


def _at(decoded: Decoded, index: int, offset: int) -> Expr:
    return moves.total(Source(DWORD_BITS, index), constant(DWORD_BITS, offset))


def _one(decoded: Decoded, rest: str, context: DecodingContext) -> Meaning:
    action, _, what = rest.partition("_")
    offset = moves.modifier_number(decoded, "offset")
    if action in ("read", "load") and what in LOADS:
        width = LOADS[what]
        pieces = [_piece(_at(decoded, 1, offset), width.size, context)]
        accesses, results = moves.load(0, width, pieces, Space.LDS)
        return _meaning(results, accesses, moves.d16_exactness(width, context.target))
    if action in ("write", "store") and what in STORES:
        width = STORES[what]
        pieces = [_piece(_at(decoded, 0, offset), width.size, context)]
        return _meaning((), moves.store(1, width, pieces, Space.LDS))
    atomic = atomic_named(rest.replace("_rtn", ""))
    if atomic is None:
        return moves.unsupported(decoded, "no written meaning")
    return _atomic(decoded, atomic, context)


def _atomic(decoded: Decoded, atomic: Atomic, context: DecodingContext) -> Meaning:
    returns = decoded.info.defs == 1
    first = 1 if returns else 0
    piece = _piece(_at(decoded, first, moves.modifier_number(decoded, "offset")), atomic.size, context)
    data = second = Source(atomic.bits, first + 1)
    if atomic.operands == 2:
        second = Source(atomic.bits, first + 2)
        if decoded.mnemonic.startswith("ds_cmpst_"):
            data, second = second, data
    access, old = moves.atomic_access(atomic, piece, Space.LDS, data, second)
    return _meaning((Result("operand", old),) if returns else (), (access,))


def _two(decoded: Decoded, name: re.Match[str], context: DecodingContext) -> Meaning:
    size = int(name["bits"]) // 8
    unit = size * (_FAR if name["far"] else 1)
    action = name["action"]
    address = 0 if action in ("write", "store") else 1
    pieces = [
        _piece(_at(decoded, address, moves.modifier_number(decoded, f"offset{n}") * unit), size, context)
        for n in (0, 1)
    ]
    if action in ("read", "load"):
        accesses, results = moves.load(0, Width(2 * size), pieces, Space.LDS)
        return _meaning(results, accesses)
    if action in ("write", "store"):
        return _meaning((), tuple(_stored(piece, 1 + n) for n, piece in enumerate(pieces)))
    return _exchange(pieces)


def _stored(piece: Piece, index: int) -> Access:
    """A store of the whole of printed operand `index`."""
    return moves.store(index, Width(piece.size), [piece], Space.LDS)[0]


def _exchange(pieces: list[Piece]) -> Meaning:
    atomic = atomic_named(f"swap_b{pieces[0].bits}")
    assert atomic is not None
    accesses, values = [], []
    for place, piece in enumerate(pieces):
        data = Source(piece.bits, 2 + place)
        access, old = moves.atomic_access(atomic, piece, Space.LDS, data, data, place)
        accesses.append(access)
        values.append(old)
    whole = Concat(2 * pieces[0].bits, tuple(values))
    return _meaning((Result("operand", whole),), tuple(accesses))


def _conditional_exchange(decoded: Decoded) -> Meaning:
    """Two dwords, each written with 31 bits of its data where bit 31 of the data is set."""
    offset = moves.modifier_number(decoded, "offset")
    start = op("and", DWORD_BITS, _at(decoded, 1, offset), constant(DWORD_BITS, _CONDITIONAL_EXCHANGE_ADDRESS))
    accesses, values = [], []
    for place in (0, 1):
        old, data = Loaded(DWORD_BITS, place), Source(DWORD_BITS, 2, DWORD_BITS * place)
        number = resize(Slice(31, data, 0), DWORD_BITS)
        new = Select(DWORD_BITS, Slice(1, data, 31), number, old)
        address = moves.total(start, constant(DWORD_BITS, DWORD * place))
        accesses.append(Access(AccessKind.ATOMIC, Space.LDS, address, DWORD, value=data, atomic=new))
        values.append(old)
    return _meaning((Result("operand", Concat(2 * DWORD_BITS, tuple(values))),), tuple(accesses))


def _by_lane_number(decoded: Decoded, loads: bool) -> Meaning:
    start = resize(Slice(16, Implicit(DWORD_BITS, "m0"), 0), DWORD_BITS)
    lane = op("shl", DWORD_BITS, LANE, constant(DWORD_BITS, 2))
    offset = constant(DWORD_BITS, moves.modifier_number(decoded, "offset"))
    pieces = [Piece(0, DWORD, moves.total(start, offset, lane))]
    if not loads:
        return _meaning((), moves.store(0, STORES["b32"], pieces, Space.LDS))
    accesses, results = moves.load(0, LOADS["b32"], pieces, Space.LDS)
    return _meaning(results, accesses)


def _count(decoded: Decoded, change: str, context: DecodingContext) -> Meaning:
    enabled = Implicit(context.wave_size, "exec")
    base = resize(Slice(16, Implicit(DWORD_BITS, "m0"), 0), DWORD_BITS)
    if context.target.family.value in ("gfx12", "gfx1250"):
        base = constant(DWORD_BITS, 0)
    address = moves.total(base, constant(DWORD_BITS, moves.modifier_number(decoded, "offset")))
    lowest = resize(op("cttz", context.wave_size, enabled), DWORD_BITS)
    lanes = resize(op("popcount", context.wave_size, enabled), DWORD_BITS)
    old = Loaded(DWORD_BITS, 0)
    changed = op(change, DWORD_BITS, Loaded(DWORD_BITS, 1), lanes)
    accesses = (
        Access(AccessKind.LOAD, Space.LDS, address, DWORD),
        Access(
            AccessKind.ATOMIC,
            Space.LDS,
            address,
            DWORD,
            op("eq", 1, LANE, lowest),
            value=lanes,
            atomic=changed,
        ),
    )
    return _meaning((Result("operand", old),), accesses, Exactness.APPROXIMATE)


def _transposed(decoded: Decoded, bits: int, elements: int) -> Meaning:
    """See the module. An element narrower than a byte is cut out of the bytes that hold it."""
    data_bytes = elements * bits // 8
    size = max(bits // 8, 2 if bits == 6 else 1)
    column = lane_and(_GROUP - 1)
    first_lane = op("and", DWORD_BITS, LANE, constant(DWORD_BITS, -_GROUP))
    lane_in_row = op("lshr", DWORD_BITS, column, constant(DWORD_BITS, (elements - 1).bit_length()))
    element = op("and", DWORD_BITS, column, constant(DWORD_BITS, elements - 1))
    first_bit = op("mul", DWORD_BITS, element, constant(DWORD_BITS, bits))
    first_byte = op("lshr", DWORD_BITS, first_bit, constant(DWORD_BITS, 3))
    if size * 8 > bits:
        first_byte = op("umin", DWORD_BITS, first_byte, constant(DWORD_BITS, data_bytes - size))
    offset = constant(DWORD_BITS, moves.modifier_number(decoded, "offset"))
    accesses, values = [], []
    for place in range(elements):
        lane = moves.total(first_lane, constant(DWORD_BITS, place * (_GROUP // elements)), lane_in_row)
        address = moves.total(OtherLane(DWORD_BITS, 1, 0, lane), offset, first_byte)
        accesses.append(Access(AccessKind.LOAD, Space.LDS, address, size))
        values.append(_cut(Loaded(8 * size, place), bits, first_bit, first_byte))
    whole = Concat(elements * bits, tuple(values))
    return _meaning((Result("operand", whole),), tuple(accesses))


def _cut(loaded: Expr, bits: int, first_bit: Expr, first_byte: Expr) -> Expr:
    """`bits` bits of bytes that begin at `first_byte`, from `first_bit` on, both counted from the same place."""
    if loaded.bits == bits:
        return loaded
    skipped = op("sub", DWORD_BITS, first_bit, op("shl", DWORD_BITS, first_byte, constant(DWORD_BITS, 3)))
    return Slice(bits, op("lshr", loaded.bits, loaded, skipped), 0)
