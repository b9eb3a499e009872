"""Proposers: everything that has ideas about a kernel. Gates decide; see `asmevo.gates`."""

from asmevo.proposers.built_in import BUILT_IN, BuiltIn, built_in_named
from asmevo.proposers.child import Limits
from asmevo.proposers.compaction import Compaction
from asmevo.proposers.copies import CopyRemoval
from asmevo.proposers.external import ExternalProposer, command_proposer, entry_point_proposer
from asmevo.proposers.genetic import Genetic
from asmevo.proposers.list_scheduler import ListScheduler
from asmevo.proposers.local_search import LocalSearch
from asmevo.proposers.pairing import DualIssue
from asmevo.proposers.proposer import Facts, Proposer, ProposerError
from asmevo.proposers.renaming import Renamer
from asmevo.proposers.templates import Templates
from asmevo.proposers.waits import WaitRelaxer

__all__ = [
    "BUILT_IN",
    "BuiltIn",
    "Compaction",
    "CopyRemoval",
    "DualIssue",
    "ExternalProposer",
    "Facts",
    "Genetic",
    "Limits",
    "ListScheduler",
    "LocalSearch",
    "Proposer",
    "ProposerError",
    "Renamer",
    "Templates",
    "WaitRelaxer",
    "built_in_named",
    "command_proposer",
    "entry_point_proposer",
]
