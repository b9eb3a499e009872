"""What the other captures of a kernel foretell of one: how right a model can be that knows the code alone.

Each capture in turn is taken out, and each of its asked gaps is foretold from those of the other captures of its code
object between the same two instructions: by their mean, their median or the most frequent (the least of several). These
knew silicon's own times beforehand, but not what else ran in this capture. So where they are far off together, what
decides the time is not in the code; a model can be nearer only by what a replay tells it of the capture. A gap that no
other capture has is left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import mean, median, multimode

from asmevo.timing.replay import Gap, Replayed

_Between = tuple[int, int]
"""Offsets of two instructions that issue one after the other."""
_Foretold = Mapping[_Between, float]
_TakenOut = tuple[Sequence[Replayed], Mapping[_Between, list[int]]]
"""The waves of a capture, and the gaps of the other captures of its code object."""


def other_captures_error(captures: Sequence[tuple[str, Sequence[Replayed]]]) -> float | None:
    """How far the other captures' gaps of a wave are off together, as a share of its whole time: the mean over waves.

    Captures are (code object, waves). Of the three ways to foretell, the one nearest. None if no code object has two
    captures with an asked gap in common.
    """
    taken_out = list(_taken_out(captures))
    found = [list(_errors(taken_out, foretell)) for foretell in (mean, median, _most_frequent)]
    return min(mean(errors) for errors in found) if found[0] else None


def _most_frequent(gaps: Sequence[int]) -> float:
    return min(multimode(gaps))


def _taken_out(captures: Sequence[tuple[str, Sequence[Replayed]]]) -> Iterator[_TakenOut]:
    for number, (code_object, waves) in enumerate(captures):
        others = [own for each, (name, own) in enumerate(captures) if each != number and name == code_object]
        yield waves, _gaps(others)


def _errors(taken_out: Iterable[_TakenOut], foretell: Callable[[Sequence[int]], float]) -> Iterator[float]:
    for waves, others in taken_out:
        foretold = {between: foretell(gaps) for between, gaps in others.items()}
        for wave in waves:
            off = list(_differences(wave, foretold))
            if off and wave.cycles:
                yield abs(sum(off)) / wave.cycles


def _gaps(captures: Sequence[Sequence[Replayed]]) -> Mapping[_Between, list[int]]:
    found = defaultdict[_Between, list[int]](list)
    for waves in captures:
        for wave in waves:
            for gap in wave.gaps():
                found[_between(wave, gap)].append(gap.traced)
    return found


def _differences(wave: Replayed, foretold: _Foretold) -> Iterator[float]:
    for gap in wave.gaps():
        between = _between(wave, gap)
        if between in foretold:
            yield foretold[between] - gap.traced


def _between(wave: Replayed, gap: Gap) -> _Between:
    issues = wave.wave.issues
    return issues[gap.place - 1].offset, issues[gap.place].offset
