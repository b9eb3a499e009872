"""Both versions at once: from a pair of points each runs to its next decision, and the decisions are compared.

Idea. A point is the start of a block; a pair of points is a cut (see `relation`). From a cut both versions run on
symbols that the relation gives them, through jumps and falls to the next block alike, until control forks, leaves
or ends: so merged, split and straightened blocks look the same. There

* memory must have seen the same effects, as far as others can tell in the same order, and the version after may have
  read no place that the version before did not (an address that nobody mapped ends a kernel): `effects`;
* both must decide on the same condition (or one on the negation of the other's);
* where control leaves for code that is not seen, all registers must hold the same.

The successors are cuts in their turn, with the values there as an arrival. A cut whose relation changes is run
again, until nothing changes. Then, by induction over the path, every run of one version is matched by a run of
the other that makes the same effects and ends if and only if it does: each step between cuts is finite in both.

A version that comes to one of its blocks again before any decision (a loop without an exit, or one whose condition is
a known number this time) stops there like at a decision. Where only one version forks (a branch over code that no
lane would run, left out in the other), it goes on alone both ways, with what it decided as a fact about the wave.
More decisions of one side, a call into the same code: whatever is not matched is undecided, with the instruction at
which the matching failed. Kernels with loops are tried again at other paces (`version.Pace`), each a search of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from msgspec import Struct

from asmevo.analysis.memory import SPACES
from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Kernel
from asmevo.program.registers import EXEC_MASK, MODE_MASK, VECTOR_MASK, register_names
from asmevo.prover.effects import MemoryComparison, MisalignedError
from asmevo.prover.floating import FloatPolicy
from asmevo.prover.normalise import Builder
from asmevo.prover.relation import Arrival, Cut, Item, Relations
from asmevo.prover.rounds import Planner, Stretch
from asmevo.prover.sampling import sample
from asmevo.prover.solver import Budget, Equality, SolverLimits
from asmevo.prover.starting import Starting
from asmevo.prover.state import NotLiftedError, State
from asmevo.prover.terms import Term, Terms
from asmevo.prover.version import Decision, Leaving, Pace, UndecidedError, Version, entries
from asmevo.prover.written_bits import WrittenBits

_MOST_ROUNDS = 40  # times that one cut is run; relations settle after three or four
_MOST_RESTARTS = 3
_MOST_FORKS_ALONE = 3  # in a row, by either version
_TERMS_A_STEP = 8  # what making terms is worth in the solver's steps
_SEEDS = (1, 2, 3)


class ProductResult(Struct, frozen=True):
    """Whether everything matched; if not, the reason and the instructions to blame. `models` refute equalities."""

    proved: bool
    reason: str
    instructions: tuple[Instruction, ...] = ()
    models: tuple[dict[Term, int], ...] = ()
    cuts: int = 0
    questions: int = 0


class Product:
    """One comparison of two kernels."""

    def __init__(
        self,
        before: Kernel,
        after: Kernel,
        policy: FloatPolicy = FloatPolicy.EXACT,
        limits: SolverLimits = SolverLimits(),  # noqa: B008 (frozen)
    ) -> None:
        self.before = before
        self.after = after
        self.build = Builder(Terms(), before.wave_size)
        self.limits = limits
        self.budget = Budget(limits)
        self.equality = Equality(self.build, self.budget)
        self.relations = Relations(self.build)
        self.starting = Starting(self.build, before, after)
        self.versions = (Version(before, self.build, policy), Version(after, self.build, policy))
        self.cuts: dict[tuple[int, int], Cut] = {}
        self.waiting: deque[Cut] = deque()
        self.rounds: dict[int, int] = {}
        self.pace = Pace.DECISIONS

    def compare(self, *, reshaped: bool = True) -> ProductResult:
        """Matches the two kernels from their entries on; `reshaped`: also where loops make other rounds."""
        failure: UndecidedError | None = None
        has_loops = any(version.heads for version in self.versions)
        for pace in Pace if has_loops and reshaped else (Pace.DECISIONS,):
            self.pace = pace
            try:
                for last in (*[False] * _MOST_RESTARTS, True):
                    if self._matched(last):
                        break
            except UndecidedError as error:
                failure = failure or error
                self._start_again()
                continue
            except NotLiftedError as error:
                return self._result(str(error), (error.instruction,))
            failure = None
            break
        if failure is not None:
            return self._result(str(failure), failure.instructions)
        words = f"{len(self.cuts)} pairs of program points with equal decisions, memory effects and live registers"
        return ProductResult(True, words, cuts=len(self.cuts), questions=self.budget.questions)

    def _matched(self, last: bool) -> bool:
        """One search for relations. False if it failed, but learned something that another one may use."""
        self.relations.news = False
        try:
            self._enter()
            while self.waiting:
                self._explore(self.waiting.popleft())
        except UndecidedError:
            if last or not self.relations.news:
                raise
            self._start_again()
            return False
        return True

    def _start_again(self) -> None:
        self.waiting.clear()
        self.rounds.clear()
        for cut in self.cuts.values():
            cut.forget()

    def _result(self, reason: str, instructions: tuple[Instruction, ...]) -> ProductResult:
        models = tuple(self.equality.models)
        return ProductResult(False, reason, instructions, models, len(self.cuts), self.budget.questions)

    # --- block by block -------------------------------------------------------------------------------------

    def compare_blocks(self, indices: Sequence[int]) -> ProductResult:
        """Matches blocks of kernels with the same graph, each by itself.

        Every register that is live in front of a block (in the version before) holds the same in both versions
        there; it is shown that the same is true behind it. All other blocks are taken to be equal. A register that
        neither version of the block mentions or touches is left alone by both, and is not looked at. Where an address
        must be aligned, what the version before always has in such a register (`written_bits`) may show that it is.
        """
        try:
            for index in indices:
                try:
                    self._compare_block(index)
                except MisalignedError:
                    self._compare_block(index, WrittenBits(self.before, self.versions[0].liveness))
        except UndecidedError as error:
            return self._result(str(error), error.instructions)
        except NotLiftedError as error:
            return self._result(str(error), (error.instruction,))
        listed = ", ".join(map(str, indices))
        words = f"block {listed}: equal values in every live register, equal memory effects in equal order"
        return ProductResult(True, words, cuts=len(indices), questions=self.budget.questions)

    def _compare_block(self, index: int, known: WrittenBits | None = None) -> None:
        mentioned = EXEC_MASK | MODE_MASK
        for kernel in (self.before, self.after):
            for instruction in kernel.blocks[index].instructions:
                mentioned |= instruction.reads | instruction.writes
        live = self.versions[0].liveness.state_in(index).within(mentioned)
        cut = Cut(index, (index, index), (live, live))
        sure = live.current & ~live.others
        for item in cut.items():
            absent = known.zeros_at_entries(item[1]) if known is not None and sure >> item[1] & 1 else 0
            cut.relation[item] = self.starting.in_block(index, item[1], absent)
        cut.memory = {space: self.build.terms.symbol(("memory", space), 0, False) for space in SPACES}
        states = [self._start(cut, side) for side in (0, 1)]
        stretches = []
        for version, state in zip(self.versions, states, strict=True):
            decision, behind = version.run_block(index, state)
            stretches.append(Stretch(state, decision or Decision(Leaving.REPEATS, None, None, (behind,))))
        first, second = stretches
        self._compare_memory(first, second)
        one, other = first.decision, second.decision
        blamed = [each for each in (one.instruction, other.instruction) if each is not None]
        if (one.kind, one.goals) != (other.kind, other.goals):
            raise UndecidedError(f"block {index} is left differently", *blamed)
        theirs = other.condition or self.build.true
        if one.condition is not None and self.equality.same(one.condition, theirs) is not True:
            raise UndecidedError(f"block {index}: another decision", *blamed)
        if one.kind in (Leaving.LEAVES, Leaving.CALLS, Leaving.TRAPS):
            self._equal_registers(first, second)
        for unit in first.state.units.keys() | second.state.units.keys():
            mentioned |= 1 << unit
        after = self.versions[0].liveness.state_out(index).within(mentioned)
        self._equal_live(Cut(index, (index, index), (after, after)), first.state, second.state)

    def _equal_live(self, cut: Cut, first: State, second: State) -> None:
        values = self._arrival(cut, first, second).values
        for (side, unit), term in values.items():
            if side == 0 and term is not values[1, unit]:
                given = self.versions[0].lifter.exec_bit(first) if cut.in_enabled_lanes_only((0, unit)) else None
                if self.equality.same(term, values[1, unit], given) is not True:
                    raise UndecidedError(
                        f"block {cut.number}: {register_names(1 << unit)} could not be shown equal at the end",
                        *self._writers(cut.number, unit),
                    )

    def _writers(self, index: int, unit: int) -> list[Instruction]:
        found = []
        for kernel in (self.before, self.after):
            writers = [each for each in kernel.blocks[index].instructions if each.writes >> unit & 1]
            found += writers[-1:]
        return found

    # --- cuts -----------------------------------------------------------------------------------------------

    def _enter(self) -> None:
        memory = self.starting.memory()
        for number, blocks in enumerate(entries(self.before, self.after)):
            cut = self._cut(blocks)
            values = {item: self.starting.launched(item[1]) for item in cut.items()}
            self._arrive(cut, (-1 - number, 0), Arrival(values, memory))

    def _cut(self, blocks: tuple[int, int]) -> Cut:
        found = self.cuts.get(blocks)
        if found is None:
            live = (self.versions[0].live_in(blocks[0]), self.versions[1].live_in(blocks[1]))
            found = self.cuts[blocks] = Cut(len(self.cuts), blocks, live)
        return found

    def _arrive(self, cut: Cut, source: tuple[int, int], arrival: Arrival) -> None:
        cut.arrivals[source] = arrival
        changed = self.relations.infer(cut)
        if self.pace is Pace.BY_ROUNDS:
            changed |= self.relations.find_facts(cut, self._follows)
        if changed and cut not in self.waiting:
            self.waiting.append(cut)

    def _follows(self, decided: tuple[Term, ...], fact: Term) -> bool:
        if fact in decided:
            return True
        known = self.build.both(self.build.true, *decided)
        return Equality(self.build, self.budget, known).same(fact, self.build.true) is True

    def _start(self, cut: Cut, side: int) -> State:
        build, relation = self.build, cut.relation
        state = State(lambda unit: self._unknown(cut, side, unit), memory=dict(cut.memory))
        chosen = {unit: term for (where, unit), term in relation.items() if where == side}
        state.units.update({unit: term for unit, term in chosen.items() if not VECTOR_MASK >> unit & 1})
        enabled = self.versions[side].lifter.exec_bit(state)
        for unit, term in chosen.items():
            if VECTOR_MASK >> unit & 1:
                partly = cut.in_enabled_lanes_only((side, unit))
                state.units[unit] = build.selected(enabled, term, self._unknown(cut, side, unit)) if partly else term
        return state

    def _unknown(self, cut: Cut, side: int, unit: int) -> Term:
        """What a register holds that is not live, or not in this lane."""
        return self.build.terms.symbol(("unknown", cut.number, side, unit), 32, bool(VECTOR_MASK >> unit & 1))

    def _explore(self, cut: Cut) -> None:
        self.rounds[cut.number] = self.rounds.get(cut.number, 0) + 1
        if self.rounds[cut.number] > _MOST_ROUNDS:
            raise UndecidedError(f"no relation was found that holds at {self._place(cut)}")
        if self.budget.steps + len(self.build.terms) // _TERMS_A_STEP > self.limits.total:
            raise UndecidedError(f"the work that one proof may take ({self.limits.total} steps) was used up")
        if self.budget.seconds_left() <= 0:
            raise UndecidedError(f"the last resort of {self.limits.seconds:g} s was reached")
        stretches = []
        for side, version in enumerate(self.versions):
            state = self._start(cut, side)
            stretches.append(Stretch(state, version.run(cut.blocks[side], state, self.pace)))
        first, second = stretches
        if self.pace is Pace.BY_ROUNDS:
            self._match_rounds(cut, first, second)
        else:
            self._match(cut, first, second, 1)

    def _match_rounds(self, cut: Cut, first: Stretch, second: Stretch) -> None:
        """Compares two stretches where a plan brings them together."""
        outer, made = self.equality, []

        def narrowed(equality: Equality, known: Term) -> Equality:
            made.append(Equality(self.build, self.budget, self.build.both(equality.path, known)))
            return made[-1]

        try:
            start = narrowed(outer, self.build.both(self.build.true, *cut.facts))
            for meeting in Planner(self.versions, narrowed, self._agree).plan(first, second, start):
                self.equality = meeting.equality
                self._compare_memory(*meeting.stretches)
                self._follow(cut, *meeting.stretches, meeting.path)
        finally:
            self.equality = outer
            for equality in made:
                outer.models += equality.models

    def _agree(self, first: Stretch, second: Stretch) -> bool:
        """Whether registers of the wave that hold the same at a known pair of starts of loops do so again."""
        cut = self.cuts.get((first.decision.goals[0], second.decision.goals[0]))
        values: dict[int, Term] = {}
        for (side, unit), term in cut.relation.items() if cut is not None else ():
            now = (first, second)[side].state.unit(unit)
            if not VECTOR_MASK >> unit & 1 and values.setdefault(term.id, now) is not now:
                return False
        return True

    def _match(self, cut: Cut, first: Stretch, second: Stretch, path: int) -> None:
        """Compares two stretches, or goes on with one of them alone where only it has come to a fork.

        `path` numbers the way through the forks that were taken alone, from 1 on; what they decided is known
        to `equality` then.
        """
        alone = self._forks_alone(first, second)
        if alone is None or path >= 1 << _MOST_FORKS_ALONE:
            self._compare_memory(first, second)
            self._follow(cut, first, second, path)
            return
        stretch = (first, second)[alone]
        condition = stretch.decision.condition
        assert condition is not None
        outer = self.equality
        for outcome, known in enumerate((condition, self.build.negated(condition))):
            decided = self.build.both(outer.path, known)
            if outer.same(known, self.build.false) is True:
                continue  # with EXEC 0 a loop in the code that is left out goes round once
            self.equality = Equality(self.build, self.budget, decided)
            try:
                state = stretch.state.copy()
                further = Stretch(state, self.versions[alone].run(stretch.decision.goals[outcome], state, self.pace))
                pair = (further, second) if alone == 0 else (first, further)
                self._match(cut, *pair, 2 * path + outcome)
            finally:
                outer.models += self.equality.models
                self.equality = outer

    def _forks_alone(self, first: Stretch, second: Stretch) -> int | None:
        """Which of the two comes to a fork that the other one does not come to; None if they agree."""
        one, other = first.decision, second.decision
        if one.kind is not Leaving.FORKS:
            return 1 if other.kind is Leaving.FORKS else None
        if other.kind is not Leaving.FORKS:
            return 0
        assert one.condition is not None
        assert other.condition is not None
        same = self.equality.same(one.condition, other.condition) is True
        if same or self.equality.same(one.condition, self.build.negated(other.condition)) is True:
            return None
        # The one with more code before its fork has passed the place where the other one forks.
        return 0 if len(first.state.effects) <= len(second.state.effects) else 1

    def _place(self, cut: Cut) -> str:
        first = self.before.blocks[cut.blocks[0]].instructions[:1]
        return f"block {cut.blocks[0]}" + (f" (`{first[0]}`)" if first else "")

    # --- what must be equal ---------------------------------------------------------------------------------

    def _compare_memory(self, first: Stretch, second: Stretch) -> None:
        MemoryComparison(self.equality, first.state, second.state).compare()
        if first.state.controls != second.state.controls:
            last = [each for each in (first.decision.instruction, second.decision.instruction) if each is not None]
            raise UndecidedError("the control instructions (priority and the like) are not the same", *last)

    def _equal_registers(self, first: Stretch, second: Stretch) -> None:
        for unit in sorted(first.state.units.keys() | second.state.units.keys()):
            mine, theirs = first.state.unit(unit), second.state.unit(unit)
            if self.equality.same(mine, theirs) is not True:
                blamed = [each for each in (first.decision.instruction, second.decision.instruction) if each]
                raise UndecidedError(
                    f"{register_names(1 << unit)} could not be shown equal where control leaves"
                    + (f" at `{blamed[0]}` (#{blamed[0].id})" if blamed else ""),
                    *blamed,
                )

    # --- decisions ------------------------------------------------------------------------------------------

    def _follow(self, cut: Cut, first: Stretch, second: Stretch, path: int) -> None:
        one, other = first.decision, second.decision
        blamed = [each for each in (one.instruction, other.instruction) if each is not None]
        if one.kind is not other.kind:
            words = " but ".join(f"`{each}` (#{each.id})" for each in blamed)
            raise UndecidedError(f"control goes on differently: {words}", *blamed)
        match one.kind:
            case Leaving.ENDS:
                return
            case Leaving.FORKS:
                self._fork(cut, first, second, path, blamed)
            case Leaving.REPEATS:
                self._go_on(cut, 2 * path, (one.goals[0], other.goals[0]), first, second)
            case Leaving.LEAVES:
                if one.condition is not None or other.condition is not None:
                    self._same_goal(one, other, blamed)
                self._equal_registers(first, second)
                if one.goals or other.goals:
                    self._go_on(cut, 2 * path, (one.goals[0], other.goals[0]), first, second)
            case Leaving.CALLS | Leaving.TRAPS:
                self._equal_registers(first, second)
                self._return(cut, first, second, path)

    def _same_goal(self, one: Decision, other: Decision, blamed: list[Instruction]) -> None:
        same = one.condition is not None and other.condition is not None and len(one.goals) == len(other.goals)
        same = same and one.instruction is not None and other.instruction is not None
        if not same or one.instruction.target != other.instruction.target:  # type: ignore[union-attr]
            raise UndecidedError("control leaves for different places", *blamed)
        if self.equality.same(one.condition, other.condition) is not True:  # type: ignore[arg-type]
            raise UndecidedError("control leaves for different places", *blamed)

    def _fork(self, cut: Cut, first: Stretch, second: Stretch, path: int, blamed: list[Instruction]) -> None:
        mine, theirs = first.decision.condition, second.decision.condition
        assert mine is not None
        assert theirs is not None
        goals = second.decision.goals
        if self.equality.same(mine, theirs) is not True:
            if self.equality.same(mine, self.build.negated(theirs)) is not True:
                one, other = (f"`{each}` (#{each.id})" for each in blamed)
                words = f"{one} could not be shown to decide as {other}"
                raise UndecidedError(words, *blamed)
            goals = goals[::-1]
        for outcome, pair in enumerate(zip(first.decision.goals, goals, strict=True)):
            known = self.build.negated(mine) if outcome else mine
            self._go_on(cut, 2 * path + outcome, pair, first, second, known)

    def _go_on(
        self, cut: Cut, outcome: int, goals: tuple[int, int], first: Stretch, second: Stretch, known: Term | None = None
    ) -> None:
        following = self._cut(goals)
        arrival = self._arrival(following, first.state, second.state)
        path = self.equality.path if known is None else self.build.both(self.equality.path, known)
        if path is not self.build.true:
            arrival.decided = path.args if path.op == "and" else (path,)
        self._arrive(following, (cut.number, outcome), arrival)

    def _return(self, cut: Cut, first: Stretch, second: Stretch, path: int) -> None:
        goals = (first.decision.goals[0], second.decision.goals[0])
        blocks = (len(self.before.blocks), len(self.after.blocks))
        if goals[0] >= blocks[0] or goals[1] >= blocks[1]:
            return
        instruction = first.decision.instruction
        if instruction is not None and instruction.target is not None:
            raise UndecidedError(f"`{instruction}` (#{instruction.id}) calls a place in this code", instruction)
        following = self._cut(goals)
        if first.decision.kind is Leaving.TRAPS:
            arrival = self._arrival(following, first.state, second.state)
        else:
            values: dict[Item, Term] = {}
            for item in following.items():
                varies = bool(VECTOR_MASK >> item[1] & 1)
                values[item] = self.build.terms.symbol(("returned", cut.number, item[1]), 32, varies)
            spaces = {
                space: self.build.terms.symbol(("memory", cut.number, "call", space), 0, False) for space in SPACES
            }
            arrival = Arrival(values, spaces)
        self._arrive(following, (cut.number, 2 * path), arrival)

    def _arrival(self, cut: Cut, first: State, second: State) -> Arrival:
        values: dict[Item, Term] = {}
        states = (first, second)
        enabled = [version.lifter.exec_bit(state) for version, state in zip(self.versions, states, strict=True)]
        for item in cut.items():
            term = states[item[0]].unit(item[1])
            values[item] = self.build.under(term, enabled[item[0]]) if cut.in_enabled_lanes_only(item) else term
        # Where the two disagree about the lanes that are on, nothing may be assumed of a lane.
        self._unify(cut, values, enabled[0] if enabled[0] is enabled[1] else self.build.true)
        # Effects were proved equal, so the contents of memory are, whatever their terms look like.
        return Arrival(values, dict(first.memory))

    def _unify(self, cut: Cut, values: dict[Item, Term], enabled: Term) -> None:
        """Gives values that the solver finds equal one term. Numbers tell which are worth the question."""
        mine = {values[item].id: values[item] for item in values if item[0] == 0}
        strange = {item: term for item, term in values.items() if item[0] == 1 and term.id not in mine}
        if not strange:
            return
        theirs = {values[item].id for item in values if item[0] == 1}
        alone = tuple(term for id_, term in mine.items() if id_ not in theirs)
        marks: dict[tuple[int, ...], Term] = {}
        for term, mark in zip(alone, self._marks(alone), strict=True):
            marks.setdefault(mark, term)
        found = tuple(strange.values())
        for item, mark in zip(strange, self._marks(found), strict=True):
            partner = marks.get(mark) or values.get((0, item[1]))
            given = enabled if cut.in_enabled_lanes_only(item) else None
            if partner is not None and self.equality.same(partner, values[item], given) is True:
                values[item] = partner

    def _marks(self, terms: tuple[Term, ...]) -> list[tuple[int, ...]]:
        drawn = [sample(self.build, terms, seed) for seed in _SEEDS]
        return [tuple(numbers[place] for numbers in drawn) for place in range(len(terms))]
