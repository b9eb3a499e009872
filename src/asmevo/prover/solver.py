"""What structure does not settle: equality of terms by bitwuzla, a solver for bit vectors.

Translation. Terms become bit vectors of their width. Symbols are free; `lane` is any lane of the wave; floating-point
operations and loads are uninterpreted functions of their arguments (and of the contents of memory, one number a
state), and where that does not do, comparisons and choices are what `float_order` says; `ballot` is a free mask whose
bit of this lane is the argument; `at` is a free function of the lane, one for each whole register it looks into. All
of this forgets facts and adds none, so what the solver finds equal is equal in every lane of every wave. What it
finds different may be an artefact of what was forgotten: that is why a difference counts only when it has been
replayed.

An access to memory is the same if its address and value are where a lane takes part in it. All other
operations that look at registers in all lanes are the same value if their arguments are equal as whole registers,
that is, proved equal without an assumption about the lane. `Equality` proves arguments first and lets equal
operations share one name.

Each question has a limit of work, and all of them together a budget; past it everything is unknown. Work is counted in
steps: how often the solver asks whether to go on, which it does after equal pieces of search, and how much there is to
search in, the bits of the question (squared for products). So the same question gets the same answer on any machine,
however busy; wall time is the last resort.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence

import bitwuzla
from bitwuzla import Kind
from msgspec import Struct, field

from asmevo.prover.float_order import defined, has_definition
from asmevo.prover.normalise import Builder
from asmevo.prover.sampling import sample
from asmevo.prover.terms import WHOLE_VECTOR, Term, subterms

_SEEDS = range(8)
_MOST_PARTNERS = 6  # operations of one kind that are tried against one another
_MILLISECONDS = 1000
_STEPS_A_SECOND = 20_000  # of a quiet core, about: what a limit in seconds is worth in steps
_BITS_A_STEP = 64  # of a question's size
_STEPS_A_LOOK = 512  # at the clock
_DEEP = frozenset({"mul", "udiv", "urem", "umulh", "smulh"})
_SIMPLE = {
    "and": Kind.BV_AND, "or": Kind.BV_OR, "xor": Kind.BV_XOR, "mul": Kind.BV_MUL, "udiv": Kind.BV_UDIV,
    "urem": Kind.BV_UREM, "eq": Kind.EQUAL, "ult": Kind.BV_ULT, "slt": Kind.BV_SLT, "not": Kind.BV_NOT,
}  # fmt: skip
_EXTREME = {
    "umin": (Kind.BV_ULT, False), "umax": (Kind.BV_ULT, True), "smin": (Kind.BV_SLT, False), "smax": (Kind.BV_SLT, True)
}  # fmt: skip
_SHIFTS = {"shl": Kind.BV_SHL, "lshr": Kind.BV_SHR, "ashr": Kind.BV_ASHR}
_COUNTS = frozenset({"popcount", "ctlz", "cttz"})
_BOOLEAN = frozenset({"eq", "ult", "slt"})


class SolverLimits(Struct, frozen=True):
    """Steps for one question and for all of one proof, and the wall seconds that end a proof in any case."""

    question: int = 2 * _STEPS_A_SECOND
    total: int = 20 * _STEPS_A_SECOND
    seconds: float = 120.0


def steps_of(seconds: float) -> int:
    """How many steps a quiet core makes in some seconds, about."""
    return int(seconds * _STEPS_A_SECOND)


class Budget(Struct):
    """What is left of a proof's work; `questions` counts those that went to the solver."""

    limits: SolverLimits
    started: float = field(default_factory=lambda: time.monotonic())  # the clock of the moment
    questions: int = 0
    steps: int = 0

    def left(self) -> int:
        """Steps for the next question; none once the last resort is reached."""
        return min(self.limits.question, self.limits.total - self.steps) if self.seconds_left() > 0 else 0

    def seconds_left(self) -> float:
        """Wall seconds before the last resort."""
        return self.limits.seconds - (time.monotonic() - self.started)


class Equality:
    """Decides whether terms are equal; remembers what it found."""

    def __init__(self, build: Builder, budget: Budget, path: Term | None = None) -> None:
        """`path` is a condition of the wave (not of a lane) that holds wherever this is asked."""
        assert path is None or not path.varies
        self.build = build
        self.budget = budget
        self.path = build.true if path is None else path
        self.models: list[dict[Term, int]] = []
        self._known: dict[tuple[int, int, int], bool | None] = {}
        self._names: dict[int, Term] = {}

    def same(self, a: Term, b: Term, given: Term | None = None) -> bool | None:
        """Whether a equals b (in lanes where the 1-bit `given` holds); None if it could not be decided."""
        a, b = self.name_of(a), self.name_of(b)
        if a is b:
            return True
        if a.bits != b.bits:
            return False
        key = (min(a.id, b.id), max(a.id, b.id), -1 if given is None else given.id)
        if key not in self._known:
            self._known[key] = False  # an operation that would need itself to be proved is not
            self._known[key] = self._decide(a, b, given)
        return self._known[key]

    def _decide(self, a: Term, b: Term, given: Term | None) -> bool | None:
        if a.bits == 0:
            return self._alike(a, b)
        if a.op in WHOLE_VECTOR and a.op == b.op and self._alike(a, b):
            return True
        self._share_names(a, b)
        if self._sampled_apart(a, b, given):
            return False
        return self._ask(a, b, given)

    def _alike(self, a: Term, b: Term) -> bool:
        """Whether two operations on whole registers are the same one on equal registers."""
        if (a.op, a.data, len(a.args)) != (b.op, b.data, len(b.args)):
            return False
        where = a.data[2] if a.op == "memory" and isinstance(a.data, tuple) and a.data[0] == "effect" else -1
        given = None
        if where >= 0:
            if self.same(a.args[where], b.args[where]) is not True:
                return False
            given = a.args[where]
        if not all(self.same(x, y, given if x.bits else None) is True for x, y in zip(a.args, b.args, strict=True)):
            return False
        self._names[max(a.id, b.id)] = self.name_of(min(a, b, key=lambda term: term.id))
        return True

    def never_happens(self, effect: Term) -> bool:
        """Whether no lane takes part in an access; then memory is what it was before."""
        assert isinstance(effect.data, tuple)
        _, _, place, spaces = effect.data
        if place < 0 or self.same(effect.args[place], self.build.false) is not True:
            return False
        for number, space in enumerate(spaces):
            behind = self.build.terms.make("memory", 0, (effect,), ("after", space), False)
            self._names[behind.id] = self.name_of(effect.args[number])
        return True

    def name_of(self, term: Term) -> Term:
        """The term that stands for all that were proved equal to it."""
        while term.id in self._names:
            term = self._names[term.id]
        return term

    def _share_names(self, a: Term, b: Term) -> None:
        mine = [term for term in subterms((a,), in_this_lane=True) if term.op in WHOLE_VECTOR]
        seen = {term.id for term in mine}
        for theirs in subterms((b,), in_this_lane=True):
            if theirs.op not in WHOLE_VECTOR or theirs.id in seen or theirs.id in self._names:
                continue
            partners = [m for m in mine if (m.op, m.data, m.bits) == (theirs.op, theirs.data, theirs.bits)]
            next((m for m in partners[:_MOST_PARTNERS] if self.same(m, theirs) is True), None)

    def _sampled_apart(self, a: Term, b: Term, given: Term | None) -> bool:
        """Numbers show a difference; not to be trusted where operations share a name."""
        roots = (a, b, given or self.build.true, self.path)
        if self._names and any(term.id in self._names for term in subterms(roots, in_this_lane=True)):
            return False
        for seed in _SEEDS:
            first, second, holds, on_path = sample(self.build, roots, seed)
            if holds and on_path and first != second:
                return True
        return False

    def _ask(self, a: Term, b: Term, given: Term | None) -> bool | None:
        if self.budget.left() <= 0:
            return None
        answer, model = self._answered(a, b, given, by_definition=False)
        if answer is not True and any(has_definition(term) for term in subterms((a, b), in_this_lane=True)):
            answer, model = self._answered(a, b, given, by_definition=True)
        if answer is False and model:
            self.models.append(model)
        return answer

    def _answered(
        self, a: Term, b: Term, given: Term | None, *, by_definition: bool
    ) -> tuple[bool | None, dict[Term, int]]:
        self.budget.questions += 1
        query = _Query(self.build, self.name_of, by_definition=by_definition)
        formula = [query.different(a, b), query.holds(self.path)]
        if given is not None:
            formula.append(query.holds(given))
        return query.solve(formula, self.budget)


class _Query:
    """One question to the solver; `by_definition`: with what `float_order` knows of floating-point operations."""

    def __init__(self, build: Builder, name_of: Callable[[Term], Term], *, by_definition: bool) -> None:
        self.build = build
        self.by_definition = by_definition
        self.name_of = name_of
        self.manager = bitwuzla.TermManager()
        self.made: dict[int, bitwuzla.Term] = {}
        self.functions: dict[Hashable, bitwuzla.Term] = {}
        self.facts: list[bitwuzla.Term] = []
        self.leaves: dict[Term, bitwuzla.Term] = {}
        self.size = 0

    def different(self, a: Term, b: Term) -> bitwuzla.Term:
        """The formula a != b."""
        return self.term(Kind.DISTINCT, self.translated(a), self.translated(b))

    def holds(self, condition: Term) -> bitwuzla.Term:
        """The formula that a 1-bit value is 1."""
        return self.term(Kind.EQUAL, self.translated(condition), self.number(1, 1))

    def solve(self, formula: Sequence[bitwuzla.Term], budget: Budget) -> tuple[bool | None, dict[Term, int]]:
        """(whether the formula has no model, the model if it has one)."""
        left = budget.left() - self.size // _BITS_A_STEP
        budget.steps += self.size // _BITS_A_STEP
        if left <= 0:
            return None, {}
        made = 0

        def enough() -> bool:
            nonlocal made
            made += 1
            return made > left or (made % _STEPS_A_LOOK == 0 and budget.seconds_left() <= 0)

        options = bitwuzla.Options()
        options.set(bitwuzla.Option.PRODUCE_MODELS, True)
        options.set(bitwuzla.Option.TIME_LIMIT_PER, max(1, int(budget.seconds_left() * _MILLISECONDS)))
        solver = bitwuzla.Bitwuzla(self.manager, options)
        solver.configure_terminator(enough)
        for each in (*formula, *self.facts):
            solver.assert_formula(each)
        result = solver.check_sat()
        budget.steps += made
        if result == bitwuzla.Result.UNSAT:
            return True, {}
        if result != bitwuzla.Result.SAT:
            return None, {}
        model = {leaf: int(solver.get_value(made).value(10)) for leaf, made in self.leaves.items()}
        return False, model

    # --- translation ----------------------------------------------------------------------------------------

    def term(self, kind: Kind, *args: bitwuzla.Term, indices: Sequence[int] = ()) -> bitwuzla.Term:
        return self.manager.mk_term(kind, list(args), list(indices))

    def number(self, bits: int, value: int) -> bitwuzla.Term:
        return self.manager.mk_bv_value(self.manager.mk_bv_sort(bits), value)

    def free(self, term: Term) -> bitwuzla.Term:
        """A value of which nothing is known."""
        made = self.manager.mk_const(self.manager.mk_bv_sort(term.bits), f"t{term.id}")
        self.leaves[term] = made
        return made

    def translated(self, root: Term) -> bitwuzla.Term:
        for term in subterms((root,), in_this_lane=True):
            if term.id not in self.made and term.bits:
                named = self.name_of(term)
                if named is not term:
                    self.made[term.id] = self.translated(named)
                else:
                    self.made[term.id] = self._made(term)
                    self.size += term.bits * term.bits if term.op in _DEEP else term.bits
        return self.made[root.id]

    def _made(self, term: Term) -> bitwuzla.Term:
        if term.op == "const":
            return self.number(term.bits, term.value)
        if term.op == "symbol":
            made = self.free(term)
            if term.absent:
                seen = self.term(Kind.BV_AND, made, self.number(term.bits, term.absent))
                self.facts.append(self.term(Kind.EQUAL, seen, self.number(term.bits, 0)))
            return made
        if term.op == "lane":
            lane = self.free(term)
            self.facts.append(self.term(Kind.BV_ULT, lane, self.number(32, self.build.wave_size)))
            return lane
        if term.op == "ballot":
            mask = self.free(term)
            bit = self._bit_of(mask, term.bits)
            self.facts.append(self.term(Kind.EQUAL, bit, self.made[term.args[0].id]))
            return mask
        if term.op == "at":
            return self._applied(term, ("at", self.name_of(term.args[0]).id), [term.args[1]])
        if term.op == "opaque":
            return self.free(term)
        if self.by_definition and has_definition(term):
            return self.translated(defined(self.build, term))
        return self._structure(term)

    def _structure(self, term: Term) -> bitwuzla.Term:
        args = [self.made[argument.id] for argument in term.args if argument.bits]
        match term.op:
            case "sum":
                return self._sum(term, args)
            case "slice":
                low = term.low
                return self.term(Kind.BV_EXTRACT, args[0], indices=(low + term.bits - 1, low))
            case "concat":
                return self.term(Kind.BV_CONCAT, *reversed(args))
            case "sext":
                return self.term(Kind.BV_SIGN_EXTEND, args[0], indices=(term.bits - term.args[0].bits,))
            case "select":
                return self.term(Kind.ITE, self.term(Kind.EQUAL, args[0], self.number(1, 1)), args[1], args[2])
            case "lanebit":
                return self._bit_of(args[0], term.args[0].bits)
            case "umulh" | "smulh":
                kind = Kind.BV_ZERO_EXTEND if term.op == "umulh" else Kind.BV_SIGN_EXTEND
                wide = [self.term(kind, arg, indices=(term.bits,)) for arg in args]
                whole = self.term(Kind.BV_MUL, *wide)
                return self.term(Kind.BV_EXTRACT, whole, indices=(2 * term.bits - 1, term.bits))
        if term.op in _COUNTS:
            return self._count(term, args[0])
        if term.op == "bitreverse" and term.bits > 1:
            bits = [self.term(Kind.BV_EXTRACT, args[0], indices=(place, place)) for place in range(term.bits)]
            return self.term(Kind.BV_CONCAT, *bits)
        if term.op in _EXTREME:
            kind, greater = _EXTREME[term.op]
            return self.term(Kind.ITE, self.term(kind, *args), *(args[::-1] if greater else args))
        if term.op in _SHIFTS:
            return self._shift(term, args)
        if term.op in _SIMPLE:
            return self._simple(term, args)
        return self._applied(term, (term.op, term.data), list(term.args))

    def _simple(self, term: Term, args: list[bitwuzla.Term]) -> bitwuzla.Term:
        made = self.term(_SIMPLE[term.op], *args)
        if term.op in _BOOLEAN:
            return self.term(Kind.ITE, made, self.number(1, 1), self.number(1, 0))
        return made

    def _sum(self, term: Term, args: list[bitwuzla.Term]) -> bitwuzla.Term:
        constant, factors = term.linear
        total = self.number(term.bits, constant)
        for factor, arg in zip(factors, args, strict=True):
            scaled = arg if factor == 1 else self.term(Kind.BV_MUL, self.number(term.bits, factor), arg)
            total = self.term(Kind.BV_ADD, total, scaled)
        return total

    def _shift(self, term: Term, args: list[bitwuzla.Term]) -> bitwuzla.Term:
        value, amount = args
        wide, given = term.bits, term.args[1].bits
        if given < wide:
            amount = self.term(Kind.BV_ZERO_EXTEND, amount, indices=(wide - given,))
        elif given > wide:
            kind = Kind.BV_SIGN_EXTEND if term.op == "ashr" else Kind.BV_ZERO_EXTEND
            value = self.term(kind, value, indices=(given - wide,))
        moved = self.term(_SHIFTS[term.op], value, amount)
        return moved if given <= wide else self.term(Kind.BV_EXTRACT, moved, indices=(wide - 1, 0))

    def _count(self, term: Term, value: bitwuzla.Term) -> bitwuzla.Term:
        """Ones, or zeros in front of or behind the outermost one."""
        wide = term.args[0].bits
        bits = [self.term(Kind.BV_EXTRACT, value, indices=(place, place)) for place in range(wide)]
        if term.op == "popcount":
            total = self.number(term.bits, 0)
            for bit in bits:
                total = self.term(Kind.BV_ADD, total, self.term(Kind.BV_ZERO_EXTEND, bit, indices=(term.bits - 1,)))
            return total
        order = bits if term.op == "cttz" else bits[::-1]
        found = self.number(term.bits, wide)
        for place in reversed(range(wide)):
            set_ = self.term(Kind.EQUAL, order[place], self.number(1, 1))
            found = self.term(Kind.ITE, set_, self.number(term.bits, place), found)
        return found

    def _bit_of(self, mask: bitwuzla.Term, bits: int) -> bitwuzla.Term:
        lane = self.build.lane
        if lane.id not in self.made:
            self.made[lane.id] = self._made(lane)
        place = self.made[lane.id]
        if bits > 32:
            place = self.term(Kind.BV_ZERO_EXTEND, place, indices=(bits - 32,))
        elif bits < 32:
            mask = self.term(Kind.BV_ZERO_EXTEND, mask, indices=(32 - bits,))
        return self.term(Kind.BV_EXTRACT, self.term(Kind.BV_SHR, mask, place), indices=(0, 0))

    def _applied(self, term: Term, name: Hashable, args: list[Term]) -> bitwuzla.Term:
        """An uninterpreted function of its arguments; a state of memory is the number of its name."""
        made = [self.made[arg.id] if arg.bits else self.number(32, self.name_of(arg).id) for arg in args]
        widths = tuple(arg.bits or 32 for arg in args)
        key = (name, widths, term.bits)
        function = self.functions.get(key)
        if function is None:
            sorts = [self.manager.mk_bv_sort(width) for width in widths]
            sort = self.manager.mk_fun_sort(sorts, self.manager.mk_bv_sort(term.bits))
            function = self.functions[key] = self.manager.mk_const(sort, f"f{len(self.functions)}")
        applied = self.term(Kind.APPLY, function, *made)
        self.leaves[term] = applied
        return applied
