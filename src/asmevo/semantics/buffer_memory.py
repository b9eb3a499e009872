"""Buffer instructions (MUBUF): a lane's element of the buffer that a resource in four SGPRs describes.

    buffer_load_dword v0, v1, s[4:7], s2 offen offset:16
                      data  address  resource  scalar offset

`offen`: the address VGPR holds an offset, `idxen`: an index, both: a pair, index first. The resource says the rest
(see `buffer_resource`). Out of bounds, loads give 0 and stores and atomics do nothing. Every dword of a wide move
is checked alone, so it is one access a dword. Memory is always Space.GLOBAL: targets that reach scratch through a
resource have a real address there.

Left out by name: formats (`format_x` and MTBUF), `tfe` and `lwe`, `buffer_store_lds_dword`.
"""

from __future__ import annotations

from msgspec import Struct

from asmevo.program.decode import DecodingContext
from asmevo.program.instruction import Decoded
from asmevo.semantics import moves
from asmevo.semantics.atomics import Atomic, adds_exactly, atomic_named
from asmevo.semantics.buffer_resource import Element, Resource
from asmevo.semantics.building import constant
from asmevo.semantics.expression import Control, Exactness, Expr, Meaning, Result, Scope, Source, Space
from asmevo.semantics.lds_direct import lds_base, load_to_lds, placement_exactness
from asmevo.semantics.memory_names import LOADS, STORES, Width
from asmevo.semantics.moves import ADDRESS_BITS, DWORD, Piece
from asmevo.semantics.operands import raw, resize

_PREFIX = "buffer_"
_CACHE = (
    "buffer_wbl2", "buffer_inv", "buffer_invl2", "buffer_wbinvl1", "buffer_wbinvl1_vol", "buffer_gl0_inv",
    "buffer_gl1_inv",
)  # fmt: skip
_SOURCE = "written: MUBUF"


class _Places(Struct, frozen=True):
    """Where the printed operands are; there is no data operand in front of a load to LDS."""

    address: int
    resource: int
    scalar: int


def buffer_memory(decoded: Decoded, context: DecodingContext) -> Meaning:
    """The meaning of a MUBUF instruction. Raises UnsupportedOperandError."""
    name = decoded.mnemonic
    if name in _CACHE:
        return Meaning(Scope.LANE, control=Control.HINT, source="written: vector memory caches")
    if decoded.modifier("tfe") is not None or decoded.modifier("lwe") is not None:
        return moves.unsupported(decoded, "the fail flag of tfe and lwe is not modelled")
    action, _, rest = name.removeprefix(_PREFIX).partition("_")
    if action == "load" and rest in LOADS:
        return _load(decoded, LOADS[rest], context)
    if action == "store" and rest in STORES:
        pieces = _pieces(decoded, STORES[rest].size, context)
        return Meaning(Scope.LANE, memory=moves.store(0, STORES[rest], pieces, Space.GLOBAL), source=_SOURCE)
    atomic = atomic_named(rest) if action == "atomic" else None
    if atomic is not None:
        return _atomic(decoded, atomic, context)
    return moves.unsupported(decoded, "no written meaning")


def _load(decoded: Decoded, width: Width, context: DecodingContext) -> Meaning:
    pieces = _pieces(decoded, width.size, context)
    if decoded.modifier("lds") is None:
        accesses, results = moves.load(0, width, pieces, Space.GLOBAL)
        exactness = moves.d16_exactness(width, context.target)
        return Meaning(Scope.LANE, results, accesses, exactness=exactness, source=_SOURCE)
    if width.half:
        return moves.unsupported(decoded, "D16 loads do not go to LDS")
    base = lds_base(decoded, width, context.target)
    accesses = load_to_lds(base, width, pieces, Space.GLOBAL, whole_dwords=True)
    return Meaning(Scope.LANE, memory=accesses, exactness=placement_exactness(width), source=_SOURCE)


def _atomic(decoded: Decoded, atomic: Atomic, context: DecodingContext) -> Meaning:
    (piece,) = _pieces(decoded, atomic.size, context, split=False)
    data = Source(atomic.bits, 0)
    second = Source(atomic.bits, 0, atomic.bits) if atomic.operands == 2 else data
    access, old = moves.atomic_access(atomic, piece, Space.GLOBAL, data, second)
    results = (Result("operand", old),) if "atomic_ret" in decoded.flags else ()
    exact = adds_exactly(atomic, context.target.family.value)
    exactness = Exactness.EXACT if exact else Exactness.APPROXIMATE
    return Meaning(Scope.LANE, results, (access,), exactness=exactness, source=_SOURCE)


def _places(decoded: Decoded) -> _Places:
    first = 0 if decoded.modifier("lds") is not None else 1
    return _Places(first, first + 1, first + 2)


def _pieces(decoded: Decoded, size: int, context: DecodingContext, split: bool = True) -> list[Piece]:
    element = _element(decoded, context.target.family.value)
    if not split or size <= DWORD:
        return [Piece(0, size, element.address(0), element.in_bounds(0, size))]
    return [
        Piece(start, DWORD, element.address(start), element.in_bounds(start, DWORD)) for start in range(0, size, DWORD)
    ]


def _element(decoded: Decoded, family: str) -> Element:
    places = _places(decoded)
    has_index = decoded.modifier("idxen") is not None
    has_offset = decoded.modifier("offen") is not None
    index: Expr | None = Source(32, places.address) if has_index else None
    offset: Expr = constant(ADDRESS_BITS, moves.modifier_number(decoded, "offset"))
    if has_offset:
        register = Source(32, places.address, 32 if has_index else 0)
        offset = moves.total(resize(register, ADDRESS_BITS), offset)
    scalar = resize(raw(decoded, places.scalar, 32), ADDRESS_BITS)
    return Element(Resource(places.resource, family), index, offset, scalar)
