"""Equivalence by structure where values changed their registers across blocks.

Idea. As in `equivalence` blocks run on symbols with every operation uninterpreted. But what a block starts with is not
"the same registers hold the same": it is a partition of the live registers of both versions, and registers of one class
hold one value, whatever they are called. Partitions are inferred from optimistic to true:

* where launches enter, every register of one version is in a class with its namesake in the other;
* a block is run in both versions, each class one symbol. Values of live registers behind it are an arrival at its
  successors: in a successor's partition only those stay together that were together and have equal values now;
* a block whose partition was split is run again, until nothing is split any more.

Classes only split, so this ends. Then every arrival satisfies the partition it arrives at, and if in every block memory
effects, control instructions and the branch's decision are equal, and the version after reads no memory that the one
before does not, then by induction over the path each run of one version is matched by one of the other.

Lanes. A vector register that is live in lanes of EXEC only (`Liveness`: in `current`, not in `others`) is compared by
what those lanes hold, if all lanes of the EXEC at the end of the block were written last. That another lane
holds something else then does not matter: nobody reads it before it is written, as each version's liveness says.

Refused: code from which control leaves for places not seen, and registers that are renumbered at run time.
"""

from __future__ import annotations

from collections import deque

from msgspec import Struct, field

from asmevo.analysis.control_flow import ControlFlow, Exit
from asmevo.analysis.full_exec import FullExec
from asmevo.analysis.liveness import Liveness
from asmevo.program.kernel import Kernel
from asmevo.program.registers import EXEC_MASK, MODE_MASK, NAMED_SPANS, VECTOR_MASK, units_of
from asmevo.prover.symbolic import Outcome, Values, run_block

Item = tuple[int, int]
"""(0 for the version before and 1 for the one after, register unit)."""

_ALWAYS = EXEC_MASK | MODE_MASK
_SEEN = (None, Exit.ENDS)


class _Point(Struct):
    """The start of a block: the class of each item, by number; None until control arrives."""

    classes: dict[Item, int] | None = None
    outcomes: list[Outcome] = field(default_factory=list)


class Correspondence:
    """One comparison of two kernels with the same blocks.

    `entries` are blocks where launches enter, `quiet` ids of fences as for `run_block`.
    """

    def __init__(
        self, before: Kernel, after: Kernel, entries: tuple[int, ...], quiet: frozenset[int] = frozenset()
    ) -> None:
        self.quiet = quiet
        self.kernels = (before, after)
        self.flow = ControlFlow(before)
        self.liveness = (Liveness(before), Liveness(after))
        self.full = (FullExec(before), FullExec(after))
        self.values = Values()
        self.points = [_Point() for _ in before.blocks]
        self._touched = [_touched(kernel) for kernel in self.kernels]
        self._waiting = deque(dict.fromkeys(entries))
        for block in self._waiting:
            self.points[block].classes = {item: item[1] for item in self._items(block)}

    def proves(self) -> bool:
        """Whether both versions were shown to do the same."""
        calls = any("call" in instruction.flags for instruction in self.kernels[0].instructions)
        if calls or any(self.flow.exits[block] not in _SEEN for block in self.flow.reachable):
            return False
        while self._waiting:
            block = self._waiting.popleft()
            if not self._run(block):
                return False
            for successor in self.flow.successors[block]:
                if self._arrive(block, successor) and successor not in self._waiting:
                    self._waiting.append(successor)
        return all(_matches(*point.outcomes) for point in self.points if point.classes is not None)

    def _items(self, block: int) -> list[Item]:
        return [
            (side, unit)
            for side, liveness in enumerate(self.liveness)
            for unit in units_of((liveness.live_in(block) & self._touched[side]) | _ALWAYS)
        ]

    def _run(self, block: int) -> bool:
        """Runs both versions of a block; False where one has no meaning here."""
        point = self.points[block]
        assert point.classes is not None
        symbols: dict[int, int] = {}
        point.outcomes = []
        for side, kernel in enumerate(self.kernels):
            start = {unit: self.values.number(("nobody's", side, unit), 0) for unit in units_of(self._touched[side])}
            for (where, unit), name in point.classes.items():
                if where == side:
                    start[unit] = symbols.setdefault(name, self.values.number(("class", name), 0))
            instructions, full = kernel.blocks[block].instructions, self.full[side].places(block)
            outcome = run_block(instructions, self.values, start, full, self.quiet)
            if outcome.unknown is not None or outcome.epoch is not None:
                return False
            point.outcomes.append(outcome)
        return True

    def _arrive(self, block: int, successor: int) -> bool:
        """Takes the values behind a block to the start of another. Whether that one has to be run (again)."""
        outcomes = self.points[block].outcomes
        point = self.points[successor]
        values = {item: self._value(outcomes[item[0]], item, successor) for item in self._items(successor)}
        old = point.classes
        names: dict[tuple[int, int], int] = {}
        found: dict[Item, int] = {}
        for item, value in values.items():
            key = (0 if old is None else old[item], value)
            found[item] = names.setdefault(key, len(names))
        point.classes = found
        return old is None or len(names) != len(set(old.values()))

    def _value(self, outcome: Outcome, item: Item, successor: int) -> int:
        side, unit = item
        last = outcome.enabled.get(unit)
        if last is None or not VECTOR_MASK >> unit & 1:
            return outcome.register(unit)
        others = self.liveness[side].state_in(successor).others
        low, high = (outcome.register(each) for each in NAMED_SPANS["exec"].units)
        enabled_only = not others >> unit & 1 and self.values.is_within((low, high), last[0])
        return last[1] if enabled_only else outcome.register(unit)


def _matches(before: Outcome, after: Outcome) -> bool:
    """Whether two runs of a block had equal effects and decisions."""
    return (
        before.memory == after.memory
        and before.controls == after.controls
        and before.branch == after.branch
        and after.loads.keys() <= before.loads.keys()
    )


def _touched(kernel: Kernel) -> int:
    touched = 0
    for instruction in kernel.instructions:
        touched |= instruction.reads | instruction.writes
    return touched
