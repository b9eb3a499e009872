"""Constraint sets: what a target, a ROCm release or a project asks of code, as data. See docs/constraints.md."""

from asmevo.checks.constraints.choosing import check_constraint_files, constraints_for
from asmevo.checks.constraints.dialect import refused_forms
from asmevo.checks.constraints.evaluation import Violation, check_constraints, violations
from asmevo.checks.constraints.graph import Compiled

__all__ = [
    "Compiled",
    "Violation",
    "check_constraint_files",
    "check_constraints",
    "constraints_for",
    "refused_forms",
    "violations",
]
