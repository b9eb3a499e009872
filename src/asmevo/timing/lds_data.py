"""How much the LDS unit has under way: registers that were sent to it and that it is not done with.

An LDS instruction hands over its address and data, a VGPR a cycle, into a buffer, and is done some cycles after it
executed: the latency that a wait sees, less the way there and back. Instructions are done in order; an addition of
floating point numbers takes the unit much longer than any other. An instruction executes when the buffer has room for
its address and first data operand; of a second operand each register waits for room on its own. So behind slow
instructions first the buffer fills, then the queue, then issue stops.

Found in discover_ops, where two additions stand first of all: the stops of 23 and 28 cycles on gfx1100 and of 50 on
gfx1201, and the issues that they stop, come out to the cycle. What else delays LDS instructions there, by 1 to 3 cycles
where many loads stand in front, is not known, nor how ds_bvh_stack fits in. Time is in cycles.
"""

from __future__ import annotations

from collections import deque

from msgspec import Struct

from asmevo.target import Target
from asmevo.timing.clock import LONG_AGO
from asmevo.timing.fact_groups import fact_group


class LdsFacts(Struct, frozen=True):
    """`data_registers`: VGPRs that the buffer holds; `execute_to_done`: cycles."""

    data_registers: int
    execute_to_done: int


def lds_facts(target: Target) -> LdsFacts | None:
    """The facts of a target's LDS unit, None unless all are known."""
    return fact_group(target, LdsFacts, "lds_")


class LdsData:
    """The instructions of one SIMD that the LDS unit is not done with."""

    __slots__ = ("_done", "_facts", "_held", "_underway")

    def __init__(self, facts: LdsFacts) -> None:
        self._facts = facts
        self._underway: deque[tuple[int, int]] = deque()
        self._held = 0
        self._done = LONG_AGO

    def enter(self, start: int, registers: int, first: int, work: int) -> tuple[int, int]:
        """An instruction of so many registers, `first` of them before its second data operand, may execute from `start`
        on and takes the unit `work` cycles longer than others.

        Returns the cycle in which it executes and that in which all its registers are handed over.
        """
        start = self._room(start, first)
        self._done = max(self._done, start + self._facts.execute_to_done) + work
        end = start + first
        for taken in range(first + 1, registers + 1):
            end = self._room(end, taken) + 1
        self._underway.append((self._done, registers))
        self._held += registers
        return start, end

    def _room(self, time: int, registers: int) -> int:
        """From when on, `time` at the earliest, so many registers have room."""
        underway = self._underway
        while underway and (underway[0][0] <= time or self._held + registers > self._facts.data_registers):
            done, freed = underway.popleft()
            self._held -= freed
            if done > time:
                time = done
        return time
