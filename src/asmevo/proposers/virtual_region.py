"""A block as a scheduling problem whose local values have no registers, and the code of an order under new ones.

The dependence graph and the pressure are those of virtual registers (`renaming_block`), so an order is bound by values
only. To put the block together again registers are dealt out in that order, which may fail: what an order needs is more
than the values alive at once, as wide operands need neighbours. `vgprs` is what a `Bounded` agent may use at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import combinations

from asmevo.analysis.liveness import Liveness
from asmevo.program.errors import EditError
from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Block
from asmevo.program.registers import SGPR_MASK, VCC_MASK, VGPR_MASK
from asmevo.proposers.block_region import BlockRegion
from asmevo.proposers.pairing_rules import standing_rules
from asmevo.proposers.placement import Placement, is_mark
from asmevo.proposers.proposer import Facts
from asmevo.proposers.renaming_block import Apart, RenamedBlock, Slot
from asmevo.proposers.scheduling import Value
from asmevo.timing.register_file import register_file_facts

_NOBODY = -1


class VirtualRegion(BlockRegion, frozen=True, dict=True):
    """`rules` are what the registers dealt out must keep, `wishes` what they should; see the module."""

    block: RenamedBlock
    rules: tuple[Apart, ...]
    wishes: tuple[Apart, ...]

    @classmethod
    def of(cls, facts: Facts, index: int, liveness: Liveness) -> VirtualRegion | None:
        """A block of the kernel as it stands; None where no value is local."""
        block = detached_block(facts, index, liveness)
        if not block.bundles:
            return None
        return cls(Placement(facts, index), block, tuple(standing_rules(block)), tuple(_bank_wishes(facts, block)))

    @cached_property
    def body(self) -> tuple[Instruction, ...]:
        """See BlockRegion."""
        return self.block.virtual

    @cached_property
    def bound(self) -> BlockRegion:
        """The same block on its old registers."""
        return BlockRegion(self.placement)

    @property
    def vgprs(self) -> int:
        """VGPRs that there are for values which do not live all through the block."""
        return self.block.room - self.block.always.bit_count()

    def rebuild(self, order: Iterable[int]) -> tuple[Block, ...] | None:
        """The kernel's blocks with this one in an order, under new registers; None if there are not enough.

        An order that the old registers allow keeps them then.
        """
        order = tuple(order)
        made = self.dealt([(place,) for position in order for place in self.units[position]])
        if made is None and self.units == self.bound.units and self.bound.region.is_legal(order):
            return self.bound.rebuild(order)
        return made

    def dealt(self, order: Sequence[Slot]) -> tuple[Block, ...] | None:
        """The same for an order of places."""
        dealt = self.block.deal(order, (*self.rules, *self.wishes))
        if dealt.failed is not None and self.wishes:
            dealt = self.block.deal(order, self.rules)
        if dealt.failed is not None:
            return None
        try:
            renamed = self.block.renamed(dealt)
        except EditError:
            return None
        return self.placement.rebuild([renamed[place] for (place,) in order]) if renamed is not None else None

    @cached_property
    def _counted(self) -> int:
        return VGPR_MASK & ~self.block.always | SGPR_MASK | VCC_MASK | self.block.virtual_mask

    def _size(self, register: int) -> Value:
        vector = (VGPR_MASK | self.block.virtual_mask) >> register & 1
        return Value(vgprs=1) if vector else Value(sgprs=1)


def detached_block(facts: Facts, index: int, liveness: Liveness) -> RenamedBlock:
    """A block of the kernel as it stands, without marks, with its local values off their registers."""
    kernel = facts.kernel
    instructions, states = kernel.blocks[index].instructions, liveness.states(index)
    kept = [place for place, each in enumerate(instructions) if not is_mark(each, kernel.target)]
    behind = [*(states[place] for place in kept), states[-1]]
    return RenamedBlock(index, [instructions[place] for place in kept], behind, kernel)


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
