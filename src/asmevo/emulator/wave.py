"""The state of a wavefront and what it can reach.

Registers are numbered by `program.registers` units: vectors are rows of a matrix [unit][lane], scalars (SGPRs,
trap temporaries, VCC, EXEC, M0, SCC, MODE, ...) one array. Both hold 32-bit words and are plain memory, so that
numpy and compiled code work on the same state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from asmevo.emulator.arguments import Apertures
from asmevo.emulator.launch import WaveStart
from asmevo.emulator.manifest import Triple
from asmevo.emulator.memory import READABLE, WRITABLE, WRITTEN, Arena, Fault, FaultKind
from asmevo.program.registers import NAMED_SPANS, UNIT_COUNT, RegisterFile, RegisterSpan
from asmevo.semantics.expression import Space

Lanes = NDArray[Any]

VECTOR_UNITS = RegisterSpan(RegisterFile.SGPR, 0).base_unit
"""Units below this are vector registers, the others scalar."""
SCALAR_UNITS = UNIT_COUNT - VECTOR_UNITS

EXEC = NAMED_SPANS["exec"].base_unit - VECTOR_UNITS
VCC = NAMED_SPANS["vcc"].base_unit - VECTOR_UNITS
SCC = NAMED_SPANS["scc"].base_unit - VECTOR_UNITS
M0 = NAMED_SPANS["m0"].base_unit - VECTOR_UNITS
MODE = NAMED_SPANS["mode"].base_unit - VECTOR_UNITS
FLAT_SCRATCH = NAMED_SPANS["flat_scratch"].base_unit - VECTOR_UNITS


class FaultFound(Exception):  # noqa: N818 - carries a fault to where the instruction is known
    """A failed access on its way to the machine, which knows the instruction."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault))
        self.fault = fault


class Reach(Struct):
    """The memory of one wave. `scratch_bytes` a lane; `on_unwritten` hears of reads that nobody wrote."""

    memory: Arena
    lds: Arena
    scratch: Arena
    scratch_bytes: int
    apertures: Apertures
    on_unwritten: Callable[[Fault], None]

    def load(self, space: Space, address: Lanes, size: int, active: Lanes) -> Lanes:
        """Bytes [lane][size]; lanes that are not active get 0. Raises FaultFound."""
        got = np.zeros((active.size, size), np.uint8)
        for arena, places, lanes in self.split(space, address, active):
            index = self._checked(arena, places, lanes, size, READABLE)
            got[lanes] = arena.data[index]
        return got

    def store(self, space: Space, address: Lanes, content: Lanes, active: Lanes) -> None:
        """Writes bytes [lane][size] of the active lanes in lane order. Raises FaultFound."""
        size = content.shape[1]
        content = np.broadcast_to(content, (active.size, size))
        for arena, places, lanes in self.split(space, address, active):
            index = self._checked(arena, places, lanes, size, WRITABLE)
            arena.data[index] = content[lanes]
            arena.shadow[index] |= WRITTEN

    def atomic(
        self, space: Space, address: Lanes, size: int, active: Lanes, update: Callable[[int, Lanes], Lanes]
    ) -> Lanes:
        """One lane behind the other: `update(lane, old bytes)` gives the new bytes. Gives the old ones."""
        old = np.zeros((active.size, size), np.uint8)
        address = np.broadcast_to(address, active.shape)
        for lane in np.flatnonzero(active):
            only = np.zeros(active.size, bool)
            only[lane] = True
            old[lane] = self.load(space, address, size, only)[lane]
            fresh = np.broadcast_to(update(int(lane), old[lane : lane + 1]), (active.size, size))
            self.store(space, address, fresh, only)
        return old

    def examine(self, space: Space, address: Lanes, size: int, active: Lanes, store: bool) -> None:
        """Only the check of an access. Raises FaultFound."""
        for arena, places, lanes in self.split(space, address, active):
            self._checked(arena, places, lanes, size, WRITABLE if store else READABLE)

    def split(self, space: Space, address: Lanes, active: Lanes) -> list[tuple[Arena, Lanes, Lanes]]:
        """(arena, offsets from the arena's start, lanes) of an access; FLAT goes where each address points."""
        lanes = np.flatnonzero(active)
        if not lanes.size:
            return []
        places = np.broadcast_to(address, active.shape)[lanes].astype(np.uint64)
        if space is Space.LDS:
            return [(self.lds, places & np.uint64(0xFFFFFFFF), lanes)]
        if space is Space.SCRATCH:
            return [(self.scratch, self._lane_scratch(places, lanes), lanes)]
        if space is Space.FLAT:
            return self._split_flat(places, lanes)
        return [(self.memory, places - np.uint64(self.memory.base), lanes)]

    def _split_flat(self, places: Lanes, lanes: Lanes) -> list[tuple[Arena, Lanes, Lanes]]:
        upper, lower = places >> np.uint64(32), places & np.uint64(0xFFFFFFFF)
        shared, private = upper == self.apertures.shared, upper == self.apertures.private
        plain = ~(shared | private)
        parts = []
        if shared.any():
            parts.append((self.lds, lower[shared], lanes[shared]))
        if private.any():
            parts.append((self.scratch, self._lane_scratch(lower[private], lanes[private]), lanes[private]))
        if plain.any():
            parts.append((self.memory, places[plain] - np.uint64(self.memory.base), lanes[plain]))
        return parts

    def _lane_scratch(self, offset: Lanes, lanes: Lanes) -> Lanes:
        """A lane's own offset as a place in the wave's scratch; one beyond the lane's share lies outside."""
        inside = offset < self.scratch_bytes
        place = np.where(inside, offset + lanes.astype(np.uint64) * np.uint64(self.scratch_bytes), self.scratch.size)
        found: Lanes = place.astype(np.uint64)
        return found

    def _checked(self, arena: Arena, places: Lanes, lanes: Lanes, size: int, need: int) -> Lanes:
        """Indices [lane][byte] into the arena, all of them allowed. Raises FaultFound for the first that is not."""
        inside = (places <= arena.size) & (places + np.uint64(size) <= arena.size)
        index = np.where(inside, places, 0).astype(np.int64)[:, None] + np.arange(size)
        shadow = np.bitwise_and.reduce(arena.shadow[index], axis=1)
        allowed = inside & (shadow & need != 0)
        if not allowed.all():
            first = int(np.flatnonzero(~allowed)[0])
            self._refuse(arena, int(places[first]), int(lanes[first]), size, need)
        if need == READABLE and not (shadow & WRITTEN).all():
            first = int(np.flatnonzero(shadow & WRITTEN == 0)[0])
            fault = arena.examine(arena.base + int(places[first]), size, int(lanes[first]), False)
            if fault is not None and fault.kind is FaultKind.UNWRITTEN:
                self.on_unwritten(fault)
        return index

    def _refuse(self, arena: Arena, place: int, lane: int, size: int, need: int) -> None:
        address = (arena.base + place) & 0xFFFFFFFFFFFFFFFF
        fault = arena.examine(address, size, lane, need == WRITABLE)
        assert fault is not None
        raise FaultFound(fault)


class Wave(Struct):
    """One wavefront; `place` is the next instruction's number in the code, `number` its number in the group.

    `group` is its workgroup. `written` is for engines that watch registers, `context` for engines that run native
    code, `under_way` for the one that completes memory accesses late.
    """

    number: int
    lanes: int
    vectors: NDArray[np.uint32]
    scalars: NDArray[np.uint32]
    reach: Reach
    place: int
    written: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, bool))
    steps: int = 0
    context: Any = None
    group: Triple = (0, 0, 0)
    under_way: Any = None

    @property
    def exec_mask(self) -> int:
        """EXEC as one integer."""
        return int(self.scalars[EXEC]) | int(self.scalars[EXEC + 1]) << 32

    def active(self) -> Lanes:
        """EXEC as one truth value a lane."""
        words = np.array([self.exec_mask], np.uint64)
        found: Lanes = np.unpackbits(words.view(np.uint8), bitorder="little")[: self.lanes].astype(bool)
        return found


def aligned_words(count: int) -> NDArray[np.uint32]:
    """Zeroed 32-bit words whose address is a multiple of 64 bytes, as vector code likes it."""
    raw = np.zeros(count + 16, np.uint32)
    start = (-raw.ctypes.data % 64) // 4
    return raw[start : start + count]


def new_wave(number: int, lanes: int, start: WaveStart, reach: Reach, place: int, track_writes: bool) -> Wave:
    """A wave with the registers that the launch sets; all others hold 0 and count as unwritten."""
    vectors = aligned_words(VECTOR_UNITS * lanes).reshape(VECTOR_UNITS, lanes)
    scalars = aligned_words(SCALAR_UNITS)
    written = np.zeros(UNIT_COUNT if track_writes else 0, bool)
    for unit, values in start.vectors.items():
        vectors[unit] = values
    for unit, value in start.scalars.items():
        scalars[unit - VECTOR_UNITS] = value
    if track_writes:
        written[[*start.vectors, *start.scalars]] = True
    return Wave(number, lanes, vectors, scalars, reach, place, written)
