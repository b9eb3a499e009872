"""Times of two versions, and when one may be called faster.

Medians and median absolute deviations (MAD), never means: a launch that was disturbed counts as one launch, not by how
much it was disturbed. The two versions' launches alternate, so that a clock that drifts drifts for both.

The rule. For normal noise a standard deviation is 1.4826 MAD and the median of n times has a standard error of
1.2533 standard deviations through the root of n (both textbook values). One version is faster only if

    - its median is lower by more than three times the standard error of the difference, and
    - by more than the resolution of HIP's events, which its documentation gives as about 1 microsecond, and
    - in each half of the measurement its median is lower, too: noise that comes in episodes is no normal noise.

Else the two are not told apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from math import hypot, sqrt
from statistics import median
from typing import Any

from msgspec import Struct

WARM_UP, TIMED = 4, 30
"""Launches of each version; conventions."""

_DEVIATION_OF_MAD, _ERROR_OF_MEDIAN = 1.4826, 1.2533
_ERRORS = 3.0
_RESOLUTION = 0.001  # milliseconds


class Pace(Enum):
    """The new version, seen from the original."""

    FASTER = "faster"
    SLOWER = "slower"
    ALIKE = "not told apart"


class Times(Struct, frozen=True):
    """One version's launches: median and median absolute deviation in milliseconds."""

    median: float
    deviation: float
    count: int

    def __str__(self) -> str:
        return f"{1000 * self.median:.2f} us (MAD {1000 * self.deviation:.2f})"


class Timing(Struct, frozen=True):
    """Both versions; `noise` is the difference of medians (milliseconds) up to which they are not told apart."""

    original: Times
    new: Times
    noise: float
    pace: Pace

    @property
    def change(self) -> float:
        """The new version's median as a share of the original's, less one: negative is faster."""
        return self.new.median / self.original.median - 1.0 if self.original.median else 0.0

    def __str__(self) -> str:
        times = f"median {self.original} to {self.new}, {self.original.count} launches each"
        if self.pace is Pace.ALIKE:
            return f"times not told apart: {times}, noise {1000 * self.noise:.2f} us"
        return f"{abs(self.change):.1%} {self.pace.value}: {times}, noise {1000 * self.noise:.2f} us"

    def to_dict(self) -> dict[str, Any]:
        """As JSON data, times in microseconds."""
        return {
            "pace": self.pace.value,
            "change": round(self.change, 6),
            "noise_us": round(1000 * self.noise, 4),
            "launches": self.original.count,
            "original_us": {"median": 1000 * self.original.median, "mad": 1000 * self.original.deviation},
            "new_us": {"median": 1000 * self.new.median, "mad": 1000 * self.new.deviation},
        }


def launch_order(count: int) -> tuple[int, ...]:
    """`count` launches each of versions 0 and 1: 0 1 1 0 0 1 1 0 ..., so that each follows each as often."""
    return tuple(number for place in range(count) for number in ((0, 1) if place % 2 == 0 else (1, 0)))


def judge(original: Sequence[float], new: Sequence[float]) -> Timing:
    """The rule on times in milliseconds, in the order in which they were taken."""
    before, after = _times(original), _times(new)
    spread = _DEVIATION_OF_MAD * hypot(before.deviation, after.deviation)
    noise = max(_ERRORS * _ERROR_OF_MEDIAN * spread / sqrt(min(len(original), len(new))), _RESOLUTION)
    pace = Pace.ALIKE
    if after.median < before.median - noise and _always_less(new, original):
        pace = Pace.FASTER
    elif after.median > before.median + noise and _always_less(original, new):
        pace = Pace.SLOWER
    return Timing(before, after, noise, pace)


def _times(values: Sequence[float]) -> Times:
    middle = median(values)
    return Times(middle, median(abs(value - middle) for value in values), len(values))


def _always_less(lower: Sequence[float], upper: Sequence[float]) -> bool:
    half = min(len(lower), len(upper)) // 2
    return median(lower[:half]) < median(upper[:half]) and median(lower[half:]) < median(upper[half:])
