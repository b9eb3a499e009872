"""Agreement with issue traces of real GPUs. The floors hold today; a change of the model may only raise
them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from asmevo.program.codeobject import CodeObject
from asmevo.program.kernel import Kernel
from asmevo.program.reading import read_kernels
from asmevo.timing.traces import Agreement, Trace, read_trace, replay

TRACES = Path(__file__).parent.parent / "data" / "traces"


def kernel_of(trace: Trace, folder: Path) -> Kernel:
    path = folder / trace.code_object
    kernels = read_kernels(CodeObject(path.read_bytes(), path.name))
    return next(each for each in kernels if each.address <= trace.entry < each.address + each.size)


def agreement(gpu: str) -> Agreement:
    (path,) = (TRACES / gpu).glob("*.jsonl.gz")
    trace = read_trace(path)
    return replay(trace, kernel_of(trace, path.parent))


def rank_correlation(first: list[int], second: list[int]) -> float:
    """Spearman's, ties by mean rank."""

    def ranks(values: list[int]) -> list[float]:
        return [sum(o < v for o in values) + sum(o == v for o in values) / 2 for v in values]

    a, b = ranks(first), ranks(second)
    mean = sum(a) / len(a)
    above = sum((x - mean) * (y - mean) for x, y in zip(a, b, strict=True))
    return above / (sum((x - mean) ** 2 for x in a) * sum((y - mean) ** 2 for y in b)) ** 0.5


@pytest.mark.parametrize(("gpu", "floor"), [("gfx1100", 0.88), ("gfx1201", 0.90), ("gfx950", 0.80)])
def test_share_of_issue_gaps_predicted_exactly(gpu: str, floor: float) -> None:
    found = agreement(gpu)
    assert found.gaps > 20
    assert found.share >= floor, found.misses.most_common(5)


def test_long_runs_of_issues_are_predicted_long() -> None:
    found = agreement("gfx1100")
    assert rank_correlation(found.traced, found.predicted) >= 0.7
