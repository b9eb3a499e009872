"""Writes docs/emulation.md: every launch of the project's own kernels on every target, emulated and compared.

    python tools/emulation_table.py [--seconds N]

Each launch runs in a process of its own, two at a time.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "tests" / "program")]

from emulated_launches import all_pairs, run_pair  # noqa: E402

from asmevo.emulator import Limits, RunOptions  # noqa: E402

WORDS = {"matches": "ok", "differs": "differs", "limit": "limit", "fault": "fault"}

ASYNCHRONOUS = "## Asynchronous mode\n"  # from here on `tools/asynchronous_table.py` writes

HEAD = """# What the emulator runs

Written by `tools/emulation_table.py`. Each cell is one launch of one compiled kernel, its results compared with
numpy: ok = all results match, `-` = not compiled for this target, otherwise what happened or the missing instruction.

{matching} of {total} launches match. `hidden_arguments_partial` differs on every target for one reason: its
reference expects the size of partial workgroups at the grid's end, while the compiled code loads the argument that
holds the full size (compilers may assume that all workgroups are full).

"""


def one(pair: tuple[str, str], seconds: float) -> tuple[tuple[str, str], str, int, float]:
    """(launch and target, word for the table, wave-instructions, seconds)."""
    result = run_pair(*pair, RunOptions(limits=Limits(seconds=seconds)))
    word = f"`{result.unsupported}`" if result.unsupported else WORDS[result.outcome.value]
    return pair, word, result.instructions, result.seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0, help="limit for each launch")
    seconds = parser.parse_args().seconds
    pairs = all_pairs()
    with ProcessPoolExecutor(2) as pool:
        found = {pair: word for pair, word, *_ in pool.map(one, pairs, [seconds] * len(pairs))}
    targets = sorted({target for _, target in pairs}, key=lambda name: (len(name), name))
    names = sorted({name for name, _ in pairs})
    lines = ["| launch | " + " | ".join(targets) + " |", "|---|" + "---|" * len(targets)]
    lines += ["| " + " | ".join([name, *(found.get((name, t), "-") for t in targets)]) + " |" for name in names]
    matching = sum(word == "ok" for word in found.values())
    document = ROOT / "docs" / "emulation.md"
    _, title, rest = document.read_text().partition(ASYNCHRONOUS)
    kept = f"\n{title}{rest}" if title else ""
    document.write_text(HEAD.format(matching=matching, total=len(pairs)) + "\n".join(lines) + "\n" + kept)


if __name__ == "__main__":
    main()
