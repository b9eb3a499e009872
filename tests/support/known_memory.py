"""A bench whose memory holds known bytes, and buffer resources that reach them."""

from __future__ import annotations

from lane_bench import Bench

from asmevo.semantics.expression import Space

BASE = 0x1000
WORDS = [0x03020100, 0x07060504, 0x8B8A8988, 0x8F8E8D8C]


def filled(gpu: str, space: Space = Space.GLOBAL, lanes: int = 4) -> Bench:
    """16 known bytes at BASE (LDS: at 0x100), and s[2:3] = BASE."""
    bench = Bench(gpu, lanes)
    start = 0x100 if space is Space.LDS else BASE
    bench.poke(space, start, b"".join(word.to_bytes(4, "little") for word in WORDS))
    bench.set_wide("s2", BASE, 2)
    return bench


def resource(records: int, stride: int = 0, word3: int = 0, swizzle: int = 0) -> int:
    """A resource at BASE; `swizzle` is the upper two bits of word 1."""
    return BASE | stride << 48 | swizzle << 62 | records << 64 | word3 << 96


RAW = {"gfx803": 0, "gfx942": 0x27000, "gfx1030": 3 << 28, "gfx1100": 3 << 28, "gfx1200": 3 << 28}
"""Word 3 of a raw buffer."""
