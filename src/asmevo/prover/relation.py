"""What relates the registers of two versions at a pair of program points, inferred from how control arrives.

At a pair of points the live registers of both versions are items. The relation gives every item a term over
symbols that belong to the pair: items with one symbol hold the same value, whatever their registers are called.

Inference is partition refinement, from optimistic to true. An arrival is one way to come to the pair, with the
value of every item. Items that had the same term so far and have equal values in each arrival share a symbol. Then

* a value that is the same in all arrivals and made of nothing but what the launch gave is kept as it is;
* an item that has no partner in the other version may be a function of those that have: the value in one arrival
  is written over the values of the other items (`_express`), and kept if it fits all arrivals. That is how a
  hoisted computation, a rotated one and a stepped pointer are related to what they were computed from;
* an item that each round changes by a constant, like another one does by another constant, is a linear function
  of that one: the pointer that is stepped, and the count it was computed from;
* a pair of neighbouring registers that is, as a number of 64 bits, as far from a pair of the other version in every
  arrival is that one and the distance: pointers with carries, stepped earlier or from another base;
* any other item gets a symbol of its own: nothing is known of it but bits that are 0 in each arrival.

What an item is a function of often shows only after its class was split, and that split others in its turn. So
`learned` keeps such functions, and the search may start again with them (`Relations.news` says that there are any).

A class is only ever split, and an item that failed to be expressed too often is given up, so refinement ends. It is
sound because `infer` keeps only what every arrival satisfies, and arrivals are made anew from what was inferred
until nothing changes: an induction over the path, with the relation as its hypothesis.

A vector register that is live only where EXEC is on is related only there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct, field

from asmevo.analysis.liveness import LiveState
from asmevo.program.registers import EXEC_MASK, MODE_MASK, VECTOR_MASK, units_of
from asmevo.prover.carries import WIDE, WORD
from asmevo.prover.normalise import Builder
from asmevo.prover.numbers import lowest_run, ones, signed
from asmevo.prover.rebuilding import Rebuilder
from asmevo.prover.terms import AT_CUT, Term, subterms

Item = tuple[int, int]
"""(0 for the version before and 1 for the one after, register unit)."""

Way = Callable[[Item, dict[Item, Term]], list[Term]]

_MOST_FAILURES = 3
_MOST_FACTS = 12  # conditions that one cut remembers
_OF_A_PLACE = frozenset({AT_CUT, "unknown", "memory", "returned"})
"""Names of symbols that stand for something at one place of a run; all others are the same all through it."""


class Arrival(Struct):
    """Values of all items and of the memory spaces when control comes to a pair of points one way.

    `decided` are conditions of the wave that hold on that way.
    """

    values: dict[Item, Term]
    memory: dict[str, Term]
    decided: tuple[Term, ...] = ()


class Cut(Struct):
    """A pair of program points (blocks by index): items, relation, and arrivals by (source cut, outcome)."""

    number: int
    blocks: tuple[int, int]
    live: tuple[LiveState, LiveState]
    relation: dict[Item, Term] = field(default_factory=dict)
    memory: dict[str, Term] = field(default_factory=dict)
    arrivals: dict[tuple[int, int], Arrival] = field(default_factory=dict)
    failures: dict[Item, int] = field(default_factory=dict)
    learned: dict[Item, Term] = field(default_factory=dict)
    facts: tuple[Term, ...] = ()

    def forget(self) -> None:
        """Back to the start, except for what was learned."""
        self.relation, self.memory, self.facts = {}, {}, ()
        self.arrivals, self.failures = {}, {}

    def items(self) -> Iterable[Item]:
        """The registers that matter here."""
        for side, live in enumerate(self.live):
            for unit in units_of(live.any_lane | EXEC_MASK | MODE_MASK):
                yield side, unit

    def in_enabled_lanes_only(self, item: Item) -> bool:
        """Whether the value matters only where EXEC is on."""
        side, unit = item
        return bool(VECTOR_MASK >> unit & 1) and not self.live[side].others >> unit & 1


class Relations:
    """Infers relations of cuts."""

    def __init__(self, build: Builder) -> None:
        self.build = build
        self.rebuild = Rebuilder(build)
        self.news = False
        self._ground: dict[int, bool] = {}

    def infer(self, cut: Cut) -> bool:
        """Sets the relation of a cut from its arrivals. Whether it changed."""
        arrivals = list(cut.arrivals.values())
        memory = {
            space: self._kept([arrival.memory[space] for arrival in arrivals])
            or self.build.terms.symbol(("memory", cut.number, space), 0, False)
            for space in arrivals[0].memory
        }
        relation = _Inference(self, cut, arrivals, memory).relation()
        changed = relation != cut.relation or memory != cut.memory
        cut.relation, cut.memory = relation, memory
        return changed

    def find_facts(self, cut: Cut, follows: Callable[[tuple[Term, ...], Term], bool]) -> bool:
        """Sets the conditions of the wave that hold in every arrival at a cut. Whether they changed.

        Candidates are what was decided on the way of an arrival, written over the symbols of the cut; each is kept if
        in every arrival it `follows` from what was decided there.
        """
        arrivals = list(cut.arrivals.values())
        found = dict.fromkeys(cut.facts)
        for arrival in arrivals:
            values = [(arrival.values[item], term) for item, term in cut.relation.items()]
            names = {value.id: term for value, term in values}
            sums = [(value, term) for value, term in values if value.op == "sum"]
            changing = {value.id: term for value, term in values if value.op != "const"}
            for decided in arrival.decided:
                # A number that a register holds there may stand for that register, or for itself.
                for known in (names, changing):
                    expressed = self.rebuild.expressed(decided, known, sums, self.is_ground)
                    # Over a vector register it would be a condition of a lane, which decides no way of the wave.
                    if expressed is not None and expressed.op != "const" and not expressed.varies:
                        found[expressed] = None
        kept = []
        for fact in list(found)[:_MOST_FACTS]:
            if all(follows(each.decided, self._arrived(fact, cut, each)) for each in arrivals):
                kept.append(fact)
        changed = tuple(kept) != cut.facts
        cut.facts = tuple(kept)
        return changed

    def _arrived(self, fact: Term, cut: Cut, arrival: Arrival) -> Term:
        """A fact about a cut as it is in one arrival."""
        values = {term.id: arrival.values[item] for item, term in cut.relation.items() if term.op == "symbol"}
        return self.rebuild.replaced(fact, values.get)

    def _kept(self, terms: list[Term]) -> Term | None:
        """A value that all arrivals share and that the launch alone determines."""
        first = terms[0]
        return first if all(term is first for term in terms) and self.is_ground(first) else None

    def is_ground(self, term: Term) -> bool:
        """Whether a value depends on nothing but what the launch gave."""
        ground, waiting = self._ground, [term]
        while waiting:
            each = waiting[-1]
            missing = [argument for argument in each.args if argument.id not in ground]
            if each.id not in ground and missing:
                waiting += missing
                continue
            waiting.pop()
            if each.op == "symbol":
                ground[each.id] = not (isinstance(each.data, tuple) and each.data[0] in _OF_A_PLACE)
            elif each.id not in ground:
                ground[each.id] = all([ground[argument.id] for argument in each.args])
        return ground[term.id]


class _Inference:
    """One inference."""

    def __init__(self, relations: Relations, cut: Cut, arrivals: list[Arrival], memory: dict[str, Term]) -> None:
        self.relations = relations
        self.build = relations.build
        self.cut = cut
        self.arrivals = arrivals
        self.memory = memory
        self.classes: dict[tuple[int, ...], list[Item]] = {}
        for item in cut.items():
            before = cut.relation.get(item)
            key = (-1 if before is None else before.id, *[arrival.values[item].id for arrival in arrivals])
            self.classes.setdefault(key, []).append(item)

    def relation(self) -> dict[Item, Term]:
        """A term for each item."""
        found: dict[Item, Term] = {}
        alone: list[list[Item]] = []
        for items in self.classes.values():
            values = [arrival.values[items[0]] for arrival in self.arrivals]
            kept = self.relations._kept(values)
            shared = len({side for side, _ in items}) > 1
            if kept is None and not shared:
                alone.append(items)
                continue
            term = kept if kept is not None else self._symbol(items[0], values)
            found.update(dict.fromkeys(items, term))
        # What the version after holds alone is most often computed from the one before; the rest the other way. What
        # only counts along with something else may count along with what was found for the others.
        used: set[int] = set()
        mine = [items for items in alone if items[0][0] == 0]
        theirs = [items for items in alone if items[0][0] == 1]
        symbols = {items[0]: self._symbol(items[0], [a.values[items[0]] for a in self.arrivals]) for items in mine}
        lone: list[list[Item]] = []
        for items in theirs:
            everything = {**found, **symbols}
            ways = ((found, self._expressed), (everything, self._expressed), (everything, self._paired))
            if not self._settle(items, found, used, *ways):
                lone.append(items)
                found.update(dict.fromkeys(items, self._symbol(items[0], [a.values[items[0]] for a in self.arrivals])))
        own = {symbol.id for symbol in symbols.values()}
        free = {item: term for item, term in found.items() if own.isdisjoint(leaf.id for leaf in self._leaves(term))}
        for items in mine:
            symbol = symbols[items[0]]
            over_theirs = ((free, self._expressed), (free, self._paired))
            if symbol.id not in used and self._settle(items, found, used, *over_theirs):
                free.update(dict.fromkeys(items, found[items[0]]))
            else:
                lone.append(items)
                found.update(dict.fromkeys(items, symbol))
        for items in lone:
            others = {item: term for item, term in found.items() if term is not found[items[0]]}
            if found[items[0]].id not in used and not self._settle(items, found, used, (others, self._stepped)):
                self.cut.failures[items[0]] = self.cut.failures.get(items[0], 0) + 1
        return found

    def _settle(
        self, items: list[Item], found: dict[Item, Term], used: set[int], *ways: tuple[dict[Item, Term], Way]
    ) -> bool:
        """Gives a class its term over others, if there is one; their symbols are used then, and have to stay."""
        derived = self._derived(items, *ways)
        if derived is not None:
            found.update(dict.fromkeys(items, derived))
            used.update(leaf.id for leaf in self._leaves(derived))
        return derived is not None

    def _leaves(self, term: Term) -> list[Term]:
        """The symbols of this place that a term is made of."""
        if self.relations.is_ground(term):
            return []
        return [each for each in subterms((term,)) if each.op == "symbol"]

    def _symbol(self, item: Item, values: list[Term]) -> Term:
        varies = any(value.varies for value in values)
        return self.build.terms.symbol((AT_CUT, self.cut.number, *item, self._absent(item, values)), 32, varies)

    def _absent(self, item: Item, values: list[Term]) -> int:
        """The bits that no arrival has. Where that was too many, only the lowest ones are tried again."""
        absent = ones(WORD)
        for value in values:
            absent &= self.build.zeros(value)
        before = self.cut.relation.get(item)
        if len(values) < 2 or (before is not None and before.op == "symbol" and before.absent != absent):
            return ones(lowest_run(absent))
        return absent

    def _derived(self, items: list[Item], *ways: tuple[dict[Item, Term], Way]) -> Term | None:
        """A class as a function of others, if one arrival suggests it and all others agree.

        `ways` are known items and a way to write the class over them, tried in turn.
        """
        item = items[0]
        if self.cut.failures.get(item, 0) >= _MOST_FAILURES:
            return None
        for known, way in ways:
            for term in (*self._remembered(item), *way(item, known)):
                # What the wave holds once is no function of what lanes hold.
                if (not term.varies or VECTOR_MASK >> item[1] & 1) and self._fits(term, item, known):
                    self._learn(item, term)
                    return term
        return None

    def _remembered(self, item: Item) -> list[Term]:
        before = self.cut.relation.get(item)
        found = [] if before is None or before.op == "symbol" else [before]
        return [*found, self.cut.learned[item]] if item in self.cut.learned else found

    def _expressed(self, item: Item, known: dict[Item, Term]) -> list[Term]:
        """What the arrivals suggest, the last one first."""
        found: list[Term] = []
        for arrival in reversed(self.arrivals):
            term = self._express(arrival.values[item], arrival, known)
            if term is not None and term not in found:
                found.append(term)
        return found

    def _learn(self, item: Item, term: Term) -> None:
        if self.cut.relation and self.cut.learned.get(item) is not term:
            self.cut.learned[item] = term
            self.relations.news = True

    def _paired(self, item: Item, known: dict[Item, Term]) -> list[Term]:
        """Halves of pairs of known items with a distance added that only the launch determines."""
        side, unit = item
        found = []
        for place in (0, 1):
            mine = ((side, unit - place), (side, unit - place + 1))
            if not all(each in self.arrivals[0].values for each in mine):
                continue
            for other, low in known.items():
                theirs = (other, (other[0], other[1] + 1))
                if other[0] == side or theirs[1] not in known:
                    continue
                distance = self._distance(mine, theirs)
                if distance is not None:
                    pair = self.build.concat((low, known[theirs[1]]))
                    whole = self.build.total(WIDE, 0, ((1, distance), (1, pair)))
                    found.append(self.build.slice(whole, WORD * place, WORD))
        return found

    def _distance(self, mine: tuple[Item, Item], theirs: tuple[Item, Item]) -> Term | None:
        """How far two pairs of words are apart, if that is the same in all arrivals and follows from the launch."""
        found: Term | None = None
        for arrival in self.arrivals:
            one, other = (self.build.concat([arrival.values[each] for each in pair]) for pair in (mine, theirs))
            distance = self.build.total(WIDE, 0, ((1, one), (-1, other)))
            if distance is not (found or distance) or not self.relations.is_ground(distance):
                return None
            found = distance
        return found

    def _stepped(self, item: Item, known: dict[Item, Term]) -> list[Term]:
        """Linear functions of items that change by a constant from one round to the next as this one does."""
        if len(self.arrivals) < 2:
            return []
        build, first, last = self.build, self.arrivals[0], self.arrivals[-1]
        step = self._step(item, first, last)
        if not step or not self.relations.is_ground(first.values[item]):
            return []
        found = []
        for other, symbol in known.items():
            theirs = self._step(other, first, last) if symbol.op == "symbol" else 0
            if theirs and step % theirs == 0 and self.relations.is_ground(first.values[other]):
                times = step // theirs
                parts = ((1, first.values[item]), (times, symbol), (-times, first.values[other]))
                found.append(build.total(32, 0, parts))
        return found

    def _step(self, item: Item, first: Arrival, last: Arrival) -> int:
        """By how much an item changes in a round, 0 if that is not a constant."""
        now = last.values[item]
        for before in (self.cut.relation.get(item), first.values[item]):
            change = self.build.total(32, 0, ((1, now), (-1, before))) if before is not None else now
            if change.op == "const" and change.value:
                return signed(change.value, 32)
        return 0

    def _fits(self, term: Term, item: Item, known: dict[Item, Term]) -> bool:
        for arrival in self.arrivals:
            values = {symbol.id: arrival.values[other] for other, symbol in known.items() if symbol.op == "symbol"}
            values |= {symbol.id: arrival.memory[space] for space, symbol in self.memory.items()}
            if self.relations.rebuild.replaced(term, values.get) is not arrival.values[item]:
                return False
        return True

    def _express(self, value: Term, arrival: Arrival, known: dict[Item, Term]) -> Term | None:
        """A value written over the symbols of this cut instead of those where the arrival came from."""
        names = {arrival.values[other].id: symbol for other, symbol in known.items()}
        names |= {arrival.memory[space].id: symbol for space, symbol in self.memory.items()}
        sums = [(arrival.values[other], symbol) for other, symbol in known.items() if arrival.values[other].op == "sum"]
        return self.relations.rebuild.expressed(value, names, sums, self.relations.is_ground)
