"""Islands in other processes: the same answers every time, and a lost island costs itself only."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path

import pytest
from compiled_programs import all_files
from msgspec.structs import replace

from asmevo.program import read_program
from asmevo.program.program import Program
from asmevo.search import Budget, ExecutorError, Ledger, SearchOptions, optimize
from asmevo.search.executors import Epoch, EpochAnswer, Settler, make_executor, settlements

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
    program = _program()
    wanted = settlements(program, program.select()[0], SearchOptions(workers=2, built_in=QUICK))
    islands = [Settler(each) for each in wanted]
    tried = [each for island in islands for each in island.epoch(EPOCH).tried]
    accepted = tuple((each.script, each.cost) for each in tried if each.cost is not None)
    assert accepted
    known = {script for script, _ in accepted}
    for island in islands:
        again = island.epoch(Epoch(Budget(candidates=20), accepted))
        assert again.tried
        assert not any(each.script in known for each in again.tried)


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

    program = _program()
    first, second = settlements(program, program.select()[0], SearchOptions(workers=2, built_in=QUICK))
    executor = RayActors([replace(first, data=b"no program"), second])
    try:
        lost, answer = executor.epoch([EPOCH, EPOCH])
        assert isinstance(lost, str)
        assert isinstance(answer, EpochAnswer)
    finally:
        executor.close()
    assert _found(tmp_path / "a", workers=2, executor="ray") == _found(tmp_path / "b", workers=2)
