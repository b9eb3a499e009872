"""Where LLVM's hazard and wait passes and ours disagree: writes docs/hazards_and_llvm.md.

`python tools/llvm_differential/page.py [SAMPLES]` runs so many samples of each kind and target (400 by default) with
LLVM 22's `llc` and lists every disagreement with its reason from reasons.yaml. Exit 1 if one has none.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from compare import (
    Disagreement,
    available,
    hazard_disagreements,
    hazard_samples,
    loop_samples,
    sequence_samples,
    wait_disagreements,
    wait_samples,
)
from reasons import Reason, reason_for, reasons
from vocabulary import RDNA, TARGETS

OUT = Path(__file__).parents[2] / "docs" / "hazards_and_llvm.md"
_SEED, _SAMPLES = 1, 400
_HEAD = """# Hazards and waits: asmevo and LLVM

Written by `tools/llvm_differential/page.py`; do not edit. Random instructions go through the passes
`post-RA-hazard-rec`, `amdgpu-wait-sgpr-hazards` and `si-insert-waitcnts` of LLVM {version} and through asmevo's own
analyses. For hazards a sample is a pair of instructions with up to three others between, or, where hazards need more
than two, up to five ALU instructions in a row or as the body of a loop; for waits up to four memory instructions and
one more. Compared are the wait states, the need for another instruction, and the value of every wait counter.
`tests/analysis/test_llvm_differential.py` does the same with fewer samples and fails at a disagreement that has no
reason here.

"""


def main(samples: int) -> int:
    if not available():
        print("needs LLVM 22's llc (llc-22 on PATH, or $LLC)", file=sys.stderr)
        return 2
    found = [(target, kind, list(differ)) for target, kind, differ in _all(samples)]
    rows = [f"| {target} | {kind} | {samples} | {len(differ)} |" for target, kind, differ in found]
    table = "\n".join(["| target | compared | samples | disagreements |", "|---|---|---|---|", *rows])
    everything = [each for _, _, differ in found for each in differ]
    text = _HEAD.format(version="22") + table + "\n\n## The disagreements\n\n" + "\n".join(_reasons(everything))
    OUT.write_text(text + "\n", encoding="utf-8")
    unexplained = [each for each in everything if reason_for(each) is None]
    for each in unexplained:
        print(each, file=sys.stderr)
    return 1 if unexplained else 0


def _all(samples: int) -> Iterator[tuple[str, str, Iterator[Disagreement]]]:
    for target in TARGETS:
        yield target, "hazards of pairs", hazard_disagreements(hazard_samples(target, samples, _SEED))
        if target in RDNA:
            yield target, "hazards of sequences", hazard_disagreements(sequence_samples(target, samples, _SEED))
            yield target, "hazards of loops", hazard_disagreements(loop_samples(target, samples, _SEED))
        yield target, "waits", wait_disagreements(wait_samples(target, samples, _SEED))


def _reasons(everything: list[Disagreement]) -> Iterator[str]:
    counts = Counter(_id(reason_for(each)) for each in everything)
    for reason in reasons():
        if counts[reason.id]:
            example = next(each for each in everything if _id(reason_for(each)) == reason.id)
            yield f"### {reason.id}\n\n{reason.reason}\n\n{_words(example, counts[reason.id])}\n"


def _id(reason: Reason | None) -> str:
    return reason.id if reason is not None else ""


def _words(example: Disagreement, count: int) -> str:
    lines = "\n".join(example.sample.lines)
    return (
        f"Seen {count} {'time' if count == 1 else 'times'}. On {example.sample.target}, for instance, LLVM asks for "
        f"{example.theirs}, asmevo for {example.ours}:\n\n```\n{lines}\n```"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("samples", nargs="?", type=int, default=_SAMPLES, help="of each kind and target")
    sys.exit(main(parser.parse_args().samples))
