"""Versions whose graphs differ in a few places, compared there only: from a changed block to where both are alike.

Idea. A point is the start of a block; at most points both versions have the same code in front of them. Where both come
to the start of the same block and every register that may be read later holds the same, an unchanged block leaves them
so again, whatever it is. So only changed blocks to which control comes in that way have to be run. From one of them
both versions run on equal symbols as in `product`, through what falls away or is put in, until they decide alike; then
both must be at the start of the same block, with equal live registers, and memory has seen the same.

    points reached    the entries, and, where a jump table may lead anywhere, blocks that no other block leads to; from
                      an unchanged block its successors; from a changed one the places where its stretch ends
    equal there       all registers that are live in the version before, EXEC and MODE; the contents of memory

By induction over the points of a path, any run of one version is matched by a run of the other. Inside of a stretch
nothing is required: a block that nothing but stretches lead to (the code behind a branch that went) is never compared
by itself. The work grows with the change, not with the kernel. What is not matched here may still be by `product`.
"""

from __future__ import annotations

from collections.abc import Iterable

from asmevo.analysis.control_flow import ControlFlow
from asmevo.analysis.memory import SPACES
from asmevo.program.registers import register_names
from asmevo.prover.product import Product, ProductResult
from asmevo.prover.relation import Cut
from asmevo.prover.rounds import Stretch
from asmevo.prover.solver import Equality
from asmevo.prover.state import NotLiftedError
from asmevo.prover.terms import Term
from asmevo.prover.version import UndecidedError, entries


class Stretches(Product):
    """One comparison of two kernels with the same labels, which differ in a few blocks."""

    _reached: dict[int, None]

    def compare_changed(self, changed: Iterable[int]) -> ProductResult:
        """Matches the stretches that start at changed blocks (indices); all other blocks hold the same code."""
        own = frozenset(changed)
        flow = ControlFlow(self.before)
        try:
            self._reached = dict.fromkeys(self._starts(flow))
            waiting = list(self._reached)
            while waiting:
                block, known = waiting.pop(), len(self._reached)
                if block in own:
                    self._run_from(block)
                else:
                    self._reached |= dict.fromkeys(flow.successors[block])
                waiting += [each for each in list(self._reached)[known:] if each < len(self.before.blocks)]
        except UndecidedError as error:
            return self._result(str(error), error.instructions)
        except NotLiftedError as error:
            return self._result(str(error), (error.instruction,))
        listed = ", ".join(map(str, sorted(own & self._reached.keys())))
        words = f"from block {listed} on: equal decisions, memory effects and live registers"
        return ProductResult(True, words, cuts=len(self.cuts), questions=self.budget.questions)

    def _starts(self, flow: ControlFlow) -> Iterable[int]:
        """Blocks where a launch may enter or control may come from code that is not seen."""
        for first, second in entries(self.before, self.after):
            if first != second:
                raise UndecidedError(f"launches enter at block {first} and at block {second}")
            yield first
        if flow.has_indirect:
            yield from (block for block, sources in enumerate(flow.predecessors) if not sources)

    def _run_from(self, block: int) -> None:
        cut = self.cuts[block, block] = self._meeting(block)
        for item in cut.items():
            cut.relation[item] = self.starting.in_block(block, item[1])
        cut.memory = {space: self.build.terms.symbol(("memory", space), 0, False) for space in SPACES}
        self._explore(cut)

    def _meeting(self, block: int) -> Cut:
        """Both versions at the start of a block; what is live is what the version before may read."""
        live = self.versions[0].live_in(block)
        return Cut(block, (block, block), (live, live))

    def _go_on(
        self, cut: Cut, outcome: int, goals: tuple[int, int], first: Stretch, second: Stretch, known: Term | None = None
    ) -> None:
        one, other = (stretch.decision.instruction for stretch in (first, second))
        blamed = [each for each in (one, other) if each is not None]
        if goals[0] != goals[1]:
            raise UndecidedError(f"control goes on at block {goals[0]} and at block {goals[1]}", *blamed)
        outer = self.equality
        if known is not None:
            self.equality = Equality(self.build, self.budget, self.build.both(outer.path, known))
        try:
            self._equal_at(goals[0], first, second)
        finally:
            if self.equality is not outer:
                outer.models += self.equality.models
                self.equality = outer
        self._reached.setdefault(goals[0])

    def _equal_at(self, block: int, first: Stretch, second: Stretch) -> None:
        meeting = self._meeting(block)
        values = self._arrival(meeting, first.state, second.state).values
        enabled = self.versions[0].lifter.exec_bit(first.state)
        for (side, unit), term in values.items():
            if side == 0 and term is not values[1, unit]:
                given = enabled if meeting.in_enabled_lanes_only((0, unit)) else None
                if self.equality.same(term, values[1, unit], given) is not True:
                    raise UndecidedError(f"{register_names(1 << unit)} could not be shown equal at block {block}")

    def _return(self, cut: Cut, first: Stretch, second: Stretch, path: int) -> None:
        goals = (first.decision.goals[0], second.decision.goals[0])
        if goals[0] != goals[1]:
            raise UndecidedError(f"control comes back at block {goals[0]} and at block {goals[1]}")
        if goals[0] < len(self.before.blocks):
            self._reached.setdefault(goals[0])
