"""Which checks there are and which gate holds each: the one table of which `asmevo check` and the gates are made.

`check` runs every row. A gate holds a row if it refuses a candidate with an error or a warning of it that the parent
had not. A row that no gate holds says why not; there is no third way, so a new check cannot be forgotten in one of
the two places. Beside these stand the constraint sets, which files choose (`checks.constraints`, and a gate of its
own), and what is said about suppressions, which are no code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property

from msgspec import Struct

from asmevo.analysis.wait_counters import WaitAnalysis
from asmevo.checks.clauses import check_clauses
from asmevo.checks.dual_issue import check_dual_issue
from asmevo.checks.finding import Finding
from asmevo.checks.hazards import check_hazards
from asmevo.checks.races import findings_of as race_findings
from asmevo.checks.renumbered import doubted
from asmevo.checks.replay import check_replay
from asmevo.checks.resources import check_resources
from asmevo.checks.wait_notes import wait_notes
from asmevo.checks.waits import hard_findings
from asmevo.program.kernel import Kernel


class Subject(Struct, frozen=True, dict=True, eq=False):
    """What a check looks at. `analysed` are the waits, where somebody has them already."""

    kernel: Kernel
    analysed: WaitAnalysis | None = None

    @cached_property
    def waits(self) -> WaitAnalysis:
        """The analysis of its waits, made when the first check asks."""
        return self.analysed or WaitAnalysis(self.kernel)


class Check(Struct, frozen=True):
    """One check. `family` is the first word of its rules; `gate` the one that holds it, or `why_not` says why none."""

    family: str
    findings: Callable[[Subject], Iterable[Finding]]
    gate: str = ""
    why_not: str = ""

    def __post_init__(self) -> None:
        if bool(self.gate) == bool(self.why_not):
            raise ValueError(f"a check of {self.family} is held by a gate, or says why by none")


CHECKS = (
    Check("waits", lambda subject: hard_findings(subject.waits), gate="waits"),
    Check(
        "waits", lambda subject: wait_notes(subject.waits), why_not="advice on speed, which is nothing to refuse for"
    ),
    Check("hazards", lambda subject: check_hazards(subject.kernel), gate="hazards"),
    Check("hazards", lambda subject: check_dual_issue(subject.kernel), gate="hazards"),
    Check("clauses", lambda subject: check_clauses(subject.kernel), gate="hazards"),
    Check("replay", lambda subject: check_replay(subject.kernel), gate="waits"),
    Check("resources", lambda subject: check_resources(subject.kernel), gate="resources"),
    Check(
        "races",
        lambda subject: race_findings(subject.waits),
        why_not="a candidate has the races of its parent and no others, for the gates `equivalence` and `waits` keep "
        "its barriers and what is over at each; the check does not compare addresses and would refuse what is right",
    ),
)
"""All checks, in the order of a report."""


def held_by(gate: str) -> tuple[Check, ...]:
    """The checks that a gate holds."""
    return tuple(check for check in CHECKS if check.gate == gate)


def findings_of(checks: Iterable[Check], subject: Subject) -> tuple[Finding, ...]:
    """What these checks say, one after the other."""
    return doubted((finding for check in checks for finding in check.findings(subject)), subject.kernel)


def check_kernel(kernel: Kernel) -> tuple[Finding, ...]:
    """All findings about one kernel or function."""
    return findings_of(CHECKS, Subject(kernel))
