"""The built-in proposers by name, in the order in which a search first asks them: quick ones before patient ones.

The renamer comes before the list scheduler: its few orders are bound by values only, and where the old registers
allow one it keeps them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from asmevo.proposers.branches import Branches
from asmevo.proposers.compaction import Compaction
from asmevo.proposers.copies import CopyRemoval
from asmevo.proposers.genetic import Genetic
from asmevo.proposers.lds_bases import LdsBases
from asmevo.proposers.list_scheduler import ListScheduler
from asmevo.proposers.local_search import LocalSearch
from asmevo.proposers.pairing import DualIssue
from asmevo.proposers.pipelining import Pipeliner
from asmevo.proposers.proposer import Proposer, ProposerError
from asmevo.proposers.register_search import RegisterSearch
from asmevo.proposers.renaming import Renamer
from asmevo.proposers.templates.proposer import Templates
from asmevo.proposers.waits import WaitRelaxer
from asmevo.prover import FloatPolicy


class BuiltIn(Struct, frozen=True):
    """`make` builds it for a floating-point policy. `summary` is for people.

    One that is `varied` has other ideas each time it is asked about the same version. One that is a `move` has single
    small ideas at once, so that the genetic search can use it as a mutation. The ideas of one that `is_whole` change
    the whole kernel.
    """

    name: str
    summary: str
    make: Callable[[FloatPolicy], Proposer]
    varied: bool = False
    is_move: bool = True
    is_whole: bool = False


def _genetic(policy: FloatPolicy) -> Proposer:
    return Genetic([each.make(policy) for each in BUILT_IN.values() if each.is_move])


_ALL = (
    BuiltIn("waits", "waits and no-ops dropped, relaxed, sunk, merged", lambda policy: WaitRelaxer()),
    BuiltIn("renamer", "registers renamed so that false dependences and bank conflicts go", lambda policy: Renamer()),
    BuiltIn("list-scheduler", "hot blocks in a new order that hides latency", lambda policy: ListScheduler()),
    BuiltIn("templates", "rules that replace a few instructions by better ones", Templates),
    BuiltIn("branches", "short branches turned into selections, or not taken", lambda policy: Branches()),
    BuiltIn("lds-bases", "LDS addresses that share one register, with other offsets", lambda policy: LdsBases()),
    BuiltIn("dual-issue", "vector instructions paired (VOPD), renamed where need be", lambda policy: DualIssue()),
    BuiltIn(
        "pipeliner",
        "address arithmetic at the head of a loop done an iteration ahead",
        lambda policy: Pipeliner(),
        is_move=False,
    ),
    BuiltIn("copies", "copies removed whose two values can share a register", lambda policy: CopyRemoval()),
    BuiltIn(
        "compaction",
        "registers closer together, so that more waves fit",
        lambda policy: Compaction(),
        is_whole=True,
    ),
    BuiltIn(
        "local-search",
        "orders of the hottest loops, step by step along the cycle model",
        lambda policy: LocalSearch(),
        varied=True,
        is_move=False,
    ),
    BuiltIn(
        "register-search",
        "the same with registers dealt anew for every order",
        lambda policy: RegisterSearch(),
        varied=True,
        is_move=False,
    ),
    BuiltIn(
        "genetic",
        "versions on islands that mutate by all others' ideas and cross",
        _genetic,
        varied=True,
        is_move=False,
    ),
)

BUILT_IN: dict[str, BuiltIn] = {each.name: each for each in _ALL}
"""By name, in the order of asking."""


def built_in_named(names: Sequence[str]) -> tuple[BuiltIn, ...]:
    """Those of these names, in the order of asking. Raises ProposerError for a name that is none."""
    strangers = [each for each in names if each not in BUILT_IN]
    if strangers:
        raise ProposerError(f"there is no proposer {strangers[0]}; there are: {', '.join(BUILT_IN)}")
    return tuple(each for each in _ALL if each.name in names)
