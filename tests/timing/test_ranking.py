"""Rank correlation and pairs of schedules, against values reckoned by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asmevo.timing.ranking import Schedule, pairs, rank_pairs, spearman


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ([1, 2, 3, 4], [10, 200, 3000, 40000], 1.0),
        ([1, 2, 3], [3, 2, 1], -1.0),
        # ranks 1 2 3 4 5 and 2 1 4 3 5: 1 - 6 * (1 + 1 + 1 + 1 + 0) / (5 * 24)
        ([10, 20, 30, 40, 50], [2, 1, 4, 3, 5], 0.8),
        # ranks 1 2.5 2.5 4 and 1 2 3 4: covariance 4.5 of sqrt(4.5 * 5)
        ([1, 5, 5, 9], [1, 2, 3, 4], 4.5 / (4.5 * 5) ** 0.5),
    ],
)
def test_spearman(one: list[float], other: list[float], expected: float) -> None:
    assert spearman(one, other) == pytest.approx(expected)


def test_spearman_where_there_is_no_order() -> None:
    assert spearman([], []) is None
    assert spearman([1], [2]) is None
    assert spearman([1, 1, 1], [1, 2, 3]) is None


@given(st.lists(st.integers(0, 50), min_size=2, max_size=20, unique=True))
def test_any_growing_function_keeps_the_ranks(values: list[int]) -> None:
    assert spearman(values, [value**3 + 7 for value in values]) == pytest.approx(1.0)


def schedule(words: str, traced: tuple[float, ...], predicted: float, target: str = "gfx1100") -> Schedule:
    return Schedule(target, tuple(words.split()), 1, traced, predicted, None)


def test_pairs_are_the_same_instructions_in_another_order_that_silicon_tells_apart() -> None:
    fast = schedule("load add mul", (10, 11), 5)
    slow = schedule("add mul load", (20, 21), 9)
    others = [
        schedule("add mul load", (20, 21), 9, target="gfx1201"),  # another GPU
        schedule("load add add", (50,), 60),  # other instructions
        schedule("mul load add", (10, 19), 7),  # its captures differ by more
    ]
    assert list(pairs([slow, fast, *others])) == [(fast, slow)]
    assert (rank_pairs(pairs([slow, fast])).pairs, rank_pairs(pairs([slow, fast])).right) == (1, 1)
    wrong = schedule("add mul load", (20, 21), 4)
    assert rank_pairs(pairs([wrong, fast])).right == 0
    assert not list(pairs([fast, schedule("load add mul", (30,), 3)]))  # the same order
    assert not list(pairs([fast, schedule("mul add load", (11, 11.5), 3)]))  # within a clock unit
