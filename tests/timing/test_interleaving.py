"""Order of the waves: two waves whose issues are moved by hand, and captures of silicon."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from asmevo.timing.agreement import Share
from asmevo.timing.interleaving import neighbours, order_floor, order_share
from asmevo.timing.replay import Replayed, replay
from asmevo.timing.traces import Issue, TracedWave, kernel_of, read_trace, trace_files

TRACES = Path(__file__).parent.parent / "data" / "traces"


def wave(traced: tuple[int, ...], predicted: tuple[int, ...], simd: int = 0) -> Replayed:
    """A wave with its first issue given; what it issues does not matter."""
    issues = tuple(Issue(cycle, 4 * place, "VALU", "v_nop") for place, cycle in enumerate(traced))
    none = (None,) * len(traced)
    return Replayed(TracedWave(0, simd, traced[0], issues, none), (), predicted, none, frozenset({0}))


def test_neighbours_of_two_waves_are_asked_and_given_ones_are_not() -> None:
    one, other = wave((0, 2, 4), (0, 2, 4)), wave((0, 3, 5), (0, 3, 5))
    asked = [((a.cycle, a.wave), (b.cycle, b.wave)) for a, b in neighbours([one, other])]
    # 0 and 0 are both given
    assert asked == [((0, 1), (2, 0)), ((2, 0), (3, 1)), ((3, 1), (4, 0)), ((4, 0), (5, 1))]
    assert not list(neighbours([one, replace(other, wave=replace(other.wave, simd=1))]))


@pytest.mark.parametrize(
    ("predicted", "share"),
    [
        ((0, 3, 5), Share(4, 4, 4)),
        ((0, 9, 11), Share(4, 3, 3)),  # 3 before 4 is wrong, the other three are still right
        ((0, 1, 5), Share(4, 3, 3)),  # 2 before 3 is wrong
        ((0, 2, 5), Share(4, 3, 4)),  # 2 and 3 fall together: not exact, not the wrong way round
    ],
)
def test_order_of_a_model(predicted: tuple[int, ...], share: Share) -> None:
    assert order_share([wave((0, 2, 4), (0, 2, 4)), wave((0, 3, 5), predicted)]) == share


def test_the_floor_asks_the_second_capture() -> None:
    first = [wave((0, 2, 4), (0, 0, 0)), wave((0, 3, 5), (0, 0, 0))]
    assert order_floor(first, first) == Share(4, 4, 4)
    later = [first[0], wave((10, 13, 15), (0, 0, 0))]
    assert order_floor(first, later) == Share(4, 2, 2)


def test_the_oldest_wave_first_is_what_silicon_does() -> None:
    path = next(path for path in trace_files(TRACES / "gfx1200") if "gemm_run0" in path.name)
    trace = read_trace(path)
    found = order_share(replay(trace, kernel_of(trace, path.parent)))
    assert found.count > 100
    assert found.share > 0.9
