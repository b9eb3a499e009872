"""The commands with a GPU, without one, and without HIP."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import stand_in_hip
from typer.testing import CliRunner

from asmevo.doors.asm_evo_skill import app as evolve
from asmevo.doors.cli import app
from asmevo.program import Program

Behave = Callable[[Mapping[str, Program]], None]
LAUNCH = ("--launch", str(stand_in_hip.LAUNCH))
runner = CliRunner()


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """The original and the other version, as files."""
    for name, program in (("original.hsaco", stand_in_hip.original()), ("other.s", stand_in_hip.other())):
        (tmp_path / name).write_bytes(program.data)
    return str(tmp_path / "original.hsaco"), str(tmp_path / "other.s")


@pytest.fixture
def without_hip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ASMEVO_HIP", str(tmp_path / "none.so"))


def test_equal_versions_on_a_gpu(files: tuple[str, str]) -> None:
    done = runner.invoke(app, ["test", *files, *LAUNCH, "--device", "hip"])
    assert done.exit_code == 0, done.output
    assert "vector_add on GPU 0 (Stand-in 0): all 16384 bytes equal in 2 sets of data" in done.output
    assert "times not told apart: median" in done.output


def test_a_difference_and_an_undecided_comparison(files: tuple[str, str], behave: Behave) -> None:
    behave({"wrong": stand_in_hip.other()})
    done = runner.invoke(app, ["test", *files, *LAUNCH, "--device", "hip", "--json"])
    assert done.exit_code == 1
    report = json.loads(done.output)
    assert report["equal"] is False
    assert report["difference"].startswith("with the manifest's data: out_ptr[7] is")
    assert report["architecture"] == "gfx942:sramecc+:xnack-"
    behave({"unstable": stand_in_hip.original()})
    done = runner.invoke(app, ["test", *files, *LAUNCH, "--device", "hip"])
    assert done.exit_code == 3
    assert done.output.count("left out, for the original does not pass: the original is unstable") == 2


def test_one_version_on_a_gpu(files: tuple[str, str], behave: Behave) -> None:
    done = runner.invoke(app, ["run", files[0], *LAUNCH, "--device", "hip"])
    assert done.exit_code == 0, done.output
    assert "the results are as expected, the same in 3 launches" in done.output
    behave({"fault": stand_in_hip.original()})
    done = runner.invoke(app, ["run", files[0], *LAUNCH, "--device", "hip", "--json"])
    assert done.exit_code == 1
    assert "Memory access fault by GPU" in json.loads(done.output)["problems"][0]
    done = runner.invoke(app, ["run", files[0], *LAUNCH, "--device", "hip", "--async"])
    assert done.exit_code == 2


@pytest.mark.usefixtures("without_hip")
def test_without_hip_nothing_falls_back_to_the_emulator(files: tuple[str, str], tmp_path: Path) -> None:
    output = str(tmp_path / "out.s")
    for words in (
        ["test", *files, *LAUNCH, "--device", "hip"],
        ["run", files[0], *LAUNCH, "--device", "hip"],
        ["check", files[0], "--gpu", "auto"],
        ["disasm", files[0], "-o", output, "--gpu", "auto"],
        ["sched", files[1], "--gpu", "auto"],
        ["fuse", files[1], "--gpu", "auto"],
    ):
        done = runner.invoke(app, words)
        assert done.exit_code == 2, words
        assert done.stdout == ""
        assert done.stderr.count("\n") == 1
        assert "cannot be loaded" in done.stderr
        assert "ASMEVO_HIP=FILE" in done.stderr
    done = runner.invoke(evolve, ["--input", files[1], "--output", output, "--gpu", "auto"])
    assert done.exit_code == 2
    assert "cannot be loaded" in done.stderr


def test_auto_is_the_target_of_the_gpu(files: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    done = runner.invoke(app, ["inspect", files[0], "--gpu", "auto"])
    assert done.exit_code == 0, done.output
    monkeypatch.setenv("ASMEVO_STAND_IN_GPU", "gfx1100")
    done = runner.invoke(app, ["inspect", files[0], "--gpu", "auto"])
    assert done.exit_code == 2
    assert "the code object is for gfx942, but gfx1100 was asked for" in done.stderr


def test_another_target_is_refused_in_one_sentence(files: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASMEVO_STAND_IN_GPU", "gfx90a:sramecc+:xnack-")
    done = runner.invoke(app, ["test", *files, *LAUNCH, "--device", "hip"])
    assert done.exit_code == 2
    assert "original.hsaco: the code object is for gfx942, GPU 0 (Stand-in 0) is gfx90a" in done.stderr


def parts() -> dict[str, dict[str, object]]:
    return {part["name"]: part for part in json.loads(runner.invoke(app, ["doctor", "--json"]).stdout)}


def test_the_doctor_knows_hip_and_the_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = parts()
    assert found["HIP"]["detail"] == "runtime 6.4"
    assert found["AMD GPU"]["detail"] == "GPU 0 (Stand-in 0), gfx942:sramecc+:xnack-"
    monkeypatch.setenv("ASMEVO_STAND_IN_GPUS", "0")
    found = parts()
    assert (found["HIP"]["found"], found["AMD GPU"]["found"]) == (True, False)
    assert found["AMD GPU"]["detail"] == "HIP sees no AMD GPU"
    monkeypatch.setenv("ASMEVO_HIP", str(tmp_path / "none.so"))
    found = parts()
    assert (found["HIP"]["found"], found["AMD GPU"]["found"]) == (False, False)
    assert "none.so cannot be loaded" in str(found["HIP"]["detail"])


def optimized(files: tuple[str, str], tmp_path: Path, *more: str) -> tuple[int, str, dict[str, object]]:
    """Exit code, text and patch of a short search at level release."""
    output = tmp_path / "found.patch"
    words = ["optimize", files[0], "-o", str(output), "--level", "release", "--budget", "12", "--ledger"]
    done = runner.invoke(app, [*words, str(tmp_path / "runs"), "--proposers", "renamer,local-search", *more])
    patch = json.loads(output.read_text()) if output.exists() else {}
    return done.exit_code, done.output, patch


def test_level_release_asks_the_gpu_last(files: tuple[str, str], tmp_path: Path, calls: Path) -> None:
    code, text, patch = optimized(files, tmp_path, *LAUNCH)
    assert code == 0, text
    assert patch["level"] == "release"
    assert patch["not_run"] == {}
    verdicts = patch["candidates"][0]["verdicts"]  # type: ignore[index]
    assert [verdict["gate"] for verdict in verdicts][-3:] == ["emulation", "timing", "hardware"]
    assert verdicts[-1]["kind"] == "accepted"
    assert "all 16384 bytes equal" in verdicts[-1]["reason"]
    assert "times not told apart" in verdicts[-1]["reason"]
    assert " launch vector_add " in calls.read_text()


def test_level_release_without_a_gpu_says_what_was_not_run(
    files: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASMEVO_STAND_IN_GPUS", "0")
    code, text, patch = optimized(files, tmp_path, *LAUNCH)
    assert code == 0, text
    assert list(patch["not_run"]) == ["hardware"]  # type: ignore[call-overload]
    assert "HIP sees no AMD GPU" in patch["not_run"]["hardware"]  # type: ignore[index]
    gates = [verdict["gate"] for verdict in patch["candidates"][0]["verdicts"]]  # type: ignore[index]
    assert "hardware" not in gates
    assert "not run" in text


def test_level_release_needs_a_launch(files: tuple[str, str], tmp_path: Path) -> None:
    code, text, patch = optimized(files, tmp_path)
    assert code == 2
    assert "level release runs every offer: give it a launch manifest" in text
    assert patch == {}
