"""Gates that are made of findings: those that the parent already had do not count, new ones do.

What such a gate holds is said in one table, `checks.families`.
"""

from __future__ import annotations

from collections.abc import Iterable

from asmevo.checks.families import Subject, findings_of, held_by
from asmevo.checks.finding import Finding
from asmevo.gates.gate import Verdict, VerdictKind
from asmevo.program.candidate import Candidate
from asmevo.program.kernel import Kernel


def verdict_of(gate: str, findings: Iterable[Finding], known: set[tuple[str, int, str]], silent: str) -> Verdict:
    """Rejected with the first finding that is an error or warning and not known from the parent."""
    fresh = [finding for finding in findings if finding.blocks_candidate and finding.key not in known]
    if not fresh:
        return Verdict(gate, VerdictKind.ACCEPTED, silent)
    first = fresh[0]
    reason = first.message if not first.mend else f"{first.message}; {first.mend}"
    return Verdict(
        gate, VerdictKind.REJECTED, reason, first.instructions, {"findings": [each.to_dict() for each in fresh]}
    )


def known_keys(findings: Iterable[Finding]) -> set[tuple[str, int, str]]:
    """The findings of a parent, by what identifies them across versions."""
    return {finding.key for finding in findings if finding.blocks_candidate}


class FindingsGate:
    """Rejects a candidate that has an error or warning which the parent has not. `silent` is said if there is none."""

    def __init__(self, name: str, parent: Kernel, silent: str) -> None:
        self.name = name
        self._checks = held_by(name)
        self._silent = silent
        self._known = known_keys(findings_of(self._checks, Subject(parent)))

    def judge(self, candidate: Candidate) -> Verdict:
        """See Gate.judge."""
        found = findings_of(self._checks, Subject(candidate.kernel))
        return verdict_of(self.name, found, self._known, self._silent)
