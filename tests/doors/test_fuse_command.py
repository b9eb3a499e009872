"""`asmevo fuse`: the table, the JSON form, the sources, and what is said without a clang."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from asmevo.doors.cli import app
from asmevo.toolchain import ToolchainMissingError
from asmevo.toolchain.clang import find_clang

CHAIN = """schema: asmevo.fusion/1
name: tiny
rows: 5
features: 4
operators:
  - {op: bias}
  - {op: norm}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "chain.yaml"
    path.write_text(CHAIN)
    return path


def _needs_clang() -> None:
    try:
        find_clang(None)
    except ToolchainMissingError as error:
        pytest.skip(str(error))


def test_json_has_every_kernel_and_fusion_and_sources_compile_again(file: Path, tmp_path: Path) -> None:
    _needs_clang()
    arguments = ["fuse", str(file), "--gpu", "gfx1100", "--top", "1", "--sources", str(tmp_path / "made"), "--json"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["schema"] == "asmevo.fusion-search/1"
    assert [len(fusion["kernels"]) for fusion in found["fusions"]] == [1, 2]
    assert [fusion["outcome"] for fusion in found["fusions"]] == ["matches", None]
    assert len(found["kernels"]) == 2 + 3 + 3  # bias alone, norm alone, both
    assert found["programs"] == 2 * 3 + 3
    assert [path.name for path in (tmp_path / "made").iterdir()] == ["tiny.operators_1_to_2.cl"]


def test_the_table_says_what_it_rests_on(file: Path) -> None:
    _needs_clang()
    done = CliRunner().invoke(app, ["fuse", str(file), "--gpu", "gfx942", "--launch-cost", "0"])
    assert done.exit_code == 0
    assert "tiny on gfx942: 2 fusions, 8 kernels, 9 programs; 5 rows of 4" in done.stdout
    assert "predicted by a cycle model, not measured" in done.stdout
    assert "0 cycles for each launch" in done.stdout


def test_without_a_clang_it_says_what_to_install(file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("asmevo.toolchain.clang._ROCM_CLANG", tmp_path / "clang")
    done = CliRunner().invoke(app, ["fuse", str(file), "--gpu", "gfx1100"])
    assert done.exit_code == 2
    assert "needs a clang; install one" in done.stderr


@pytest.mark.parametrize(
    ("text", "gpu", "words"),
    [
        ("rows: 3\n", "gfx1100", "chain.yaml:1: schema: the key is missing"),
        (CHAIN, "gfx803", "no device is described"),
        (CHAIN, "gfx1", "gfx1"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(file: Path, text: str, gpu: str, words: str) -> None:
    file.write_text(text)
    done = CliRunner().invoke(app, ["fuse", str(file), "--gpu", gpu])
    assert done.exit_code == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
