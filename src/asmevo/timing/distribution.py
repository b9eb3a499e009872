"""A latency that is not one number: what a memory access took, over all accesses of a class that were seen."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import asdict


class Distribution(Struct, frozen=True):
    """Cycles of `count` accesses: the least, 10th, 50th and 90th percentile, and the most."""

    count: int
    least: int
    low: int
    median: int
    high: int
    most: int

    @classmethod
    def of(cls, cycles: Sequence[float]) -> Distribution:
        """The distribution of samples. Raises ValueError where there are none."""
        if not cycles:
            raise ValueError("no samples")
        ordered = sorted(cycles)
        return cls(len(cycles), *(_percentile(ordered, percent) for percent in (0, 10, 50, 90, 100)))

    def to_dict(self) -> dict[str, int]:
        """As plain JSON values."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.median} cycles ({self.low} to {self.high} for four of five, {self.least} to {self.most} in all)"


def _percentile(ordered: Sequence[float], percent: int) -> int:
    """Between two samples by their distance, to a whole cycle."""
    below, part = divmod(percent * (len(ordered) - 1), 100)
    above = min(below + 1, len(ordered) - 1)
    return round(ordered[below] + (ordered[above] - ordered[below]) * part / 100)
