"""Budgets as people write them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asmevo.search import Budget, BudgetError


@pytest.mark.parametrize(
    ("text", "seconds", "candidates"),
    [
        ("30s", 30.0, math.inf),
        ("2m", 120.0, math.inf),
        ("0.5h", 1800.0, math.inf),
        ("1.5s", 1.5, math.inf),
        ("500", math.inf, 500),
    ],
)
def test_what_is_a_budget(text: str, seconds: float, candidates: float) -> None:
    assert Budget.of(text) == Budget(seconds, candidates)
    again = Budget.of(str(Budget.of(text)))
    assert again == Budget.of(text)


@pytest.mark.parametrize("text", ["", "0", "0s", "-3", "1.5", "s", "3 s x", "10d", "1e3", "nan", "∞", "٣"])
def test_what_is_none_gets_a_sentence(text: str) -> None:
    with pytest.raises(BudgetError, match="seconds as `30s`"):
        Budget.of(text)


@given(st.text(max_size=12))
def test_any_text_is_a_budget_or_a_sentence(text: str) -> None:
    try:
        budget = Budget.of(text)
    except BudgetError:
        return
    assert budget.used(0.0, 0) == 0.0
    assert min(budget.seconds, budget.candidates) > 0


def test_used_and_parts() -> None:
    assert Budget.of("10s").used(5.0, 10**6) == 0.5
    assert Budget.of("10").used(1e6, 10) == 1.0
    assert Budget.of("10s").part(0.5) == Budget(seconds=5.0)
    assert Budget.of("10").part(0.01) == Budget(candidates=1)
    assert Budget.of("10s").part(0.0).used(0.0, 0) == 1.0
