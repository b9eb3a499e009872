"""Scheduling agents: who decides which ready instruction comes next, whatever the instructions are of.

An agent sees a `Choice` (plain data, see `scheduling`) and answers with the position of one candidate. The same agents
order final code and a compiler's machine IR before register allocation.

    default        what can start now, longest way to the end first: the critical path with its latencies hidden
    steady         like default, but out of source order only for a good reason
    random         any candidate, by a seed
    min_pressure   what frees most registers or takes fewest, vector registers first
    max_latency    what takes longest to bring its result
    pref_load      loads before everything else, as soon as they can start
    pref_salu      scalar work before everything else, as soon as it can start
    model_guided   a beam search over all decisions, judged by a cost function

Ties go to the longest way to the end, then to the source order, so every agent but `random` is a function of the
region alone, and `random` one of its seed and the decisions before.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence

from msgspec import Struct

from asmevo.proposers.beam import BRANCH, WIDTH, Cost, beam_search
from asmevo.proposers.proposer import ProposerError
from asmevo.proposers.scheduling import LOADS, Agent, Choice, Kind, Ready, Region

__all__ = [
    "AGENT_NAMES",
    "Agent",
    "AgentError",
    "Choice",
    "CriticalPath",
    "MaxLatency",
    "MinPressure",
    "ModelGuided",
    "RandomAgent",
    "Ready",
    "agent_named",
]


class AgentError(ProposerError):
    """No agent has that name; `str()` names those that there are."""


class CriticalPath(Struct, frozen=True):
    """What can start now with the longest way to the end; if nothing can, what can start soonest.

    `preferred` kinds come first among those that can start now. `order_weight`: cycles of height that one place of
    the source order is worth.
    """

    name: str = "default"
    preferred: Collection[Kind] = ()
    order_weight: float = 0.0

    def pick(self, choice: Choice) -> int:
        """See Agent."""
        return min(choice.ready, key=self._key).position

    def _key(self, ready: Ready) -> tuple[int, bool, float, int]:
        rank = ready.height - self.order_weight * ready.position
        return ready.stall, ready.kind not in self.preferred, -rank, ready.position


class MinPressure(Struct, frozen=True):
    """The smallest change of VGPR pressure, then of SGPR pressure; latency counts only between equals."""

    name: str = "min_pressure"

    def pick(self, choice: Choice) -> int:
        """See Agent."""
        return min(choice.ready, key=lambda r: (r.vgpr_delta, r.sgpr_delta, r.stall, -r.height, r.position)).position


class MaxLatency(Struct, frozen=True):
    """The longest own latency, startable or not."""

    name: str = "max_latency"

    def pick(self, choice: Choice) -> int:
        """See Agent."""
        return min(choice.ready, key=lambda r: (-r.latency, r.stall, -r.height, r.position)).position


class RandomAgent:
    """Any candidate, each as likely. An agent of the same seed answers the same sequence of choices the same way."""

    name = "random"

    def __init__(self, seed: int = 0) -> None:
        self._rng = random.Random(seed)

    def pick(self, choice: Choice) -> int:
        """See Agent."""
        return self._rng.choice(choice.ready).position


class ModelGuided:
    """Follows the best order that a beam search finds; plans anew where somebody else decided differently before.

    `cost` judges whole orders of a region; without it the bound of the search does.
    """

    name = "model_guided"

    def __init__(self, cost: Cost | None = None, width: int = WIDTH, branch: int = BRANCH) -> None:
        self.cost = cost
        self.width = width
        self.branch = branch
        self._region: Region | None = None
        self._plan: Sequence[int] = ()

    def pick(self, choice: Choice) -> int:
        """See Agent."""
        step = len(choice.placed)
        if choice.region is not self._region or tuple(self._plan[:step]) != choice.placed:
            self._region = choice.region
            self._plan = beam_search(
                choice.region, self.cost, width=self.width, branch=self.branch, placed=choice.placed
            )
        return self._plan[step]


_MAKERS: dict[str, Callable[[int, Cost | None], Agent]] = {
    "default": lambda seed, cost: CriticalPath(),
    "steady": lambda seed, cost: CriticalPath("steady", order_weight=1.0),
    "random": lambda seed, cost: RandomAgent(seed),
    "min_pressure": lambda seed, cost: MinPressure(),
    "max_latency": lambda seed, cost: MaxLatency(),
    "pref_load": lambda seed, cost: CriticalPath("pref_load", preferred=LOADS),
    "pref_salu": lambda seed, cost: CriticalPath("pref_salu", preferred=frozenset({Kind.SALU, Kind.SCALAR_LOAD})),
    "model_guided": lambda seed, cost: ModelGuided(cost),
}

AGENT_NAMES = tuple(_MAKERS)
"""All agents that can be asked for by name."""


def agent_named(name: str, seed: int = 0, cost: Cost | None = None) -> Agent:
    """The agent of a name; `seed` matters to `random` only, `cost` to `model_guided`. Raises AgentError."""
    maker = _MAKERS.get(name)
    if maker is None:
        raise AgentError(f"no scheduling agent is called {name}; there are: {', '.join(AGENT_NAMES)}")
    return maker(seed, cost)
