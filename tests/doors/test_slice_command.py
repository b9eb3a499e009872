"""`asmevo slice`: the document, its place in the loop, and input that does not fit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from compiled_programs import all_files
from sqtt_packets import lines_of, thread_trace
from typer.testing import CliRunner

from asmevo.doors.cli import app
from asmevo.search.slice import SliceError, read_slice

runner = CliRunner()


@pytest.fixture
def matmul(tmp_path: Path) -> Path:
    path = tmp_path / "matmul.hsaco"
    path.write_bytes(all_files()["gfx942/matmul_f16.hsaco"])
    return path


def test_the_hot_window_is_in_the_main_loop(matmul: Path) -> None:
    out = matmul.with_suffix(".slice")
    result = runner.invoke(app, ["slice", str(matmul), "-o", str(out)])
    assert result.exit_code == 0, result.output
    found = read_slice(out)
    (window,) = found.windows
    assert 5 <= len(window.instructions) <= 15
    assert any("s_waitcnt" in each.text for each in window.instructions)
    disassembled = runner.invoke(app, ["inspect", str(matmul), "--json"])
    assert json.loads(disassembled.output)["target"] == found.target
    assert window.share > 0.1


def test_sizes_are_the_users_to_choose(matmul: Path) -> None:
    out = matmul.with_suffix(".slice")
    result = runner.invoke(app, ["slice", str(matmul), "-o", str(out), "--largest", "7", "--windows", "3", "--json"])
    windows = json.loads(result.output)["windows"]
    assert len(windows) == 3
    assert all(len(each["instructions"]) == 7 for each in windows)


def test_a_profile_that_is_none_writes_nothing(matmul: Path, tmp_path: Path) -> None:
    bad, out = tmp_path / "bad.csv", tmp_path / "k.slice"
    bad.write_text("hello\n")
    result = runner.invoke(app, ["slice", str(matmul), "-o", str(out), "--profile", str(bad)])
    assert result.exit_code == 2
    assert not out.exists()


def test_a_broken_slice_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "k.slice"
    path.write_text('{"schema": "asmevo.slice/1", "base": 3}')
    with pytest.raises(SliceError, match=r"k\.slice: "):
        read_slice(path)


def test_a_raw_thread_trace_chooses_the_wait_of_the_loop(tmp_path: Path) -> None:
    """In the capture the waves spend most of the time at the first wait for the loop's loads."""
    traces = Path(__file__).parent.parent / "data" / "traces" / "gfx1100"
    header, waves = lines_of(next(path for path in traces.glob("gemm_run0_b6d19367*.jsonl.gz")))
    raw, out = tmp_path / "capture.att", tmp_path / "k.slice"
    raw.write_bytes(thread_trace(waves, 3))
    result = runner.invoke(app, ["slice", str(traces / header["object"]), "-o", str(out), "--profile", str(raw)])
    assert result.exit_code == 0, result.output
    (window,) = read_slice(out).windows
    hottest = max(window.instructions, key=lambda each: each.stalls)
    assert hottest.text == "s_waitcnt vmcnt(4)"
    assert window.stall_share > 0.5


def test_counters_alone_choose_no_window(matmul: Path, tmp_path: Path) -> None:
    counters = tmp_path / "counters.csv"
    counters.write_text("Dispatch_Id,Kernel_Name,Counter_Name,Counter_Value\n1,matmul_f16,SQ_WAVES,4\n")
    result = runner.invoke(app, ["slice", str(matmul), "-o", str(tmp_path / "k"), "--profile", str(counters)])
    assert result.exit_code == 2
    assert "has counters only" in result.output
