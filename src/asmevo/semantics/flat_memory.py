"""FLAT, GLOBAL and SCRATCH instructions: a lane's own address, no resource and no bounds.

    flat      VGPR pair + offset                          Space.FLAT: the apertures decide where it goes
    global    VGPR pair + offset, or SGPR pair + VGPR + offset (the VGPR unsigned, 32 bits)
    scratch   VGPR + SGPR + offset, each optional         32 bits: an offset in the lane's own scratch
    addtid    SGPR pair + offset + 4 * lane

The offset is signed where the generation's encoding is; LLVM's text holds the value. `scale_offset` (gfx1250)
multiplies the VGPR by the size of the access. A wide move is one access. Addresses need no alignment: the ABI
turns unaligned access on.

`load_block` and `store_block` (gfx12) move 32 dwords, those whose bit in M0 is set; a bit that is clear makes the
access out of bounds, and the register keeps its value.

Left out by name: transposing loads of gfx12, whose lane order AMD's documents do not give; `ordered_add`.
"""

from __future__ import annotations

from functools import partial

from asmevo.program.decode import DecodingContext
from asmevo.program.instruction import Decoded
from asmevo.semantics import moves
from asmevo.semantics.atomics import Atomic, adds_exactly, atomic_named
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
    Result,
    Scope,
    Select,
    Slice,
    Source,
    Space,
)
from asmevo.semantics.lds_direct import lds_base, load_to_lds, named_lds_address, placement_exactness
from asmevo.semantics.memory_names import DWORD_BITS, LOADS, STORES, Width
from asmevo.semantics.moves import ADDRESS_BITS, DWORD, Piece
from asmevo.semantics.operands import LANE, op, raw, resize

_SPACES = {"flat": Space.FLAT, "global": Space.GLOBAL, "scratch": Space.SCRATCH}
_HINTS = ("inv", "wb", "wbinv", "prefetch_b8")
_ADDTID = ("load_addtid_b32", "load_dword_addtid", "store_addtid_b32", "store_dword_addtid")
_BLOCK = ("load_block", "store_block")
_BLOCK_DWORDS = 32
_WHOLE = LOADS["dword"]
_meaning = partial(moves.lane_meaning, "written: FLAT, GLOBAL, SCRATCH")


def flat_memory(decoded: Decoded, context: DecodingContext) -> Meaning:
    """The meaning of a FLAT, GLOBAL or SCRATCH instruction. Raises UnsupportedOperandError."""
    segment, _, rest = decoded.mnemonic.partition("_")
    space = _SPACES[segment]
    if rest in _HINTS:
        return Meaning(Scope.LANE, control=Control.HINT, source="written: vector memory caches")
    if rest in _ADDTID:
        return _by_lane_number(decoded, rest, space)
    if rest in _BLOCK:
        return _block(decoded, rest, space)
    action, _, what = rest.partition("_")
    what = what.removeprefix("monitor_")
    if action == "load":
        return _load(decoded, what, space, context)
    if action == "store" and what in STORES:
        pieces = [_piece(decoded, 0, 2, STORES[what].size, space)]
        return _meaning((), moves.store(1, STORES[what], pieces, space))
    if action == "store" and what.startswith("async_from_lds_"):
        return _store_from_lds(decoded, STORES.get(what.removeprefix("async_from_lds_")), space)
    atomic = atomic_named(what) if action == "atomic" else None
    if atomic is not None:
        return _atomic(decoded, atomic, space, context)
    return moves.unsupported(decoded, "no written meaning")


def _address(decoded: Decoded, vector: int, scalar: int, size: int, space: Space) -> Expr:
    """The lane's address from the operands at these places; the scalar one may be missing."""
    bits = DWORD_BITS if space is Space.SCRATCH else ADDRESS_BITS
    offset = constant(bits, moves.modifier_number(decoded, "offset"))
    register = decoded.operands[vector].registers
    if register is None:
        parts: Expr = constant(bits, 0)
    elif register.count > 1:
        return moves.total(Source(ADDRESS_BITS, vector), offset)
    else:
        parts = resize(Source(DWORD_BITS, vector), bits)
    if decoded.modifier("scale_offset") is not None:
        parts = op("mul", bits, parts, constant(bits, size))
    if scalar < len(decoded.operands):
        parts = moves.total(raw(decoded, scalar, bits), parts)
    return moves.total(parts, offset)


def _piece(decoded: Decoded, vector: int, scalar: int, size: int, space: Space) -> Piece:
    return Piece(0, size, _address(decoded, vector, scalar, size, space))


def _load(decoded: Decoded, what: str, space: Space, context: DecodingContext) -> Meaning:
    if what.startswith("async_to_lds_"):
        return _load_async(decoded, LOADS.get(what.removeprefix("async_to_lds_").replace("b8", "u8")), space)
    width = LOADS.get(what.removeprefix("lds_"))
    if width is None:
        return moves.unsupported(decoded, "no written meaning")
    if "lds_dma" in decoded.flags:
        base = lds_base(decoded, width, context.target)
        pieces = [_piece(decoded, 0, 1, width.size, space)]
        accesses = load_to_lds(base, width, pieces, space, whole_dwords=True)
        return _meaning((), accesses, placement_exactness(width))
    accesses, results = moves.load(0, width, [_piece(decoded, 1, 2, width.size, space)], space)
    return _meaning(results, accesses, moves.d16_exactness(width, context.target))


def _load_async(decoded: Decoded, width: Width | None, space: Space) -> Meaning:
    if width is None:
        return moves.unsupported(decoded, "no written meaning")
    pieces = [_piece(decoded, 1, 2, width.size, space)]
    return _meaning((), load_to_lds(named_lds_address(decoded), width, pieces, space, whole_dwords=False))


def _store_from_lds(decoded: Decoded, width: Width | None, space: Space) -> Meaning:
    """Two accesses: LDS is read, and what was read is stored. Operands: address, LDS address, SGPRs."""
    if width is None:
        return moves.unsupported(decoded, "no written meaning")
    offset = constant(DWORD_BITS, moves.modifier_number(decoded, "offset"))
    inside = moves.total(Source(DWORD_BITS, 1), offset)
    piece = _piece(decoded, 0, 2, width.size, space)
    taken = Access(AccessKind.LOAD, Space.LDS, inside, width.size)
    put = Access(AccessKind.STORE, space, piece.address, width.size, value=Loaded(width.bits, 0))
    return _meaning((), (taken, put))


def _atomic(decoded: Decoded, atomic: Atomic, space: Space, context: DecodingContext) -> Meaning:
    returns = "atomic_ret" in decoded.flags
    vector = 1 if returns else 0
    piece = _piece(decoded, vector, vector + 2, atomic.size, space)
    data = Source(atomic.bits, vector + 1)
    second = Source(atomic.bits, vector + 1, atomic.bits) if atomic.operands == 2 else data
    access, old = moves.atomic_access(atomic, piece, space, data, second)
    results = (Result("operand", old),) if returns else ()
    exact = adds_exactly(atomic, context.target.family.value)
    return _meaning(results, (access,), Exactness.EXACT if exact else Exactness.APPROXIMATE)


def _by_lane_number(decoded: Decoded, rest: str, space: Space) -> Meaning:
    place = op("shl", ADDRESS_BITS, resize(LANE, ADDRESS_BITS), constant(DWORD_BITS, 2))
    offset = constant(ADDRESS_BITS, moves.modifier_number(decoded, "offset"))
    piece = Piece(0, DWORD, moves.total(raw(decoded, 1, ADDRESS_BITS), offset, place))
    if rest.startswith("store"):
        return _meaning((), moves.store(0, _WHOLE, [piece], space))
    accesses, results = moves.load(0, _WHOLE, [piece], space)
    return _meaning(results, accesses)


def _block(decoded: Decoded, rest: str, space: Space) -> Meaning:
    loads = rest.startswith("load")
    address = _address(decoded, 1 if loads else 0, 2, DWORD, space)
    wanted = tuple(Slice(1, Implicit(DWORD_BITS, "m0"), bit) for bit in range(_BLOCK_DWORDS))
    pieces = [
        Piece(DWORD * place, DWORD, moves.total(address, constant(address.bits, DWORD * place)), bit)
        for place, bit in enumerate(wanted)
    ]
    width = Width(DWORD * _BLOCK_DWORDS)
    if not loads:
        return _meaning((), moves.store(1, width, pieces, space))
    accesses, _ = moves.load(0, width, pieces, space)
    parts = tuple(
        Select(DWORD_BITS, bit, Loaded(DWORD_BITS, place), Source(DWORD_BITS, 0, DWORD_BITS * place))
        for place, bit in enumerate(wanted)
    )
    return _meaning((Result("operand", Concat(width.bits, parts)),), accesses)
