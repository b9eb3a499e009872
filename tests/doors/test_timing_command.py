"""`asmevo timing validate`: figures of a folder of traces, its report, and folders without any."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from asmevo.doors.cli import app

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


@pytest.mark.parametrize("content", [b"", b"not gzip", gzip.compress(b"{}\n"), gzip.compress(b"[1]\n")[:12]])
def test_a_file_that_is_no_trace(tmp_path: Path, content: bytes) -> None:
    folder = tmp_path / "gfx1100" / "k"
    folder.mkdir(parents=True)
    (folder / "run.jsonl.gz").write_bytes(content)
    result = runner.invoke(app, ["timing", "validate", str(tmp_path)])
    assert result.exit_code == 2
    assert "run.jsonl.gz: no trace" in result.output
