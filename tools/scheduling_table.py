"""Writes the table in docs/scheduling.md: what the way through machine IR costs, LLVM's own order brought that way.

    python tools/scheduling_table.py

Every OpenCL C source of the tests is compiled for a few targets, once in one run of LLVM and once with LLVM's own order
taken through machine IR. Nothing is emulated here; the tests do that. Needs llc-22 and clang-22.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from statistics import geometric_mean

from msgspec import Struct

from asmevo.compiler import Row, schedule_source

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "tests" / "data" / "opencl"
DOCUMENT = ROOT / "docs" / "scheduling.md"
TARGETS = ("gfx90a", "gfx942", "gfx1100", "gfx1201")


class Pair(Struct, frozen=True):
    """One kernel: in one run, and by LLVM's order on our way. `unmatched` instructions of the source's functions."""

    own: Row
    brought: Row
    unmatched: int


def pairs(gpu: str) -> list[Pair]:
    """All kernels of all sources."""
    found = []
    for source in sorted(SOURCES.glob("*.cl")):
        scheduled = schedule_source(source, gpu, [])
        rows = {(row.kernel, row.stage): row for row in scheduled.rows}
        kernels = dict.fromkeys(row.kernel for row in scheduled.rows)
        found += [Pair(rows[name, "llvm"], rows[name, "pre"], scheduled.unmatched) for name in kernels]
    return found


def row_of(gpu: str, found: Sequence[Pair]) -> str:
    """A line of the table."""
    same = [pair for pair in found if not pair.own.lines_changed]
    lines = sum(pair.own.lines_changed or 0 for pair in found)
    measures = [(pair.own.measures, pair.brought.measures) for pair in found]
    known = [(own, brought) for own, brought in measures if own is not None and brought is not None]
    instructions = sum(own.instructions for own, _ in known)
    registers = sum((own.vgprs, own.agprs, own.sgprs) == (new.vgprs, new.agprs, new.sgprs) for own, new in known)
    occupancy = sum(own.occupancy == new.occupancy for own, new in known)
    cycles = [new.cycles / own.cycles for own, new in known]
    anew = sum(pair.unmatched > 0 for pair in found)
    return (
        f"| {gpu} | {len(found)} | {len(same)} | {lines} of {instructions} | {registers} | {occupancy} | "
        f"{geometric_mean(cycles):.3f} | {min(cycles):.3f} to {max(cycles):.3f} | {anew} |"
    )


def main() -> None:
    """Measures and writes."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    head = (
        "| target | kernels | same code | lines that differ | same registers | same occupancy | cycles, mean ratio | "
        "from, to | kernels with instructions made anew |\n|---|---|---|---|---|---|---|---|---|"
    )
    table = "\n".join([head, *(row_of(gpu, pairs(gpu)) for gpu in TARGETS)])
    text = DOCUMENT.read_text(encoding="utf-8")
    new = re.sub(
        r"(<!-- residual -->\n).*?(<!-- end residual -->)",
        lambda found: f"{found[1]}{table}\n{found[2]}",
        text,
        flags=re.S,
    )
    DOCUMENT.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
