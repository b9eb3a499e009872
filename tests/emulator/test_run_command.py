"""`asmevo run`: exit codes and what it prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compiled_programs import all_files
from emulated_launches import LAUNCHES
from typer.testing import CliRunner

from asmevo.doors.cli import app

RUN = CliRunner()


@pytest.fixture
def saxpy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ASMEVO_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "saxpy.hsaco"
    file.write_bytes(all_files()["gfx942/saxpy.hsaco"])
    return file


def changed(tmp_path: Path, **fields: Any) -> Path:
    document = json.loads((LAUNCHES / "saxpy.json").read_text()) | fields
    path = tmp_path / "launch.json"
    path.write_text(json.dumps(document))
    return path


def test_a_matching_run(saxpy: Path) -> None:
    result = RUN.invoke(app, ["run", str(saxpy), "--launch", str(LAUNCHES / "saxpy.json")])
    assert result.exit_code == 0, result.output
    assert result.output.startswith("saxpy: the results are as expected (")


def test_json_has_the_fidelity(saxpy: Path) -> None:
    result = RUN.invoke(app, ["run", str(saxpy), "--launch", str(LAUNCHES / "saxpy.json"), "--json"])
    document = json.loads(result.output)
    assert document["outcome"] == "matches"
    assert document["target"] == "gfx942"
    assert sum(document["fidelity"]["exact"].values()) == document["instructions"]


def test_a_difference(saxpy: Path, tmp_path: Path) -> None:
    arguments = json.loads((LAUNCHES / "saxpy.json").read_text())["arguments"]
    for argument in arguments:
        if argument["kind"] == "scalar" and argument["dtype"] == "f32":
            argument["value"] = 100.0
    result = RUN.invoke(app, ["run", str(saxpy), "--launch", str(changed(tmp_path, arguments=arguments))])
    assert result.exit_code == 1
    assert "y_ptr: " in result.output


def test_a_fault(saxpy: Path, tmp_path: Path) -> None:
    arguments = json.loads((LAUNCHES / "saxpy.json").read_text())["arguments"]
    arguments[0] |= {"shape": [10], "sha256": None}
    result = RUN.invoke(app, ["run", str(saxpy), "--launch", str(changed(tmp_path, arguments=arguments))])
    assert result.exit_code == 1
    assert "outside of every buffer" in result.output
    assert "behind the end of x_ptr (40 bytes)" in result.output


def test_bad_input(saxpy: Path, tmp_path: Path) -> None:
    missing = RUN.invoke(app, ["run", str(saxpy), "--launch", str(tmp_path / "none.json")])
    assert missing.exit_code == 2
    wrong = RUN.invoke(app, ["run", str(saxpy), "--launch", str(changed(tmp_path, groups=[0, 1, 1]))])
    assert wrong.exit_code == 2
    unknown = RUN.invoke(app, ["run", str(saxpy), "--launch", str(changed(tmp_path, symbol="other"))])
    assert unknown.exit_code == 2
    few = RUN.invoke(app, ["run", str(saxpy), "--launch", str(changed(tmp_path, arguments=[]))])
    assert few.exit_code == 2


def test_a_limit(saxpy: Path) -> None:
    command = ["run", str(saxpy), "--launch", str(LAUNCHES / "saxpy.json"), "--limit", "10"]
    result = RUN.invoke(app, command)
    assert result.exit_code == 3
    assert "more than 10 instructions" in result.output


def test_the_trace_shows_each_instruction(saxpy: Path) -> None:
    result = RUN.invoke(app, ["run", str(saxpy), "--launch", str(LAUNCHES / "saxpy.json"), "--trace"])
    assert result.exit_code == 0
    assert "s_endpgm  exec=0xffffffffffffffff" in result.stderr
