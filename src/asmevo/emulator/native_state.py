"""The state of a wave as compiled code sees it: one array of 64-bit words, and functions that read and write it.

Compiled code is the same for all launches; everything that differs (where registers and memory are, sizes, what
is left of a turn) stands in this array, the context.
"""

from __future__ import annotations

import ctypes
from enum import IntEnum
from typing import Any

from llvmlite import ir

from asmevo.emulator.memory import Arena
from asmevo.emulator.wave import Wave


class Slot(IntEnum):
    """Places in the context. Pointers are host addresses, sizes bytes. WRITTEN has a byte a register unit."""

    VECTORS = 0
    SCALARS = 1
    MEMORY_DATA = 2
    MEMORY_SHADOW = 3
    MEMORY_BASE = 4
    MEMORY_SIZE = 5
    LDS_DATA = 6
    LDS_SHADOW = 7
    LDS_SIZE = 8
    SCRATCH_DATA = 9
    SCRATCH_SHADOW = 10
    SCRATCH_LANE = 11
    LOAD_BASE = 12
    SHARED_BASE = 13
    PRIVATE_BASE = 14
    BUDGET = 15
    WRITTEN = 16
    REPORT = 17
    BLOCK = 18


SLOTS = len(Slot)

Context = ctypes.c_uint64 * SLOTS

I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
I32_POINTER = I32.as_pointer()
I64_POINTER = I64.as_pointer()


def _address(array: Any) -> int:
    return int(array.ctypes.data)


def make_context(wave: Wave, load_base: int, report: int) -> Any:
    """The context of a wave; it holds addresses of the wave's arrays, which must outlive it."""
    reach = wave.reach
    words = Context()
    for slot, value in {
        Slot.VECTORS: _address(wave.vectors),
        Slot.SCALARS: _address(wave.scalars),
        Slot.MEMORY_BASE: reach.memory.base,
        Slot.MEMORY_SIZE: reach.memory.size,
        Slot.LDS_SIZE: reach.lds.size,
        Slot.SCRATCH_LANE: reach.scratch_bytes,
        Slot.LOAD_BASE: load_base,
        Slot.SHARED_BASE: reach.apertures.shared << 32,
        Slot.PRIVATE_BASE: reach.apertures.private << 32,
        Slot.WRITTEN: _address(wave.written),
        Slot.REPORT: report,
    }.items():
        words[slot] = value
    _point(words, Slot.MEMORY_DATA, Slot.MEMORY_SHADOW, reach.memory)
    _point(words, Slot.LDS_DATA, Slot.LDS_SHADOW, reach.lds)
    _point(words, Slot.SCRATCH_DATA, Slot.SCRATCH_SHADOW, reach.scratch)
    return words


def _point(words: Any, data: Slot, shadow: Slot, arena: Arena) -> None:
    words[data] = _address(arena.data)
    words[shadow] = _address(arena.shadow)
