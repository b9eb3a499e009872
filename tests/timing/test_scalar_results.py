"""Scalar results of vector instructions under way on one SIMD, as traced. Times count from the first issue."""

from __future__ import annotations

from asmevo.timing.costs import Cause
from asmevo.timing.scalar_results import ScalarResults

_TO_EXECUTE, _COUNTED = 8, 9


def _executes(results: ScalarResults, issues: list[tuple[int, bool]]) -> list[int]:
    """Cycles from issue to execution; each must issue no sooner than it may."""
    found = []
    for issue, has_result in issues:
        assert issue >= results.free
        to_execute = results.enter(issue, has_result) + _TO_EXECUTE
        if has_result:
            results.add(issue + to_execute + _COUNTED)
        found.append(to_execute)
    return found


def test_the_ninth_result_waits_and_all_behind_it() -> None:
    """gfx1100 E_8_8_16_4: v_add_co and v_add_co_ci of six waves."""
    results = ScalarResults(8, 3, Cause("valu scalar results under way", "measured"))
    assert _executes(results, [(issue, True) for issue in range(8)]) == [8] * 8
    assert _executes(results, [(8, True), (9, True), (10, True)]) == [14, 14, 14]
    assert results.free == 17
    assert _executes(results, [(issue, True) for issue in range(17, 22)]) == [8] * 5
    assert _executes(results, [(22, True), (23, True), (24, True)]) == [14, 14, 14]
    assert results.free == 31


def test_instructions_without_scalar_result_are_stopped_behind_one() -> None:
    """gfx1200 E_32_32_4: v_add_co, v_add_co_ci and v_mov of five waves, then the sixth."""
    results = ScalarResults(8, 3, Cause("valu scalar results under way", "measured"))
    wave = (True, True, False)
    executes = _executes(results, [(issue, wave[issue % 3]) for issue in range(12)])
    assert executes == [8] * 12
    assert _executes(results, [(12, True), (13, True), (14, False)]) == [10, 10, 10]
    assert results.free == 17


def test_other_instructions_never_wait() -> None:
    results = ScalarResults(8, 3, Cause("valu scalar results under way", "measured"))
    assert _executes(results, [(issue, False) for issue in range(40)]) == [8] * 40
