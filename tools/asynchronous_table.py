"""Writes the asynchronous part of docs/emulation.md: every launch over many seeds, and mutated waits.

    python tools/asynchronous_table.py [--seeds N] [--mutations N] [--targets T,T] [--keep FILE]

`--keep` names a JSON file that holds what is known already, so that the sweep can be run target by target; the
document is written from everything in it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "tests" / "program")]

from emulated_launches import all_pairs, run_pair  # noqa: E402
from wait_agreement import AGREED, UNEXPLAINED, sampled, summed_up  # noqa: E402

from asmevo.emulator import RunOptions  # noqa: E402

DOCUMENT = ROOT / "docs" / "emulation.md"
TITLE = "## Asynchronous mode\n"
NOT_MUTATED = ("function_calls", "hidden_arguments_partial")  # as tests/emulator/test_asynchronous_kernels.py
DIFFERING = "hidden_arguments_partial"  # whose expectation differs with and without asynchronous mode

_MUTANT_SEEDS = 3

HEAD = (
    TITLE
    + """
Written by `tools/asynchronous_table.py`. Each launch runs with each of {seeds} seeds; clean means that no register was
used before its wait, no two accesses raced, and all results match numpy (`{differing}`: no fault).

| target | launches | runs | clean | wave-instructions | seconds |
|---|---|---|---|---|---|
"""
)


def swept(target: str, seeds: int) -> dict[str, Any]:
    """All launches of a target."""
    names = [name for name, each in all_pairs() if each == target]
    found: dict[str, Any] = {"launches": len(names), "runs": 0, "instructions": 0, "bad": []}
    started = time.perf_counter()
    for name in names:
        for seed in range(seeds):
            result = run_pair(name, target, RunOptions(asynchronous=True, seed=seed))
            found["runs"] += 1
            found["instructions"] += result.instructions
            good = ("matches", "differs") if name == DIFFERING else ("matches",)
            if result.outcome.value not in good:
                found["bad"].append([name, seed, result.outcome.value, *result.problems[:1]])
    return found | {"seconds": round(time.perf_counter() - started, 1)}


def table(known: dict[str, Any], seeds: int) -> str:
    """The document's part about the sweep."""
    rows = []
    targets = sorted(known, key=lambda name: (len(name), name))
    for target in targets:
        row = known[target]
        clean = row["runs"] - len(row["bad"])
        rows.append([target, row["launches"], row["runs"], clean, row["instructions"], row["seconds"]])
    rows.append(["all", *(round(sum(row[column] for row in rows), 1) for column in range(1, 6))])
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return HEAD.format(seeds=seeds, differing=DIFFERING) + "\n".join(lines) + "\n"


def mutated(each: int, seeds: int) -> dict[str, Any]:
    """Mutants of every launch, judged by the waits gate and by the emulator."""
    started = time.perf_counter()
    cases = list(sampled([pair for pair in all_pairs() if pair[0] not in NOT_MUTATED], each, seeds))
    for case in cases:
        if case.result == UNEXPLAINED:
            print("unexplained:", case, flush=True)
    seconds = round(time.perf_counter() - started, 1)
    agreed = sum(case.result == AGREED for case in cases)
    return {"seeds": seeds, "cases": len(cases), "agreed": agreed, "seconds": seconds, "counts": dict(summed_up(cases))}


def mutations_text(known: dict[str, Any]) -> str:
    """The document's part about mutated waits."""
    lines = [
        "",
        f"Mutated waits: {known['cases']} mutants of these kernels (one wait weakened in one counter, or left out),",
        f"judged by the waits gate and run with {known['seeds']} seeds; {known['agreed']} verdicts agree. What only",
        "the gate rejects has a reason, which `tests/support/wait_agreement.py` checks on the launch's trace:",
        "",
        "| verdict or reason | mutants |",
        "|---|---|",
    ]
    lines += [f"| {words} | {count} |" for words, count in sorted(known["counts"].items(), key=lambda row: -row[1])]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--targets", default=",".join(sorted({target for _, target in all_pairs()})))
    parser.add_argument("--mutations", type=int, default=2, help="for each launch; 0 leaves what --keep has")
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    kept: dict[str, Any] = {"targets": {}}
    if options.keep and options.keep.exists():
        kept = json.loads(options.keep.read_text())
    for target in filter(None, options.targets.split(",")):
        row = kept["targets"][target] = swept(target, options.seeds)
        print(target, {key: row[key] for key in ("runs", "seconds", "bad")}, flush=True)
        if options.keep:
            options.keep.write_text(json.dumps(kept))
    if options.mutations:
        kept["mutations"] = mutated(options.mutations, _MUTANT_SEEDS)
        print(kept["mutations"], flush=True)
        if options.keep:
            options.keep.write_text(json.dumps(kept))
    text = DOCUMENT.read_text().partition(TITLE)[0].rstrip("\n")
    mutations = mutations_text(kept["mutations"]) if "mutations" in kept else ""
    DOCUMENT.write_text(text + "\n\n" + table(kept["targets"], options.seeds) + mutations)


if __name__ == "__main__":
    main()
