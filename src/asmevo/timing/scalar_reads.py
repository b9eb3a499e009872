"""Why scalar instructions with two register sources issue every other cycle in the long run.

Every SGPR source of a scalar instruction is served for a cycle, in order, one at a time. A few instructions may wait
to be served; the next one issues when the first of them is. So a burst of instructions of two sources issues one a
cycle, and after it one in two. It does not delay execution in the traces (gfx1201 discover_ops: 5 cycles behind the
issue throughout). Time is in cycles.
"""

from __future__ import annotations

from collections import deque

_LONG_AGO = -(1 << 30)


class ScalarReads:
    """The sources of one SIMD's scalar instructions. `waiting`: instructions that may wait to be served, at least 1."""

    __slots__ = ("_served", "_starts")

    def __init__(self, waiting: int) -> None:
        self._served = _LONG_AGO
        self._starts = deque([_LONG_AGO] * waiting, maxlen=waiting)

    def enter(self, issue: int, sources: int) -> int:
        """An instruction of `sources` SGPR sources issues at `issue`; returns from when on the next one may."""
        start = issue + 1 if issue >= self._served else self._served
        self._served = start + sources
        starts = self._starts
        starts.append(start)
        return starts[0]
