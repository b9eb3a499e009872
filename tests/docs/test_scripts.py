"""Scripts say what they do when they are asked, and do nothing then."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDERS = ("tools", "benchmarks", "examples", "experiments")
SCRIPTS = [
    path
    for folder in FOLDERS
    for path in sorted((ROOT / folder).rglob("*.py"))
    if "__main__" in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_script_reads_its_command_line_with_argparse(script: Path) -> None:
    """The command line is taken by `parse_args` and nowhere else."""
    nodes = list(ast.walk(ast.parse(script.read_text(encoding="utf-8"))))
    attributes = {(ast.unparse(node.value), node.attr) for node in nodes if isinstance(node, ast.Attribute)}
    assert "parse_args" in {attribute for _, attribute in attributes}
    assert ("sys", "argv") not in attributes


@pytest.mark.parametrize("script", ["tools/readme.py", "tools/check_docs.py", "experiments/launches.py"])
def test_help_writes_nothing(script: str) -> None:
    def state() -> list[tuple[Path, int]]:
        files = [ROOT / "README.md", *(ROOT / "docs").glob("*"), *(ROOT / "experiments" / "manifests").glob("*")]
        return sorted((path, path.stat().st_mtime_ns) for path in files)

    before = state()
    asked = subprocess.run([sys.executable, script, "--help"], cwd=ROOT, capture_output=True, text=True, check=False)
    wrong = subprocess.run([sys.executable, script, "--chekc"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (asked.returncode, asked.stdout[:6]) == (0, "usage:")
    assert (wrong.returncode, wrong.stderr[:6]) == (2, "usage:")
    assert state() == before
