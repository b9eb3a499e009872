"""Islands in other processes: the same answers every time, and a lost island costs itself only."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from compiled_programs import all_files

from asmevo.program import read_program
from asmevo.program.program import Program
from asmevo.search import Budget, ExecutorError, Ledger, SearchOptions, optimize
from asmevo.search.executors import Epoch, EpochAnswer, Executor, Processes, make_executor, settlements

NAME = "gfx942/saxpy.hsaco"
QUICK = ("waits", "list-scheduler", "genetic")
EPOCH = Epoch(Budget(candidates=6), ())

ray_only = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="ray is not installed: pip install 'asm-evo-skill[ray]'"
)


def _program() -> Program:
    return read_program(all_files()[NAME], NAME)


def _found(root: Path, **more: object) -> list[tuple[str, str]]:
    """(kernel, origin) of each candidate that a search counted in candidates recorded."""
    program, ledger = _program(), Ledger(root)
    options = replace(SearchOptions(budget=Budget(candidates=32), seed=3, built_in=QUICK), **more)  # type: ignore[arg-type]
    run = optimize(program, program.select()[0], options, ledger)
    found = [(body["kernel_hash"], body["origin"]) for body in ledger.candidates(run.id)]
    assert len(found) == run.tried
    return found


def _settled(make: Callable[..., Executor] = Processes, *, broken: int | None = None) -> Executor:
    program = _program()
    wanted = settlements(program, program.select()[0], SearchOptions(workers=2, built_in=QUICK))
    wanted = [replace(each, data=b"no program") if each.number == broken else each for each in wanted]
    return make(wanted)


def test_one_worker_repeats_itself(tmp_path: Path) -> None:
    first = _found(tmp_path / "a")
    assert len(first) == 32
    assert first == _found(tmp_path / "b")
    assert first != _found(tmp_path / "c", seed=4)


def test_two_workers_repeat_themselves_and_share_the_work(tmp_path: Path) -> None:
    first = _found(tmp_path / "a", workers=2)
    assert first == _found(tmp_path / "b", workers=2)
    assert len(first) >= 32
    assert {origin.split(":")[0] for _, origin in first} >= {"list-scheduler", "genetic"}


def test_an_island_hears_of_what_others_found() -> None:
    executor = _settled()
    try:
        answers = executor.epoch([EPOCH, EPOCH])
        accepted = [
            (tried.script, tried.cost)
            for answer in answers
            if isinstance(answer, EpochAnswer)
            for tried in answer.tried
            if tried.cost is not None
        ]
        assert accepted
        told = Epoch(Budget(candidates=30), tuple(accepted))
        again = executor.epoch([told, told])
        known = {script for script, _ in accepted}
        assert all(isinstance(answer, EpochAnswer) for answer in again)
        assert not any(each.script in known for answer in again for each in answer.tried)  # type: ignore[union-attr]
    finally:
        executor.close()


def test_a_lost_island_costs_itself_only() -> None:
    executor = _settled(broken=0)
    try:
        for _ in range(2):
            lost, answer = executor.epoch([EPOCH, EPOCH])
            assert isinstance(lost, str)
            assert "\n" not in lost
            assert isinstance(answer, EpochAnswer)
    finally:
        executor.close()


def test_a_search_with_a_lost_island_ends_well_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    searching = importlib.import_module("asmevo.search.optimize")
    whole = searching.settlements

    def with_a_broken_one(*asked: object) -> object:
        first, *rest = whole(*asked)  # type: ignore[arg-type]
        return [replace(first, data=b"no program"), *rest]

    monkeypatch.setattr(searching, "settlements", with_a_broken_one)
    program, ledger = _program(), Ledger(tmp_path)
    options = SearchOptions(budget=Budget(candidates=16), built_in=QUICK, workers=2)
    run = optimize(program, program.select()[0], options, ledger)
    assert run.tried > 0
    assert "island 0 was lost" in run.why_nothing


def test_an_unknown_executor_is_one_sentence() -> None:
    with pytest.raises(ExecutorError, match="is one of processes, ray, not cloud"):
        make_executor("cloud", [])


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="ray is installed")
def test_without_ray_it_says_how_to_get_it() -> None:
    with pytest.raises(ExecutorError, match=r"pip install 'asm-evo-skill\[ray\]'"):
        make_executor("ray", [])


@ray_only
@pytest.mark.long
def test_ray_finds_what_processes_find(tmp_path: Path) -> None:
    from asmevo.search.ray_executor import RayActors

    executor = _settled(RayActors, broken=0)
    try:
        lost, answer = executor.epoch([EPOCH, EPOCH])
        assert isinstance(lost, str)
        assert isinstance(answer, EpochAnswer)
    finally:
        executor.close()
    assert _found(tmp_path / "a", workers=2, executor="ray") == _found(tmp_path / "b", workers=2)
