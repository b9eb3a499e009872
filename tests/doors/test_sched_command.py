"""`asmevo sched`: the table, the JSON form, exit codes, and what is said without an LLVM."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from machine_ir import DATA, needs_llvm
from typer.testing import CliRunner

from asmevo.doors.cli import app

SOURCE = str(DATA / "opencl" / "wave_ops.cl")
LAUNCH = str(DATA / "launches" / "wave_ops.json")


def run(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["sched", *words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


@needs_llvm
def test_the_table_says_who_decided_what_and_whether_it_holds(tmp_path: Path) -> None:
    log, saved = tmp_path / "log.jsonl", tmp_path / "out"
    code, text, _ = run(
        SOURCE, "--gpu", "gfx942", "--agents", "random,critical_path", "--launch", LAUNCH, "--seeds", "0",
        "--strategies", "source-order", "--state-log", str(log), "--save", str(saved),
    )  # fmt: skip
    assert code == 0
    for words in ("llvm:source-order", "critical_path", "equal (", "no GPU has measured", "vs default"):
        assert words in text
    assert json.loads(log.read_text().splitlines()[0])["schema"] == "asmevo.sched-states/1"
    assert {path.name for path in saved.iterdir()} == {
        f"wave_ops.gfx942.{row}.{ending}"
        for row in ("llvm.llvm", "llvm.llvm-source-order", "pre.default", "pre.random", "pre.critical_path")
        for ending in ("s", "hsaco")
    }


@needs_llvm
def test_a_log_becomes_decisions_and_these_a_row(tmp_path: Path) -> None:
    """Another program, here five lines: it reads the log and wants every region in the reverse of its source."""
    log, decisions = tmp_path / "log.jsonl", tmp_path / "decisions.jsonl"
    assert run(SOURCE, "--gpu", "gfx1100", "--state-log", str(log))[0] == 0
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    orders: dict[str, list[int]] = {}
    for line in (each for each in lines if each.get("record") == "region"):
        left, order = {node["position"] for node in line["nodes"]}, []
        while left:
            order.append(max(left - {after for before, after, _ in line["links"] if before in left}))
            left.remove(order[-1])
        orders[line["region"]] = order
    head = {"schema": "asmevo.sched-decisions/1"} | {key: lines[0][key] for key in ("gpu", "machine_ir")}
    rows = [head, *({"region": region, "order": order} for region, order in orders.items())]
    decisions.write_text("".join(json.dumps(each) + "\n" for each in rows))
    code, text, _ = run(SOURCE, "--gpu", "gfx1100", "--decisions", str(decisions), "--launch", LAUNCH, "--json")
    assert code == 0
    row = next(each for each in json.loads(text)["rows"] if each["agent"] == "decisions")
    assert row["verified"] == "equal"
    assert row["change_rate"] > 0.1


@needs_llvm
@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([SOURCE, "--gpu", "gfx1100", "--agents", "clever"], "no scheduling agent is called clever"),
        ([SOURCE, "--gpu", "gfx1100", "--strategies", "best"], "LLVM has no strategy best"),
        ([SOURCE, "--gpu", "gfx1100", "--agents", "language_model"], "needs a model"),
        ([SOURCE, "--gpu", "gfx1100", "--llm-url", "http://localhost:1/v1"], "--llm-url and --llm-model go together"),
        ([SOURCE, "--gpu", "gfx77"], "no scheduling model of gfx77"),
        (["nowhere.cl", "--gpu", "gfx1100"], "nowhere.cl: No such file"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(words: list[str], says: str) -> None:
    code, _, error = run(*words)
    assert code == 2
    assert says in error
    assert len(error.strip().splitlines()) == 1


def test_without_llvm_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("ASMEVO_LLVM", raising=False)
    code, _, error = run(SOURCE, "--gpu", "gfx1100")
    assert code == 2
    assert "apt install llvm-22 clang-22" in error
