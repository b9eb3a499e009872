"""Packing counter values into instruction immediates.

A field is a list of parts, low part first, each [bit, width]: gfx9's vmcnt has one part at bit 0 and one at
bit 14.
"""

from __future__ import annotations

from collections.abc import Sequence

Part = Sequence[int]


def mask(width: int) -> int:
    return (1 << width) - 1


def pack(value: int, parts: Sequence[Part]) -> int:
    word = 0
    for bit, width in parts:
        word |= (value & mask(width)) << bit
        value >>= width
    return word


def unpack(word: int, parts: Sequence[Part]) -> int:
    value = position = 0
    for bit, width in parts:
        value |= (word >> bit & mask(width)) << position
        position += width
    return value
