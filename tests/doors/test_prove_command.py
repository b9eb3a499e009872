"""`asmevo prove`: answers, exit codes, what it prints, and bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from compiled_programs import all_files
from described_kernels import kernel_text
from typer.testing import CliRunner, Result

from asmevo.doors.cli import app

runner = CliRunner()
TRIPLE = "v_mul_lo_u32 v2, v0, 3\nglobal_store_dword v[8:9], v2, off\ns_endpgm\n"
SHIFTED = "v_lshl_add_u32 v2, v0, 1, v0\nglobal_store_dword v[8:9], v2, off\ns_endpgm\n"
WRONG = SHIFTED.replace(", 1,", ", 2,")
UNKNOWN = "v_mov_b32 v2, 0\n.long 0xffffffff\nglobal_store_dword v[8:9], v2, off\ns_endpgm\n"

WITH_DATA = """
.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
.text
.globl f
.type f,@function
f:
s_getpc_b64 s[0:1]
s_add_u32 s0, s0, table@rel32@lo+4
s_addc_u32 s1, s1, table@rel32@hi+12
s_load_dword s2, s[0:1], 0x0
s_waitcnt lgkmcnt(0)
v_mov_b32 v2, s2
global_store_dword v[8:9], v2, off
s_endpgm
.section .rodata,"a"
.p2align 2
table:
.long 7
"""


def prove(root: Path, before: str, after: str, *more: str) -> Result:
    for name, text in (("before.s", before), ("after.s", after)):
        (root / name).write_text(text)
    return runner.invoke(app, ["prove", str(root / "before.s"), str(root / "after.s"), *more])


def test_proved(tmp_path: Path) -> None:
    result = prove(tmp_path, TRIPLE, SHIFTED, "--gpu", "gfx942")
    assert result.exit_code == 0, result.output
    assert "proved" in result.output
    assert "floating point: exact" in result.output


def test_whole_waves_are_your_word(tmp_path: Path) -> None:
    """What another lane reads of a register that was written under EXEC."""
    code = "v_add_f32 {0}, v0, v1\nv_readlane_b32 s2, {0}, 63\nv_mov_b32 v2, s2\n"
    code += "global_store_dword v[4:5], v2, off\ns_endpgm"
    texts = [kernel_text(code.format(name), {"accum_offset": 8}, None) for name in ("v6", "v7")]
    asked = prove(tmp_path, *texts, "--gpu", "gfx942", "--kernel", "k", "--timeout", "1")
    promised = prove(tmp_path, *texts, "--gpu", "gfx942", "--kernel", "k", "--whole-waves")
    assert (asked.exit_code, promised.exit_code) == (1, 0), asked.output + promised.output


def test_refuted_shows_the_inputs(tmp_path: Path) -> None:
    result = prove(tmp_path, TRIPLE, WRONG, "--gpu", "gfx942", "--json")
    assert result.exit_code == 1, result.output
    (kernel,) = json.loads(result.output)["kernels"]
    assert kernel["outcome"] == "refuted"
    assert "v0" in kernel["counterexample"]["registers"]
    assert "global_store_dword" in kernel["reason"]


def test_undecided_names_the_instruction(tmp_path: Path) -> None:
    changed = UNKNOWN.replace("v2, 0", "v2, 1")
    result = prove(tmp_path, UNKNOWN, changed, "--gpu", "gfx942")
    assert result.exit_code == 3, result.output
    assert ".long 0xffffffff" in result.output


@pytest.mark.parametrize(
    ("policy", "code"), [("exact", 1), ("contract", 0), ("reassoc", 0)], ids=["exact", "contract", "reassoc"]
)
def test_the_policy_is_obeyed_and_printed(tmp_path: Path, policy: str, code: int) -> None:
    end = "global_store_dword v[8:9], v2, off\ns_endpgm\n"
    before = "v_mul_f32 v3, v0, v1\nv_add_f32 v2, v3, v4\n" + end
    result = prove(tmp_path, before, "v_fma_f32 v2, v0, v1, v4\n" + end, "--gpu", "gfx942", "--fp", policy)
    assert result.exit_code == code, result.output
    assert f"floating point: {policy}" in result.output


def test_a_code_object_with_itself_kernels_and_functions(tmp_path: Path) -> None:
    name = next(each for each in sorted(all_files()) if each.endswith("function_calls.hsaco"))
    file = tmp_path / "a.hsaco"
    file.write_bytes(all_files()[name])
    result = runner.invoke(app, ["prove", str(file), str(file), "--json"])
    assert result.exit_code == 0, result.output
    assert len(json.loads(result.output)["kernels"]) > 1


def test_a_launch_refutes_what_drawn_states_do_not_reach(tmp_path: Path) -> None:
    before = all_files()["gfx942/function_calls.s"].decode()
    after = before.replace("0x63", "0x62", 1)
    assert after != before
    assert prove(tmp_path, before, after, "--kernel", "function_calls").exit_code == 3
    launch = Path(__file__).parent.parent / "data" / "launches" / "function_calls.json"
    result = prove(tmp_path, before, after, "--kernel", "function_calls", "--launch", str(launch))
    assert result.exit_code == 1, result.output
    assert "the launch with the manifest's data" in result.output
    same = prove(tmp_path, before, before, "--kernel", "function_calls", "--launch", str(launch))
    assert same.exit_code == 0, same.output


def test_other_constant_data_is_no_proof(tmp_path: Path) -> None:
    assert prove(tmp_path, WITH_DATA, WITH_DATA).exit_code == 0
    result = prove(tmp_path, WITH_DATA, WITH_DATA.replace(".long 7", ".long 8"))
    assert result.exit_code == 3, result.output
    assert ".rodata" in result.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.s", "nowhere.s"], "no such file"),
        (["before.s", "before.s", "--gpu", "gfx942", "--kernel", "nothing*"], "no kernel matches"),
        (["before.s", "before.s", "--gpu", "gfx942", "--fp", "sloppy"], "sloppy"),
    ],
    ids=["file", "kernel", "policy"],
)
def test_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str) -> None:
    (tmp_path / "before.s").write_text(TRIPLE)
    monkeypatch.chdir(tmp_path)
    result = runner.invoke(app, ["prove", *arguments])
    assert result.exit_code == 2
    assert words in result.output
