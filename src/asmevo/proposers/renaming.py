"""Renaming: other registers for a block's local values, so that registers bind the order no more.

After register allocation an instruction often waits for nothing but a register: its result goes where somebody still
reads an old value (write after read), or where an old result has not been read yet (write after write). Here the
block's local values get virtual registers (`virtual_region`), scheduling agents (`agents`) order what is left of the
dependence graph, and registers are dealt out again in that order, out of all that cost no wave on the SIMD
(`register_room`). Agents are kept within what there is (`bounded_agent`); where registers do not suffice all the same,
since wide operands need neighbours, the bound is lowered.

Registers are also chosen so that the sources of one instruction come from different banks, where the target's banks
are known; that is a wish, not a condition. The old order with nothing but that is one of the proposals.

For each block the cheapest is proposed that the model does not find slower (`cheapest_ways`).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from functools import partial

from asmevo.program.edit import EditScript
from asmevo.program.kernel import Block
from asmevo.proposers.agents import agent_named
from asmevo.proposers.bounded_agent import Bounded
from asmevo.proposers.cheapest_ways import Way, cheapest_ways
from asmevo.proposers.proposer import Facts
from asmevo.proposers.scheduling import list_schedule
from asmevo.proposers.virtual_region import VirtualRegion

_SPARE = (0, 2, 4, 8, 16)
"""VGPRs by which the bound is lowered, one after the other, until there is a register for every value."""

AGENTS = ("default", "steady", "pref_load", "max_latency")
"""Who orders the blocks, by name."""


class Renamer:
    """Proposes hot blocks with other registers: in the old order, and in those of the list scheduler."""

    name = "renamer"

    def propose(self, facts: Facts) -> Generator[EditScript, bool | None, None]:
        """See Proposer.propose."""
        yield from cheapest_ways(facts, self.name, partial(_renamings, facts))


def _renamings(facts: Facts, index: int) -> Iterator[Way]:
    problem = VirtualRegion.of(facts, index, facts.liveness)
    if problem is None:
        return
    yield "other banks", problem.dealt([(place,) for place in range(len(problem.block.body))])
    for agent in AGENTS:
        if facts.out_of_time():
            return
        yield f"renamed and scheduled, {agent}", _within_room(problem, agent, facts.rng.getrandbits(32))


def _within_room(problem: VirtualRegion, agent: str, seed: int) -> tuple[Block, ...] | None:
    """The block in an agent's order, as near to the room that there is as registers are found for."""
    for spare in _SPARE:
        bounded = Bounded(agent_named(agent, seed), problem.region, problem.vgprs - spare)
        made = problem.rebuild(list_schedule(problem.region, bounded))
        if made is not None:
            return made
    return None
