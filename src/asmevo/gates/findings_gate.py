"""Gates that are made of a check: findings that the parent already had do not count, new ones do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict

from asmevo.checks.finding import Finding
from asmevo.gates.gate import Verdict, VerdictKind
from asmevo.program.candidate import Candidate
from asmevo.program.kernel import Kernel

Check = Callable[[Kernel], Iterable[Finding]]


class FindingsGate:
    """Rejects a candidate that has an error or warning which the parent has not."""

    def __init__(self, name: str, parent: Kernel, check: Check, silent: str) -> None:
        self.name = name
        self._check = check
        self._silent = silent
        self._known = {finding.key for finding in check(parent) if finding.blocks_candidate}

    def judge(self, candidate: Candidate) -> Verdict:
        """See Gate.judge."""
        fresh = [
            finding
            for finding in self._check(candidate.kernel)
            if finding.blocks_candidate and finding.key not in self._known
        ]
        if not fresh:
            return Verdict(self.name, VerdictKind.ACCEPTED, self._silent)
        first = fresh[0]
        reason = first.message if not first.mend else f"{first.message}; {first.mend}"
        evidence = {"findings": [_as_data(finding) for finding in fresh]}
        return Verdict(self.name, VerdictKind.REJECTED, reason, first.instructions, evidence)


def _as_data(finding: Finding) -> dict[str, object]:
    return asdict(finding) | {"severity": finding.severity.value}
