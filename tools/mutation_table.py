"""Writes docs/mutations.md: what becomes of mutants of compiled kernels, and of edits that change nothing.

    python tools/mutation_table.py --keep FILE [--each N] [--share I/N] [--seconds S] [--write]

`--keep` names a file with one JSON object a line; launches that it knows already are left out, so that the sweep can be
broken off and taken up again. `--share 0/2` takes every second launch, for two processes with a file each; several
files may be given when the document is written.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "tests" / "program")]

from emulated_launches import all_pairs  # noqa: E402
from legal_edits import OPERATORS as EDITS  # noqa: E402
from mutant_judging import CHECK, ORDER, PROOF, benches, edit_fates, mutant_fates  # noqa: E402
from mutations import OPERATORS as MUTATIONS  # noqa: E402

DOCUMENT = ROOT / "docs" / "mutations.md"
Row = dict[str, str]

HEAD = """# Mutants and legal edits

Written by `tools/mutation_table.py`. The mutants come from `tests/support/mutations.py`, the legal edits from
`tests/support/legal_edits.py`, the judgement from `tests/support/mutant_judging.py`; the kernels are the compilers'
outputs that the tests have, each with a launch.

A mutant is killed by **check** if `check_kernel` has an error or warning that it has not about the original, by
**order** if the waits gate finds that other waves may see memory in another order, by **proof** if the equivalence gate
does not accept it (refuted or undecided: a gate fails closed). What survives all three must be equivalent. That is
shown by what shares nothing with them: the emulator runs it beside the original, with the manifest's data, fuzzed data,
poisoned results and late memory under several seeds, and all bytes must be equal; the wait simulator walks its paths.
No-ops are the exception: the emulator knows no hazards, so a survivor among them is open, not shown. Waits and no-ops
are mutated where something else than asmevo's analyses says that they are needed: the wait simulator, the code around.
"""


def sweep(keep: Path, each: int, share: tuple[int, int], seconds: float) -> None:
    """Judges what the file does not have yet, launch by launch."""
    known = {(row["launch"], row["target"]) for row in read([keep])}
    todo = [bench for bench in benches(all_pairs()) if (bench.name, bench.target) not in known]
    random.Random(1).shuffle(todo)
    started = time.monotonic()
    with keep.open("a") as file:
        for bench in todo[share[0] :: share[1]]:
            fates = [*mutant_fates(bench, each), *edit_fates(bench, 1)]
            file.writelines(json.dumps(fate.to_dict()) + "\n" for fate in fates)
            file.flush()
            if time.monotonic() - started > seconds:
                return


def read(files: Iterable[Path]) -> list[Row]:
    """All rows; a last line that was broken off is left out."""
    lines = [line for file in files if file.exists() for line in file.read_text().splitlines()]
    return [json.loads(line) for line in lines if line.endswith("}")]


def document(rows: list[Row]) -> str:
    """The whole text."""
    mutants = [row for row in rows if row["kind"] in MUTATIONS]
    edits = [row for row in rows if row["kind"] in EDITS]
    return "\n".join([HEAD, *_mutants(mutants), *_edits(edits)]) + "\n"


def _mutants(rows: list[Row]) -> Iterable[str]:
    killed = sum(bool(row["killer"]) for row in rows)
    wrong = [row for row in rows if not row["killer"] and row["words"].startswith("WRONG")]
    equal = len(rows) - killed - len(wrong)
    targets = sorted({row["target"] for row in rows}, key=lambda name: (len(name), name))
    yield "## Mutants\n"
    yield f"{len(rows)} mutants on {len(targets)} targets: {killed} killed ({killed / len(rows):.2%}),"
    yield f"{equal} shown to be equivalent, {len(wrong)} wrong survivors."
    yield f"Of those not equivalent {killed / (len(rows) - equal):.2%} are killed.\n"
    yield from _table(
        ["kind", "made", CHECK, ORDER, PROOF, "equivalent", "wrong"],
        [[kind, *_counts([row for row in rows if row["kind"] == kind])] for kind in MUTATIONS]
        + [["all", *_counts(rows)]],
    )
    yield "Killed / made, by target:\n"
    yield from _table(
        ["kind", *targets],
        [[kind, *(_cell(rows, kind, target) for target in targets)] for kind in MUTATIONS],
    )
    yield "What killed by check means, by rule:\n"
    rules = Counter(row["words"] for row in rows if row["killer"] == CHECK)
    yield from _table(["rule", "mutants"], [[f"`{rule}`", count] for rule, count in rules.most_common()])
    yield "The survivors:\n"
    yield from _table(
        ["target", "launch", "kind", "mutation", "why it may live"],
        [
            [row["target"], row["launch"], row["kind"], row["mutation"].replace("|", "\\|"), row["words"]]
            for row in sorted(rows, key=lambda row: (row["kind"], row["target"], row["launch"]))
            if not row["killer"]
        ],
    )


def _counts(rows: list[Row]) -> list[Any]:
    by = Counter(row["killer"] for row in rows)
    wrong = sum(not row["killer"] and row["words"].startswith("WRONG") for row in rows)
    return [len(rows), by[CHECK], by[ORDER], by[PROOF], by[""] - wrong, wrong]


def _cell(rows: list[Row], kind: str, target: str) -> str:
    here = [row for row in rows if row["kind"] == kind and row["target"] == target]
    return f"{sum(bool(row['killer']) for row in here)}/{len(here)}" if here else "-"


def _edits(rows: list[Row]) -> Iterable[str]:
    refused = [row for row in rows if row["killer"]]
    share = 1 - len(refused) / len(rows) if rows else 1.0
    yield "## Legal edits\n"
    yield f"{len(rows)} edits through the whole pipeline, {len(rows) - len(refused)} accepted ({share:.2%}).\n"
    made = Counter(row["kind"] for row in rows)
    lost = Counter(row["kind"] for row in refused)
    yield from _table(["kind", "made", "accepted"], [[kind, made[kind], made[kind] - lost[kind]] for kind in EDITS])
    yield "The refused ones:\n"
    yield from _table(
        ["target", "launch", "kind", "edit", "gate", "reason"],
        [
            [*(row[key].replace("|", "\\|") for key in ("target", "launch", "kind", "mutation", "killer", "words"))]
            for row in refused
        ],
    )


def _table(head: list[str], rows: list[list[Any]]) -> Iterable[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    yield from ("| " + " | ".join(map(str, row)) + " |" for row in rows)
    yield ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, nargs="+", required=True)
    parser.add_argument("--each", type=int, default=1, help="mutants of a kind for each launch")
    parser.add_argument("--share", default="0/1")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="0: judge nothing")
    parser.add_argument("--write", action="store_true", help="write the document")
    options = parser.parse_args()
    place, parts = map(int, options.share.split("/"))
    if options.seconds:
        sweep(options.keep[0], options.each, (place, parts), options.seconds)
    if options.write:
        DOCUMENT.write_text(document(read(options.keep)))


if __name__ == "__main__":
    main()
