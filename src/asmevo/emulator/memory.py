"""The sandbox: everything a kernel can reach in memory, and nothing else.

An arena is one stretch of guest addresses with two bytes for each guest byte: the data and its `shadow`,
which says whether the byte may be read, may be written, and has been written. Buffers lie in the arena with
gaps between them, so that an index that runs away meets shadow 0 long before it meets another buffer. A check
is one comparison with the arena's end and one look at the shadow, the same for compiled code and for numpy;
only after a failed check does anybody ask which buffer was meant.

Global memory is one arena, LDS one a workgroup, scratch one a wave with the lanes one behind the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]

READABLE, WRITABLE, WRITTEN = 1, 2, 4
"""Bits of a shadow byte."""

GLOBAL_BASE = 0x7E00_0000_0000  # below 2**47, as addresses of user processes are
_ALIGN = 256  # bytes; what a GPU's allocator gives at least
_SMALLEST_GAP = 1 << 16  # bytes
_LARGEST_GAP = 1 << 24


class Region(Struct, frozen=True):
    """A named stretch; `address` and `size` in bytes."""

    name: str
    address: int
    size: int

    @property
    def end(self) -> int:
        """The first address behind it."""
        return self.address + self.size


class FaultKind(Enum):
    """What is wrong with an access."""

    OUTSIDE = "outside of every buffer"
    READ_ONLY = "a store to read-only memory"
    UNWRITTEN = "a read of bytes that nobody wrote"


class Fault(Struct, frozen=True):
    """A failed access: `lane`, guest `address` of its first bad byte, `size` of the whole access (bytes)."""

    kind: FaultKind
    lane: int
    address: int
    size: int
    store: bool
    nearest: str

    def __str__(self) -> str:
        verb = "writes" if self.store else "reads"
        return f"lane {self.lane} {verb} {self.size} bytes at {self.address:#x}: {self.kind.value}; {self.nearest}"


class Arena:
    """Guest addresses base .. base+size-1. `data` and `shadow` have a tail, so that vector code may overread."""

    TAIL = 64  # bytes

    def __init__(self, name: str, base: int, size: int) -> None:
        self.name = name
        self.base = base
        self.size = size
        self.data: Bytes = np.zeros(size + self.TAIL, np.uint8)
        self.shadow: Bytes = np.zeros(size + self.TAIL, np.uint8)
        self.regions: list[Region] = []

    def open(self, region: Region, writable: bool = True, content: Any = None) -> None:
        """Makes a region accessible; `content` (anything with bytes) counts as written."""
        start = region.address - self.base
        bits = READABLE | (WRITABLE if writable else 0)
        if content is not None:
            raw = np.frombuffer(content, np.uint8)
            self.data[start : start + raw.size] = raw
            bits |= WRITTEN
        self.shadow[start : start + region.size] = bits
        self.regions.append(region)

    def view(self, region: Region) -> Bytes:
        """The region's bytes, shared with the arena."""
        start = region.address - self.base
        return self.data[start : start + region.size]

    def written(self, region: Region) -> Bytes:
        """For each byte of the region whether it has been written."""
        start = region.address - self.base
        found: Bytes = (self.shadow[start : start + region.size] & WRITTEN) != 0
        return found

    def nearest(self, address: int) -> str:
        """Words that place an address: the region it is in, behind or before."""
        if not self.regions:
            return f"there is no {self.name}"

        def distance(region: Region) -> int:
            return max(region.address - address, address - region.end + 1, 0)

        region = min(self.regions, key=distance)
        if address >= region.end:
            place = f"{address - region.end} bytes behind the end of"
        elif address < region.address:
            place = f"{region.address - address} bytes before"
        else:
            place = f"byte {address - region.address} of"
        return f"{place} {region.name} ({region.size} bytes)"

    def examine(self, address: int, size: int, lane: int, store: bool) -> Fault | None:
        """What is wrong with one access, None when nothing is (slow; for reports and scalar accesses)."""
        need = WRITABLE if store else READABLE
        for byte in range(address, address + size):
            offset = byte - self.base
            bits = int(self.shadow[offset]) if 0 <= offset < self.size else 0
            if not bits & need:
                kind = FaultKind.READ_ONLY if bits else FaultKind.OUTSIDE
                return Fault(kind, lane, byte, size, store, self.nearest(byte))
        if not store:
            for byte in range(address, address + size):
                if not self.shadow[byte - self.base] & WRITTEN:
                    return Fault(FaultKind.UNWRITTEN, lane, byte, size, store, self.nearest(byte))
        return None


class Allocation(Struct, frozen=True):
    """A wish for a region: `content` None means unwritten bytes."""

    name: str
    size: int
    content: Any = None
    writable: bool = True
    align: int = _ALIGN


def _rounded(value: int, align: int) -> int:
    return -(-value // align) * align


def _gap(size: int) -> int:
    return min(max(_SMALLEST_GAP, size), _LARGEST_GAP)


class GlobalMemory:
    """Global memory of one launch: buffers in the order they were asked for, then the loaded image."""

    def __init__(self, allocations: Iterable[Allocation], image: Iterable[tuple[str, int, bytes]] = ()) -> None:
        """`image`: (section, address in the image, content) of what is loaded, kept at its distances."""
        wishes, sections = list(allocations), list(image)
        self.regions: dict[str, Region] = {}
        place = GLOBAL_BASE
        for wish in wishes:
            place = _rounded(place + _gap(wish.size), max(wish.align, _ALIGN))
            self.regions[wish.name] = Region(wish.name, place, wish.size)
            place += wish.size
        place += _gap(_LARGEST_GAP)
        self.load_base = _rounded(place, _SMALLEST_GAP)
        end = self.load_base + max((address + len(content) for _, address, content in sections), default=0)
        self.arena = Arena("global memory", GLOBAL_BASE, end + _SMALLEST_GAP - GLOBAL_BASE)
        for wish in wishes:
            self.arena.open(self.regions[wish.name], wish.writable, wish.content)
        for name, address, content in sections:
            region = Region(name, self.load_base + address, len(content))
            self.arena.open(region, writable=name.startswith((".data", ".bss")), content=content)

    def address(self, name: str) -> int:
        """Where a buffer starts."""
        return self.regions[name].address

    def content(self, name: str) -> bytes:
        """A buffer's bytes now."""
        return self.arena.view(self.regions[name]).tobytes()


def lds_arena(size: int) -> Arena:
    """Unwritten LDS of one workgroup; addresses from 0."""
    arena = Arena("LDS", 0, size)
    arena.open(Region("LDS", 0, size))
    return arena


def scratch_arena(lane_bytes: int, lanes: int) -> Arena:
    """Unwritten scratch of one wave: lane n's bytes from n * lane_bytes on."""
    arena = Arena("scratch", 0, lane_bytes * lanes)
    for lane in range(lanes if lane_bytes else 0):
        arena.open(Region(f"scratch of lane {lane}", lane * lane_bytes, lane_bytes))
    return arena
