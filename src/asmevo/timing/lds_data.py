"""What the LDS unit has under way, and when an instruction finds room in it.

An LDS instruction hands over its address and data, a VGPR a cycle, into a buffer. The unit serves the instructions one
after the other, a dword a lane in a cycle; an addition of floating point numbers takes it much longer, and an exchange
at two addresses reads and writes every dword. Some cycles behind its service an instruction gives back its place among
those under way, later the registers of its address and data. It executes when it finds a place and the buffer has room
for its address and one register of data; each further register waits for room on its own. On gfx11 it looks for a place
and room two cycles before it executes, and after all that the one before it waited for. So behind slow instructions
first the buffer fills, then the queue, then issue stops; and of a long run of loads only the first come as fast as they
issue, the others at the pace at which their data go back.

Found in discover_ops, where two additions stand first of all and 16 or 17 loads in a row: the stops of 23 and 28 cycles
on gfx1100 and of 50 on gfx1201, the issues that they stop, and the executions behind the loads come out to the cycle.
What delays LDS instructions there by 2 or 3 more cycles, some 20 after the buffer was full, is not known, nor how many
registers the buffer keeps of ds_bvh_stack. Time is in cycles.
"""

from __future__ import annotations

from collections import deque

from msgspec import Struct

from asmevo.target import Target
from asmevo.timing.clock import LONG_AGO
from asmevo.timing.fact_groups import fact_group

_TO_START = 2
"""The address and one register of data."""


class LdsFacts(Struct, frozen=True):
    """`data_registers`: VGPRs that the buffer holds; `instructions`: most under way. Cycles from the end of its service
    until an instruction's place is free (`service_to_place`) and its registers are (`service_to_done`), and from then
    until another one executes there (`room_to_execute`).
    """

    data_registers: int
    instructions: int
    service_to_place: int
    service_to_done: int
    room_to_execute: int


class LdsUse(Struct, frozen=True):
    """What an instruction takes of the unit: VGPRs of address and data, and cycles of service."""

    registers: int
    work: int


def lds_facts(target: Target) -> LdsFacts | None:
    """The facts of a target's LDS unit, None unless all are known."""
    return fact_group(target, LdsFacts, "lds_")


class LdsData:
    """The instructions of one SIMD that the LDS unit is not done with."""

    __slots__ = ("_facts", "_held", "_next", "_places", "_served", "_underway")

    def __init__(self, facts: LdsFacts) -> None:
        self._facts = facts
        self._underway: deque[tuple[int, int]] = deque()
        self._places: deque[int] = deque([LONG_AGO] * facts.instructions, maxlen=facts.instructions)
        self._held = 0
        self._served = self._next = LONG_AGO

    def enter(self, start: int, use: LdsUse) -> tuple[int, int]:
        """An instruction may execute from `start` on.

        Returns the cycle in which it executes and that in which all its registers are handed over.
        """
        facts, first = self._facts, min(use.registers, _TO_START)
        looks = max(max(start, self._next) - facts.room_to_execute, self._places[0])
        start = self._room(looks, first) + facts.room_to_execute
        end, late = start + max(1, first), False
        for taken in range(first + 1, use.registers + 1):
            room = self._room(end, taken)
            late = late or room > end
            end = room + 1
        self._next = end + facts.room_to_execute if late else end
        self._served = max(self._served, start) + use.work
        self._places.append(self._served + facts.service_to_place)
        self._underway.append((self._served + facts.service_to_done, use.registers))
        self._held += use.registers
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
