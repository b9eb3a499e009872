"""Writes src/asmevo/target/data/model_errors.yaml: how far the cycle model was off on traces of silicon, by target.

    python tools/model_errors.py TRACES

The same figures as `asmevo timing validate`: waits given, every other issue gap asked. An estimate quotes them.
llvm-mca has to be installed, for it is asked the same.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import yaml

from asmevo.program import write_file_atomically
from asmevo.timing.agreement import summed
from asmevo.timing.validation import Row, validate

DATA = Path(__file__).parent.parent / "src" / "asmevo" / "target" / "data" / "model_errors.yaml"
HEAD = """# How far the cycle model was off on traces of silicon where waits are given: the kernels, the share of their
# issue gaps predicted to the cycle, and the error of a wave's time as a share of it (mean over kernels, and the worst).
# llvm_mca and beside_it: the mean errors of llvm-mca and of the model over the kernels that llvm-mca knows all of.
# Written by tools/model_errors.py.
"""


def errors(rows: Sequence[Row]) -> dict[str, float]:
    """The figures of one target."""
    both = [row for row in rows if row.mca_total is not None and row.mca_total.count == row.total.count]
    theirs = [row.mca_wave_time_error for row in both if row.mca_wave_time_error is not None]
    figures = {
        "exact": summed(row.total for row in rows).share,
        "mean": fmean(row.wave_time_error for row in rows),
        "worst": max(row.wave_time_error for row in rows),
        "llvm_mca": fmean(theirs),
        "beside_it": fmean(row.wave_time_error for row in both),
    }
    return {"kernels": len(rows)} | {name: round(value, 3) for name, value in figures.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", type=Path)
    by_target: dict[str, list[Row]] = {}
    for row in validate(parser.parse_args().traces, second_opinion=True):
        by_target.setdefault(row.target, []).append(row)
    content = {target: errors(rows) for target, rows in sorted(by_target.items())}
    text = HEAD + yaml.safe_dump(content, sort_keys=False, default_flow_style=None)
    write_file_atomically(DATA, text.encode())


if __name__ == "__main__":
    main()
