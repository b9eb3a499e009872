"""Instructions of several passes behind a nearly full vector queue: gaps read off traces by hand.

Each case is one v_rcp_f32, v_mad_co_u64_u32 or v_lshlrev_b64 of gfx1201 custom_handwritten: in how many cycles from its
issue the places of the instructions before it became free, and when the next of several passes (any wave's) issued.
"""

from __future__ import annotations

import pytest

from asmevo.target import load_target
from asmevo.timing.machine import Machine

TRANS, MAD, SHIFT = (4, False), (4, True), (2, True)
"""Passes, and whether it is alone on the vector port."""


def _queue(frees: list[int]) -> list[tuple[int, None, int]]:
    """Entries that are free long ago, those given, and the instruction's own."""
    return [(free, None, -1) for free in [*range(-100, -92), *frees, 200]]


@pytest.mark.parametrize(
    ("kind", "frees", "following"),
    [
        (TRANS, [29, 45, 46, 47, 48], 30),  # the third pass waits
        (TRANS, [28, 44, 60, 61, 62, 63], 45),  # the second and the third
        (TRANS, [1, 2, 3, 4, 33, 49, 50], 4),  # places come in time
        (TRANS, [17, 33, 34, 35, 36, 37, 38], 34),  # the first waits
        (TRANS, [13, 14, 15, 16, 17, 46, 47], 15),
        (TRANS, [3, 4, 5, 6, 7, 8, 9], 4),
        (MAD, [7, 8, 26, 34, 50, 51, 53], 26),
        (MAD, [1, 2, 4, 8, 9, 10, 12], 4),
        (SHIFT, [3, 4, 6, 10, 11, 12], 2),
        (SHIFT, [14, 22, 23, 25, 29, 30], 14),
        (SHIFT, [2, 11, 12, 14, 18, 35, 37], 11),
        (SHIFT, [7, 23, 31, 35, 36, 38, 40], 8),
        (TRANS, [16, 24, 40, 48, 64, 72, 73], 40),
    ],
)
def test_the_next_of_several_passes_waits_for_places(kind: tuple[int, bool], frees: list[int], following: int) -> None:
    state = Machine(load_target("gfx1201"), 32, "l2").pass_places()
    assert state.issue(0, kind[0], 3, kind[1], _queue(frees)) == following


def test_one_pass_instructions_between_the_passes_are_settled_first() -> None:
    """The first goes with a pass that waits at 33, not 18; two with none that waits at 32, one alone with the last."""
    state = Machine(load_target("gfx1201"), 32, "l2").pass_places()
    assert state.issue(0, 4, 0, False, _queue([17, 33, 34, 35, 36])) == 18
    assert state.open_until > 3
    assert state.pass_by() == 33
    assert state.issue(0, 4, 0, False, _queue([1, 2, 3, 32, 48, 64, 65])) == 4
    assert state.open_until > 3
    assert state.pass_by() < 4
    assert state.pass_by() == 32


def test_the_wave_whose_passes_waited_follows_a_cycle_later() -> None:
    state = Machine(load_target("gfx1201"), 32, "l2").pass_places()
    state.issue(0, 4, 5, False, _queue([28, 44, 60, 61, 62, 63]))
    assert (state.holder, state.holder_free) == (5, 46)
    state.issue(0, 4, 5, False, _queue([16, 17, 18, 19, 43, 59, 60]))
    assert (state.holder, state.holder_free) == (5, 19)
    state.issue(0, 4, 5, False, _queue([17, 33, 34, 35, 36, 37, 38]))
    assert (state.holder, state.holder_free) == (5, 36)
    state.issue(0, 4, 5, False, _queue([16, 24, 40, 48, 64, 72, 73]))
    assert (state.holder, state.holder_free) == (5, 42)
    state.issue(0, 4, 5, True, _queue([8, 24, 32, 48, 56, 72, 80]))
    assert (state.holder, state.holder_free) == (5, 33)
    state.issue(0, 4, 5, False, _queue([29, 45, 46, 47, 48]))
    assert state.holder == -1


def test_a_matrix_operation_comes_to_the_last_place_as_one_is_freed() -> None:
    """97aab6e67d: the next 3 later where a place is free after 2, without delay after 1 or 8."""
    state = Machine(load_target("gfx1201"), 32, "l2").pass_places()
    assert state.issue_at_once(0, _queue([2, 27, 35, 51, 59, 75, 83])) == 3
    assert state.issue_at_once(0, _queue([1, 27, 35, 51, 59, 75, 83])) <= 1
    assert state.issue_at_once(0, _queue([8, 24, 32, 48, 56, 72, 80])) <= 8
