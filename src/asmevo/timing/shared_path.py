"""The path of vector memory that two SIMDs share: who of them goes next.

The queues of two neighbouring SIMDs end in one path to the memory unit, which serves one instruction at a time, as
many cycles as it hands over addresses and data. The SIMDs take turns. A turn goes on with the instructions that were
in the queue a few cycles before it began, until the path has served them for a while; it never ends inside a group of
loads, which issued close together (a clause; the issue times stand for it, since nothing else is known of the
neighbour's). Where the other SIMD has nothing to do, the turn goes on anyhow.

Found in gfx1100, gfx1200 and gfx1201 r_2_8_16_4_4_16_4, where the trace shows when each of both SIMDs' instructions
issued and executed: contended turns last 4 loads, or 5 or 7 where a clause ends only then; 2 stores of 6 cycles on
gfx1100, 1 on gfx1151 and gfx1200, 2 of 3 cycles on gfx1201. A replay is given the neighbour's issue times as it is
given waits. Time is in cycles.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from asmevo.target import Target
from asmevo.timing.clock import LONG_AGO
from asmevo.timing.fact_groups import fact_group

_NEVER = 1 << 60
_OWN, _NEIGHBOUR = range(2)


class PathFacts(Struct, frozen=True):
    """Turns of the path.

    `load_turn`, `store_turn`: cycles served after which a turn ends. `turn_notice`: how long before a turn begins an
    instruction must have issued to be part of it. Loads form a group if each issues less than `group_gap` after the
    one before, at most `group_size` of them. Instructions of `store_cycles` and more count as stores.
    `issue_to_execute`: cycles from issue to execution in a free path.
    """

    load_turn: int
    store_turn: int
    turn_notice: int
    group_gap: int
    group_size: int
    store_cycles: int
    issue_to_execute: int


def path_facts(target: Target) -> PathFacts | None:
    """The facts of a target's vector memory path, None unless all are known."""
    return fact_group(target, PathFacts, "vmem_")


class _Side(Struct):
    """One SIMD: issue of its latest instruction, and how many its group has."""

    issue: int = LONG_AGO
    group: int = 0
    stores: bool = False


class SharedPath:
    """The path of one SIMD's vector memory instructions and of the neighbour's, given as (issue, cycles) in order."""

    def __init__(self, facts: PathFacts, neighbour: Sequence[tuple[int, int]]) -> None:
        self._facts = facts
        self._neighbour = neighbour
        self._place = 0
        self._sides = (_Side(), _Side())
        self._turn = _OWN
        self._served = self._free = self._seen = LONG_AGO

    def enter(self, issue: int, earliest: int, cycles: int) -> int:
        """The next instruction of this SIMD issued at `issue` and takes the path for `cycles` from `earliest` on.

        Returns the cycle in which it executes. What the neighbour does before is served first.
        """
        while True:
            other, other_cycles = _NEVER, 0
            if self._place < len(self._neighbour):
                other, other_cycles = self._neighbour[self._place]
            ready = (earliest, other + self._facts.issue_to_execute)
            now = max(self._free, min(ready))
            if self._next(now, ready, (issue, other), (cycles, other_cycles)) == _OWN:
                return self._serve(_OWN, max(now, earliest), issue, cycles)
            self._serve(_NEIGHBOUR, max(now, ready[_NEIGHBOUR]), other, other_cycles)
            self._place += 1

    def _next(self, now: int, ready: tuple[int, int], issue: tuple[int, int], cycles: tuple[int, int]) -> int:
        """Whose instruction is next at `now`; begins a turn if it is not the present one that goes on."""
        turn = self._turn
        if self._in_group(turn, issue[turn], cycles[turn]) and issue[turn] < _NEVER:
            return turn
        most = self._facts.store_turn if self._sides[turn].stores else self._facts.load_turn
        if ready[turn] <= now and self._served < most and issue[turn] <= self._seen:
            return turn
        self._turn = 1 - turn if ready[1 - turn] <= now else turn
        self._served, self._seen = 0, now - self._facts.turn_notice
        return self._turn

    def _in_group(self, side: int, issue: int, cycles: int) -> bool:
        latest, facts = self._sides[side], self._facts
        close = issue - latest.issue < facts.group_gap and latest.group < facts.group_size
        return close and not latest.stores and cycles < facts.store_cycles

    def _serve(self, side: int, start: int, issue: int, cycles: int) -> int:
        latest = self._sides[side]
        latest.group = latest.group + 1 if self._in_group(side, issue, cycles) else 1
        latest.issue, latest.stores = issue, cycles >= self._facts.store_cycles
        self._free = start + cycles
        self._served += cycles
        return start
