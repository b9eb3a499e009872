"""Renaming: other registers for a block's local values, so that registers bind the order no more.

After register allocation an instruction often waits for nothing but a register: its result goes where somebody still
reads an old value (write after read), or where an old result has not been read yet (write after write). Here the
block's local values get virtual registers (`renaming_block`), scheduling agents (`agents`) order what is left of the
dependence graph, and registers are dealt out again in that order, out of those that the kernel is given anyway. An
order for which they do not suffice is dropped; agents that stay nearer to the old order need fewer.

Registers are also chosen so that the sources of one instruction come from different banks, where the target's banks
are known; that is a wish, not a condition. The first proposal for a block is the old order with nothing but that.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from asmevo.analysis.liveness import Liveness
from asmevo.program.edit import EditScript, script_between
from asmevo.program.errors import EditError
from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Block
from asmevo.proposers.agents import agent_named
from asmevo.proposers.block_region import BlockRegion
from asmevo.proposers.pairing_rules import standing_rules
from asmevo.proposers.placement import Placement, is_mark
from asmevo.proposers.proposer import Facts
from asmevo.proposers.renaming_block import Apart, RenamedBlock, Slot, roomier_descriptor
from asmevo.proposers.scheduling import list_schedule
from asmevo.timing.register_file import register_file_facts

_BLOCKS_TRIED = 6
_SMALLEST_BLOCK = 4
_NOBODY = -1

AGENTS = ("default", "steady", "pref_load", "max_latency")
"""Who orders the blocks, by name."""


class Renamer:
    """Proposes hot blocks with other registers: in the old order, then in those of the list scheduler."""

    name = "renamer"

    def propose(self, facts: Facts) -> Generator[EditScript, bool | None, None]:
        """See Proposer.propose."""
        liveness = Liveness(facts.kernel)
        blocks = [b for b in facts.hot_blocks if len(facts.kernel.blocks[b].instructions) >= _SMALLEST_BLOCK]
        for index in blocks[:_BLOCKS_TRIED]:
            for blocks_, words in _renamings(facts, index, liveness):
                origin = f"{self.name}: block {index}, {words}"
                yield script_between(facts.kernel, blocks_, origin, roomier_descriptor(facts.kernel, blocks_))


def detached_block(facts: Facts, index: int, liveness: Liveness) -> RenamedBlock:
    """A block of the kernel as it stands, without marks, with its local values off their registers."""
    kernel = facts.kernel
    instructions, states = kernel.blocks[index].instructions, liveness.states(index)
    kept = [place for place, each in enumerate(instructions) if not is_mark(each, kernel.target)]
    behind = [*(states[place] for place in kept), states[-1]]
    return RenamedBlock(index, [instructions[place] for place in kept], behind, kernel)


def _renamings(facts: Facts, index: int, liveness: Liveness) -> Iterator[tuple[tuple[Block, ...], str]]:
    block = detached_block(facts, index, liveness)
    if not block.bundles:
        return
    placement = Placement(facts, index)
    rules = [*standing_rules(block), *_bank_wishes(facts, block)]
    old = _rebuilt(block, placement, [(place,) for place in range(len(block.body))], rules)
    if old is not None:
        yield old, "other banks"
    problem = _VirtualRegion(placement, block)
    seen = set()
    for agent in AGENTS:
        if facts.out_of_time():
            return
        positions = list_schedule(problem.region, agent_named(agent, facts.rng.getrandbits(32)))
        order = [(place,) for position in positions for place in problem.units[position]]
        made = _rebuilt(block, placement, order, rules)
        if made is not None and made[index].instructions not in seen:
            seen.add(made[index].instructions)
            yield made, f"renamed and scheduled, {agent}"


@dataclass(frozen=True)
class _VirtualRegion(BlockRegion):
    """A block as a scheduling problem, with its local values off their registers."""

    block: RenamedBlock

    @cached_property
    def body(self) -> tuple[Instruction, ...]:
        """See BlockRegion."""
        return self.block.virtual


def _rebuilt(
    block: RenamedBlock, placement: Placement, order: Sequence[Slot], rules: Sequence[Apart]
) -> tuple[Block, ...] | None:
    """The kernel's blocks with this one in an order, under new registers; None if there are not enough."""
    dealt = block.deal(order, rules)
    if dealt.failed is not None:
        return None
    try:
        renamed = block.renamed(dealt)
    except EditError:
        return None
    return placement.rebuild([renamed[place] for (place,) in order]) if renamed is not None else None


def _bank_wishes(facts: Facts, block: RenamedBlock) -> Iterator[Apart]:
    """Sources of one vector instruction in different banks; `pair` names the instruction and nobody."""
    known = register_file_facts(facts.kernel.target)
    if known is None:
        return
    sources: dict[int, list[int]] = {}
    for place, number in block.ranges.of_read:
        if "valu" in block.body[place].flags and len(block.ranges.of_read[place, number]) == 1:
            sources.setdefault(place, []).append(number)
    for place, numbers in sources.items():
        ranges = dict.fromkeys(block.ranges.of_read[place, number][0] for number in numbers)
        for one, other in combinations(ranges, 2):
            if id(one) in block.bundle_of or id(other) in block.bundle_of:
                yield Apart(one, other, known.banks - 1, (place, _NOBODY))
