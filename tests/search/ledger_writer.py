"""A process that records until it is killed: `python ledger_writer.py ROOT LABEL`.

It says `run ID`, and `kept N` after the N-th candidate, an accepted one, was flushed.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

from written_kernels import written

from asmevo.gates import Verdict
from asmevo.gates.gate import VerdictKind
from asmevo.program.edit import EditScript, Reorder
from asmevo.search import Ledger
from asmevo.search.tried import Tried


def main(root: str, label: str) -> None:
    kernel = written("s_nop 0\ns_nop 1\ns_endpgm")
    ids = tuple(each.id for each in kernel.instructions)
    request = {"file": label, "kernel": kernel.name, "target": kernel.target.name, "seed": 0}
    with Ledger(Path(root)).open_run(request, label.encode() * 1000) as run:
        print("run", run.id, flush=True)
        for number in itertools.count(1):
            edits = (Reorder(block=0, order=ids),)
            script = EditScript(base=kernel.hash, kernel=kernel.name, edits=edits, origin=f"{label} {number}")
            kind = VerdictKind.ACCEPTED if number % 3 == 0 else VerdictKind.REJECTED
            cost = 1.0 if kind is VerdictKind.ACCEPTED else None
            run.record(Tried(label, script, kernel.hash, kernel.hash, (Verdict("waits", kind, "because"),), cost))
            if kind is VerdictKind.ACCEPTED:
                run.flush()
                print("kept", number, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
