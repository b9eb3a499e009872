"""`asmevo estimate`: our model and llvm-mca on the same kernel; words that make no sense."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from compiled_programs import all_files
from sqtt_packets import lines_of, thread_trace
from typer.testing import CliRunner

from asmevo.doors.cli import app
from asmevo.timing.traces import trace_files
from asmevo.toolchain.mca import find_mca

TRACES = Path(__file__).parent.parent / "data" / "traces" / "gfx1100"
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


@pytest.fixture
def captured(tmp_path: Path) -> tuple[str, str]:
    """A code object, and a raw thread trace of two waves that ran it: 16 iterations of its loop."""
    capture = next(path for path in trace_files(TRACES) if "gemm_run0_b6d19367" in path.name)
    header, waves = lines_of(capture)
    raw = tmp_path / "capture.sqtt"
    raw.write_bytes(thread_trace(waves, 3))
    return str(TRACES / header["object"]), str(raw)


def test_a_raw_thread_trace_gives_iterations_and_latencies(captured: tuple[str, str]) -> None:
    """The capture's waves took 17,589 and 18,178 cycles; with what it shows the model comes near, waits unknown."""
    kernel, raw = captured
    result = runner.invoke(app, ["estimate", kernel, "--profile", raw, "--json"])
    assert result.exit_code == 0, result.output
    (found,) = json.loads(result.output)
    assert [loop["trips"] for loop in found["loops"]] == [16]
    assert found["waves"] == 2
    assert found["cycles"] == pytest.approx(18178, rel=0.15)
    low, high = found["cycles_low_high"]
    assert low < found["cycles"] < high
    assert found["memory_latencies"]["vmem_load"]["count"] > 50
    assert found["known"]["measured"] > 0.9
    text = runner.invoke(app, ["estimate", kernel, "--profile", raw]).output
    assert "measured vmem_load: " in text
    assert "16 iterations" in text
    assert "with 2 waves a SIMD (memory: as profiled)" in text


def test_a_thread_trace_of_another_kernel_is_refused(matmul: str, captured: tuple[str, str]) -> None:
    result = runner.invoke(app, ["estimate", matmul, "--profile", captured[1]])
    assert result.exit_code == 2
    assert "can be followed through matmul_f16" in result.output


def test_counters_stand_beside_the_estimate(matmul: str, tmp_path: Path) -> None:
    counters = tmp_path / "counters.csv"
    head = "Dispatch_Id,Kernel_Name,Counter_Name,Counter_Value"
    counters.write_text(
        f"{head}\n1,matmul_f16,SQ_WAVES,4\n1,matmul_f16,SQ_INSTS_VALU,4\n1,matmul_f16,SQ_BUSY_CYCLES,9\n"
    )
    result = runner.invoke(app, ["estimate", matmul, "--profile", str(counters)])
    assert result.exit_code == 0, result.output
    assert re.search(r"SQ_INSTS_VALU +4  1\.0 a wave, .* estimated: another way through the code", result.output)
    assert re.search(r"SQ_BUSY_CYCLES +9$", result.output, re.MULTILINE)
    counters.write_text(f"{head}\n1,other,SQ_WAVES,4\n")
    refused = runner.invoke(app, ["estimate", matmul, "--profile", str(counters)])
    assert refused.exit_code == 2
    assert "no dispatch of matmul_f16; there are: other" in refused.output


def test_occupancy_by_the_launchs_lds(matmul: str) -> None:
    """128 KiB of a WGP hold 6 workgroups of 20,000 bytes, 4 waves each, on 4 SIMDs."""
    text = runner.invoke(app, ["estimate", matmul, "--lds", "20000"]).output
    assert "occupancy 6 of 16 waves a SIMD, limited by LDS" in text
    assert "1,568 bytes of LDS fewer give 7 waves instead of 6" in text  # a seventh of 131,072, whole granules
    assert "--lds BYTES" in runner.invoke(app, ["estimate", matmul]).output


def test_what_limits_and_what_comes_next(matmul: str) -> None:
    text = runner.invoke(app, ["estimate", matmul, "--waves", "1", "--memory", "cold"]).output
    assert re.search(r"Waiting is the limit: \d+% of a wave's time is 'wait vmcnt'", text)
    assert re.search(r"Next, without 'wait vmcnt' at best \d+ cycles: ", text)
    assert re.search(r"matmul_f16 on gfx1100: \d+ cycles \(\d+ to \d+ by what memory takes\)", text)
