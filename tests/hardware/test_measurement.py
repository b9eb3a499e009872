"""The rule for "faster", on noise whose truth is known."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from asmevo.hardware.measurement import TIMED, Pace, judge, launch_order


def drawn(rng: np.random.Generator, level: float, spread: float, outliers: float = 0.05) -> list[float]:
    """Times with normal noise and a few launches that something disturbed."""
    times = rng.normal(level, spread, TIMED)
    times[rng.random(TIMED) < outliers] *= 3
    return [float(each) for each in times]


@pytest.mark.parametrize("spread", [0.0, 0.001, 0.02])
def test_the_same_version_is_hardly_ever_called_another(spread: float) -> None:
    rng = np.random.default_rng(1)
    paces = [judge(drawn(rng, 1.0, spread), drawn(rng, 1.0, spread)).pace for _ in range(2000)]
    assert sum(pace is not Pace.ALIKE for pace in paces) <= 10


@pytest.mark.parametrize(("share", "pace"), [(0.97, Pace.FASTER), (1.03, Pace.SLOWER)])
def test_three_percent_in_one_percent_of_noise_are_seen(share: float, pace: Pace) -> None:
    rng = np.random.default_rng(2)
    paces = [judge(drawn(rng, 1.0, 0.01), drawn(rng, share, 0.01)).pace for _ in range(500)]
    assert sum(each is pace for each in paces) >= 495


def test_a_mean_would_be_deceived() -> None:
    """Five launches of the new version were disturbed; they move its mean, and the verdict does not follow."""
    rng = np.random.default_rng(3)
    before, after = drawn(rng, 1.0, 0.005, outliers=0), drawn(rng, 0.95, 0.005, outliers=0)
    after[::6] = [20.0] * 5
    assert np.mean(after) > np.mean(before)
    assert judge(before, after).pace is Pace.FASTER


def test_an_episode_is_no_difference() -> None:
    """The second half of the new version's times fell into a quicker clock."""
    rng = np.random.default_rng(4)
    before = [float(each) for each in rng.normal(1.0, 0.002, TIMED)]
    after = [float(each) for each in rng.normal(1.001, 0.002, TIMED)]
    after[TIMED // 2 - 2 :] = [each * 0.9 for each in after[TIMED // 2 - 2 :]]
    assert np.median(after) < np.median(before) - 0.05
    assert judge(before, after).pace is Pace.ALIKE


def test_what_the_events_do_not_resolve_is_no_difference() -> None:
    assert judge([0.0050] * TIMED, [0.0042] * TIMED).pace is Pace.ALIKE
    assert judge([0.0050] * TIMED, [0.0038] * TIMED).pace is Pace.FASTER


def test_the_order_lets_each_follow_each() -> None:
    order = launch_order(40)
    assert order.count(0) == order.count(1) == 40
    following = list(pairwise(order))
    counts = [following.count(pair) for pair in ((0, 0), (0, 1), (1, 0), (1, 1))]
    assert max(counts) - min(counts) <= 1
