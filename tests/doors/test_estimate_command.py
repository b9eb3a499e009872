"""`asmevo estimate`: our model and llvm-mca on the same kernel; words that make no sense."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from compiled_programs import all_files
from typer.testing import CliRunner

from asmevo.doors.cli import app
from asmevo.toolchain.mca import find_mca

runner = CliRunner()


@pytest.fixture
def matmul(tmp_path: Path) -> str:
    path = tmp_path / "matmul.s"
    path.write_bytes(all_files()["gfx1100/matmul_f16.s"])
    return str(path)


def test_an_estimate_names_lines_reasons_and_sources(matmul: str) -> None:
    result = runner.invoke(app, ["estimate", matmul, "--waves", "1", "--trips", "100"])
    assert result.exit_code == 0, result.output
    assert "1 wave a SIMD" in result.output
    assert "100 iterations" in result.output
    assert "buffer_load_b128" in result.output  # the wait's source
    assert "not measured" in result.output


def test_more_iterations_cost_iterations(matmul: str) -> None:
    def cycles(trips: str) -> float:
        result = runner.invoke(app, ["estimate", matmul, "--waves", "1", "--trips", trips, "--json"])
        return float(json.loads(result.output)[0]["cycles"])

    ten, twenty, thirty = cycles("10"), cycles("20"), cycles("30")
    assert twenty - ten == pytest.approx(thirty - twenty, rel=0.01)
    assert twenty > ten


@pytest.mark.parametrize("options", [["--trips", "x"], ["--memory", "warm"], ["--memory", "vmem_load=fast"]])
def test_words_that_make_no_sense(matmul: str, options: list[str]) -> None:
    assert runner.invoke(app, ["estimate", matmul, *options]).exit_code == 2


def test_llvm_mca_answers_beside_ours(matmul: str) -> None:
    if find_mca() is None:
        pytest.skip("llvm-mca is not installed (Debian: apt install llvm-22)")
    result = runner.invoke(app, ["estimate", matmul, "--engine", "llvm-mca", "--json"])
    assert result.exit_code == 0, result.output
    (answer,) = json.loads(result.output)
    (loop,) = answer["loops"]
    assert loop["instructions"] == 96  # all of the block, s_delay_alu and waits too
    assert loop["cycles"] >= loop["bound"]


def test_without_llvm_mca_the_answer_says_what_to_install(matmul: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.delenv("ASMEVO_LLVM", raising=False)
    result = runner.invoke(app, ["estimate", matmul, "--engine", "llvm-mca"])
    assert result.exit_code == 2
    assert "llvm-mca is not installed" in result.output
