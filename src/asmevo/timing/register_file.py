"""Reading the operands of vector instructions: why a v_fmac sometimes executes a cycle or two late.

On targets with two clocks the operands of a queued vector instruction are gathered a few cycles before it executes, the
second source in one turn, the first source and the accumulator in the next. VGPRs lie in banks (register number modulo
the number of banks); all even ones share a port by which they are read, all odd ones another. An operand that finds its
port taken comes later, and then so does the instruction; others start to gather in the meantime, but only so many are
between gathering and execution.

Some registers of each wave are kept behind the banks and need no port: of those read as first source the last one of
each bank, of those read as second source the last few used. Third sources and accumulators are always read. A bank
hands out only so many operands a cycle, whether kept or read. An instruction that reads two VGPRs at most takes ports
as others do but does not wait for them.

A result is written some cycles after it executes. In that cycle its bank reads no first source. Who gathers it before
then gets it forwarded, without a port.

The shape and the numbers (facts of the target) were found by a search over such mechanisms that simulated each cycle,
by the execute times of the loops of r_2_8_16_4_4_16_4 on gfx1100, gfx1200 and gfx1201 and of discover_ops, where all
registers are in one bank. It is not yet the whole mechanism: of 60 instructions in the loop one executes a cycle later
on silicon. Time is in cycles.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from msgspec import Struct

from asmevo.target import Target
from asmevo.timing.clock import LONG_AGO
from asmevo.timing.fact_groups import fact_group
from asmevo.timing.operands import FIRST, SECOND

_PRECEDENCE = (1, 0, 2, 2)
"""By source position: who of an instruction takes a port first."""
_SEVERAL = 3
"""VGPRs that an instruction reads which must have them in time; one that reads fewer does not wait for ports."""
_CYCLES = 1 << 10
"""Ports are kept for so many cycles; the vector queue does not reach further."""
_MASK = _CYCLES - 1
_COUNT = 3
"""Bits of a count of what a bank has handed out; the highest is set when it can hand out no more."""
_STAMP = 24
"""A cell's lowest bit of its cycle, above the bits of ports, banks that are written, and counts."""
_REGISTER_BITS = 11
_NEVER = 1 << 60
"""When a second source arrives that nobody has asked a port for yet."""

Operands = tuple[tuple[int, int, int, int, int, int, int, int, int], ...]
"""Of each VGPR read its source position, bank and unit, the cycle of its turn, and that with what it may be late; then,
as bits of a cell, what it takes and what must not be taken, if it is kept and if it is read."""
Results = tuple[tuple[int, int], ...]
"""Of each VGPR written its unit, and its bank as the bit of a cell that says it is written."""


class RegisterFileFacts(Struct, frozen=True):
    """Banks, their ports, what is kept behind them, and cycles from gathering to execution and on to the bank.

    `read_ports`: each reads one register a cycle. `handed_out`: operands of a bank that can be taken in a cycle, four
    at most. `second_kept`: registers kept of the second sources, `second_remembered`: cycles after its reading in which
    one is read again without being on its way. `turn`: cycles from reading the second source to the
    others. `underway`: instructions between the start of gathering and execution. `execute_to_written`: from execution
    until the result is in its bank.
    """

    banks: int
    read_ports: int
    handed_out: int
    second_kept: int
    second_remembered: int
    turn: int
    underway: int
    gather_to_execute: int
    execute_to_written: int

    def operands(self, positions: Sequence[tuple[int, int]]) -> Operands:
        """Where and when the reads of (source position, register unit) go; of dual instructions the second's first."""
        late = _CYCLES if len(positions) < _SEVERAL else 0
        ordered = sorted(positions[::-1], key=lambda each: _PRECEDENCE[each[0]])
        return tuple(self._operand(position, unit, late) for position, unit in ordered)

    def _operand(self, position: int, unit: int, late: int) -> tuple[int, int, int, int, int, int, int, int, int]:
        bank, turn = unit % self.banks, 0 if position == SECOND else self.turn
        one = 1 << self._counts + _COUNT * bank
        most, port = one << _COUNT - 1, 1 << unit % self.read_ports
        blocked = most | port | (self._written(unit) if position == FIRST else 0)
        return position, bank, unit, turn, turn + late, one, most, one | port, blocked

    def results(self, units: Iterable[int]) -> Results:
        return tuple((unit, self._written(unit)) for unit in units)

    def _written(self, unit: int) -> int:
        return 1 << self.read_ports + unit % self.banks

    @property
    def _counts(self) -> int:
        return self.read_ports + self.banks

    @property
    def untaken(self) -> int:
        """The cell of a cycle in which nothing is taken: counts start where the most makes the highest bit."""
        least = (1 << _COUNT - 1) - self.handed_out
        return sum(least << self._counts + _COUNT * bank for bank in range(self.banks))


def register_file_facts(target: Target) -> RegisterFileFacts | None:
    """The facts of a target's register file, None unless all are known."""
    return fact_group(target, RegisterFileFacts, "vgpr_")


class RegisterFile:
    """The VGPRs of one SIMD, of all its waves.

    What is taken is noted in a ring of cells, by cycle. A cell of an older cycle is less than that of any newer one.
    """

    __slots__ = (
        "_arrived",
        "_cells",
        "_executed",
        "_first",
        "_remembered",
        "_second",
        "_to_written",
        "_untaken",
        "_written",
    )

    def __init__(self, facts: RegisterFileFacts, waves: int) -> None:
        self._to_written, self._untaken = facts.execute_to_written, facts.untaken
        self._remembered = facts.second_remembered
        self._cells = [LONG_AGO << _STAMP] * _CYCLES
        self._arrived = [LONG_AGO] * (waves << _REGISTER_BITS)
        self._written = [LONG_AGO] * (waves << _REGISTER_BITS)
        self._first = [[-1] * facts.banks for _ in range(waves)]
        self._second = [[-1] * facts.second_kept for _ in range(waves)]
        self._executed = deque([LONG_AGO] * facts.underway, facts.underway)

    def gather(self, wave: int, operands: Operands, start: int) -> int:
        """An instruction that may gather from cycle `start` on takes ports; returns when it has its operands."""
        base, first, second = wave << _REGISTER_BITS, self._first[wave], self._second[wave]
        written, arrived, cells, free = self._written, self._arrived, self._cells, self._executed[0] + 1
        if free > start:
            start = free
        done = start
        for position, bank, unit, turn, due, one, most, read, blocked in operands:
            if written[base + unit] > start:
                continue
            if position == FIRST:
                if first[bank] == unit:
                    read, blocked = one, most
                else:
                    first[bank] = unit
            elif position == SECOND:
                if unit in second:
                    if arrived[base + unit] < start:
                        read, blocked = one, most
                    if second[0] != unit:
                        second.remove(unit)
                        second.insert(0, unit)
                else:
                    second.pop()
                    second.insert(0, unit)
                    if arrived[base + unit] < start - self._remembered:
                        arrived[base + unit] = _NEVER
            cycle = start + turn
            cell = cells[cycle & _MASK]
            stamp = cycle << _STAMP
            while cell > stamp and cell & blocked:
                cycle += 1
                stamp = cycle << _STAMP
                cell = cells[cycle & _MASK]
            cells[cycle & _MASK] = (cell if cell > stamp else stamp + self._untaken) + read
            if position == SECOND and cycle < arrived[base + unit]:
                arrived[base + unit] = cycle
            if cycle - due > done:
                done = cycle - due
        return done

    def write(self, wave: int, results: Results, execute: int) -> None:
        """Results of an instruction that executes in cycle `execute`."""
        self._executed.append(execute)
        base, cycle = wave << _REGISTER_BITS, execute + self._to_written
        for unit, bank in results:
            self._written[base + unit] = cycle
            cell, stamp = self._cells[cycle & _MASK], cycle << _STAMP
            self._cells[cycle & _MASK] = (cell if cell > stamp else stamp + self._untaken) | bank
