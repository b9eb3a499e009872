"""The list scheduler after register allocation: whole new orders of the hot blocks, one for each agent.

A block is written down as a region (`block_region`), each agent orders it one decision at a time (`scheduling`), and
waits, no-ops and hints are derived anew (`placement`). The agents are those that also schedule a compiler's machine IR;
how they differ stands in `agents`. Registers are not renamed. Of a block's orders the cheapest is proposed that the
model does not find slower (`cheapest_ways`).

An agent that plans with a model (`model_guided`) asks the cycle model about the block's part of the path only.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from functools import partial

from asmevo.program.edit import EditScript
from asmevo.proposers.agents import agent_named
from asmevo.proposers.block_region import BlockRegion
from asmevo.proposers.cheapest_ways import Way, cheapest_ways
from asmevo.proposers.placement import Placement
from asmevo.proposers.proposer import Facts
from asmevo.proposers.scheduling import list_schedule

AGENTS = ("default", "model_guided", "pref_load", "steady", "pref_salu", "max_latency", "min_pressure", "random")
"""Those that are asked, in this order, by name."""


class ListScheduler:
    """See the module. `agents` by name."""

    name = "list-scheduler"

    def __init__(self, agents: Sequence[str] = AGENTS) -> None:
        self.agents = tuple(agents)

    def propose(self, facts: Facts) -> Generator[EditScript, bool | None, None]:
        """See Proposer.propose."""
        yield from cheapest_ways(facts, self.name, partial(self._orders, facts))

    def _orders(self, facts: Facts, block: int) -> Iterator[Way]:
        problem = BlockRegion(Placement(facts, block))
        for agent in self.agents:
            if facts.out_of_time():
                return
            order = list_schedule(problem.region, agent_named(agent, facts.rng.getrandbits(32)))
            yield agent, problem.rebuild(order)
