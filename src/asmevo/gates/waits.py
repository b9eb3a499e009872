"""The waits gate: no register is touched while it is under way, and other waves see memory in the same order.

The first is a check of the candidate alone. The second compares with the parent: at each barrier, atomic,
store and cache operation whatever the parent had settled must be settled in the candidate. Where memory accesses are
replayed, what one needs for a second try is not overwritten before its address is translated (xcnt).
"""

from __future__ import annotations

from asmevo.analysis.wait_counters import WaitAnalysis
from asmevo.checks.families import Subject, findings_of, held_by
from asmevo.checks.waits import check_order
from asmevo.gates.findings_gate import known_keys, verdict_of
from asmevo.gates.gate import Verdict
from asmevo.program.candidate import Candidate
from asmevo.program.kernel import Kernel


class WaitsGate:
    """Keeps the parent's analysis; a candidate pays for the blocks that it changed."""

    name = "waits"

    def __init__(self, parent: Kernel) -> None:
        self._parent = WaitAnalysis(parent)
        self._checks = held_by(self.name)
        self._known = known_keys(findings_of(self._checks, Subject(parent, self._parent)))

    def judge(self, candidate: Candidate) -> Verdict:
        """See Gate.judge."""
        analysis = WaitAnalysis(candidate.kernel, self._parent)
        alone = findings_of(self._checks, Subject(candidate.kernel, analysis))
        findings = (*alone, *check_order(self._parent, analysis))
        silent = "every register is waited for on every path; memory order at barriers, stores and atomics is kept"
        return verdict_of(self.name, findings, self._known, silent)
