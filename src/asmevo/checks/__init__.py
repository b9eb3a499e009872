"""Checks: kernel in, findings out. One file a family of rules."""

from asmevo.analysis.wait_counters import WaitAnalysis
from asmevo.checks.clauses import check_clauses
from asmevo.checks.dual_issue import check_dual_issue
from asmevo.checks.finding import Finding, Severity
from asmevo.checks.hazards import check_hazards
from asmevo.checks.races import check_races
from asmevo.checks.races import findings_of as race_findings
from asmevo.checks.replay import check_replay
from asmevo.checks.resources import check_resources
from asmevo.checks.waits import check_waits
from asmevo.checks.waits import findings_of as wait_findings
from asmevo.program.kernel import Kernel

__all__ = [
    "Finding",
    "Severity",
    "check_clauses",
    "check_dual_issue",
    "check_hazards",
    "check_kernel",
    "check_races",
    "check_replay",
    "check_resources",
    "check_waits",
]


def check_kernel(kernel: Kernel) -> tuple[Finding, ...]:
    """All findings about one kernel or function: waits, hazards, clauses, races, replays, resources and ABI."""
    waits = WaitAnalysis(kernel)
    others = (check_hazards, check_dual_issue, check_clauses, check_replay, check_resources)
    found = (finding for family in others for finding in family(kernel))
    return (*wait_findings(waits), *found, *race_findings(waits))
