"""Loads from memory straight into LDS: where each lane's bytes go.

Through M0 (`buffer_load_* ... lds`, `global_load_lds_*`, `scratch_load_lds_*`):

    LDS address = M0 + immediate offset + lane * unit

The wave's share of LDS is the workgroup's; M0 counts with 16 bits, on targets with more than 64 KiB with 18. The
unit is 4 bytes, and for three and four dwords 16 (CDNA4 manual, "memory buffer load to LDS"). Bytes and shorts
are extended to a dword, which is written whole: `value` of the access. A lane that is out of bounds writes zeros.

Through a VGPR (gfx1250, `global_load_async_to_lds_*`): the first operand is the LDS address, the immediate offset
counts for both sides, and exactly the loaded bytes are written.
"""

from __future__ import annotations

from collections.abc import Sequence

from asmevo.program.instruction import Decoded
from asmevo.semantics.building import constant
from asmevo.semantics.expression import Access, AccessKind, Exactness, Expr, Implicit, Loaded, Slice, Source, Space
from asmevo.semantics.memory_names import DWORD_BITS, Width
from asmevo.semantics.moves import DWORD, Piece, modifier_number, total
from asmevo.semantics.operands import LANE, op, resize
from asmevo.target import Target

_WIDE_UNIT = 16
_SHORT_M0, _LONG_M0 = 16, 18
_SHORT_LDS = 1 << _SHORT_M0


def lds_base(decoded: Decoded, width: Width, target: Target) -> Expr:
    """Where this lane's first byte goes, by M0; 32 bits."""
    bits = _LONG_M0 if target.lds.max_per_workgroup.value > _SHORT_LDS else _SHORT_M0
    start = resize(Slice(bits, Implicit(DWORD_BITS, "m0"), 0), DWORD_BITS)
    unit = DWORD if width.size <= DWORD else _WIDE_UNIT
    lane = op("mul", DWORD_BITS, LANE, constant(DWORD_BITS, unit))
    return total(start, constant(DWORD_BITS, modifier_number(decoded, "offset")), lane)


def named_lds_address(decoded: Decoded) -> Expr:
    """Where this lane's first byte goes, by the first operand; 32 bits."""
    return total(Source(DWORD_BITS, 0), constant(DWORD_BITS, modifier_number(decoded, "offset")))


def load_to_lds(
    base: Expr, width: Width, pieces: Sequence[Piece], space: Space, whole_dwords: bool
) -> tuple[Access, ...]:
    """Accesses of a load whose bytes go to LDS from `base` on."""
    accesses = []
    for place, piece in enumerate(pieces):
        loaded = Loaded(piece.bits, place)
        value = resize(loaded, DWORD_BITS, width.signed) if whole_dwords and piece.size < DWORD else None
        accesses.append(
            Access(
                AccessKind.LOAD_TO_LDS,
                space,
                piece.address,
                piece.size,
                piece.in_bounds,
                value=value,
                lds_address=total(base, constant(DWORD_BITS, piece.start)),
            )
        )
    return tuple(accesses)


def placement_exactness(width: Width) -> Exactness:
    """Sources disagree on the unit of three dwords (the manual says 16 bytes)."""
    return Exactness.APPROXIMATE if width.size == 3 * DWORD else Exactness.EXACT
