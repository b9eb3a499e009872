"""The table of checks: `asmevo check` runs all of it, and the gates hold all of it but what says why not."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from written_kernels import compiled_kernels

from asmevo.checks import Finding, Severity, check_kernel, families
from asmevo.checks.families import CHECKS, Check, Subject, held_by
from asmevo.checks.registry import rules
from asmevo.gates import Pipeline
from asmevo.program.candidate import Candidate
from asmevo.program.edit import EditScript, Insert
from asmevo.program.instruction_text import encode_text
from asmevo.program.kernel import Kernel

SOURCES = Path(__file__).resolve().parents[2] / "src" / "asmevo" / "checks"
OF_FILES = {"constraints", "suppressions"}
"""Families that are about what files say, see the module."""


def kernel() -> Kernel:
    return min(compiled_kernels(), key=lambda each: len(each.instructions))


def with_a_nop(parent: Kernel) -> Candidate:
    made = encode_text("s_nop 0", parent.context)
    id_ = 1 + max(each.id for each in parent.instructions)
    edit = Insert(id=id_, code=made.code.hex(), text=made.text, before=parent.instructions[-1].id)
    return Candidate.make(parent, EditScript(base=parent.hash, kernel=parent.name, edits=(edit,)))


def nops_are_bad(subject: Subject) -> Iterator[Finding]:
    for each in subject.kernel.instructions:
        if each.mnemonic == "s_nop":
            yield Finding("own.nop", Severity.ERROR, subject.kernel.name, "a no-op", (each.id,))


def test_a_row_is_held_or_says_why_not() -> None:
    for wrong in ({}, {"gate": "waits", "why_not": "both"}):
        with pytest.raises(ValueError, match="own"):
            Check("own", nops_are_bad, **wrong)


@pytest.mark.parametrize("gate", sorted({check.gate for check in CHECKS if check.gate}))
def test_what_a_new_row_finds_is_reported_and_refused(gate: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parent = kernel()
    candidate = with_a_nop(parent)
    assert Pipeline(parent).judge(candidate).accepted
    monkeypatch.setattr(families, "CHECKS", (*CHECKS, Check("own", nops_are_bad, gate=gate)))
    assert any(finding.rule == "own.nop" for finding in check_kernel(candidate.kernel))
    last = Pipeline(parent).judge(candidate).verdicts[-1]
    assert (last.gate, last.accepted, last.reason) == (gate, False, "a no-op")


def test_a_row_that_no_gate_holds_is_only_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    parent = kernel()
    candidate = with_a_nop(parent)
    monkeypatch.setattr(families, "CHECKS", (*CHECKS, Check("own", nops_are_bad, why_not="a test")))
    assert any(finding.rule == "own.nop" for finding in check_kernel(candidate.kernel))
    assert Pipeline(parent).judge(candidate).accepted


def test_every_gate_that_is_named_is_one_of_the_pipeline() -> None:
    names = {gate.name for gate in Pipeline(kernel()).gates}
    assert {check.gate for check in CHECKS if check.gate} <= names
    assert all(held_by(gate) for gate in ("waits", "hazards", "resources"))


def test_every_family_of_rules_has_a_row() -> None:
    found = {re.split(r"[./]", rule)[0] for rule in rules()}
    assert found == {check.family for check in CHECKS} | OF_FILES


def test_advice_on_waits_is_nothing_but_advice() -> None:
    """No gate holds it, so none of it may be an error or a warning."""
    tree = ast.parse((SOURCES / "wait_notes.py").read_text())
    own = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and node.value in rules()}
    assert {rules()[rule].severity for rule in own} == {"perf"}


SAME = {"check_waits": "hard_findings", "check_races": "race_findings"}
"""What stands in the table where the waits are analysed already."""


def _checks() -> Iterator[str]:
    """Public functions of the checkers that take a kernel alone, by name."""
    for file in sorted(SOURCES.glob("*.py")):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("check_"):
                yield from [node.name] * ([ast.unparse(each.annotation) for each in node.args.args] == ["Kernel"])


def test_every_check_of_a_kernel_is_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []
    names = [SAME.get(name, name) for name in _checks() if name != "check_kernel"]
    for name in names:
        monkeypatch.setattr(families, name, lambda subject, name=name: ran.append(name) or ())
    check_kernel(kernel())
    assert sorted(ran) == sorted(names)
    assert len(names) >= 7
