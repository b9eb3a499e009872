"""Reading the operands of vector instructions: why a v_fmac sometimes executes a cycle or two late.

On targets with two clocks the operands of a queued vector instruction are gathered in order, some cycles
before it executes, from VGPR banks (register number modulo the number of banks) with a few read ports each. The
write of an earlier result takes a port too. An instruction whose reads find no free port waits, and everything
behind it. The first two source positions each have a small cache in front of every bank: a register that was
read there lately needs no port, unless it was used so lately that its entry is not there yet. An instruction is
gathered at most a few instructions ahead of the one that executes.

The shape and the numbers (facts of the target) were fitted to a v_fmac loop on gfx1100 and gfx1200 and tested on
gfx1201. It is not yet the whole mechanism: about half of the execute times of that loop come out exactly, most of
the rest within a cycle or two. Time is in cycles.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, fields

from asmevo.target import Target

_CACHED_POSITIONS = 2
_KEEP = 64
"""Reservations so far back (cycles) can no longer matter; they are dropped when there are many."""
_MANY = 512
_REGISTERS = 1 << 11

Operands = tuple[tuple[int, int], ...]
"""(source position, register unit) of each VGPR read."""


@dataclass(frozen=True, slots=True)
class RegisterFileFacts:
    """Banks and ports, cycles from issue to gathering and from there to execution, and the source caches."""

    banks: int
    read_ports: int
    issue_to_gather: int
    gather_to_execute: int
    ahead: int
    ahead_cycles: int
    cache_entries: int
    cache_fill: int
    write_after_execute: int


def register_file_facts(target: Target) -> RegisterFileFacts | None:
    """The facts of a target's register file, None unless all are known."""
    names = [each.name for each in fields(RegisterFileFacts)]
    facts = [target.timing.get(f"vgpr_{name}") for name in names]
    known = [int(fact.value) for fact in facts if fact is not None]
    return RegisterFileFacts(*known) if len(known) == len(names) else None


class RegisterFile:
    """The VGPRs of one SIMD, of all its waves."""

    __slots__ = (
        *("_ahead", "_ahead_cycles", "_banks", "_busy", "_cache_entries", "_cache_fill", "_caches", "_executed"),
        *("_gather_to_execute", "_gathered", "_issue_to_gather", "_ports", "_write_after_execute"),
    )

    def __init__(self, facts: RegisterFileFacts) -> None:
        self._banks, self._ports = facts.banks, facts.read_ports
        self._issue_to_gather, self._gather_to_execute = facts.issue_to_gather, facts.gather_to_execute
        self._ahead, self._ahead_cycles = facts.ahead, facts.ahead_cycles
        self._cache_entries, self._cache_fill = facts.cache_entries, facts.cache_fill
        self._write_after_execute = facts.write_after_execute
        self._busy: dict[int, int] = {}
        self._caches: list[dict[int, int]] = [{} for _ in range(facts.banks * _CACHED_POSITIONS)]
        self._executed: deque[int] = deque(maxlen=facts.ahead)
        self._gathered = -(1 << 30)

    def gather(self, wave: int, operands: Operands, issue: int) -> int:
        """Takes ports for the reads of an instruction; returns the earliest cycle in which it can execute."""
        busy, banks, executed = self._busy, self._banks, self._executed
        start = issue + self._issue_to_gather
        if self._gathered > start:
            start = self._gathered
        if len(executed) == self._ahead and executed[0] - self._ahead_cycles > start:
            start = executed[0] - self._ahead_cycles
        done, first = start, start * banks
        for position, unit in operands:
            bank = unit % banks
            if position < _CACHED_POSITIONS:
                cache, key = self._caches[bank * _CACHED_POSITIONS + position], wave * _REGISTERS + unit
                used = cache.pop(key, None)
                cache[key] = start
                if used is not None and used + self._cache_fill <= start:
                    continue
                if len(cache) > self._cache_entries:
                    del cache[next(iter(cache))]
            place = first + bank
            while (taken := busy.get(place, 0)) >= self._ports:
                place += banks
            busy[place] = taken + 1
            if place >= (done + 1) * banks:
                done = place // banks
        self._gathered = done
        return done + self._gather_to_execute

    def execute(self, wave: int, written: Sequence[int], time: int) -> None:
        """An instruction that executes at `time` will write these register units."""
        busy, banks = self._busy, self._banks
        self._executed.append(time)
        for unit in written:
            place = (time + self._write_after_execute) * banks + unit % banks
            busy[place] = busy.get(place, 0) + 1
            for position in range(_CACHED_POSITIONS):
                self._caches[unit % banks * _CACHED_POSITIONS + position].pop(wave * _REGISTERS + unit, None)
        if len(busy) > _MANY:
            oldest = (time - _KEEP) * banks
            self._busy = {place: count for place, count in busy.items() if place >= oldest}
