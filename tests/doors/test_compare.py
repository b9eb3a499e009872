"""`asmevo test`: equal versions, different ones with the store, and input that does not fit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from compiled_programs import all_files
from typer.testing import CliRunner

from asmevo.doors.cli import app

LAUNCH = str(Path(__file__).parent.parent / "data" / "launches" / "vector_add.json")
runner = CliRunner()


@pytest.fixture
def versions(tmp_path: Path) -> tuple[str, str, str]:
    """The compiler's kernel, the same with spare no-ops, and one that multiplies."""
    text = all_files()["gfx942/vector_add.s"].decode()
    written = {
        "original.s": text,
        "spaced.s": text.replace("\ts_endpgm", "\ts_nop 0\n\ts_endpgm", 1),
        "wrong.s": text.replace("v_pk_add_f32", "v_pk_mul_f32", 1),
    }
    for name, content in written.items():
        (tmp_path / name).write_text(content)
    return tuple(str(tmp_path / name) for name in written)  # type: ignore[return-value]


def test_equal_versions(versions: tuple[str, str, str]) -> None:
    original, spaced, _ = versions
    result = runner.invoke(app, ["test", original, spaced, "--launch", LAUNCH, "--json"])
    assert result.exit_code == 0, result.output
    report = json.loads(result.output)
    assert report["equal"] is True
    assert report["left_out"] == {}
    assert any("asynchronous" in name for name in report["launches"])


def test_a_difference_names_the_store(versions: tuple[str, str, str]) -> None:
    original, _, wrong = versions
    result = runner.invoke(app, ["test", original, wrong, "--launch", LAUNCH])
    assert result.exit_code == 1
    assert "out_ptr[0] is" in result.output
    assert "buffer_store_dwordx4" in result.output


def test_an_endless_version_is_not_called_different(versions: tuple[str, str, str], tmp_path: Path) -> None:
    original, _, _ = versions
    endless = tmp_path / "endless.s"
    endless.write_text(Path(original).read_text().replace("\ts_endpgm", "again:\n\ts_branch again\n\ts_endpgm", 1))
    asked = ["test", original, str(endless), "--launch", LAUNCH, "--limit", "100000"]
    result = runner.invoke(app, asked)
    assert result.exit_code == 3, result.output
    assert "the run takes more than 100000 instructions; it was given up here" in result.output
    report = json.loads(runner.invoke(app, [*asked, "--json"]).output)
    assert (report["equal"], report["difference"]) == (None, None)
    assert "given up here" in report["unfinished"]


def test_a_missing_wait_shows_only_with_late_memory(versions: tuple[str, str, str], tmp_path: Path) -> None:
    original, _, _ = versions
    lines = Path(original).read_text().splitlines(keepends=True)
    last = max(place for place, line in enumerate(lines) if "s_waitcnt" in line)
    broken = tmp_path / "broken.s"
    broken.write_text("".join(lines[:last] + lines[last + 1 :]))
    result = runner.invoke(app, ["test", original, str(broken), "--launch", LAUNCH])
    assert result.exit_code == 1
    assert "asynchronous" in result.output
    plain = runner.invoke(app, ["test", original, str(broken), "--launch", LAUNCH, "--seeds", "0"])
    assert plain.exit_code == 0


def test_a_launch_of_another_kernel_is_bad_input(versions: tuple[str, str, str]) -> None:
    original, spaced, _ = versions
    result = runner.invoke(app, ["test", original, spaced, "--launch", LAUNCH.replace("vector_add", "lds_reduce")])
    assert result.exit_code == 2
