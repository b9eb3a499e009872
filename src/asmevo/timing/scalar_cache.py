"""Which SGPR sources need not be fetched from the register file: why scalar instructions execute 2 or 4 cycles on.

Beside the scalar registers of a SIMD there is a small cache, one for all its waves. It has a few lines, each with one
aligned pair of registers of one wave; a pair can only be in the line of its number modulo the number of lines. What a
scalar or vector instruction reads is brought there, the whole pair; a register that is written is in it no longer. A
scalar instruction whose sources are all there, or come forwarded from the instructions just before, executes sooner.
Forwarded sources are not brought.

Found by a search over such caches: this one, with 4 or 8 lines, is right about 3,502 of 3,507 scalar instructions of
r_2_8_16_4_4_16_4 and custom_handwritten on gfx1100, gfx1200 and gfx1201 that show which of the two it was; with other
numbers of lines or registers, or without vector instructions, it is not.
"""

from __future__ import annotations

from collections.abc import Iterable

_UNIT_BITS = 11
_BOTH = 0b11


class ScalarCache:
    """The cache of one SIMD. Registers are units of `program.registers`."""

    __slots__ = ("_lines", "_pairs", "_valid")

    def __init__(self, lines: int) -> None:
        self._lines = lines
        self._pairs = [-1] * lines
        self._valid = [0] * lines

    def read(self, wave: int, units: Iterable[int]) -> bool:
        """An instruction reads registers; returns whether all were there. Now they are."""
        found = True
        for unit in units:
            pair = wave << _UNIT_BITS | unit >> 1
            line = (unit >> 1) % self._lines
            if self._pairs[line] != pair or not self._valid[line] >> (unit & 1) & 1:
                self._pairs[line], self._valid[line], found = pair, _BOTH, False
        return found

    def write(self, wave: int, units: Iterable[int]) -> None:
        """An instruction writes registers."""
        for unit in units:
            line = (unit >> 1) % self._lines
            if self._pairs[line] == wave << _UNIT_BITS | unit >> 1:
                self._valid[line] &= ~(1 << (unit & 1))
