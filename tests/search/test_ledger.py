"""The ledger against changes, deaths and crowds."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner
from written_kernels import COMPILED

from asmevo.doors.cli import app
from asmevo.program import open_program, read_program
from asmevo.search import Budget, Ledger, LedgerError, SearchOptions, apply_patch, optimize
from asmevo.search.history import check, describe, export, restore, run_lines
from asmevo.search.options import OptimizationRun

FILE = COMPILED / "gfx942" / "matmul_f16.hsaco"
WRITER = Path(__file__).parent / "ledger_writer.py"


def _options(candidates: int) -> SearchOptions:
    return SearchOptions(budget=Budget(candidates=candidates), built_in=("waits", "list-scheduler"))


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ledger, OptimizationRun]:
    ledger = Ledger(tmp_path_factory.mktemp("ledger"))
    program = open_program(FILE)
    return ledger, optimize(program, program.select()[0], _options(24), ledger)


def _copy(ledger: Ledger, to: Path) -> Ledger:
    """A copy of a ledger that nobody writes, as a changer would find it."""
    ledger.records.close()
    subprocess.run(["cp", "-r", str(ledger.root), str(to)], check=True)
    return Ledger(to)


def test_a_whole_ledger_is_whole(searched: tuple[Ledger, OptimizationRun]) -> None:
    ledger, run = searched
    found = check(ledger)
    assert found.broken is None
    assert found.records >= run.tried + 2 + len(run.patch.candidates)
    assert check(ledger, found.head).broken is None
    assert "written anew" in str(check(ledger, "1" * 64).broken)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("UPDATE records SET body = replace(body, 'accepted', 'rejected') WHERE number = 3", "record 3 (candidate"),
        ("UPDATE records SET hash = (SELECT hash FROM records WHERE number = 4) WHERE number = 2", "record 2 ("),
        ("DELETE FROM records WHERE number = 4", "record 4 is missing"),
        ("DELETE FROM records WHERE number = (SELECT max(number) FROM records)", "is missing: the head"),
        ("UPDATE records SET name = 'other' WHERE number = 1", "record 1 (run other)"),
        ("UPDATE head SET hash = 'x'", "is missing: the head"),
    ],
)
def test_the_first_changed_record_is_named(
    searched: tuple[Ledger, OptimizationRun], tmp_path: Path, change: str, words: str
) -> None:
    ledger = _copy(searched[0], tmp_path / "copy")
    with sqlite3.connect(ledger.records.path) as connection:
        assert connection.execute(change).rowcount == 1
    connection.close()
    assert words in str(check(ledger).broken)
    answer = CliRunner().invoke(app, ["verify", "--ledger", str(ledger.root)])
    assert answer.exit_code == 1
    assert words in answer.stderr


@pytest.mark.parametrize("how", ["changed", "gone", "cut"])
def test_a_changed_artifact_is_named(searched: tuple[Ledger, OptimizationRun], tmp_path: Path, how: str) -> None:
    ledger = _copy(searched[0], tmp_path / "copy")
    base = describe(ledger, searched[1].id)["body"]["artifacts"]["base"]
    path = ledger.artifacts.path(base)
    data = path.read_bytes()
    path.unlink()
    if how != "gone":
        path.write_bytes(data[:-1] + (bytes([data[-1] ^ 1]) if how == "changed" else b""))
    broken = str(check(ledger).broken)
    assert broken.startswith("record 1 (run")
    assert base in broken
    with pytest.raises(LedgerError):
        restore(ledger, searched[1].id)


def test_rollback_restores_byte_for_byte(searched: tuple[Ledger, OptimizationRun], tmp_path: Path) -> None:
    ledger, run = searched
    assert restore(ledger, run.id) == FILE.read_bytes()
    assert run.patch.candidates
    for offer in run.patch.candidates:
        name = f"{run.id}/offer-{offer.rank}"
        assert restore(ledger, name) == apply_patch(run.patch, FILE, offer.rank).data
        candidate = describe(ledger, name)["body"]["candidate"]
        assert restore(ledger, candidate) == restore(ledger, name)
    out = tmp_path / "out.hsaco"
    arguments = ["rollback", run.id, "-o", str(out), "--ledger", str(ledger.root), "--json"]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert out.read_bytes() == FILE.read_bytes()


def test_lineage_goes_back_to_the_original_through_runs(
    searched: tuple[Ledger, OptimizationRun], tmp_path: Path
) -> None:
    ledger, first = _copy(searched[0], tmp_path / "copy"), searched[1]
    made = read_program(restore(ledger, f"{first.id}/offer-1"), "second.hsaco")
    second = optimize(made, made.select()[0], _options(2), ledger)
    lineage = describe(ledger, second.id)["lineage"]
    assert lineage[0] == first.id
    assert lineage[-2:] == [f"{first.id}/offer-1", second.id]
    assert all("/" in each for each in lineage[1:-1])


def test_what_was_refused_cannot_be_restored(tmp_path: Path) -> None:
    with _Writers(tmp_path) as writers:
        writers.begin("a")
        writers.kill()
    with pytest.raises(LedgerError, match="never was verified: gate waits rejected: because"):
        restore(Ledger(tmp_path), f"{writers.runs['a']}/1")


class _Writers:
    """Processes that record until they are killed; `runs` and what they said to have `kept`, by label."""

    def __init__(self, root: Path) -> None:
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent / "support")}
        command = [sys.executable, str(WRITER), str(root)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)
        self._alive: dict[str, int] = {}
        self.runs: dict[str, str] = {}
        self.kept: dict[str, list[int]] = {}

    def __enter__(self) -> _Writers:
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()
        self._process.communicate()

    def begin(self, *labels: str) -> None:
        """Starts one for each label; each has kept something when this returns."""
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(labels) + "\n")
        self._process.stdin.flush()
        while not all(self.kept.get(label) for label in labels):
            self._hear()

    def kill(self) -> None:
        """Kills all that are alive."""
        for process in self._alive.values():
            os.kill(process, signal.SIGKILL)
        while self._alive:
            self._hear()

    def _hear(self) -> None:
        assert self._process.stdout is not None
        label, what, *more = self._process.stdout.readline().split()
        if what == "run":
            self.runs[label], self._alive[label] = more[0], int(more[1])
        elif what == "kept":
            self.kept.setdefault(label, []).append(int(more[0]))
        else:
            del self._alive[label]


def test_killed_at_any_point_and_two_at_once_nothing_verified_is_lost(tmp_path: Path) -> None:
    rng = random.Random(7)
    with _Writers(tmp_path) as writers:
        for turn in range(4):
            writers.begin(f"{turn}a", f"{turn}b")
            time.sleep(rng.uniform(0.0, 0.15))
            assert check(Ledger(tmp_path)).broken is None  # while both write
            writers.kill()
    promised = {run: writers.kept[label] for label, run in writers.runs.items()}
    assert len(promised) == 8
    ledger = Ledger(tmp_path)
    assert check(ledger).broken is None
    assert sum(map(len, promised.values())) > 50
    for run, numbers in promised.items():
        found = ledger.candidates(run)
        assert len(found) >= max(numbers, default=0)
        assert all(found[number - 1]["accepted"] for number in numbers)
        label = describe(ledger, run)["body"]["file"]
        assert all(body["origin"] == f"{label} {number}" for number, body in enumerate(found, 1))
        assert restore(ledger, run) == label.encode() * 1000
    assert {line.state for line in run_lines(ledger)} == {"cut off"}


def _processes_of(root: Path) -> list[int]:
    """Processes that have `root` in their command line or environment."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            said = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
        except OSError:
            continue
        if entry.name.isdigit() and str(root).encode() in said:
            found.append(int(entry.name))
    return found


def test_a_search_killed_in_the_middle_leaves_what_it_had_found(tmp_path: Path) -> None:
    """The command itself with two workers, killed once something was accepted; its workers end, too."""
    root = tmp_path / "runs"
    words = [str(FILE), "-o", str(tmp_path / "p"), "--ledger", str(root), "--budget", "640", "--workers", "2"]
    words += ["--proposers", "waits,list-scheduler,genetic"]
    environment = os.environ | {"ASMEVO_TEST": str(root)}
    with subprocess.Popen([sys.executable, "-m", "asmevo", "optimize", *words], env=environment) as process:
        ledger, deadline, accepted = Ledger(root), time.monotonic() + 300, list[dict[str, object]]()
        while not accepted and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
            runs = ledger.runs()
            accepted = [body for body in ledger.candidates(runs[0]) if body["accepted"]] if runs else []
            ledger.records.close()
        process.kill()
    assert accepted
    assert check(ledger).broken is None
    (line,) = run_lines(ledger)
    assert line.state == "cut off"
    numbers = [n for n, body in enumerate(ledger.candidates(line.id), 1) if body["accepted"]]
    assert read_program(restore(ledger, f"{line.id}/{numbers[0]}"), "restored.hsaco").kernel(line.kernel)
    deadline = time.monotonic() + 10
    while _processes_of(root) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert _processes_of(root) == []


def test_an_export_can_be_checked_by_anybody(searched: tuple[Ledger, OptimizationRun]) -> None:
    document = export(searched[0])
    before = "0" * 64
    for number, record in enumerate(document["records"], 1):
        parts = [before, number, record["kind"], record["run"], record["id"], record["text"]]
        before = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
        assert (record["number"], record["hash"]) == (number, before)
        assert json.loads(record["text"]) == record["body"]
    assert document["head"] == {"number": len(document["records"]), "hash": before}


def test_the_commands(searched: tuple[Ledger, OptimizationRun], tmp_path: Path) -> None:
    ledger, run = searched
    root = ["--ledger", str(ledger.root)]
    runner = CliRunner()
    (line,) = json.loads(runner.invoke(app, ["log", *root, "--json"]).stdout)
    assert (line["id"], line["candidates"], line["state"]) == (run.id, run.tried, "ended")
    assert run.id in runner.invoke(app, ["log", *root]).stdout
    exported = tmp_path / "all.json"
    runner.invoke(app, ["log", *root, "--export", str(exported)])
    document = json.loads(exported.read_text())
    assert len(document["records"]) == document["head"]["number"]
    shown = json.loads(runner.invoke(app, ["show", f"{run.id}/1", *root, "--json"]).stdout)
    assert shown["lineage"][0] == run.id
    assert "gate assemble: accepted" in runner.invoke(app, ["show", f"{run.id}/1", *root]).stdout
    assert json.loads(runner.invoke(app, ["verify", *root, "--json"]).stdout)["whole"]


@pytest.mark.parametrize("command", [["log"], ["show", "x"], ["rollback", "x", "-o", "out"], ["verify"]])
def test_no_ledger_or_no_database_is_one_sentence(command: list[str], tmp_path: Path) -> None:
    absent = CliRunner().invoke(app, [*command, "--ledger", str(tmp_path)])
    assert (absent.exit_code, absent.stderr.count("\n")) == (2, 1)
    assert "there is no ledger" in absent.stderr
    (tmp_path / "ledger.sqlite").write_bytes(b"no database at all" * 100)
    strange = CliRunner().invoke(app, [*command, "--ledger", str(tmp_path)])
    assert (strange.exit_code, strange.stderr.count("\n")) == (2, 1)
    assert "ledger.sqlite" in strange.stderr
