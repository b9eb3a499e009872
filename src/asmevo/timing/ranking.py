"""Whether a model puts code in the right order: rank correlation, and pairs of schedules of one block.

A search asks a model which of two versions is faster, not how many cycles each takes. Spearman's coefficient over
blocks and over kernels says how well a model orders unlike code. A pair of schedules is the question itself: two runs
of issues on one target that hold the same instructions (by mnemonic) in another order, whose traced cycles differ by
more than captures of the same run differ from each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

import numpy as np
from msgspec import Struct


def spearman(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Spearman's rank correlation, equal values sharing their mean rank; None where it is not defined."""
    if len(one) < 2:
        return None
    ranks = np.array([_ranks(one), _ranks(other)])
    if np.any(np.ptp(ranks, axis=1) == 0):
        return None
    return float(np.corrcoef(ranks)[0, 1])


def _ranks(values: Sequence[float]) -> np.ndarray:
    """Ranks from 1; equal values have the mean of their ranks."""
    _, place, counts = np.unique(np.asarray(values, dtype=float), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    mean: np.ndarray = (last - (counts - 1) / 2)[place]
    return mean


class BlockTime(Struct, frozen=True):
    """A basic block, or another part of a kernel, as often as it was traced on its own or beside other waves.

    Mean cycles of its asked gaps an execution: traced, by the model, by llvm-mca (None where it does not know an
    instruction of it).
    """

    target: str
    kernel: str
    code_object: str
    block: int
    executions: int
    traced: float
    predicted: float
    mca: float | None


class Schedule(Struct, frozen=True):
    """A run of issues: its mnemonics in order, and the cycles from its first issue to its last.

    `traced` holds the mean of each capture; `predicted` is the model's mean over the captures; `unit`: cycles that the
    clock of the traces can tell apart.
    """

    target: str
    mnemonics: tuple[str, ...]
    unit: int
    traced: tuple[float, ...]
    predicted: float
    mca: float | None

    @property
    def mean(self) -> float:
        return sum(self.traced) / len(self.traced)

    @property
    def spread(self) -> float:
        """How far captures are apart."""
        return max(self.traced) - min(self.traced)


class PairRanking(Struct, frozen=True):
    """Pairs of schedules whose traced cycles differ by more than the noise, and those ordered rightly."""

    pairs: int
    right: int
    mca_right: int


def pairs(schedules: Iterable[Schedule]) -> Iterator[tuple[Schedule, Schedule]]:
    """Pairs of schedules of the same instructions that silicon tells apart, the faster one first.

    Apart: by more than one clock unit and more than the captures of either differ.
    """
    alike: dict[tuple[str, tuple[str, ...]], list[Schedule]] = {}
    for each in schedules:
        alike.setdefault((each.target, tuple(sorted(each.mnemonics))), []).append(each)
    for group in alike.values():
        for one, other in combinations(group, 2):
            noise = max(one.unit, one.spread, other.spread)
            if one.mnemonics != other.mnemonics and abs(one.mean - other.mean) > noise:
                yield (one, other) if one.mean < other.mean else (other, one)


def rank_pairs(found: Iterable[tuple[Schedule, Schedule]]) -> PairRanking:
    """How many pairs the model and llvm-mca order as silicon does."""
    count = right = mca = 0
    for faster, slower in found:
        count += 1
        right += faster.predicted < slower.predicted
        mca += faster.mca is not None and slower.mca is not None and faster.mca < slower.mca
    return PairRanking(count, right, mca)
