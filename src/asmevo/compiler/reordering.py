"""Machine IR written again with the statements of its regions in another order.

An order that breaks a dependence is refused here, by name, before LLVM sees it. What moves is moved as whole lines.
Two sorts of marks on operands depend on the order and are set anew in regions that changed:

    undef    on a write of a part of a virtual register: whether another lane holds a value (see `lanes`)
    killed   is taken away; it is only a hint that LLVM finds out again
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property

from asmevo.compiler.aliases import Aliases
from asmevo.compiler.dependences import Dependence, Tie, dependences
from asmevo.compiler.errors import IllegalOrderError, MachineIRError
from asmevo.compiler.lanes import LaneAccess, LaneFlow, writes_alone
from asmevo.compiler.machine_ir import MachineFunction, MachineModule
from asmevo.compiler.regions import MachineRegion, regions_of
from asmevo.compiler.splitting import split_outside

Orders = Mapping[str, Sequence[int]]
"""For regions by name: places in the compiler's order, in the new order."""

_WORDS = {
    Tie.DATA: "reads {what} of",
    Tie.ANTI: "overwrites {what}, which is read by",
    Tie.OUTPUT: "overwrites {what} of",
    Tie.MEMORY: "may touch the same memory as",
    Tie.BARRIER: "may not pass, for memory's sake,",
    Tie.HINT: "may not pass the scheduling barrier with",
}


class ScheduledFunction:
    """A function with its regions and what ties them; `orders` may be asked for any number of times."""

    def __init__(self, module: MachineModule, function: MachineFunction, gpu: str) -> None:
        self.module = module
        self.function = function
        self.gpu = gpu
        self.regions = {region.name: region for region in regions_of(function, gpu)}
        self._aliases = Aliases(module.ir, function.name)
        self._ties: dict[str, list[Dependence]] = {}

    @cached_property
    def flow(self) -> LaneFlow:
        """Lanes of virtual registers. Raises MachineIRError."""
        try:
            return LaneFlow(self.function)
        except ValueError as error:
            raise MachineIRError(self.module.file, f"in {self.function.name}: {error}") from None

    def accesses(self, region: MachineRegion) -> list[LaneAccess]:
        """What the region's statements do to virtual registers."""
        return self.flow.accesses[region.block.number][region.start : region.stop]

    def ties(self, region: MachineRegion) -> list[Dependence]:
        """What the region's order must keep."""
        known = self._ties.get(region.name)
        if known is None:
            known = dependences(region.statements, self.accesses(region), self._aliases, self.gpu)
            self._ties[region.name] = known
        return known

    def check(self, region: MachineRegion, order: Sequence[int]) -> None:
        """Raises IllegalOrderError."""
        count = len(region.statements)
        if sorted(order) != list(range(count)):
            raise IllegalOrderError(
                self.module.file, f"the order of {region.name} does not hold each of its {count} instructions once"
            )
        place = {position: at for at, position in enumerate(order)}
        broken = next((tie for tie in self.ties(region) if place[tie.before] > place[tie.after]), None)
        if broken is not None:
            raise IllegalOrderError(self.module.file, self._sentence(region, broken))

    def _sentence(self, region: MachineRegion, broken: Dependence) -> str:
        before, after = region.statements[broken.before], region.statements[broken.after]
        return (
            f"the order of {region.name} puts {after.opcode} (line {after.lines.start + 1}) before "
            f"{before.opcode} (line {before.lines.start + 1}), but it {_WORDS[broken.tie].format(what=broken.what)} it"
        )

    def changed_lines(self, orders: Orders) -> dict[range, list[str]]:
        """The lines of every region whose order changes. Raises IllegalOrderError."""
        changed: dict[range, list[str]] = {}
        for name, order in orders.items():
            region = self.regions[name]
            self.check(region, order)
            if list(order) != sorted(order):
                changed |= self._rewritten(region, order)
        return changed

    def _rewritten(self, region: MachineRegion, order: Sequence[int]) -> dict[range, list[str]]:
        """New lines for each statement's place; other lines between them (blank, comments) stay."""
        accesses = self.accesses(region)
        ordered = [accesses[position] for position in order]
        alone = writes_alone(
            ordered,
            self.flow.defined_before(region.block, region.start),
            self.flow.live_after(region.block, region.stop - 1),
        )
        found = {}
        for slot, position, registers in zip(region.statements, order, alone, strict=True):
            lines = region.statements[position].lines
            texts = self.module.lines[lines.start : lines.stop]
            found[slot.lines] = [_marked(text, registers) for text in texts]
        return found


def reordered(module: MachineModule, functions: Sequence[ScheduledFunction], orders: Orders) -> str:
    """The module's text with `orders`. Raises IllegalOrderError."""
    known = {name for each in functions for name in each.regions}
    unknown = next((name for name in orders if name not in known), None)
    if unknown is not None:
        raise IllegalOrderError(module.file, f"there is no region {unknown}")
    changed: dict[range, list[str]] = {}
    for function in functions:
        changed |= function.changed_lines({name: orders[name] for name in function.regions if name in orders})
    return module.with_lines(changed)


_PART_WRITTEN = re.compile(r"(?P<space>\s*)(?P<roles>(?:[a-z-]+ )*?)(?P<register>%[\w-]+)\.(?P<rest>\S+)\s*")
_KILLED = re.compile(r"\bkilled (?=(?:[a-z-]+ )*[%$])")


def _marked(line: str, alone: frozenset[str]) -> str:
    """A line with its `undef` marks set for partial writes, and without `killed`."""
    line = _KILLED.sub("", line)
    sides = split_outside(line, " = ")
    if len(sides) != 2:
        return line
    return " = ".join((",".join(_marked_write(each, alone) for each in split_outside(sides[0], ",")), sides[1]))


def _marked_write(word: str, alone: frozenset[str]) -> str:
    found = _PART_WRITTEN.fullmatch(word)
    if found is None:
        return word
    roles = found["roles"].replace("undef ", "")
    mark = "undef " if found["register"] in alone else ""
    return f"{found['space']}{mark}{roles}{found['register']}.{found['rest']}"
