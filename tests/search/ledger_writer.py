"""Processes that record until they are killed: `python ledger_writer.py ROOT`, with lines of labels on stdin.

For each label a process is forked; it says `LABEL run ID PID`, and `LABEL kept N` after its N-th candidate, an accepted
one, was flushed. When one was killed `LABEL ended` is said; when all were the next line is read.
"""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path

from written_kernels import written

from asmevo.gates import Verdict
from asmevo.gates.gate import VerdictKind
from asmevo.program.edit import EditScript, Reorder
from asmevo.program.kernel import Kernel
from asmevo.search import Ledger
from asmevo.search.tried import Tried


def main(root: Path) -> None:
    kernel = written("s_nop 0\ns_nop 1\ns_endpgm")
    for line in sys.stdin:
        labels = {}
        for label in line.split():
            child = os.fork()
            if child == 0:
                record(root, label, kernel)
            labels[child] = label
        for _ in labels:
            say(labels[os.wait()[0]], "ended")


def record(root: Path, label: str, kernel: Kernel) -> None:
    """Without end."""
    ids = tuple(each.id for each in kernel.instructions)
    request = {"file": label, "kernel": kernel.name, "target": kernel.target.name, "seed": 0}
    with Ledger(root).open_run(request, label.encode() * 1000) as run:
        say(label, "run", run.id, os.getpid())
        for number in itertools.count(1):
            edits = (Reorder(block=0, order=ids),)
            script = EditScript(base=kernel.hash, kernel=kernel.name, edits=edits, origin=f"{label} {number}")
            kind = VerdictKind.ACCEPTED if number % 3 == 0 else VerdictKind.REJECTED
            cost = 1.0 if kind is VerdictKind.ACCEPTED else None
            run.record(Tried(label, script, kernel.hash, kernel.hash, (Verdict("waits", kind, "because"),), cost))
            if kind is VerdictKind.ACCEPTED:
                run.flush()
                say(label, "kept", number)


def say(*words: object) -> None:
    """One line at once, so that lines of several processes do not mix and none is cut off by a kill."""
    os.write(sys.stdout.fileno(), (" ".join(map(str, words)) + "\n").encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
