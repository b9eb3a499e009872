"""When the bytes of an instruction are there: the buffer that a wave's instructions are fetched into.

A wave has a buffer of a few lines of code. An instruction moves on to where it waits for its turn when the one before
it has issued and its bytes have come. When the last instruction of a line has moved on, the line that lies the buffer's
length ahead is fetched in its place. That takes so long that a wave which issues an instruction each cycle runs out of
bytes if they are long: of 12 bytes each, it has issued seven when the first comes a cycle late, and then one in four
does. Shorter ones never wait.

Behind a taken branch the buffer fills anew; what that costs is part of the branch. Found in runs of vector memory
instructions on gfx1200 and gfx1201 (discover_ops, custom_handwritten). Links go from issue to issue, in cycles;
addresses are in bytes.
"""

from __future__ import annotations

from msgspec import Struct

from asmevo.timing.machine import Machine
from asmevo.timing.orders import Link
from asmevo.timing.tracker import Tracker


class _Freed(Struct, frozen=True):
    """A line whose last instruction has moved on: what follows its fetch, counted from the issue that let it go."""

    line: int
    number: int
    link: Link


class InstructionBuffer(Tracker):
    """The buffer of a wave along one path."""

    def __init__(self, machine: Machine) -> None:
        cost = machine.cost
        size, lines = cost("branch_fetch", ""), cost("instruction_buffer", "")
        self._refill = cost("instruction_buffer_refill", "instruction fetch")
        self._size = size.cycles if size is not None else 0
        self._lines = lines.cycles if lines is not None else 0
        self._interval = machine.interval
        self._freed: list[_Freed] = []
        self._line = self._number = 0
        self._before: int | None = None

    def branch(self) -> None:
        """A branch is taken."""
        self._freed, self._before = [], None

    def enter(self, slot: int, start: int, end: int, fetched: bool) -> Link | None:
        """The instruction at `start` up to `end` is next; returns what it waits for. `fetched`: it came from memory."""
        if self._refill is None or not self._lines:
            return None
        if self._before is None:
            self._line = start // self._size
        self._number += 1
        found = self._wait((end - 1) // self._size - self._lines)
        if self._before is not None:
            self._free(start // self._size, self._before, self._number - 1, self._refill.cycles)
        waits = found is not None or fetched or self._before is None
        if waits:
            self._free(end // self._size, slot, self._number, self._refill.cycles)
        elif self._before is not None:
            self._free(end // self._size, self._before, self._number - 1, self._refill.cycles + self._interval)
        self._before = slot
        return found

    def _wait(self, line: int) -> Link | None:
        """The link over a freed line; None if so many issue in between that it is always over."""
        for freed in self._freed:
            if freed.line == line and (self._number - freed.number) * self._interval < freed.link[1]:
                return freed.link
        return None

    def _free(self, end: int, slot: int, number: int, cycles: int) -> None:
        """The lines up to `end` are free: so long after the issue in a slot what lies ahead of them can issue."""
        assert self._refill is not None
        for line in range(self._line, end):
            self._freed = [*self._freed[-self._lines :], _Freed(line, number, (slot, cycles, self._refill.cause))]
        self._line = max(self._line, end)
