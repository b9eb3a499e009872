"""Search: the loop over proposers and gates, patches, the ledger."""

from asmevo.gates import Level
from asmevo.search.apply import Applied, Conditions, apply_patch, patched_kernel
from asmevo.search.artifacts import BrokenLedgerError, LedgerError
from asmevo.search.budget import Budget, BudgetError
from asmevo.search.executors import EXECUTORS, ExecutorError
from asmevo.search.ledger import Ledger
from asmevo.search.optimize import optimize
from asmevo.search.options import LevelError, OptimizationRun, SearchOptions
from asmevo.search.patch import Patch, PatchError, read_patch

__all__ = [
    "EXECUTORS",
    "Applied",
    "BrokenLedgerError",
    "Budget",
    "BudgetError",
    "Conditions",
    "ExecutorError",
    "Ledger",
    "LedgerError",
    "Level",
    "LevelError",
    "OptimizationRun",
    "Patch",
    "PatchError",
    "SearchOptions",
    "apply_patch",
    "optimize",
    "patched_kernel",
    "read_patch",
]
