"""The table of gains: rows that are kept survive a kill, means are what they say, and a difference is shown."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path
from types import ModuleType

import pytest
from msgspec.structs import replace

from asmevo.search import Budget

TOOL = Path(__file__).parent.parent.parent / "tools" / "gain_table.py"


@pytest.fixture(scope="module")
def table() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gain_table", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["gain_table"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def row(table: ModuleType) -> object:
    return table.make_row("saxpy", "gfx942", "list-scheduler", Budget(candidates=6))


def test_a_row_is_verified_by_all_gates_and_more_seeds(table: ModuleType, row: object) -> None:
    assert row.gates[-2:] == ("emulation", "timing")
    assert "equivalence" in row.gates
    assert (row.seeds, row.difference) == (len(table.SEEDS), "")
    assert 0.0 < row.gain < 1.0
    assert 0.0 <= row.measured <= 1.0


def test_a_file_that_was_cut_off_is_continued(table: ModuleType, row: object, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    table.keep(file, row)
    table.keep(file, replace(row, target="gfx950"))
    whole = file.read_bytes()
    file.write_bytes(whole[:-20])
    assert list(table.kept_rows(file)) == [row]
    table.keep(file, replace(row, target="gfx90a"))
    assert [each.target for each in table.kept_rows(file)] == ["gfx942", "gfx90a"]
    assert list(table.kept_rows(tmp_path / "absent")) == []


def test_means_are_geometric(table: ModuleType, row: object) -> None:
    rows = [replace(row, gain=gain) for gain in (0.5, 0.0)]
    assert table.mean_gain(rows) == pytest.approx(1 - math.sqrt(0.5))
    assert table.mean_gain([]) == 0.0


def test_the_document_shows_what_there_is(
    table: ModuleType, row: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "DOCUMENT", tmp_path / "gains.md")
    whole = replace(row, proposers="all", launch="matmul_f16", gain=0.5, waits=(7, 3), measured=0.25)
    odd = replace(whole, launch="odd", gain=0.0, gates=(), seeds=0)
    wrong = replace(whole, launch="wrong", difference="y[3] is 1.0")
    table.write_document([row, whole, odd, wrong])
    text = (tmp_path / "gains.md").read_text()
    assert "| gfx942 | matmul_f16 | 50.0 % | 7 -> 3 |" in text
    assert "| gfx942 | odd | nothing better |" in text
    assert "DIFFERS y[3] is 1.0" in text
    assert "1 of 3 differed" in text
    assert "| list-scheduler | 1 | 1 |" in text
    assert f"| all | 3 | 2 | {100 * (1 - 0.25 ** (1 / 3)):.1f} % | 50.0 % (1) |" in text
