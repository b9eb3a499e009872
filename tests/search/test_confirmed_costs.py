"""What becomes a search's best version is judged like an offer, so that there is something to offer in the end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from emulated_launches import launch, program_of

from asmevo.gates import Prediction
from asmevo.program.edit import EditScript, apply_script
from asmevo.program.kernel import Kernel
from asmevo.proposers import Facts, ListScheduler
from asmevo.search import SearchOptions
from asmevo.search.bench import Bench


class Patient:
    """A patient timing gate that has made up its mind."""

    def __init__(self, *ratios: float) -> None:
        self.ratios = ratios
        self.asked = 0

    def predict(self, kernel: Kernel) -> Prediction:
        self.asked += 1
        return Prediction((), self.ratios)


@pytest.fixture
def bench() -> Bench:
    return Bench(program_of("matmul_f16", "gfx942").kernel(launch("matmul_f16").symbol), SearchOptions())


def gains(bench: Bench) -> Iterator[EditScript]:
    """Orders of which the quick model says that they gain."""
    facts = Facts(bench.kernel, cost=lambda kernel: bench.timing.predict(kernel).cost)
    return (each for each in ListScheduler().propose(facts) if bench.cost(apply_script(bench.kernel, each)) < 0.995)


def judged(bench: Bench, *ratios: float) -> Patient:
    patient = Patient(*ratios)
    vars(bench)["patient_timing"] = patient
    assert bench.judge(next(gains(bench)), bench.kernel, "test") is not None
    return patient


def test_the_best_costs_what_patience_says(bench: Bench) -> None:
    patient = judged(bench, 0.9, 0.9)
    assert patient.asked == 1
    assert bench.best is not bench.original
    assert bench.best.cost == bench.cost(bench.best.kernel) == pytest.approx(0.9, abs=0.001)


@pytest.mark.parametrize("ratios", [(0.5, 1.02), (1.1, 1.1)])
def test_what_would_be_refused_is_never_the_best(ratios: tuple[float, float], bench: Bench) -> None:
    assert judged(bench, *ratios).asked == 1
    assert bench.best is bench.original
    assert len(bench.kept) == 1


def test_patience_is_for_what_looks_best(bench: Bench) -> None:
    judged(bench, 0.2, 0.2)
    patient = vars(bench)["patient_timing"] = Patient(0.1, 0.1)
    for script in list(gains(bench))[1:3]:
        bench.judge(script, bench.kernel, "test")
    assert patient.asked == 0
