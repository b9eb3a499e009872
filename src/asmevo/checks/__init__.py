"""Checks: kernel in, findings out. One file a family of rules; `families` is the table of all."""

from asmevo.checks.clauses import check_clauses
from asmevo.checks.dual_issue import check_dual_issue
from asmevo.checks.families import check_kernel
from asmevo.checks.finding import Finding, Severity
from asmevo.checks.hazards import check_hazards
from asmevo.checks.races import check_races
from asmevo.checks.replay import check_replay
from asmevo.checks.resources import check_resources
from asmevo.checks.waits import check_waits

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
