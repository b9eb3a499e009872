"""`asmevo timing validate`: figures of a folder of traces, its report, and folders without any."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from asmevo.doors.cli import app
from asmevo.target.fit import fitted_kernels
from asmevo.toolchain.mca import find_mca

TRACES = Path(__file__).parent.parent / "data" / "traces"
runner = CliRunner()


def test_the_report_counts_what_the_traces_hold(tmp_path: Path) -> None:
    report = tmp_path / "report.md"
    result = runner.invoke(app, ["timing", "validate", str(TRACES / "gfx1100"), "--report", str(report), "--json"])
    assert result.exit_code == 0, result.output
    rows = json.loads(result.output)
    waves = 0
    for path in (TRACES / "gfx1100").rglob("*.jsonl.gz"):
        waves += len(gzip.decompress(path.read_bytes()).splitlines()) - 1  # the first line is the header
    assert sum(row["waves"] for row in rows) == waves
    text = report.read_text()
    assert re.search(r"\| gfx1100 \| E_3 \| .* 100\.0% \|", text)
    assert "predicted" in text


def test_a_folder_without_traces(tmp_path: Path) -> None:
    result = runner.invoke(app, ["timing", "validate", str(tmp_path)])
    assert result.exit_code == 2
    assert "no traces" in result.output


@pytest.mark.parametrize(
    "content", [b"", b"not gzip", gzip.compress(b"{}\n", mtime=0), gzip.compress(b"[1]\n", mtime=0)[:12]]
)
def test_a_file_that_is_no_trace(tmp_path: Path, content: bytes) -> None:
    folder = tmp_path / "gfx1100" / "k"
    folder.mkdir(parents=True)
    (folder / "run.jsonl.gz").write_bytes(content)
    result = runner.invoke(app, ["timing", "validate", str(tmp_path)])
    assert result.exit_code == 2
    assert "run.jsonl.gz: no trace" in result.output


def test_llvm_mca_is_asked_for_the_same_gaps(tmp_path: Path) -> None:
    if find_mca() is None:
        pytest.skip("llvm-mca is not installed (Debian: apt install llvm-22)")
    report = tmp_path / "report.md"
    result = runner.invoke(app, ["timing", "validate", str(TRACES), "--report", str(report), "--json"])
    rows = {(row["target"], row["kernel"]): row for row in json.loads(result.output)}
    row = rows["gfx1100", "r_2_8_16_4_4_16_4"]
    ours, theirs = (sum(share["count"] for share in row[name].values()) for name in ("gaps", "mca"))
    assert ours == theirs > 1000
    assert row["mca_wave_time_error"] > row["wave_time_error"]
    alone = runner.invoke(app, ["timing", "validate", str(TRACES / "gfx1100"), "--no-mca", "--json"])
    assert all(each["mca"] is None for each in json.loads(alone.output))
    text = report.read_text()
    for heading in ("only test the model", "facts were fitted on", "By class", "Order of the waves", "Ranking"):
        assert heading in text
    assert re.search(r"gfx950: \d+ blocks, rank correlation", text)
    assert "the traces hold none" in text  # no two schedules of one block
    assert re.search(r"no traces here of .*gfx90a.*gfx942.*no trace holds an MFMA", text)


def test_fitted_and_tested_kernels_are_told_apart(tmp_path: Path) -> None:
    report = tmp_path / "report.md"
    runner.invoke(app, ["timing", "validate", str(TRACES), "--no-mca", "--report", str(report)])
    tested, fitted = report.read_text().split("## Kernels that measured facts were fitted on")
    tested = tested.split("## Kernels that only test the model")[1]
    rows = {target: fitted_kernels(target) for target in ("gfx1100", "gfx1200", "gfx1201", "gfx950")}
    for part, is_fitted in ((tested, False), (fitted.split("## By class")[0], True)):
        for target, kernel in re.findall(r"^\| (gfx\w+) \| (\w+) \|", part, re.MULTILINE):
            assert (kernel in rows[target]) is is_fitted
