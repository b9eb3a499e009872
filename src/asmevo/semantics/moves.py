"""What all memory instructions share: operands as addresses, and loads and stores between register and memory.

Pieces. A move of more than a dword is one access where the addresses of its dwords are consecutive and none can be
out of bounds alone (global, flat, scratch, LDS), else one access a dword. `Piece` is one such access.

Order. The accesses of an instruction happen in the order of `Meaning.memory`, each for all enabled lanes in
ascending lane order before the next one begins. Atomics therefore see what lower lanes left.

Poison is the emulator's matter: an access outside every buffer has a meaning here, and is an error there.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from asmevo.program.instruction import Decoded
from asmevo.semantics.atomics import Atomic
from asmevo.semantics.expression import (
    Access,
    AccessKind,
    Concat,
    Exactness,
    Expr,
    Loaded,
    Meaning,
    Result,
    Scope,
    Source,
    Space,
)
from asmevo.semantics.memory_names import HALF_BITS, Width
from asmevo.semantics.operands import op, resize
from asmevo.target import Target

ADDRESS_BITS = 64
DWORD = 4


def unsupported(decoded: Decoded, reason: str) -> Meaning:
    """The meaning of an instruction that is known by name and refused by name."""
    return Meaning(Scope.WAVE, exactness=Exactness.UNSUPPORTED, source=f"{decoded.mnemonic}: {reason}")


def lane_meaning(
    source: str,
    results: tuple[Result, ...],
    accesses: tuple[Access, ...],
    exactness: Exactness = Exactness.EXACT,
) -> Meaning:
    """The meaning of a move that each lane makes for itself; `source` says where it is written."""
    return Meaning(Scope.LANE, results, accesses, exactness=exactness, source=source)


def total(*parts: Expr) -> Expr:
    """The sum of values of one width; constant zeros cost nothing."""
    kept = [part for part in parts if getattr(part, "value", None) != 0]
    if not kept:
        return parts[0]
    result = kept[0]
    for part in kept[1:]:
        result = op("add", result.bits, result, part)
    return result


def modifier_number(decoded: Decoded, name: str) -> int:
    """The number of `offset:16` and the like, 0 where it is not written."""
    value = decoded.modifier(name)
    return int(value, 0) if value else 0


class Piece(Struct, frozen=True, eq=False):
    """One access: bytes `start` .. start+size-1 of what the lane moves. Units: bytes."""

    start: int
    size: int
    address: Expr
    in_bounds: Expr | None = None

    @property
    def bits(self) -> int:
        """Bits of the access."""
        return 8 * self.size


def load(
    index: int, width: Width, pieces: Sequence[Piece], space: Space
) -> tuple[tuple[Access, ...], tuple[Result, ...]]:
    """Accesses and result of a load into printed operand `index`."""
    accesses = tuple(Access(AccessKind.LOAD, space, piece.address, piece.size, piece.in_bounds) for piece in pieces)
    parts = tuple(Loaded(piece.bits, place) for place, piece in enumerate(pieces))
    value: Expr = parts[0] if len(parts) == 1 else Concat(width.bits, parts)
    value = resize(value, width.register_bits, width.signed)
    return accesses, (Result("operand", value, index, HALF_BITS if width.half == "h" else 0),)


def store(index: int, width: Width, pieces: Sequence[Piece], space: Space) -> tuple[Access, ...]:
    """Accesses of a store of printed operand `index`."""
    start = HALF_BITS if width.half == "h" else 0
    return tuple(
        Access(
            AccessKind.STORE,
            space,
            piece.address,
            piece.size,
            piece.in_bounds,
            value=Source(piece.bits, index, start + 8 * piece.start),
        )
        for piece in pieces
    )


def atomic_access(
    atomic: Atomic, piece: Piece, space: Space, data: Expr, second: Expr, place: int = 0
) -> tuple[Access, Expr]:
    """The access number `place` of an atomic, and the value that was there before."""
    old = Loaded(atomic.bits, place)
    new = atomic.new_value(old, data, second)
    access = Access(AccessKind.ATOMIC, space, piece.address, piece.size, piece.in_bounds, value=data, atomic=new)
    return access, old


def d16_exactness(width: Width, target: Target) -> Exactness:
    """Whether what a load leaves in the other half of its register is known.

    Kept, except that LLVM does not count on it where SRAM ECC is on.
    """
    unsure = bool(width.half) and target.elf.sramecc.value
    return Exactness.APPROXIMATE if unsure else Exactness.EXACT
