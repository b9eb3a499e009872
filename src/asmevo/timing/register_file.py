"""Reading the operands of vector instructions: why a v_fmac sometimes executes a cycle or two late.

On targets with two clocks the operands of a queued vector instruction are gathered in order, some cycles before it
executes, the accumulator first, from VGPR banks (register number modulo the number of banks) with a few read ports
each. An instruction whose reads find no free port waits, and everything behind it.

In front of the banks there are caches of one register each (register number modulo their number), one set for the
first source position, one for the others. A register that is in its cache needs no port, and executes a cycle sooner if
it is the only source. Each use beside other sources takes a register away from its cache for some cycles, in which it
has to be read from its bank.

Results wait until the next instruction's come. Then they are written, one a cycle, which takes a port of their bank,
except for a register that is overwritten just then: it is never written.

The shape and the numbers (facts of the target) were found by a search over such mechanisms, by the execute times of a
v_fmac loop on gfx1100 and gfx1200 and of discover_ops, where all registers are in one bank; the loop of gfx1201 took no
part in the search but in the choice between its results. It is not yet the whole mechanism: about two of three execute
times of the loop come out exactly, most of the rest within a cycle. Time is in cycles.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import fields

from asmevo.target import Target
from asmevo.timing.clock import LONG_AGO

_ACCUMULATOR = 2
_CYCLES = 1 << 10
"""Port reservations are kept for so many cycles; the vector queue does not reach further."""
_MASK = _CYCLES - 1
_COUNT_BITS = 3
_REGISTER_BITS = 11

Operands = tuple[tuple[int, int, int, int], ...]
"""Bank, cache, register unit and cycles until reuse from the cache of each VGPR read, in the order of reading."""
Results = tuple[tuple[int, int], ...]
"""Bank and register unit of each VGPR written."""


class RegisterFileFacts(Struct, frozen=True):
    """Banks and ports, the caches, and cycles from issue to gathering, from there to execution and to the write.

    `first_source_reuse`, `source_reuse`: cycles from a use until a register can be taken from its cache.
    """

    banks: int
    read_ports: int
    bank_read: int
    gather_to_execute: int
    caches: int
    first_source_reuse: int
    source_reuse: int
    write_after_next: int

    @property
    def read_to_execute(self) -> int:
        """Cycles from reading a bank to execution."""
        return self.gather_to_execute + self.bank_read

    def operands(self, positions: Iterable[tuple[int, int]]) -> Operands:
        """Where the reads of (source position, register unit) go."""
        ordered = sorted(positions, key=lambda each: each[0] < _ACCUMULATOR)
        return tuple(
            (
                unit % self.banks,
                self._cache(position, unit),
                unit,
                self.source_reuse if position else self.first_source_reuse,
            )
            for position, unit in ordered
        )

    def results(self, units: Iterable[int]) -> Results:
        """Where the writes of register units go."""
        return tuple((unit % self.banks, unit) for unit in units)

    def _cache(self, position: int, unit: int) -> int:
        return unit % self.caches + (self.caches if position else 0)


def register_file_facts(target: Target) -> RegisterFileFacts | None:
    """The facts of a target's register file, None unless all are known."""
    names = [each.name for each in fields(RegisterFileFacts)]
    facts = [target.timing.get(f"vgpr_{name}") for name in names]
    known = [int(fact.value) for fact in facts if fact is not None]
    return RegisterFileFacts(*known) if len(known) == len(names) else None


class RegisterFile:
    """The VGPRs of one SIMD, of all its waves.

    Ports that are taken are counted in a ring: a cell holds a cycle and the count of that cycle, so that a cell of an
    older cycle is less than that of any newer one and counts as free.
    """

    __slots__ = (
        *("_busy", "_cached", "_gathered", "_held", "_ports", "_read", "_to_execute"),
        *("_usable", "_write", "_written"),
    )

    def __init__(self, facts: RegisterFileFacts) -> None:
        self._ports, self._read, self._to_execute = facts.read_ports, facts.read_to_execute, facts.gather_to_execute
        self._write = facts.write_after_next
        self._busy = [[0] * _CYCLES for _ in range(facts.banks)]
        self._cached = [-1] * (2 * facts.caches)
        self._usable = [0] * (2 * facts.caches)
        self._gathered = self._written = LONG_AGO
        self._held: list[tuple[list[int], int]] = []

    def gather(self, wave: int, operands: Operands, results: Results, possible: int, earliest: int) -> int:
        """An instruction that may read from cycle `possible` on takes ports; it executes at `earliest` or later.

        Returns the cycle in which it executes.
        """
        first = wave << _REGISTER_BITS
        if operands:
            busy, cached, usable, ports = self._busy, self._cached, self._usable, self._ports
            start = possible if possible > self._gathered else self._gathered
            several = len(operands) > 1
            done, stamp, place, execute = start, start << _COUNT_BITS, start & _MASK, start + self._to_execute
            for bank, cache, unit, reuse in operands:
                register = first + unit
                if usable[cache] > start or cached[cache] != register:
                    cached[cache] = register
                    ring = busy[bank]
                    taken = ring[place] - stamp
                    if taken < ports:
                        ring[place] = stamp + (taken + 1 if taken > 0 else 1)
                        read = start
                    else:
                        read = self._next_free(ring, start + 1)
                        if read > done:
                            done = read
                    usable[cache] = read + reuse
                    execute = done + self._read
                elif several:
                    usable[cache] = start + reuse
            self._gathered = done
            if execute > earliest:
                earliest = execute
        if results:
            held = self._held
            if len(results) == 1 and len(held) == 1:
                bank, unit = results[0]
                ring, waiting = held[0]
                register = first + unit
                if waiting != register:
                    held[0] = self._busy[bank], register
                    cycle = earliest + self._write
                    if cycle <= self._written:
                        cycle = self._written + 1
                    self._written = cycle
                    place, stamp = cycle & _MASK, cycle << _COUNT_BITS
                    ring[place] = (ring[place] if ring[place] > stamp else stamp) + 1
            else:
                self._write_back(first, results, earliest + self._write)
        return earliest

    def _write_back(self, first: int, results: Results, cycle: int) -> None:
        """Newer results have come: those that waited are written from `cycle` on."""
        new = [(self._busy[bank], first + unit) for bank, unit in results]
        registers = [register for _, register in new]
        cycle = max(cycle, self._written + 1)
        for ring, register in self._held:
            if register not in registers:
                place, stamp = cycle & _MASK, cycle << _COUNT_BITS
                ring[place] = (ring[place] if ring[place] > stamp else stamp) + 1
                self._written = cycle
                cycle += 1
        self._held = new

    def _next_free(self, ring: list[int], cycle: int) -> int:
        """Takes a port in the first cycle from `cycle` on that has one."""
        while (taken := ring[cycle & _MASK] - (cycle << _COUNT_BITS)) >= self._ports:
            cycle += 1
        ring[cycle & _MASK] = (cycle << _COUNT_BITS) + (taken + 1 if taken > 0 else 1)
        return cycle
