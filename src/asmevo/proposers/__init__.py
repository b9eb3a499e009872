"""Proposers: everything that has ideas about a kernel. Gates decide; see `asmevo.gates`."""

from asmevo.proposers.list_scheduler import ListScheduler
from asmevo.proposers.local_search import LocalSearch
from asmevo.proposers.proposer import Facts, Proposer
from asmevo.proposers.waits import WaitRelaxer

__all__ = ["Facts", "ListScheduler", "LocalSearch", "Proposer", "WaitRelaxer"]
