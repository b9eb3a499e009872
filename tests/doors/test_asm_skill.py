"""`asm-skill`: slice, optimize, apply in a row; its settings; what does not fit together."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from chat_server import chat_server
from compiled_programs import all_files
from typer.testing import CliRunner, Result

from asmevo.doors.asm_skill import app
from asmevo.doors.cli import app as asmevo
from asmevo.program import open_program
from asmevo.program.edit import Insert, Reorder, Resize
from asmevo.search import Ledger, read_patch
from asmevo.search.slice import read_slice

runner = CliRunner()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own; the variables that settings set are put back afterwards."""
    own = tmp_path / "home"
    own.mkdir()
    monkeypatch.setenv("HOME", str(own))
    for name in ("ASMEVO_CACHE", "ASMEVO_LLVM"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    return own


@pytest.fixture
def matmul(tmp_path: Path) -> Path:
    path = tmp_path / "matmul.hsaco"
    path.write_bytes(all_files()["gfx942/matmul_f16.hsaco"])
    return path


def _ask(*words: object) -> Result:
    return runner.invoke(app, [str(word) for word in words])


def _sliced(matmul: Path) -> Path:
    out = matmul.with_suffix(".slice")
    result = _ask("slice", "--input", matmul, "--kernel", "matmul_f16", "--output", out)
    assert result.exit_code == 0, result.output
    return out


def _settings(home: Path, text: str) -> None:
    (home / ".asm-skill").mkdir(exist_ok=True)
    (home / ".asm-skill" / "config.yaml").write_text(text)


def test_from_slice_to_patched_file(matmul: Path, home: Path) -> None:
    slice_, patch, out = _sliced(matmul), matmul.with_suffix(".patch"), matmul.with_suffix(".out")
    result = _ask("optimize", "--slice", slice_, "--output", patch, "--budget", "16")
    assert result.exit_code == 0, result.output
    best = json.loads(patch.read_text())["candidates"][0]
    assert best["predicted_gain"] > 0.01
    result = _ask("apply", "--patch", patch, "--source", matmul, "--output", out)
    assert result.exit_code == 0, result.output
    (block,) = read_slice(slice_).blocks
    old, new = open_program(matmul).select()[0], open_program(out).select()[0]
    assert len(old.blocks) == len(new.blocks)
    changed = [
        one.index
        for one, other in zip(old.blocks, new.blocks, strict=True)
        if [i.text for i in one.instructions] != [i.text for i in other.instructions]
    ]
    assert changed == [block]
    assert (home / ".asm-skill" / "cache" / "ledger" / "ledger.sqlite").is_file()


def test_first_use_writes_settings_that_hold(matmul: Path, home: Path) -> None:
    _sliced(matmul)
    file = home / ".asm-skill" / "config.yaml"
    first = file.read_text()
    for key in ("gpu_target", "roc_path", "cache_dir", "ai_engine", "custom_agent_path", "templates"):
        assert f"\n{key}: " in first
    assert (home / ".asm-skill" / "templates").is_dir()
    file.write_text(first.replace("cache_dir: ~/.asm-skill/cache ", "cache_dir: ~/elsewhere "))
    slice_ = _sliced(matmul)
    _ask("optimize", "--slice", slice_, "--output", matmul.with_suffix(".patch"), "--budget", "1s")
    assert (home / "elsewhere" / "ledger" / "ledger.sqlite").is_file()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ai_engine: oracle\n", ":1: ai_engine: must be"),
        ("gpu_target: gfx942\nweather: fine\n", ":2: weather: no such key"),
        ("- a\n", "not a mapping"),
        ("a: [", "not YAML"),
        ("ai_engine: endpoint\n", "llm_url: `ai_engine: endpoint` needs it"),
        ("ai_engine: local\n", "model_path: `ai_engine: local` needs it"),
        ("ai_engine: program\n", "custom_agent_path: `ai_engine: program` needs it"),
        ("roc_path: /no/such/place\n", "roc_path: there is no /no/such/place/llvm/bin"),
    ],
)
def test_bad_settings_are_one_sentence(text: str, words: str, matmul: Path, home: Path) -> None:
    slice_ = _sliced(matmul)
    _settings(home, text)
    result = _ask("optimize", "--slice", slice_, "--output", matmul.with_suffix(".patch"), "--budget", "1s")
    assert result.exit_code == 2, result.output
    assert words in result.output
    assert "config.yaml" in result.output
    assert len(result.output.strip().splitlines()) == 1


def test_the_engine_and_its_prompt_come_from_the_settings(matmul: Path, home: Path) -> None:
    slice_ = _sliced(matmul)
    window = read_slice(slice_).windows[0]
    (home / ".asm-skill" / "templates" / "prompt.txt").write_text("MINE block $block\n$window $schema")
    with chat_server(lambda handler, number: handler.say({"ideas": []})) as server:
        _settings(home, f"ai_engine: endpoint\nllm_url: {server.url}\nllm_model: tiny\n")
        result = _ask("optimize", "--slice", slice_, "--output", matmul.with_suffix(".patch"), "--budget", "1s")
    assert result.exit_code in (0, 1), result.output
    records = Ledger(home / ".asm-skill" / "cache" / "ledger").records
    assert [each.data() for each in records.read("WHERE kind = 'proposer'")] == []
    asked = server.requests[0]["messages"][1]["content"]
    assert asked.startswith(f"MINE block {window.block}\n")
    shown = [int(line.partition(":")[0]) for line in asked.splitlines()[1 : 1 + len(window.instructions)]]
    assert shown == [each.id for each in window.instructions]


def test_a_program_from_the_settings_cannot_change_what_is_outside(matmul: Path, home: Path) -> None:
    slice_ = _sliced(matmul)
    program = Path(__file__).parent.parent / "proposers" / "hostile_program.py"
    wrapper = home / "agent.sh"
    wrapper.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{program}" honest\n')
    wrapper.chmod(0o755)
    _settings(home, f"ai_engine: program\ncustom_agent_path: {wrapper}\ncache_dir: {home}/c\n")
    patch = matmul.with_suffix(".patch")
    _ask("optimize", "--slice", slice_, "--output", patch, "--budget", "2s")
    (run,) = json.loads(runner.invoke(asmevo, ["log", "--ledger", str(home / "c" / "ledger"), "--json"]).output)
    name = f"{run['id']}/1"
    first = json.loads(runner.invoke(asmevo, ["show", name, "--ledger", str(home / "c" / "ledger"), "--json"]).output)
    assert "no-op before the first wait" in first["body"]["origin"]
    assert not first["body"]["accepted"]
    assert "outside of the windows" in first["body"]["verdicts"][0]["reason"]
    (block,) = read_slice(slice_).blocks
    inside = {each.id for each in open_program(matmul).select()[0].blocks[block].instructions}
    for offer in read_patch(patch).candidates:
        for edit in offer.script.edits:
            # Registers up to the next step of occupancy are the whole kernel's, and no code outside changes with them.
            assert isinstance(edit, Insert | Resize) or (
                edit.block == block if isinstance(edit, Reorder) else edit.id in inside
            )


def _changed(slice_: Path, change: dict[str, object], **window: object) -> None:
    data = json.loads(slice_.read_text()) | change
    data["windows"][0] |= window
    slice_.write_text(json.dumps(data))


@pytest.mark.parametrize(
    ("change", "window", "words"),
    [
        ({"base": "0" * 64}, {}, "is of another build of"),
        ({"kernel_hash": "0" * 64}, {}, "is of another version of kernel"),
        ({"kernel": "nobody"}, {}, "no kernel is called `nobody`"),
        ({"file": "nowhere.hsaco"}, {}, "neither there nor beside the slice"),
        ({}, {"block": 99}, "names block 99"),
        ({}, {"block": -1}, "names block -1"),
        ({}, {"before": [99]}, "names block 99"),
        ({}, {"block": 0}, "block 0 of kernel matmul_f16 has no instruction"),
        ({"schema": "asmevo.slice/9"}, {}, "schema: Input should be"),
    ],
)
def test_slices_that_do_not_fit(change: dict[str, object], window: dict[str, object], words: str, matmul: Path) -> None:
    slice_ = _sliced(matmul)
    _changed(slice_, change, **window)
    result = _ask("optimize", "--slice", slice_, "--output", matmul.with_suffix(".patch"))
    assert result.exit_code == 2, result.output
    assert words in result.output
    assert len(result.output.strip().splitlines()) == 1


def test_other_bad_input(matmul: Path, tmp_path: Path) -> None:
    slice_ = _sliced(matmul)
    none, out = tmp_path / "none", tmp_path / "out"
    for words in (
        ("slice", "--input", none, "--output", out),
        ("slice", "--input", slice_, "--output", out),
        ("optimize", "--slice", none, "--output", out),
        ("optimize", "--slice", matmul, "--output", out),
        ("apply", "--patch", slice_, "--source", matmul, "--output", out),
        ("apply", "--patch", none, "--source", matmul, "--output", out),
    ):
        result = _ask(*words)
        assert result.exit_code == 2, result.output
        assert len(result.output.strip().splitlines()) == 1, result.output
        assert not out.exists()


def test_asmevo_takes_a_slice_too_and_it_names_its_kernel(matmul: Path, tmp_path: Path) -> None:
    slice_ = _sliced(matmul)
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    for file in (slice_, matmul):
        (moved / file.name).write_bytes(file.read_bytes())
        file.unlink()
    words = ["optimize", str(moved / slice_.name), "-o", str(tmp_path / "p"), "--ledger", str(tmp_path / "l")]
    result = runner.invoke(asmevo, [*words, "--budget", "1s", "--json"])
    assert result.exit_code in (0, 1), result.output
    result = runner.invoke(asmevo, [*words, "--kernel", "matmul_f16"])
    assert result.exit_code == 2
    assert "leave --kernel out" in result.output
