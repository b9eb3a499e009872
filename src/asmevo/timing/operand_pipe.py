"""When a vector instruction leaves its queue: the operand pipe between queue and execution.

The queue of a SIMD's vector instructions has a few entries. Behind it an operand pipe of a few stages leads to
execution, one pass a stage: an instruction that executes for n cycles enters it as n passes, a cycle each, and its
entry of the queue is free again when its last pass has entered. The pipe does not close up: a pass enters when the
pass that is the pipe's length ahead of it executes. So a dependence that delays execution fills first the pipe, then
the queue, then stops issue; and a matrix operation of 16 passes keeps its entry until 4 cycles before its end (3 where
nothing stood in its way).

A source that finds no free port of its bank keeps an instruction in front of the pipe, but an accumulator is read in
it; what waits to write its result has left it.

On gfx1100 this gives all 2,322 issues of the r_2_8_16_4_4_16_4 traces that were stopped by the queue to the cycle
and forbids none of the 21,340 that were seen; on gfx1200 2,069, with 5 one cycle too late; the same numbers explain the
matrix operations of gfx1201, which they were not derived from. Time is in cycles.
"""

from __future__ import annotations

from collections import deque

from asmevo.timing.clock import LONG_AGO


class OperandPipe:
    """The pipe of one SIMD, for the instructions of all its waves. `length`: passes that it holds."""

    __slots__ = ("_executes", "_left", "_length")

    def __init__(self, length: int) -> None:
        self._length = length
        self._executes: deque[int] = deque([LONG_AGO] * length, maxlen=length)
        self._left = LONG_AGO

    def enter(self, earliest: int, start: int, passes: int) -> int:
        """An instruction may enter from cycle `earliest` on and executes `passes` cycles from `start`.

        Returns the cycle in which its last pass enters the pipe and leaves the queue.
        """
        executes = self._executes
        if passes == 1:
            left = self._left + 1
            if executes[0] > left:
                left = executes[0]
            if earliest > left:
                left = earliest
            executes.append(start)
            self._left = left
            return left
        skipped = passes - self._length
        if skipped > 0:
            left = max(start + skipped - 1, earliest + passes - 1, self._left + passes)
            executes.extend(range(start + skipped, start + passes))
            self._left = left
            return left
        left = self._left
        for execute in range(start, start + passes):
            left = max(left + 1, earliest, executes[0])
            executes.append(execute)
        self._left = left
        return left
