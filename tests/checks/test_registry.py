"""Every rule that a checker can emit is documented, and every documented rule is emitted and named by a test."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from asmevo.checks.registry import rules
from asmevo.target.hazards import hazard_table

ROOT = Path(__file__).resolve().parents[2]
CHECKS = ROOT / "src" / "asmevo" / "checks"
RULE = re.compile(r"^(waits|hazards|clauses|resources|races|replay|constraints|suppressions)[./][a-z0-9-]+$")
# Parts of which a rule is put together, by the file that does so.
PREFIXES = {"constraints/graph.py": "constraints.", "suppression.py": "suppressions.", "resources.py": "resources/"}


def emitted() -> set[str]:
    """The rule ids in the source of the checkers: whole ones, and those behind a file's own prefix."""
    found = {f"hazards.{row.id}" for row in (*hazard_table().wait_states, *hazard_table().sequences)}
    found |= {f"hazards.{hazard_table().partial_forwarding.id}", f"hazards.{hazard_table().high_shift.id}"}
    for file in CHECKS.rglob("*.py"):
        prefix = PREFIXES.get(str(file.relative_to(CHECKS)))
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                if RULE.match(node.value):
                    found.add(node.value)
                elif prefix and f"{prefix}{node.value}" in rules():
                    found.add(f"{prefix}{node.value}")
    return found


def test_what_is_emitted_is_documented() -> None:
    assert emitted() - set(rules()) == set()


def test_what_is_documented_is_emitted() -> None:
    assert set(rules()) - emitted() == set()


def test_every_rule_is_named_by_a_test() -> None:
    """Hazard rows have their own sweep over the table (tests/checks/test_hazards.py and the probes)."""
    own = {Path(__file__)}
    text = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("*.py") if path not in own)
    words = set(re.findall(r"[a-z0-9-]+", text))
    missing = [id_ for id_ in rules() if not id_.startswith("hazards.") and re.split(r"[./]", id_)[1] not in words]
    assert missing == []


@pytest.mark.parametrize("id_", sorted(rules()))
def test_documentation_says_something(id_: str) -> None:
    rule = rules()[id_]
    assert rule.source
    assert rule.mend
    assert len(rule.meaning) > len("too short")
    assert rule.meaning != rule.title


def test_the_documents_are_what_the_data_says() -> None:
    done = subprocess.run(
        [sys.executable, "tools/check_docs.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
