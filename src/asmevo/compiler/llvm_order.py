"""LLVM's own order: what its scheduler made of the same machine IR, as an agent.

The instructions of both files are matched block by block by their text (marks on operands that the order decides left
out), equal ones in their order. LLVM's scheduler also moves instructions to other blocks or makes them again there
(rematerialisation); such an instruction keeps its neighbour in the source, and the match says how many there are. The
agent takes what LLVM has first among the candidates, so its order is LLVM's wherever that keeps the dependences known
here.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping

from msgspec import Struct, field

from asmevo.compiler.machine_ir import MachineBlock, MachineModule, Statement
from asmevo.compiler.reordering import ScheduledFunction
from asmevo.proposers.scheduling import Choice

_MARKS = re.compile(r"\b(?:undef|dead|killed) |:[a-z]\w*|\(p\d+\)|\(s\d+\)(?=[ ,])")


class LlvmOrder(Struct, frozen=True):
    """For each region, by name, the place of each position in LLVM's order; `unmatched` positions have none there."""

    ranks: Mapping[str, tuple[float, ...]]
    unmatched: int
    name: str = field(default="default")

    def pick(self, choice: Choice) -> int:
        """See Agent."""
        ranks = self.ranks[choice.region.name]
        return min(choice.ready, key=lambda each: (ranks[each.position], each.position)).position


def llvm_order(functions: list[ScheduledFunction], after: MachineModule) -> LlvmOrder:
    """Matches the module before the scheduler with that behind it."""
    ranks: dict[str, tuple[float, ...]] = {}
    unmatched = 0
    scheduled = {function.name: {block.number: block for block in function.blocks} for function in after.functions}
    for function in functions:
        there = scheduled.get(function.function.name, {})
        for region in function.regions.values():
            block = there.get(region.block.number)
            places = _places(function.module, region.block, after, block) if block is not None else {}
            found = [places.get(n) for n in range(region.start, region.stop)]
            unmatched += found.count(None)
            ranks[region.name] = tuple(_filled(found))
    return LlvmOrder(ranks, unmatched)


def _places(
    module: MachineModule, block: MachineBlock, after: MachineModule, scheduled: MachineBlock
) -> dict[int, int]:
    """For each statement of a block its place behind the scheduler, where it is still there."""
    waiting: defaultdict[str, list[int]] = defaultdict(list)
    for place, statement in enumerate(scheduled.statements):
        waiting[_key(after, statement)].append(place)
    found = {}
    for place, statement in enumerate(block.statements):
        same = waiting[_key(module, statement)]
        if same:
            found[place] = same.pop(0)
    return found


def _key(module: MachineModule, statement: Statement) -> str:
    return _MARKS.sub("", "".join(line.strip() for line in module.lines[statement.lines.start : statement.lines.stop]))


def _filled(ranks: list[int | None]) -> list[float]:
    """What has no place follows its neighbour in the source."""
    filled: list[float] = []
    last = -1.0
    for rank in ranks:
        last = float(rank) if rank is not None else last
        filled.append(last)
    return filled
