"""The table of gains: rows that are kept survive a kill, means are what they say, and a difference is shown."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path
from types import ModuleType

import pytest
from msgspec.structs import replace

from asmevo.emulator import Unfinished
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
    assert 0.0 <= row.measured_gain <= 1.0
    assert set(row.elsewhere) == {"cold", "lds-only"}


def test_what_was_given_up_did_not_differ(table: ModuleType, row: object, monkeypatch: pytest.MonkeyPatch) -> None:
    class Busy:
        known = ()

        def examine(self, *version: object) -> Unfinished:
            return Unfinished("seed 101", "the run takes more than 120 seconds; it was given up here")

    monkeypatch.setattr(table, "witness", lambda *pair: Busy())
    given_up = table.make_row("saxpy", "gfx942", "list-scheduler", Budget(candidates=6))
    assert (given_up.difference, given_up.seeds, given_up.gain) == ("", 0, 0.0)
    assert given_up.failure.startswith("not verified: with seed 101: the run takes more than")


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


def test_a_sweep_makes_what_this_state_of_the_sources_did_not(
    table: ModuleType, row: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = []

    def make_row(*key: object) -> object:
        made.append(key[:3])
        if key[0] == "broken":
            raise KeyError("v7")
        return replace(row, launch=key[0])

    monkeypatch.setattr(table, "make_row", make_row)
    keys = [(name, row.target, row.proposers) for name in ("old", "broken", "new")]
    budget, here, elsewhere = Budget.of(row.budget), tmp_path / "here", tmp_path / "elsewhere"
    table.keep(elsewhere, replace(row, launch="new", tree=table.tree()))
    table.keep(elsewhere, replace(row, launch="old", tree="another"))
    rows = list(table.kept_rows(elsewhere))
    table.sweep(keys, rows, here, budget)
    assert made == keys[:2]
    old, broken = table.kept_rows(here)
    assert (old.tree, old.failure, broken.tree) == (table.tree(), "", table.tree())
    assert broken.failure.startswith("KeyError: 'v7' (test_gain_table.py, line ")
    assert "2/2, 0 min left: broken" in capsys.readouterr().out
    assert table.latest([*rows, old, broken]) == [rows[0], old, broken]
    table.sweep(keys, [*rows, old, broken], here, budget)
    assert len(made) == 2


def test_shares_are_disjoint_and_whole(table: ModuleType) -> None:
    every = table.pairs("gfx942,gfx1100", "matmul*,attention*")
    assert {name.split("_")[0] for name, _ in every} == {"matmul", "attention"}
    assert sorted(every[0::2] + every[1::2]) == sorted(every)


def test_means_are_geometric(table: ModuleType, row: object) -> None:
    rows = [replace(row, gain=gain) for gain in (0.5, 0.0)]
    assert table.mean_gain(rows) == pytest.approx(1 - math.sqrt(0.5))
    assert table.mean_gain([]) == 0.0
    cold = [replace(row, elsewhere={"cold": gain}) for gain in (0.75, 0.0)]
    assert table.mean_gain(cold, "cold") == pytest.approx(0.5)


def test_the_document_shows_what_there_is(
    table: ModuleType, row: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "DOCUMENT", tmp_path / "gains.md")
    elsewhere = {"cold": 0.3, "lds-only": -0.01}
    whole = replace(
        row,
        proposers="all",
        launch="matmul_f16",
        gain=0.5,
        waits=(7, 3),
        measured=0.25,
        elsewhere=elsewhere,
        crowded={"8": 0.04},
        step=table.Step((6, 7), 0.0617, 0.0253, 2),
    )
    odd = replace(whole, launch="odd", gain=0.0, gates=(), seeds=0)
    wrong = replace(whole, launch="wrong", difference="y[3] is 1.0")
    failed = table.Row("lost", "gfx942", "all", "6", failure="KeyError: 'v7'", tree="another")
    table.write_document([row, whole, odd, wrong, failed])
    text = (tmp_path / "gains.md").read_text()
    assert "| gfx942 | matmul_f16 | 50.0 % | 30.0 % | -1.0 % | 4.0 % | 7 -> 3 |" in text
    assert "| 6 -> 7: +6.2 % (2.5 %), offer 2 |" in text
    assert "| gfx942 | odd | nothing better |" in text
    assert "| gfx942 | lost | FAILED KeyError: 'v7' |" in text
    assert "1 rows failed; the rows were made by 2 states of the sources." in text
    assert "DIFFERS y[3] is 1.0" in text
    assert "1 of 3 differed" in text
    assert "| list-scheduler | 1 | 1 |" in text
    assert f"| all | 3 | 2 | {100 * (1 - 0.25 ** (1 / 3)):.1f} % | " in text
    assert "| 50.0 % (1) |" in text
