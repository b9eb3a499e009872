"""Memory without an end, for running kernels on inputs that nobody prepared.

Every address can be read and written; what nobody wrote holds a number that follows from the seed and the address,
often a small one, so that counts and indices stay short. Two waves on the same seed find the same bytes. A proof
speaks of every memory, so any content is a fair one.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from asmevo.emulator.wave import Lanes, Reach
from asmevo.semantics.expression import Space

_PAGE = 4096  # bytes
_SMALL = 24  # what counts as a small number
_WORD_KINDS = ("small", "float", "corner", "any")
_WORD_SHARES = (0.55, 0.25, 0.1, 0.1)
_CORNERS = np.array([0, 1, 0xFFFFFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFF, 0x8000], np.uint32)
_ADDRESS = (1 << 64) - 1


def drawn_words(random: np.random.Generator, count: int) -> NDArray[np.uint32]:
    """Words as programs meet them: small numbers, floats of ordinary size, extreme ones, and any."""
    kinds = random.choice(len(_WORD_KINDS), size=count, p=_WORD_SHARES)
    small = random.integers(0, _SMALL, count, dtype=np.uint32)
    ordinary = (random.integers(-64, 64, count).astype(np.float32) / np.float32(4)).view(np.uint32)
    corner = random.choice(_CORNERS, count)
    anything = random.integers(0, 1 << 32, count, dtype=np.uint32)
    words: NDArray[np.uint32] = np.choose(kinds, [small, ordinary, corner, anything]).astype(np.uint32)
    return words


class Pages(Struct):
    """One address space. `written` maps an address to its last byte and the number of the store that wrote it."""

    seed: tuple[int, ...]
    pages: dict[int, NDArray[np.uint8]] = field(default_factory=dict)
    written: dict[int, tuple[int, int]] = field(default_factory=dict)

    def page(self, number: int) -> NDArray[np.uint8]:
        """The bytes of a page, made when it is first touched."""
        found = self.pages.get(number)
        if found is None:
            random = np.random.default_rng((*self.seed, number & 0xFFFFFFFF, number >> 32))
            found = self.pages[number] = drawn_words(random, _PAGE // 4).view(np.uint8).copy()
        return found

    def read(self, address: int, size: int) -> bytes:
        """Bytes from an address on."""
        taken = bytearray()
        while size:
            place = address & _ADDRESS
            low = place % _PAGE
            part = min(size, _PAGE - low)
            taken += self.page(place // _PAGE)[low : low + part].tobytes()
            address, size = place + part, size - part
        return bytes(taken)

    def put(self, address: int, content: bytes) -> None:
        """Sets bytes without counting them as written."""
        for offset, byte in enumerate(content):
            place = (address + offset) & _ADDRESS
            self.page(place // _PAGE)[place % _PAGE] = byte

    def write(self, address: int, content: bytes, store: int) -> None:
        """Sets bytes and remembers which store did."""
        self.put(address, content)
        for offset, byte in enumerate(content):
            self.written[(address + offset) & _ADDRESS] = (byte, store)


class Boundless(Reach):
    """Everything a wave can reach, without bounds; `now` is the place of the instruction that runs."""

    global_pages: Pages = field(default_factory=lambda: Pages((0,)))
    lds_pages: Pages = field(default_factory=lambda: Pages((1,)))
    lane_pages: list[Pages] = field(default_factory=list)
    now: int = 0

    def load(self, space: Space, address: Lanes, size: int, active: Lanes) -> Lanes:
        """Bytes [lane][size]; lanes that are not active get 0."""
        got = np.zeros((active.size, size), np.uint8)
        places = np.broadcast_to(address, active.shape)
        for lane in np.flatnonzero(active):
            pages, place = self._where(space, int(places[lane]), int(lane))
            got[lane] = np.frombuffer(pages.read(place, size), np.uint8)
        return got

    def store(self, space: Space, address: Lanes, content: Lanes, active: Lanes) -> None:
        """Writes bytes [lane][size] of the active lanes in lane order."""
        content = np.broadcast_to(content, (active.size, content.shape[1]))
        places = np.broadcast_to(address, active.shape)
        for lane in np.flatnonzero(active):
            pages, place = self._where(space, int(places[lane]), int(lane))
            pages.write(place, content[lane].tobytes(), self.now)

    def examine(self, space: Space, address: Lanes, size: int, active: Lanes, store: bool) -> None:
        """Nothing is out of bounds."""

    def _where(self, space: Space, address: int, lane: int) -> tuple[Pages, int]:
        if space is Space.FLAT:
            upper = address >> 32
            if upper == self.apertures.shared:
                space, address = Space.LDS, address & 0xFFFFFFFF
            elif upper == self.apertures.private:
                space, address = Space.SCRATCH, address & 0xFFFFFFFF
        if space is Space.LDS:
            return self.lds_pages, address & 0xFFFFFFFF
        if space is Space.SCRATCH:
            return self.lane_pages[lane], address & 0xFFFFFFFF
        return self.global_pages, address
