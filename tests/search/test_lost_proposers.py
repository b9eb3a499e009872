"""A built-in proposer that crashes, or takes its process with it, costs its time slice: it is named, others go on."""

from __future__ import annotations

import importlib
import os
import re
import signal
import time
from collections.abc import Generator
from pathlib import Path
from threading import Thread

import pytest
from compiled_programs import all_files
from hostile_built_ins import CRASHES, DEATHS, NAME, hostile, put_in_place
from msgspec.structs import replace

from asmevo.gates.gate import Gate, Verdict
from asmevo.program import read_program
from asmevo.program.candidate import Candidate
from asmevo.program.edit import EditScript, script_between
from asmevo.program.program import Program
from asmevo.proposers import BuiltIn, Facts, built_in_named
from asmevo.report.tables import print_patch
from asmevo.search import Budget, Ledger, OptimizationRun, SearchOptions, island, optimize
from asmevo.search.executors import Epoch, EpochAnswer, Processes, settlements

PROGRAM = "gfx942/saxpy.hsaco"
OPTIONS = SearchOptions(budget=Budget(candidates=24), built_in=(NAME, "list-scheduler", "genetic"), offers=1)


@pytest.fixture(scope="module")
def program() -> Program:
    return read_program(all_files()[PROGRAM], PROGRAM)


def _run(program: Program, root: Path, options: SearchOptions = OPTIONS) -> OptimizationRun:
    return optimize(program, program.select()[0], options, Ledger(root))


@pytest.mark.parametrize("kind", CRASHES)
def test_in_one_process(
    program: Program,
    kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    put_in_place(kind, monkeypatch.setattr)
    run = _run(program, tmp_path)
    (failure,) = run.failures
    assert failure.startswith(f"proposer {NAME} ")
    assert re.search(CRASHES[kind][1], failure)
    assert run.to_dict()["failures"] == [failure]
    print_patch(run.patch, run)
    assert f"given up: proposer {NAME} " in capsys.readouterr().out
    assert run.tried >= OPTIONS.budget.candidates
    assert run.patch.candidates


class _Echo:
    """Says the same two things for ever."""

    name = NAME

    def propose(self, facts: Facts) -> Generator[EditScript, bool | None, None]:
        while True:
            yield script_between(facts.kernel, facts.kernel.blocks, "the same again")


def test_one_that_repeats_itself_for_ever_ends_with_the_others(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Candidates are counted here, and a known version is no candidate: no clock would end it."""
    echo = BuiltIn(NAME, "repeats itself", lambda policy: _Echo())
    monkeypatch.setattr(island, "built_in_named", lambda names: (echo, *built_in_named(["list-scheduler"])))
    options = replace(OPTIONS, budget=Budget(candidates=100_000), built_in=(NAME, "list-scheduler"))
    run = _run(program, tmp_path, options)
    assert 0 < run.tried < options.budget.candidates


@pytest.mark.parametrize("kind", ["a key error", *DEATHS])
def test_in_worker_processes(program: Program, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    searching = importlib.import_module("asmevo.search.optimize")
    wanted = [hostile(each, kind) for each in settlements(program, program.select()[0], replace(OPTIONS, workers=2))]
    monkeypatch.setattr(searching, "settlements", lambda *asked: wanted)
    run = _run(program, tmp_path, replace(OPTIONS, workers=2))
    (failure,) = run.failures
    assert failure.startswith(f"proposer {NAME} ")
    assert ("was given up: island 0 was lost in its turn" in failure) is (kind in DEATHS)
    assert set(run.tallies) >= {"list-scheduler", "genetic"}
    assert run.tried >= OPTIONS.budget.candidates
    assert run.patch.candidates


def test_a_worker_that_is_killed_from_outside_is_settled_anew(program: Program) -> None:
    (wanted,) = settlements(program, program.select()[0], replace(OPTIONS, built_in=("genetic", "local-search")))
    workers = Processes([wanted])
    try:
        (first,) = workers.epoch([Epoch(Budget(candidates=4), ())])
        assert isinstance(first, EpochAnswer)
        found = tuple((each.script, each.cost) for each in first.tried if each.cost is not None)
        worker = workers._workers[0]
        (process,) = worker._pool._processes.values()
        Thread(target=_kill_in_a_turn, args=(worker._at_work, process.pid)).start()
        (answer,) = workers.epoch([Epoch(Budget(seconds=60), found)])
        assert isinstance(answer, EpochAnswer)
        ((culprit, words),) = answer.failures
        assert culprit in ("genetic", "local-search")
        assert "island 0 was lost in its turn" in words
        (again,) = workers.epoch([Epoch(Budget(candidates=4), ())])
        assert isinstance(again, EpochAnswer)
        assert again.tried
        assert all(each.proposer != culprit for each in again.tried)
        known = {script for script, _ in found}
        assert not any(each.script in known for each in again.tried)
    finally:
        workers.close()


def _kill_in_a_turn(at_work: object, pid: int) -> None:
    while not at_work.value:
        time.sleep(0.001)
    os.kill(pid, signal.SIGKILL)


class _Crashing:
    """One of the user's proposers, in this process, as templates are."""

    name = "own"

    def propose(self, facts: Facts) -> object:
        """See Proposer.propose; this one is not even a generator."""
        raise LookupError("no such rule")


def test_a_proposer_of_the_user(program: Program, tmp_path: Path) -> None:
    run = _run(program, tmp_path, replace(OPTIONS, proposers=(_Crashing(),)))
    (failure,) = run.failures
    assert failure.startswith("proposer own broke off with LookupError: no such rule (test_lost_proposers.py, line ")
    assert run.patch.candidates


def test_a_gate_that_breaks_off_accepts_nothing(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def judge(gate: Gate, candidate: Candidate) -> Verdict:
        raise ZeroDivisionError("no waves")

    monkeypatch.setattr("asmevo.gates.resources.ResourcesGate.judge", judge)
    run = _run(program, tmp_path)
    assert not run.accepted
    assert not run.patch.candidates
    assert "judging refused" in run.why_nothing
    (last,) = {body["verdicts"][-1]["reason"] for body in Ledger(tmp_path).candidates(run.id) if body["kernel_hash"]}
    assert last.startswith("broke off with ZeroDivisionError: no waves (test_lost_proposers.py, line ")
