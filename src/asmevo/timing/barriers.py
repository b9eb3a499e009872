"""The waves of a SIMD at their workgroups' barriers: who has arrived, and who waits until all have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from asmevo.timing.clock import LONG_AGO


class Barriers:
    """All barriers of all workgroups. `groups`: the workgroup of each wave; barriers are numbered in each."""

    def __init__(self, groups: Iterable[int]) -> None:
        self._size = Counter(groups)
        self._arrived: dict[tuple[int, int], tuple[int, int]] = {}
        self._parked: dict[tuple[int, int], list[int]] = {}

    def arrive(self, group: int, barrier: int, time: int) -> list[int]:
        """Counts a wave that arrives at `time` (cycles); returns the parked waves if it was the last."""
        count, last = self._arrived.get((group, barrier), (0, LONG_AGO))
        self._arrived[group, barrier] = (count + 1, max(last, time))
        return self._parked.pop((group, barrier), []) if count + 1 == self._size[group] else []

    def complete(self, group: int, barrier: int) -> int | None:
        """The cycle of the last arrival, None while a wave is missing."""
        count, last = self._arrived.get((group, barrier), (0, LONG_AGO))
        return last if count >= self._size[group] else None

    def park(self, group: int, barrier: int, wave: int) -> None:
        """A wave that waits until the barrier is complete."""
        self._parked.setdefault((group, barrier), []).append(wave)
