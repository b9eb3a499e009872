"""Who gets the next turn: hand-worked cases."""

from __future__ import annotations

from collections import Counter

from asmevo.search.bandit import Bandit


def _play(pays: dict[str, float], turns: int) -> Counter[str]:
    """Turns of each when a turn of `name` costs 1 and earns `pays[name]`."""
    bandit, given = Bandit(pays), Counter[str]()
    for _ in range(turns):
        name = bandit.choose(pays.keys())
        bandit.record(name, pays[name], 1.0)
        given[name] += 1
    return given


def test_everybody_has_a_first_turn_in_order() -> None:
    bandit = Bandit(["a", "b", "c"])
    seen = []
    for _ in range(3):
        seen.append(bandit.choose({"c", "a", "b"}))
        bandit.record(seen[-1], 5.0 if seen[-1] == "a" else 0.0, 1.0)
    assert seen == ["a", "b", "c"]


def test_what_pays_gets_most_turns_and_nobody_starves() -> None:
    given = _play({"idle": 0.0, "good": 1.0, "fair": 0.3}, 200)
    assert given["good"] > 100
    assert given["good"] > given["fair"] > given["idle"] > 1


def test_it_is_the_rate_that_counts_not_the_sum() -> None:
    bandit = Bandit(["dear", "cheap"])
    bandit.record("dear", 2.0, 10.0)
    bandit.record("cheap", 1.0, 1.0)
    assert bandit.choose({"dear", "cheap"}) == "cheap"


def test_old_success_fades() -> None:
    bandit = Bandit(["once", "now"])
    bandit.record("once", 10.0, 1.0)
    bandit.record("now", 0.0, 1.0)
    for _ in range(12):
        bandit.record("once", 0.0, 1.0)
        bandit.record("now", 0.2, 1.0)
    assert bandit.choose({"once", "now"}) == "now"


def test_only_who_is_ready_is_chosen_and_all_zero_is_fair() -> None:
    bandit = Bandit(["a", "b"])
    for name in "ab":
        bandit.record(name, 0.0, 1.0)
    bandit.record("a", 0.0, 1.0)
    assert bandit.choose({"a", "b"}) == "b"
    assert bandit.choose({"a"}) == "a"
