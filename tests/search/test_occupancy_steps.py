"""More waves on a SIMD: what they bring is predicted, ranked beside what does not bring them, said, and offered."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from itertools import islice
from pathlib import Path

import pytest
from compiled_programs import all_files
from msgspec.structs import replace

from asmevo.analysis.occupancy import occupancy
from asmevo.gates import FilledSimd, Prediction, TimingGate
from asmevo.program import read_program
from asmevo.program.edit import EditScript, apply_script, script_between
from asmevo.program.kernel import Kernel
from asmevo.program.program import Program
from asmevo.proposers import BuiltIn, Facts
from asmevo.proposers.compaction import Compaction
from asmevo.proposers.list_scheduler import ListScheduler
from asmevo.proposers.register_room import descriptor_with
from asmevo.search import Budget, Ledger, SearchOptions, island
from asmevo.search.bench import Bench
from asmevo.search.board import Board
from asmevo.search.island import Island
from asmevo.search.offering import make_offers
from asmevo.timing import estimate

MATMUL = "gfx908/matmul_f16.hsaco"  # 6 waves a SIMD, 7 with fewer registers


@pytest.fixture(scope="module")
def program() -> Program:
    return read_program(all_files()[MATMUL], MATMUL)


@pytest.fixture(scope="module")
def kernel(program: Program) -> Kernel:
    return program.select()[0]


@pytest.fixture(scope="module")
def step(kernel: Kernel) -> EditScript:
    (script,) = Compaction().propose(Facts(kernel))
    return script


def _cycles(kernel: Kernel, waves: int) -> float:
    return estimate(kernel, waves=waves).cycles / waves


def test_what_waves_bring_is_told_from_what_code_brings(kernel: Kernel, step: EditScript) -> None:
    version = apply_script(kernel, step)
    prediction = TimingGate(kernel).predict(version)
    filled = prediction.filled
    assert filled is not None
    assert [each.waves for each in (*prediction.parent, *prediction.estimates)] == [1, 4, 1, 4]
    assert filled.waves == (occupancy(kernel).waves, occupancy(version).waves) == (6, 7)
    assert filled.code == pytest.approx(_cycles(version, 6) / _cycles(kernel, 6))
    assert filled.whole == pytest.approx(_cycles(version, 7) / _cycles(kernel, 6))
    lone, few = (_cycles(version, waves) / _cycles(kernel, waves) for waves in (1, 4))
    more = _cycles(version, 7) / _cycles(version, 6)
    assert prediction.gain == pytest.approx(1 - math.sqrt(lone * few * more))


def test_the_same_code_with_more_registers_loses_what_the_waves_brought(kernel: Kernel) -> None:
    """Asking for twice as many VGPRs halves the waves and changes no cycle of a lone one."""
    assert kernel.descriptor is not None
    fewer = replace(kernel, descriptor=descriptor_with(kernel, 84))
    prediction = TimingGate(kernel).predict(fewer)
    assert prediction.filled is not None
    assert prediction.filled.waves == (6, 3)
    assert prediction.ratios == (1.0, 1.0)
    assert prediction.filled.code == 1.0
    assert prediction.filled.whole == pytest.approx(_cycles(kernel, 3) / _cycles(kernel, 6))
    assert prediction.loses
    assert prediction.cost > 1.0
    assert "fewer waves a cycle" in TimingGate(kernel).verdict(prediction).reason


def test_a_step_counts_half_and_its_loss_is_a_loss() -> None:
    gains = Prediction((), (0.9, 0.8), (), FilledSimd((6, 7), 0.9, 0.81))
    assert gains.gain == pytest.approx(1 - math.sqrt(0.9 * 0.8 * 0.9))
    assert gains.cost == pytest.approx(1 - gains.gain)
    assert str(gains.filled) == (
        "7 waves a SIMD instead of 6: 23.5 % more waves a cycle (11.1 % more by the number of waves alone)"
    )
    assert Prediction((), (0.9, 0.8)).gain == pytest.approx(1 - math.sqrt(0.9 * 0.8))
    # What two behaviours gain does not outweigh a SIMD that ends fewer waves.
    loses = Prediction((), (0.7, 0.7), (), FilledSimd((7, 6), 0.9, 1.02))
    assert loses.loses
    assert loses.cost == pytest.approx(1.02)


def test_the_last_place_is_for_a_version_with_more_waves(
    program: Program, kernel: Kernel, step: EditScript, tmp_path: Path
) -> None:
    """Better ones without a step come first, whatever their number; a single offer is the best."""
    orders = list(islice(ListScheduler().propose(Facts(kernel)), 12))
    waves = {}
    for places in (1, 2):
        with Ledger(tmp_path / str(places)).open_run({}, b"") as run:
            board = Board(run)
            bench = Bench(kernel, SearchOptions(offers=places), board.note)
            kept = [bench.judge(script, kernel, "test") for script in (*orders, step)]
            assert bench.roomier is kept[-1] is not bench.best
            offers = make_offers(bench, board, program)
        waves[places] = [offer.after.occupancy for offer in offers]
        last = offers[-1].occupancy_step
        if places == 2:
            assert last is not None
            assert last.waves == (6, 7)
            assert f"7 waves a SIMD instead of 6: {100 * last.throughput:.1f} % more" in offers[-1].why
        else:
            assert last is None
    assert waves == {1: [6], 2: [6, 7]}


class _Recording:
    """Knows the step alone; notes which versions it was asked about, by their waves."""

    name = "waits"

    def __init__(self, step: EditScript, asked: list[int]) -> None:
        self._step, self._asked = step, asked

    def propose(self, facts: Facts) -> Generator[EditScript, bool | None, None]:
        """See Proposer.propose."""
        self._asked.append(occupancy(facts.kernel).waves)
        if facts.kernel.hash == self._step.base:
            yield self._step


@pytest.mark.parametrize("is_whole", [False, True])
def test_everybody_is_asked_about_the_version_with_more_waves(
    kernel: Kernel, step: EditScript, is_whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though another is better; and those that change the whole kernel about the original, too."""
    asked: list[int] = []

    def named(names: Sequence[str]) -> tuple[BuiltIn, ...]:
        return (BuiltIn("waits", "", lambda policy: _Recording(step, asked), is_whole=is_whole),)

    monkeypatch.setattr(island, "built_in_named", named)
    bench = Bench(kernel, SearchOptions(built_in=("waits",)))
    for script in islice(ListScheduler().propose(Facts(kernel)), 12):
        bench.judge(script, kernel, "test")
    assert bench.best is not bench.original
    if not is_whole:
        bench.judge(step, kernel, "test")
    assert Island(bench).run(Budget(candidates=60)) is False
    assert bench.roomier is not None
    assert asked == ([6, 6, 7] if is_whole else [6, 7])


def test_a_step_is_judged_whole_though_a_lone_wave_lags_behind_the_best(kernel: Kernel, step: EditScript) -> None:
    """A lone wave's lag stands for all only where no more waves fit."""
    bench = Bench(kernel, SearchOptions())
    for script in islice(ListScheduler().propose(Facts(kernel)), 12):
        bench.judge(script, kernel, "test")
    version = apply_script(kernel, step)
    whole = bench.timing.predict(version)
    assert whole.ratios[0] > bench.best.cost + 0.01
    assert bench.cost(version) == pytest.approx(whole.cost)
    narrow = script_between(kernel, version.blocks, "", kernel.descriptor)
    assert bench.cost(apply_script(kernel, narrow)) != pytest.approx(whole.cost)
