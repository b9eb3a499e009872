"""Reading the operands of vector instructions: why a v_fmac sometimes executes a cycle or two late.

On targets with two clocks the operands of a queued vector instruction are gathered some cycles before it executes, from
VGPR banks (register number modulo the number of banks) with few read ports each: the third source or the accumulator
first, then the second source, then the first, each in its turn a cycle later. An operand that finds no free port in its
turn comes later, and then so does the instruction; others start to gather in the meantime. Instructions start in order.

Some registers are kept behind the banks and need no port: of those read as first source the last one of each bank, of
those read as second source the last few used. Third sources and accumulators are always read. A bank hands out only so
many operands a cycle, whether kept or read. A third source may come a little later than its turn, an accumulator may
not; where an instruction reads two VGPRs at most, each may.

The shape and the numbers (facts of the target) were found by a search over such mechanisms, by the execute times of the
loops of r_2_8_16_4_4_16_4 on gfx1100, gfx1200 and gfx1201, of discover_ops, where all registers are in one bank, and of
E_8_8_16_4. It is not yet the whole mechanism: where accumulator and first source of a loop share a bank, some
instructions execute a cycle later than said here. Time is in cycles.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from asmevo.target import Target
from asmevo.timing.clock import LONG_AGO
from asmevo.timing.fact_groups import fact_group
from asmevo.timing.operands import FIRST, SECOND

_PRECEDENCE = (1, 0, 2, 2)
"""By source position: who of an instruction takes a port first, the second source, whatever their turns."""
_SEVERAL = 3
"""VGPRs that an instruction reads which must have them in time."""
_CYCLES = 1 << 10
"""Ports are kept for so many cycles; the vector queue does not reach further."""
_MASK = _CYCLES - 1
_COUNT_BITS = 3
_ONE = 1 << _COUNT_BITS
_REGISTER_BITS = 11

Operands = tuple[tuple[int, int, int, int, int], ...]
"""Source position, bank and unit of each VGPR read, the cycle of its turn, and cycles that it may come later."""


class RegisterFileFacts(Struct, frozen=True):
    """Banks, their ports, what is kept behind them, and cycles from gathering to execution.

    `handed_out`: operands of a bank that can be taken in a cycle. `second_kept`: registers kept of the second sources.
    `turn`: cycles from reading one source to the next. `third_late`: cycles that a third source may come later,
    `few_late`: each operand where there are two at most.
    """

    banks: int
    read_ports: int
    handed_out: int
    second_kept: int
    turn: int
    third_late: int
    few_late: int
    gather_to_execute: int

    def operands(self, positions: Sequence[tuple[int, int]]) -> Operands:
        """Where and when the reads of (source position, register unit) go."""
        turns = (2 * self.turn, self.turn, 0, 0)
        few = self.few_late if len(positions) < _SEVERAL else 0
        late = (few, few, few + self.third_late, few)
        ordered = sorted(positions, key=lambda each: _PRECEDENCE[each[0]])
        return tuple((position, unit % self.banks, unit, turns[position], late[position]) for position, unit in ordered)


def register_file_facts(target: Target) -> RegisterFileFacts | None:
    """The facts of a target's register file, None unless all are known."""
    return fact_group(target, RegisterFileFacts, "vgpr_")


class RegisterFile:
    """The VGPRs of one SIMD, of all its waves.

    What is taken is counted in rings: a cell holds a cycle and the count of that cycle, so that a cell of an older
    cycle is less than that of any newer one and counts as free.
    """

    __slots__ = ("_first", "_handed", "_out", "_ports", "_read", "_second", "_start")

    def __init__(self, facts: RegisterFileFacts) -> None:
        self._ports, self._out = facts.read_ports, facts.handed_out
        self._read = [[0] * _CYCLES for _ in range(facts.banks)]
        self._handed = [[0] * _CYCLES for _ in range(facts.banks)]
        self._first = [-1] * facts.banks
        self._second = [-1] * facts.second_kept
        self._start = LONG_AGO

    def gather(self, wave: int, operands: Operands, possible: int) -> int:
        """An instruction that may gather from cycle `possible` on takes ports; returns when it has its operands."""
        base, first, second = wave << _REGISTER_BITS, self._first, self._second
        start = done = self._start = possible if possible > self._start else self._start
        missing = []
        for operand in operands:
            position, bank, unit, turn, late = operand
            register = base + unit
            if position == FIRST:
                kept = first[bank] == register
            else:
                kept = position == SECOND and register in second
                if kept and second[0] != register:  # the one that is used is kept longest
                    second.remove(register)
                    second.insert(0, register)
            if kept:
                come = _take(self._handed[bank], start + turn, self._out) - turn - late
                if come > done:
                    done = come
            else:
                missing.append(operand)
        for position, bank, unit, turn, late in missing:
            cycle = _take(self._read[bank], start + turn, self._ports)
            come = _take(self._handed[bank], cycle, self._out) - turn - late
            if come > done:
                done = come
            if position == FIRST:
                first[bank] = base + unit
            elif position == SECOND:
                second.insert(0, base + unit)
                second.pop()
        return done


def _take(ring: list[int], cycle: int, most: int) -> int:
    """The first cycle from `cycle` on that has a port free of `most`; takes it."""
    stamp = cycle << _COUNT_BITS
    cell = ring[cycle & _MASK]
    while cell >= stamp + most:
        cycle += 1
        stamp += _ONE
        cell = ring[cycle & _MASK]
    ring[cycle & _MASK] = cell + 1 if cell > stamp else stamp + 1
    return cycle
