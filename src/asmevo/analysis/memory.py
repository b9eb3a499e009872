"""Memory effects: which address spaces an instruction reads and writes, and what it must not be moved across.

An instruction is one of five kinds:

    NONE      touches no memory (registers only; ds_bpermute, ds_permute and ds_swizzle, which move data
              between lanes through the LDS crossbar, belong here)
    LOAD      reads spaces, writes none
    STORE     writes spaces (LDS-DMA reads one and writes the other)
    ATOMIC    reads and writes at once
    FENCE     reads and writes nothing itself, but memory operations keep their side of it: barriers (split
              ones too), messages, cache write-back and invalidation, traps, sleeps, mode registers, the end
              of the program, clocks, and every instruction that is unknown
    CONTROL   steers issue only, and memory may cross it: waits, s_nop, s_delay_alu, s_clause, s_setprio

`ordered` says that no memory operation may cross the instruction in either direction. It holds for fences,
for atomics, and for loads and stores whose cache bits ask for coherence beyond the wave's CU, since these
are how waves talk to one another. Two unordered operations conflict if they share a space and one writes it
(`conflict`); addresses are not compared.

Spaces are those a wave can tell apart:

    lds, gds    the two on-chip memories
    global      buffers and pointers
    scratch     a lane's private memory
    scalar      global memory as the scalar cache shows it; every vector write of `global` also writes it,
                because a scalar load may read that address

FLAT addresses may be in lds, global or scratch. Buffer instructions reach scratch on targets that have no
other way to it, and nothing in the encoding tells which is meant, so they count as both.

Soundness: a space that an instruction might touch is listed; the kinds that say "touches nothing" are a
closed list of names and flags, and what is on no list falls to FENCE.
"""

from __future__ import annotations

from enum import Enum
from functools import cache

from msgspec import Struct

from asmevo.program.instruction import Decoded

LDS, GDS, GLOBAL, SCRATCH, SCALAR = "lds", "gds", "global", "scratch", "scalar"
SPACES = (LDS, GDS, GLOBAL, SCRATCH, SCALAR)
ON_CHIP = (LDS, GDS)
"""The spaces that may be others behind a quiet fence (see `quiet_points`)."""

Spaces = frozenset[str]
_NO_SPACE: Spaces = frozenset()


class MemoryKind(Enum):
    """What an instruction does to memory; see the module."""

    NONE = "none"
    LOAD = "load"
    STORE = "store"
    ATOMIC = "atomic"
    FENCE = "fence"
    CONTROL = "control"


class MemoryEffect(Struct, frozen=True):
    """`reads` and `writes` are names out of SPACES; `ordered`: no memory operation may cross it."""

    kind: MemoryKind
    reads: Spaces = _NO_SPACE
    writes: Spaces = _NO_SPACE
    ordered: bool = False

    @property
    def touches(self) -> Spaces:
        """Spaces read or written."""
        return self.reads | self.writes

    @property
    def is_memory(self) -> bool:
        """Whether fences and other memory operations have a say in where it stands."""
        return self.kind not in (MemoryKind.NONE, MemoryKind.CONTROL)

    def conflict(self, other: MemoryEffect) -> str | None:
        """Why the two must keep their order: a space, or "order"; None if they may swap."""
        if not (self.is_memory and other.is_memory):
            return None
        if self.ordered or other.ordered:
            return "order"
        shared = (self.writes & other.touches) | (other.writes & self.touches)
        return next((space for space in SPACES if space in shared), None)


_CONTROL_PREFIXES = (
    "s_nop",
    "s_delay_alu",
    "s_clause",
    "s_wait",
    "s_setprio",
    "s_sethalt",
    "s_inst_prefetch",
    "s_set_inst_prefetch_distance",
    "s_prefetch_inst",
)
# side_effects in LLVM's tables, but registers only: s_and_saveexec_b64, s_andn2_wrexec_b64, ...
_EXEC_WRITERS = ("_saveexec_", "_wrexec_")
_PREFETCHES = ("s_prefetch_", "s_buffer_prefetch_", "global_prefetch_", "flat_prefetch_", "scratch_prefetch_")
_LOADS_LDS_STORES_GLOBAL = ("buffer_store_lds_", "global_store_async_from_lds_", "tensor_store_from_lds")
# Kinds of instruction whose meaning lies outside memory and registers, without side_effects in the tables.
_FENCE_FLAGS = frozenset({"unknown", "workgroup_barrier", "return", "exp", "gds"})
_FENCE_PREFIXES = ("s_wakeup", "s_setreg", "s_round_mode", "s_denorm_mode", "s_set_gpr_idx", "s_set_vgpr_msb")
_MEMORY_FLAGS = frozenset({"may_load", "may_store"})

_ORDERED_NOTHING = MemoryEffect(MemoryKind.FENCE, ordered=True)
_CONTROL = MemoryEffect(MemoryKind.CONTROL)
_NONE = MemoryEffect(MemoryKind.NONE)


@cache
def memory_effect(decoded: Decoded) -> MemoryEffect:
    """What one encoding does to memory."""
    mnemonic, flags = decoded.mnemonic, decoded.flags
    if mnemonic.startswith(_CONTROL_PREFIXES):
        return _CONTROL
    if mnemonic.startswith(_FENCE_PREFIXES) or flags & _FENCE_FLAGS or decoded.modifier("gds") is not None:
        return _ORDERED_NOTHING
    if not flags & _MEMORY_FLAGS:
        quiet = "side_effects" not in flags or any(part in mnemonic for part in _EXEC_WRITERS)
        return _NONE if quiet else _ORDERED_NOTHING
    if mnemonic.startswith(_PREFETCHES):
        return MemoryEffect(MemoryKind.LOAD, reads=_spaces(flags))
    if "lds_dma" in flags:
        return _lds_dma(decoded)
    return _access(decoded)


def _access(decoded: Decoded) -> MemoryEffect:
    spaces = _spaces(decoded.flags)
    if not spaces:
        return _ORDERED_NOTHING
    loads, stores = "may_load" in decoded.flags, "may_store" in decoded.flags
    if loads and stores:
        return MemoryEffect(MemoryKind.ATOMIC, spaces, _written(spaces), ordered=True)
    if stores:
        return MemoryEffect(MemoryKind.STORE, writes=_written(spaces), ordered=_coherent(decoded))
    return MemoryEffect(MemoryKind.LOAD, reads=spaces, ordered=_coherent(decoded))


def _lds_dma(decoded: Decoded) -> MemoryEffect:
    """Data that goes between LDS and another space without passing registers."""
    other = frozenset({SCRATCH}) if "scratch" in decoded.flags else frozenset({GLOBAL})
    reads, writes = other, frozenset({LDS})
    if decoded.mnemonic.startswith(_LOADS_LDS_STORES_GLOBAL):
        reads, writes = writes, reads
    return MemoryEffect(MemoryKind.STORE, reads, _written(writes), ordered=_coherent(decoded))


def _spaces(flags: frozenset[str]) -> Spaces:
    """The spaces an address of this encoding may lie in."""
    if "ds" in flags or "ldsdir" in flags:
        return frozenset({LDS})
    if "flat" in flags:
        return frozenset({LDS, GLOBAL, SCRATCH})
    if "scratch" in flags:
        return frozenset({SCRATCH})
    if "global" in flags:
        return frozenset({GLOBAL})
    if "vmem" in flags:
        return frozenset({GLOBAL, SCRATCH})
    return frozenset({SCALAR}) if "smem" in flags else _NO_SPACE


def _written(spaces: Spaces) -> Spaces:
    """Scalar loads see vector stores and the other way round."""
    return spaces | {GLOBAL, SCALAR} if spaces & {GLOBAL, SCALAR} else spaces


def _coherent(decoded: Decoded) -> bool:
    """Whether the cache bits ask for more than the CU's own view (LLVM's AMDGPU memory model).

    gfx8..gfx11: glc on a load, and dlc on a gfx10 or gfx11 store, mark volatile and atomic accesses; slc
    alone, or with dlc, is a streaming hint. gfx940: sc0 and sc1 are the scope, nt is a hint. gfx12: `scope`
    beyond the CU; `th` is a hint except where it bypasses the caches.
    """
    names = {modifier.name for modifier in decoded.modifiers}
    if names & {"glc", "sc0", "sc1"} or ("dlc" in names and "slc" not in names):
        return True
    scope, hint = decoded.modifier("scope"), decoded.modifier("th") or ""
    return scope not in (None, "SCOPE_CU") or "BYPASS" in hint
