"""Local search on the order of a hot block whose local values get other registers with every order.

The search is that of `local_search`, its neighbours are orders of a `VirtualRegion`: bound by values alone, and
impossible where registers do not suffice. It begins with what agents make of the block within the registers that
there are, and on the old ones, and is for what the renamer's few orders leave: a load two places further up, a matrix
instruction between two waits.
"""

from __future__ import annotations

from asmevo.proposers.agents import agent_named
from asmevo.proposers.block_region import BlockRegion
from asmevo.proposers.bounded_agent import Bounded
from asmevo.proposers.local_orders import Order
from asmevo.proposers.local_search import LocalSearch
from asmevo.proposers.proposer import Facts
from asmevo.proposers.scheduling import list_schedule
from asmevo.proposers.virtual_region import VirtualRegion

_STARTS = ("max_latency", "pref_load", "steady", "default")
_SPARE = (8, 0)


class RegisterSearch(LocalSearch):
    """See the module. `evaluations` bounds how often the model is asked for each block."""

    name = "register-search"

    def problem(self, facts: Facts, block: int) -> BlockRegion | None:
        """See LocalSearch.problem."""
        return VirtualRegion.of(facts, block, facts.liveness)

    def starts(self, facts: Facts, problem: BlockRegion) -> list[Order]:
        """See LocalSearch.starts."""
        assert isinstance(problem, VirtualRegion)
        own: list[Order] = [
            list_schedule(problem.region, Bounded(agent_named(name), problem.region, problem.vgprs - spare))
            for spare in _SPARE
            for name in _STARTS
        ]
        on_old = super().starts(facts, problem.bound) if problem.units == problem.bound.units else []
        return [*own, *on_old]
