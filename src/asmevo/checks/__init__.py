"""Checks: kernel in, findings out. One file a family of rules."""

from asmevo.checks.clauses import check_clauses
from asmevo.checks.finding import Finding, Severity
from asmevo.checks.hazards import check_hazards
from asmevo.checks.resources import check_resources
from asmevo.checks.waits import check_waits
from asmevo.program.kernel import Kernel

__all__ = ["Finding", "Severity", "check_clauses", "check_hazards", "check_kernel", "check_resources", "check_waits"]


def check_kernel(kernel: Kernel) -> tuple[Finding, ...]:
    """All findings about one kernel or function: waits, hazards, clauses, resources and ABI."""
    return (*check_waits(kernel), *check_hazards(kernel), *check_clauses(kernel), *check_resources(kernel))
