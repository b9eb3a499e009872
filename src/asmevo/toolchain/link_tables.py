"""The tables by which a loader finds symbols: string table, .hash and .gnu.hash, as lld writes them."""

from __future__ import annotations

import struct
from collections.abc import Sequence

_BLOOM_BITS_A_SYMBOL = 12
_BLOOM_SHIFT = 26
_WORD_BITS = 64


class StringTable:
    """Strings one after another, in order of addition; `add` answers with the offset."""

    def __init__(self) -> None:
        self.content = bytearray(1)

    def add(self, text: str) -> int:
        """Appends `text` (the empty string is at 0) and gives its offset."""
        if not text:
            return 0
        offset = len(self.content)
        self.content += text.encode() + b"\0"
        return offset


def sysv_hash_of(name: str) -> int:
    """The hash function of .hash."""
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ high >> 24) & ~high & 0xFFFFFFFF
    return value


def gnu_hash_of(name: str) -> int:
    """The hash function of .gnu.hash."""
    value = 5381
    for byte in name.encode():
        value = value * 33 + byte & 0xFFFFFFFF
    return value


def gnu_bucket_count(symbol_count: int) -> int:
    """How many buckets .gnu.hash gets for so many defined symbols."""
    return max(symbol_count // 4, 1)


def sysv_hash_table(names: Sequence[str]) -> bytes:
    """.hash for the dynamic symbols with these names, the first of which has index 1."""
    count = len(names) + 1
    buckets, chains = [0] * count, [0] * count
    for index, name in enumerate(names, 1):
        bucket = sysv_hash_of(name) % count
        chains[index], buckets[bucket] = buckets[bucket], index
    return struct.pack(f"<{2 + 2 * count}I", count, count, *buckets, *chains)


def gnu_hash_table(names: Sequence[str], first_index: int) -> bytes:
    """.gnu.hash for defined symbols sorted by bucket; `first_index` is the first one's index in .dynsym."""
    bucket_count = gnu_bucket_count(len(names))
    # The smallest power of two above; with no symbol, one word.
    word_count = 1 << (len(names) * _BLOOM_BITS_A_SYMBOL // _WORD_BITS).bit_length()
    hashes = [gnu_hash_of(name) for name in names]
    bloom = [0] * word_count
    buckets = [0] * bucket_count
    chain = []
    for at, value in enumerate(hashes):
        word = value // _WORD_BITS & word_count - 1
        bloom[word] |= 1 << value % _WORD_BITS | 1 << (value >> _BLOOM_SHIFT) % _WORD_BITS
        bucket = value % bucket_count
        if not buckets[bucket]:
            buckets[bucket] = first_index + at
        last = at + 1 == len(hashes) or hashes[at + 1] % bucket_count != bucket
        chain.append(value & ~1 | last)
    header = struct.pack("<4I", bucket_count, first_index, word_count, _BLOOM_SHIFT)
    return (
        header
        + struct.pack(f"<{word_count}Q", *bloom)
        + struct.pack(f"<{bucket_count + len(chain)}I", *buckets, *chain)
    )
