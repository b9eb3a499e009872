"""Search: the loop over proposers and gates, patches, the ledger."""

from asmevo.gates import Level
from asmevo.search.apply import Applied, apply_patch
from asmevo.search.artifacts import BrokenLedgerError, LedgerError
from asmevo.search.ledger import Ledger
from asmevo.search.optimize import OptimizationRun, SearchOptions, optimize
from asmevo.search.patch import Patch, PatchError, read_patch

__all__ = [
    "Applied",
    "BrokenLedgerError",
    "Ledger",
    "LedgerError",
    "Level",
    "OptimizationRun",
    "Patch",
    "PatchError",
    "SearchOptions",
    "apply_patch",
    "optimize",
    "read_patch",
]
