"""The options of a search on the command line: what they mean, and one sentence for what means nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from compiled_programs import all_files
from typer.testing import CliRunner, Result

from asmevo.doors.cli import app
from asmevo.proposers import BUILT_IN
from asmevo.search import read_patch

NAME = "gfx942/saxpy.hsaco"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "saxpy.hsaco"
    path.write_bytes(all_files()[NAME])
    return path


def _optimize(file: Path, *more: str) -> Result:
    words = ["optimize", str(file), "-o", str(file.with_suffix(".patch")), "--ledger", str(file.parent / "runs")]
    return CliRunner().invoke(app, [*words, *more])


def test_named_proposers_share_a_budget_of_candidates(file: Path) -> None:
    more = ("--budget", "12", "--proposers", "genetic,list-scheduler", "--seed", "4", "--json")
    first = _optimize(file, *more)
    assert first.exit_code in (0, 1)
    said = json.loads(first.stdout)
    assert set(said["proposers"]) <= {"genetic", "list-scheduler"}
    assert said["tried"] == sum(each["tried"] for each in said["proposers"].values()) == 12
    again = json.loads(_optimize(file, *more).stdout)
    assert again["candidates"] == said["candidates"]
    assert (said["why_nothing"] is None) is bool(said["candidates"])


def test_the_policy_stands_in_the_patch_and_beside_the_result(file: Path) -> None:
    result = _optimize(file, "--budget", "8", "--proposers", "list-scheduler", "--fp", "contract")
    assert "floating point: contract" in result.stdout
    patch = read_patch(file.with_suffix(".patch"))
    assert patch.floating_point == "contract"
    for candidate in patch.candidates:
        assert "policy `contract`" in candidate.relies_on
        proof = next(verdict for verdict in candidate.verdicts if verdict["gate"] == "equivalence")
        assert proof["evidence"]["floating_point"] == "contract"


def test_nothing_better_is_a_normal_answer_with_what_was_tried(file: Path) -> None:
    result = _optimize(file, "--budget", "5", "--proposers", "waits")
    assert result.exit_code == 1
    said = " ".join(result.stdout.split())
    assert "Nothing better was found: " in said
    assert "no proposer had an idea" in said or "tried (accepted): waits" in said


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--budget", "soon"), "seconds as `30s`"),
        (("--proposers", "waits,magic"), "there is no proposer magic; there are: waits"),
        (("--fp", "loose"), "loose is none of exact"),
        (("--executor", "cloud", "--workers", "2", "--budget", "5"), "is one of processes, ray, not cloud"),
        (("--workers", "0"), "--workers"),
    ],
)
def test_what_means_nothing_is_one_sentence(file: Path, more: tuple[str, ...], words: str) -> None:
    result = _optimize(file, *more)
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr


def test_doctor_lists_the_proposers() -> None:
    parts = json.loads(CliRunner().invoke(app, ["doctor", "--json"]).stdout)
    (listed,) = [part for part in parts if part["name"] == "proposers"]
    assert listed["detail"].split(", ") == list(BUILT_IN)
