"""How many vector instructions with a scalar result a SIMD has under way: v_cmp, carries, v_readlane.

Behind issue vector instructions go through a few stages, one a cycle, before they enter the queue. There one with a
scalar result takes a place, and gives it back when the result is counted, some cycles after it executed. While none is
free it stays, in front of all behind it: as many more as there are stages issue, of whatever wave, then none. (A single
wave has fewer places of its own, and waits for them before it issues, see `orders`.)

Found in gfx1100 E_8_8_16_4 and gfx1200 E_32_32_4, where 16 waves come to v_add_co and v_add_co_ci together: the ninth
result executes 14 cycles after the first, the third vector instruction after it issues 9 cycles after the first
executed, and so on with every eighth. Time is in cycles.
"""

from __future__ import annotations

from collections import deque

from asmevo.timing.clock import LONG_AGO
from asmevo.timing.costs import Cause


class ScalarResults:
    """The stages before the vector queue of one SIMD, and its places for scalar results; at least 1 of each.

    `free`: from when on a vector instruction may issue.
    """

    __slots__ = ("_counted", "_entered", "_last", "_stages", "cause", "free")

    def __init__(self, places: int, stages: int, cause: Cause) -> None:
        self._counted = deque([LONG_AGO] * places, maxlen=places)
        self._entered = deque([LONG_AGO] * stages, maxlen=stages)
        self._stages = stages
        self._last = self.free = LONG_AGO
        self.cause = cause

    def enter(self, issue: int, has_result: bool) -> int:
        """The next vector instruction issues; returns the cycles that it stays longer than it has to."""
        entered = usual = issue + self._stages
        if self._last >= usual:
            entered = self._last + 1
        if has_result and self._counted[0] > entered:
            entered = self._counted[0]
        self._last = entered
        self._entered.append(entered)
        self.free = self._entered[0]
        return entered - usual

    def add(self, counted: int) -> None:
        """The result of the instruction that entered last is counted at `counted`."""
        self._counted.append(counted)
