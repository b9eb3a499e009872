"""Reading the operands of vector instructions: why a v_fmac sometimes executes a cycle or two late.

On targets with two clocks the operands of a queued vector instruction are gathered in order, some cycles
before it executes, from VGPR banks (register number modulo the number of banks) with a few read ports each. The
write of an earlier result takes a port too, unless the result before it went to the same register. An instruction
whose reads find no free port waits, and everything behind it. The first two source positions each have a cache of one
register in front of every bank: the register that was read there last needs no port, unless that was so lately that it
is not there yet. An instruction is gathered at most a few instructions ahead of the one that executes.

The shape and the numbers (facts of the target) were fitted to a v_fmac loop on gfx1100 and gfx1200 and tested on
gfx1201. It is not yet the whole mechanism: about half of the execute times of that loop come out exactly, most of
the rest within a cycle or two. Time is in cycles.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import fields

from asmevo.target import Target

_CACHED_POSITIONS = 2
_NO_CACHE = -1
_CYCLES = 1 << 10
"""Port reservations are kept for so many cycles; the vector queue does not reach further."""
_MASK = _CYCLES - 1
_COUNT_BITS = 3
_REGISTER_BITS = 11

Operands = tuple[tuple[int, int, int], ...]
"""Bank, cache (-1: none) and register unit of each VGPR read."""
Results = tuple[tuple[int, int, int], ...]
"""Bank, first of the bank's caches and register unit of each VGPR written."""


class RegisterFileFacts(Struct, frozen=True):
    """Banks and ports, cycles from issue to gathering and from there to execution, and the source caches."""

    banks: int
    read_ports: int
    gather_to_execute: int
    ahead: int
    ahead_cycles: int
    cache_fill: int
    write_after_execute: int

    def operands(self, positions: Iterable[tuple[int, int]]) -> Operands:
        """Where the reads of (source position, register unit) go."""
        return tuple(
            (unit % self.banks, self._cache(unit) + position if position < _CACHED_POSITIONS else _NO_CACHE, unit)
            for position, unit in positions
        )

    def results(self, units: Iterable[int]) -> Results:
        """Where the writes of register units go."""
        return tuple((unit % self.banks, self._cache(unit), unit) for unit in units)

    def _cache(self, unit: int) -> int:
        return unit % self.banks * _CACHED_POSITIONS


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
        *("_ahead_cycles", "_busy", "_cached", "_executed", "_fill", "_gathered", "_ports"),
        *("_to_execute", "_used", "_write", "_written"),
    )

    def __init__(self, facts: RegisterFileFacts) -> None:
        self._ports, self._fill = facts.read_ports, facts.cache_fill
        self._to_execute = facts.gather_to_execute
        self._write = facts.write_after_execute
        self._busy = [[0] * _CYCLES for _ in range(facts.banks)]
        self._cached = [-1] * (facts.banks * _CACHED_POSITIONS)
        self._used = [0] * (facts.banks * _CACHED_POSITIONS)
        self._ahead_cycles = facts.ahead_cycles
        self._executed = deque([-(1 << 30)] * facts.ahead, maxlen=facts.ahead)
        self._gathered = -(1 << 30)
        self._written = -1

    def gather(self, wave: int, operands: Operands, results: Results, possible: int, earliest: int) -> int:
        """An instruction that may read from cycle `possible` on and executes at `earliest` or later takes ports for
        its registers.

        Returns the cycle in which it executes.
        """
        busy, cached, first = self._busy, self._cached, wave << _REGISTER_BITS
        executed = self._executed
        if operands:
            used, ports, fill = self._used, self._ports, self._fill
            start, oldest = possible, executed[0] - self._ahead_cycles
            if self._gathered > start:
                start = self._gathered
            if oldest > start:
                start = oldest
            done, stamp, place = start, start << _COUNT_BITS, start & _MASK
            for bank, cache, unit in operands:
                if cache >= 0:
                    last = used[cache]
                    used[cache] = start
                    if cached[cache] != first + unit:
                        cached[cache] = first + unit
                    elif last + fill <= start:
                        continue
                ring = busy[bank]
                taken = ring[place] - stamp
                if taken < ports:
                    ring[place] = stamp + (taken + 1 if taken > 0 else 1)
                else:
                    done = max(done, self._next_free(ring, start + 1))
            self._gathered = done
            if done + self._to_execute > earliest:
                earliest = done + self._to_execute
        executed.append(earliest)
        cycle = earliest + self._write
        stamp, place = cycle << _COUNT_BITS, cycle & _MASK
        for bank, cache, unit in results:
            if first + unit != self._written:
                self._written = first + unit
                ring = busy[bank]
                ring[place] = (ring[place] if ring[place] > stamp else stamp) + 1
            if cached[cache] == first + unit:
                cached[cache] = -1
            if cached[cache + 1] == first + unit:
                cached[cache + 1] = -1
        return earliest

    def _next_free(self, ring: list[int], cycle: int) -> int:
        """Takes a port in the first cycle from `cycle` on that has one."""
        while (taken := ring[cycle & _MASK] - (cycle << _COUNT_BITS)) >= self._ports:
            cycle += 1
        ring[cycle & _MASK] = (cycle << _COUNT_BITS) + (taken + 1 if taken > 0 else 1)
        return cycle
