"""Scalar memory (SMEM): one access for the wave, through the scalar cache.

Address. base + immediate offset + SGPR offset, in bytes, all modulo 2**64; LLVM's text already holds the signed
value of the immediate for each generation (20 bits unsigned on gfx8, 21 signed on gfx9 to gfx11, 24 signed on
gfx12). For dwords the two lowest bits of the sum are ignored, for 16-bit loads the lowest.

    s_load_dword s0, s[2:3], 0x10              immediate
    s_load_dword s0, s[2:3], s4                SGPR
    s_load_dword s0, s[2:3], s4 offset:0x10    both (gfx9 on)
    s_load_b32 s0, s[2:3], null                none

A load of many dwords is one access of all its bytes, as its dwords are consecutive. `s_buffer_load` checks each
dword alone, so it is one access a dword: base is bits 0..47 of the resource; the size is the number of records,
times the stride where that is not zero (Mesa's note on NUM_RECORDS for SMEM).

Cache maintenance and prefetches are hints. `s_memtime` and `s_memrealtime` give the clock. Left out by name:
`s_scratch_*` (their base is not defined by the launch ABI) and `s_get_waveid_in_workgroup`.
"""

from __future__ import annotations

from asmevo.program.decode import DecodingContext
from asmevo.program.instruction import Decoded
from asmevo.semantics import moves
from asmevo.semantics.atomics import Atomic, atomic_named
from asmevo.semantics.buffer_resource import scalar_size
from asmevo.semantics.building import constant
from asmevo.semantics.expression import (
    Access,
    Control,
    Expr,
    Implicit,
    Meaning,
    Result,
    Scope,
    Slice,
    Source,
    Space,
)
from asmevo.semantics.memory_names import SCALAR_LOADS, Width
from asmevo.semantics.moves import ADDRESS_BITS, DWORD, Piece
from asmevo.semantics.operands import op, raw, resize

_HINTS = ("s_dcache_", "s_gl1_inv", "s_prefetch_", "s_buffer_prefetch_", "s_atc_probe")
_CLOCKS = ("s_memtime", "s_memrealtime")
_BASE_BITS = 48


def scalar_memory(decoded: Decoded, context: DecodingContext) -> Meaning:
    """The meaning of an SMEM instruction. Raises UnsupportedOperandError."""
    name = decoded.mnemonic
    if name.startswith(_HINTS):
        return Meaning(Scope.WAVE, control=Control.HINT, ignores_exec=True, source="written: SMEM cache")
    if name in _CLOCKS:
        clock = Result("operand", Implicit(64, "clock"))
        return Meaning(Scope.WAVE, (clock,), ignores_exec=True, source="written: SMEM clock")
    buffer = name.startswith("s_buffer_")
    action, _, rest = name.removeprefix("s_buffer_").removeprefix("s_").partition("_")
    if action == "load" and rest in SCALAR_LOADS:
        return _load(decoded, SCALAR_LOADS[rest], buffer, context)
    if action == "store" and rest in SCALAR_LOADS:
        return _store(decoded, SCALAR_LOADS[rest], buffer, context)
    atomic = atomic_named(rest) if action == "atomic" else None
    if atomic is not None:
        return _atomic(decoded, atomic, buffer, context)
    return moves.unsupported(decoded, "no written meaning")


def _load(decoded: Decoded, width: Width, buffer: bool, context: DecodingContext) -> Meaning:
    accesses, results = moves.load(0, width, _pieces(decoded, width.size, buffer, context), Space.SCALAR)
    return _meaning(accesses, results)


def _store(decoded: Decoded, width: Width, buffer: bool, context: DecodingContext) -> Meaning:
    pieces = _pieces(decoded, width.size, buffer, context)
    return _meaning(moves.store(0, width, pieces, Space.SCALAR), ())


def _atomic(decoded: Decoded, atomic: Atomic, buffer: bool, context: DecodingContext) -> Meaning:
    (piece,) = _pieces(decoded, atomic.size, buffer, context, split=False)
    data, second = Source(atomic.bits, 0), Source(atomic.bits, 0, atomic.bits if atomic.operands == 2 else 0)
    access, old = moves.atomic_access(atomic, piece, Space.SCALAR, data, second)
    results = (Result("operand", old),) if decoded.modifier("glc") is not None else ()
    return _meaning((access,), results)


def _meaning(accesses: tuple[Access, ...], results: tuple[Result, ...]) -> Meaning:
    return Meaning(Scope.WAVE, results, accesses, ignores_exec=True, source="written: SMEM")


def _pieces(decoded: Decoded, size: int, buffer: bool, context: DecodingContext, split: bool = True) -> list[Piece]:
    offset = _offset(decoded, size)
    if not buffer:
        return [Piece(0, size, _aligned(moves.total(Source(ADDRESS_BITS, 1), offset), size))]
    base = resize(Slice(_BASE_BITS, Source(ADDRESS_BITS, 1), 0), ADDRESS_BITS)
    limit = scalar_size(1, context.target.family.value)
    starts = range(0, size, DWORD) if split and size > DWORD else (0,)
    pieces = []
    for start in starts:
        place = moves.total(offset, constant(ADDRESS_BITS, start))
        address = _aligned(moves.total(base, place), size)
        pieces.append(Piece(start, size // len(starts), address, op("ult", 1, place, limit)))
    return pieces


def _offset(decoded: Decoded, size: int) -> Expr:
    """Immediate and SGPR offset together; 64 bits."""
    immediate = constant(ADDRESS_BITS, moves.modifier_number(decoded, "offset"))
    operand = decoded.operands[2]
    if operand.registers is None:
        return moves.total(raw(decoded, 2, ADDRESS_BITS), immediate)
    register = resize(Source(32, 2), ADDRESS_BITS)
    if decoded.modifier("scale_offset") is not None:
        register = op("mul", ADDRESS_BITS, register, constant(ADDRESS_BITS, size))
    return moves.total(register, immediate)


def _aligned(address: Expr, size: int) -> Expr:
    unit = min(size, DWORD)
    if unit == 1:
        return address
    return op("and", ADDRESS_BITS, address, constant(ADDRESS_BITS, -unit))
