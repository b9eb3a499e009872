"""`asmevo templates`, and templates of one's own in `asmevo optimize`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from asmevo.doors.cli import app
from asmevo.proposers.templates import built_in_templates

HEAD = "schema: asmevo.templates/1\ntemplates:\n"
RIGHT = """  - name: own-add3
    description: two additions become one instruction
    replaces:
      - v_add_u32|v_add_nc_u32 v$t, $a, $b
      - v_add_u32|v_add_nc_u32 v$d, v$t ~ $c
    by: v_add3_u32 v$d, $a, $b, $c
    latency: -4
    throughput: -1
    vgpr_pressure: 0
"""
WRONG = """  - name: own-wrong
    description: a difference is no sum
    replaces: v_sub_u32|v_sub_nc_u32 v$d, v$a, v$b
    by: v_add_u32|v_add_nc_u32 v$d, v$a, v$b
"""
UNDECIDED = """  - name: own-rounding
    description: a product and a sum that round once
    replaces:
      - v_mul_f32 v$t, v$a, v$b
      - v_mul_f32 v$d, v$t, v$b
    by:
      - v_mul_f32 v$t, v$b, v$b
      - v_mul_f32 v$d, v$a, v$t
    floating_point: contract
"""


def asked(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["templates", *words])
    assert not result.exception or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def own(tmp_path: Path, *entries: str) -> str:
    file = tmp_path / "own.yaml"
    file.write_text(HEAD + "".join(entries))
    return str(file)


def test_lists_what_a_gpu_has() -> None:
    code, everywhere = asked("--json")
    assert code == 0
    names = [each["name"] for each in json.loads(everywhere)]
    assert names == [each.name for each in built_in_templates()]
    code, text = asked("--gpu", "gfx803", "--json")
    some = {each["name"] for each in json.loads(text)}
    assert code == 0
    assert "bfe-unsigned" in some
    assert "lshl-add" not in some  # V_LSHL_ADD_U32 came with gfx9


def test_explains_by_name() -> None:
    code, text = asked("lshl-add")
    assert code == 0
    assert "v_lshl_add_u32 v$d, $a, n$n, $b" in text
    assert "three_operands.yaml:" in text
    assert asked("no-such")[0] == 2
    assert asked("--gpu", "gfx000")[0] == 2


def test_a_right_one_is_accepted(tmp_path: Path) -> None:
    code, text = asked("--add", own(tmp_path, RIGHT), "--gpu", "gfx942")
    assert (code, "own-add3: accepted, proved" in text) == (0, True)


def test_a_wrong_one_is_refused_with_the_counterexample(tmp_path: Path) -> None:
    code, text = asked("--add", own(tmp_path, RIGHT, WRONG), "--gpu", "gfx1100")
    assert code == 1
    assert "own-wrong: refused, refuted" in text
    assert "counterexample: exec=" in text
    code, text = asked("--add", own(tmp_path, RIGHT, WRONG), "--gpu", "gfx1100", "--json")
    first, second = json.loads(text)
    assert (code, first["outcome"], second["outcome"]) == (1, "proved", "refuted")
    assert second["failed"]["before"] == ["v_sub_nc_u32_e32 v0, v1, v2"]
    assert second["proof"]["counterexample"]["registers"]


def test_one_that_nobody_can_decide_is_refused_too(tmp_path: Path) -> None:
    code, text = asked("--add", own(tmp_path, UNDECIDED), "--gpu", "gfx942")
    assert (code, "own-rounding: refused, undecided" in text) == (3, True)


@pytest.mark.parametrize("content", ["", "schema: asmevo.templates/1\ntemplates: []\n", HEAD + RIGHT + RIGHT, "\0"])
def test_what_cannot_be_read_is_one_sentence(tmp_path: Path, content: str) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(content)
    code, text = asked("--add", str(file))
    assert (code, text.count("\n"), str(file) in text) == (2, 1, True)


SOURCE = """.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
.text
.globl f
.type f,@function
f:
s_waitcnt vmcnt(0) expcnt(0) lgkmcnt(0)
v_sub_u32 v0, v1, v2
v_add_u32 v3, v1, v2
v_add_u32 v3, v3, v4
s_setpc_b64 s[30:31]
"""


def test_optimize_refuses_a_wrong_one_and_uses_a_right_one(tmp_path: Path) -> None:
    source = tmp_path / "f.s"
    source.write_text(SOURCE)
    words = ["optimize", str(source), "-o", str(tmp_path / "p"), "--ledger", str(tmp_path / "l"), "--budget", "5"]
    refused = CliRunner().invoke(app, [*words, "--templates", own(tmp_path, WRONG)])
    assert (refused.exit_code, "own-wrong: refused, refuted" in refused.output) == (1, True)
    assert not (tmp_path / "p").exists()
    used = CliRunner().invoke(app, [*words, "--templates", own(tmp_path, RIGHT), "--json"])
    assert (used.exit_code, json.loads(used.stdout)["proposers"]["own templates"]["accepted"]) == (0, 1)
