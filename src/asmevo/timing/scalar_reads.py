"""Why scalar instructions with two register sources issue every other cycle in the long run.

Every SGPR source of a scalar instruction is served for a cycle, in order, one at a time. A few instructions may wait
to be served; the next one issues when the first of them is. So a burst of instructions of two sources issues one a
cycle, and after it one in two. It does not delay execution in the traces (gfx1201 discover_ops: 5 cycles behind the
issue throughout). Time is in cycles.
"""

from __future__ import annotations

from collections import deque

from asmevo.timing.machine import Cause, Machine

_LONG_AGO = -(1 << 30)


class ScalarReads:
    """The sources of one SIMD's scalar instructions. `free`: before it no instruction with sources issues."""

    __slots__ = ("_served", "_starts", "cause", "free")

    def __init__(self, machine: Machine) -> None:
        waiting = machine.cost("salu_sources_waiting", "scalar sources")
        self.cause: Cause | None = waiting.cause if waiting is not None else None
        self.free = self._served = _LONG_AGO
        self._starts = deque([_LONG_AGO] * waiting.cycles, waiting.cycles) if waiting is not None else deque(maxlen=0)

    def enter(self, issue: int, sources: int) -> None:
        """An instruction of `sources` SGPR sources issues."""
        start = max(issue + 1, self._served)
        self._served = start + sources
        self._starts.append(start)
        if self._starts:
            self.free = self._starts[0]
