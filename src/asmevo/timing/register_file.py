"""Reading the operands of vector instructions: why a v_fmac sometimes executes a cycle or two late.

On targets with two clocks the operands of a queued vector instruction are gathered some cycles before it
executes, from VGPR banks (register number modulo the number of banks) with a few read ports each and a limit for
all of them together. The result takes a port of its bank too, once when the operands are gathered and once when it
is written. An instruction whose reads find no free port waits, and everything behind it. The first two source
positions have a small cache in front of each bank, first in first out: a register that was read there a while ago,
but not too long, needs no port. An instruction is gathered at most a few instructions ahead of the one that
executes.

The shape and the numbers (facts of the target) were fitted to the execute times of a v_fmac loop on gfx1100 and
gfx1200 and tested on gfx1201; about two thirds of the execute times come out exactly when the issue times are given,
so it is not yet the whole mechanism. Time is in cycles.
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
    """Banks, ports of each and reads of all in a cycle; cycles from issue to gathering and from there to execution.

    `ahead`: not before `ahead_cycles` before the execution of the instruction so far back. Caches: registers for each
    bank, usable from `cache_fill` to `cache_keep` cycles after they were read. A result takes a port
    `result_before_execute` cycles before and `write_after_execute` after its instruction executes.
    """

    banks: int
    read_ports: int
    reads: int
    issue_to_gather: int
    gather_to_execute: int
    ahead: int
    ahead_cycles: int
    cache_entries: int
    cache_fill: int
    cache_keep: int
    result_before_execute: int
    write_after_execute: int


def register_file_facts(target: Target) -> RegisterFileFacts | None:
    """The facts of a target's register file, None unless all are known."""
    names = [each.name for each in fields(RegisterFileFacts)]
    facts = [target.timing.get(f"vgpr_{name}") for name in names]
    known = [int(fact.value) for fact in facts if fact is not None]
    return RegisterFileFacts(*known) if len(known) == len(names) else None


class RegisterFile:
    """The VGPRs of one SIMD, of all its waves."""

    __slots__ = ("_busy", "_caches", "_executed", "_facts")

    def __init__(self, facts: RegisterFileFacts) -> None:
        self._facts = facts
        self._busy: dict[int, int] = {}
        self._caches: list[dict[int, int]] = [{} for _ in range(facts.banks)]
        self._executed: deque[int] = deque(maxlen=facts.ahead)

    def gather(self, wave: int, operands: Operands, issue: int) -> int:
        """Takes ports for the reads of an instruction; returns the earliest cycle in which it can execute."""
        facts, busy, executed = self._facts, self._busy, self._executed
        banks, ports, reads = facts.banks, facts.read_ports, facts.reads
        start = issue + facts.issue_to_gather
        if len(executed) == facts.ahead and executed[0] - facts.ahead_cycles > start:
            start = executed[0] - facts.ahead_cycles
        done, stride = start, banks + 1
        for position, unit in operands:
            bank = unit % banks
            cached = position < _CACHED_POSITIONS
            if cached:
                cache, key = self._caches[bank], wave * _REGISTERS + unit
                read = cache.get(key)
                if read is not None and read + facts.cache_fill <= start <= read + facts.cache_keep:
                    continue
            time, place = start, start * stride
            while busy.get(place + bank, 0) >= ports or busy.get(place + banks, 0) >= reads:
                time, place = time + 1, place + stride
            busy[place + bank] = busy.get(place + bank, 0) + 1
            busy[place + banks] = busy.get(place + banks, 0) + 1
            if time > done:
                done = time
            if cached:
                cache.pop(key, None)
                cache[key] = time
                if len(cache) > facts.cache_entries:
                    del cache[next(iter(cache))]
        return done + facts.gather_to_execute

    def execute(self, wave: int, written: Sequence[int], time: int) -> None:
        """An instruction that executes at `time` writes these register units."""
        facts, busy = self._facts, self._busy
        banks, stride = facts.banks, facts.banks + 1
        self._executed.append(time)
        for unit in written:
            bank = unit % banks
            for cycle in (time - facts.result_before_execute, time + facts.write_after_execute):
                busy[cycle * stride + bank] = busy.get(cycle * stride + bank, 0) + 1
            self._caches[bank].pop(wave * _REGISTERS + unit, None)
        if len(busy) > _MANY:
            oldest = (time - _KEEP) * stride
            self._busy = {place: count for place, count in busy.items() if place >= oldest}
