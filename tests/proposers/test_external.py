"""Proposers outside of the process: the honest one is heard; each hostile kind costs its time slice only."""

from __future__ import annotations

import os
import re
import shlex
import sys
import time
from pathlib import Path

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner
from written_kernels import COMPILED, written

from asmevo.doors.cli import app
from asmevo.program import open_program
from asmevo.program.edit import EditScript
from asmevo.proposers import Facts, Limits, ProposerError, command_proposer, entry_point_proposer
from asmevo.search import Budget, Ledger, SearchOptions, optimize
from asmevo.search.history import check
from asmevo.search.options import OptimizationRun

PROGRAM = Path(__file__).parent / "hostile_program.py"
FILE = COMPILED / "gfx1201" / "function_calls.hsaco"
WAITING = COMPILED / "gfx942" / "matmul_f16.hsaco"
LIMITS = Limits(seconds=1.5, message_bytes=1 << 20, scripts=50, memory_bytes=1 << 30)


def _line(kind: str, *more: str) -> str:
    return shlex.join([sys.executable, str(PROGRAM), kind, *more])


def _run(kind: str, root: Path, budget: float = 2.5) -> tuple[OptimizationRun, Ledger]:
    program, ledger = open_program(WAITING), Ledger(root)
    own = (command_proposer(_line(kind), LIMITS),)
    options = SearchOptions(budget=Budget(seconds=budget), proposers=own)
    return optimize(program, program.select()[0], options, ledger), ledger


def _failures(ledger: Ledger) -> list[str]:
    return [each.data()["reason"] for each in ledger.records.read("WHERE kind = 'proposer'")]


def _own(ledger: Ledger, run: OptimizationRun) -> list[dict[str, object]]:
    return [body for body in ledger.candidates(run.id) if str(body["origin"]).startswith(sys.executable)]


def test_the_honest_one_is_judged_and_told(tmp_path: Path) -> None:
    run, ledger = _run("honest", tmp_path)
    assert _failures(ledger) == []
    first, second = _own(ledger, run)
    assert str(first["origin"]).endswith(": a no-op before the first wait")
    assert (first["accepted"], second["accepted"]) == (True, False)


def test_the_ledger_tells_the_truth_about_an_edit_that_lies(tmp_path: Path) -> None:
    run, ledger = _run("lies", tmp_path)
    assert _failures(ledger) == []
    (body,) = _own(ledger, run)
    assert body["accepted"] is False
    assert [edit["text"] for edit in body["script"]["edits"]] == ["s_nop 0"]  # type: ignore[index]


@pytest.mark.parametrize("kind", ["unfit", "everything deleted"])
def test_scripts_that_do_not_fit_are_refused_one_by_one(kind: str, tmp_path: Path) -> None:
    run, ledger = _run(kind, tmp_path)
    assert _failures(ledger) == []
    refused = _own(ledger, run)
    assert len(refused) == (8 if kind == "unfit" else 1)
    assert not any(body["accepted"] for body in refused)


HOSTILE = {
    "crash before reading": "exit code 1.*no idea at all",
    "crash": "exit code 1.*RuntimeError: my own fault",
    "signal": "signal 6",
    "closes": "closed its output",
    "no JSON": "not of schema",
    "verdict": "not of schema",
    "schema": "not of schema.*verdicts",
    "deep": "not of schema",
    "another kernel": "another kernel .victim",
    "another base": "another kernel .*base 000000000000",
    "huge": "line of more than 1048576 bytes",
    "many edits": "script of 8000 edits, at most 70 are taken",
    "endless scripts": "more than 50 scripts|bytes",
    "loops": "did not answer within its 1.5 seconds",
    "memory": "exit code 1.*MemoryError",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_one_costs_its_time_slice_only(kind: str) -> None:
    kernel = written("s_nop 0\ns_waitcnt vmcnt(0)\ns_endpgm")
    # Filling memory up to its limit takes time on a busy machine; it must not be the clock that ends it.
    limits = replace(LIMITS, seconds=20.0) if kind == "memory" else LIMITS
    proposer = command_proposer(_line(kind), limits)
    started = time.monotonic()
    scripts = proposer.propose(Facts(kernel))
    heard: list[EditScript] = []
    with pytest.raises(ProposerError, match=HOSTILE[kind]) as caught:
        heard.extend(scripts)
    assert time.monotonic() - started < limits.seconds + 1.5
    assert "\n" not in str(caught.value)
    assert len(heard) in ((0,) if kind != "endless scripts" else (50,))


def test_a_search_goes_on_after_a_hostile_one_and_records_it(tmp_path: Path) -> None:
    run, ledger = _run("crash", tmp_path, budget=6.0)
    assert run.accepted > 0
    (reason,) = _failures(ledger)
    assert "my own fault" in reason
    assert check(ledger).broken is None


def test_a_flood_of_good_scripts_leaves_the_others_their_half(tmp_path: Path) -> None:
    program = open_program(WAITING)
    own = (command_proposer(_line("flood"), replace(LIMITS, seconds=60.0, scripts=10**6)),)
    options = SearchOptions(budget=Budget(candidates=40), proposers=own, built_in=("waits", "list-scheduler"))
    run = optimize(program, program.select()[0], options, Ledger(tmp_path))
    assert run.tallies[own[0].name].tried == 20
    assert sum(tally.tried for name, tally in run.tallies.items() if name != own[0].name) >= 10


def test_what_it_started_ends_with_it(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    proposer = command_proposer(_line("child", str(note)), LIMITS)
    with pytest.raises(ProposerError, match="did not answer"):
        next(proposer.propose(Facts(written("s_endpgm"))))
    status = Path(f"/proc/{int(note.read_text())}/stat")
    deadline = time.monotonic() + 2
    while status.exists() and not re.search(r"\) [ZX] ", status.read_text()) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not status.exists() or re.search(r"\) [ZX] ", status.read_text())


def test_an_entry_point_runs_in_its_own_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(
        "import os\n"
        "def propose(task):\n"
        "    print('chatter that must not disturb')\n"
        "    first = task['kernel']['blocks'][0]['instructions'][0]['id']\n"
        "    edit = {'kind': 'delete', 'id': first, 'text': ''}\n"
        "    verdict = yield {'edits': [edit], 'origin': str(os.getpid())}\n"
        "    assert verdict['type'] == 'verdict'\n"
    )
    information = tmp_path / "mine-1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1\n")
    (information / "entry_points.txt").write_text("[asmevo.proposers]\nown = mine:propose\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    kernel = written("s_nop 0\ns_endpgm")
    scripts = entry_point_proposer("own", Limits(seconds=20)).propose(Facts(kernel))
    script = next(scripts)
    assert script.origin.startswith("own: ")
    assert int(script.origin[5:]) != os.getpid()
    assert script.edits[0].kind == "delete"
    with pytest.raises(StopIteration):
        scripts.send(False)
    with pytest.raises(ProposerError, match=r"no entry point other.*there are:.* own"):
        entry_point_proposer("other")


def test_a_wrong_command_is_one_sentence(tmp_path: Path) -> None:
    out = ["-o", str(tmp_path / "p"), "--ledger", str(tmp_path / "l"), "--budget", "1s"]
    for line in ("", "'unclosed"):
        answer = CliRunner().invoke(app, ["optimize", str(FILE), *out, "--proposer-command", line])
        assert (answer.exit_code, answer.stderr.count("\n")) == (2, 1)
    with pytest.raises(ProposerError, match="cannot be started: No such file"):
        next(command_proposer("/no/such/program").propose(Facts(written("s_endpgm"))))
