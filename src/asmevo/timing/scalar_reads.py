"""Why scalar instructions with two register sources issue every other cycle in the long run.

Every SGPR source of a scalar instruction is served for a cycle, in order, one at a time. A few instructions may be
underway so; the next one issues in the cycle that serves the last source of the first of them. So a burst of
instructions of two sources issues one a cycle, and after it one in two. It does not delay execution in the traces
(gfx1201 discover_ops: 5 cycles behind the issue throughout). Time is in cycles.
"""

from __future__ import annotations

from collections import deque

from asmevo.timing.clock import LONG_AGO


class ScalarReads:
    """The sources of one SIMD's scalar instructions. `underway`: instructions at a time, at least 1."""

    __slots__ = ("_last", "_served")

    def __init__(self, underway: int) -> None:
        self._last = LONG_AGO
        self._served = deque([LONG_AGO] * underway, maxlen=underway)

    def enter(self, issue: int, sources: int) -> int:
        """An instruction of `sources` SGPR sources issues at `issue`; returns from when on the next one may."""
        last = (issue if issue > self._last else self._last + 1) + sources - 1
        self._last = last
        served = self._served
        served.append(last)
        return served[0]
