"""Writes the parts of README.md that are output: the session and the table of targets.

Run it after a change of what commands print: `python tools/readme.py`. With `--check` it only says whether the
table of targets is up to date (the session depends on the machine's speed, so it is not compared).
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from asmevo.target import load_target, target_names, walk

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
KERNEL = ROOT / "tests" / "data" / "kernels" / "gfx942" / "matmul_f16.hsaco"
LAUNCH = ROOT / "tests" / "data" / "launches" / "matmul_f16.json"
SESSION = (
    ("inspect", "matmul_f16.hsaco"),
    ("optimize", "matmul_f16.hsaco", "-o", "matmul.patch", "--budget", "30s", "--launch", "matmul_f16.json"),
    ("apply", "matmul.patch", "matmul_f16.hsaco", "-o", "matmul_fast.hsaco"),
    ("check", "matmul_fast.hsaco"),
    ("run", "matmul_fast.hsaco", "--launch", "matmul_f16.json"),
)


def session() -> str:
    """The commands with what they printed."""
    parts = []
    with tempfile.TemporaryDirectory() as work:
        for file in (KERNEL, LAUNCH):
            (Path(work) / file.name).write_bytes(file.read_bytes())
        for command in SESSION:
            done = subprocess.run(
                [sys.executable, "-m", "asmevo", *command], cwd=work, capture_output=True, text=True, check=True
            )
            output = "\n".join(line.rstrip() for line in done.stdout.splitlines())
            parts.append(f"$ asmevo {' '.join(command)}\n{output}")
    return "```text\n" + "\n\n".join(parts) + "\n```"


def targets() -> str:
    """How well the facts of each target are known, counted from the data."""
    columns = ("measured", "vendor", "llvm", "aco", "secondhand", "assumed")
    lines = ["| target | products | " + " | ".join(columns) + " |", "|---|---|" + "---:|" * len(columns)]
    for name in target_names():
        target = load_target(name)
        counts = Counter(fact.known for _, fact in walk(target))
        cells = " | ".join(str(counts[column]) for column in columns)
        lines.append(f"| {name} | {target.products.value} | {cells} |")
    return "\n".join(lines)


def replaced(text: str, name: str, content: str) -> str:
    """The document with what stands between the two marks of this name replaced."""
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end {name} -->)", re.S)
    return pattern.sub(lambda found: f"{found[1]}{content}\n{found[2]}", text)


def main() -> None:
    """Writes or checks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only say whether the table of targets is up to date")
    arguments = parser.parse_args()
    text = README.read_text(encoding="utf-8")
    with_targets = replaced(text, "targets", targets())
    if arguments.check:
        sys.exit(0 if with_targets == text else "README.md: the table of targets is out of date; run tools/readme.py")
    README.write_text(replaced(with_targets, "session", session()), encoding="utf-8")


if __name__ == "__main__":
    main()
