"""Values as terms: hash-consed, of fixed width, seen by one generic lane.

A term is a bit vector. One that `varies` may differ from lane to lane and stands for its value in the one lane
that is looked at, which is any lane; all others are the same in the whole wave. Equal terms are one object, so
"the same value" is "the same id". `normalise` builds terms; this module only knows what they are.

Operations beside those of `expression.OPERATIONS`:

    const       data: value                         symbol   data: what it stands for
    lane        the number of this lane             sum      data: (constant, coefficients), one for each argument
    slice       data: lowest bit                    concat   arguments one behind the other, lowest bits first
    ballot      a mask with bit L = the 1-bit argument in lane L; `lanebit` is this lane's bit of a mask
    at          the first argument's value in the lane that the second names
    opaque      data: an operation of which only "equal inputs, equal outputs" is known; it may look at its
                arguments in all lanes
    f:NAME      a floating-point operation; data: format; the last argument is MODE
    load        data: space; arguments: state of memory, address
    memory      a state of memory (0 bits) made by an effect; data: the effect

`at`, `ballot`, `opaque` and `memory` see their vector arguments in all lanes: they are functions of the whole
register, which is why a rule that holds in one lane only (`under`) must never be applied inside of them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

WHOLE_VECTOR = frozenset({"ballot", "at", "opaque", "memory"})
"""Operations that look at their arguments in all lanes."""


AT_CUT = "at cut"
"""Begins the names of symbols that stand for registers at a pair of program points; the bits they never have end it."""


class Term:
    """One value. `id` grows with creation, so arguments have smaller ids than what is made of them."""

    __slots__ = ("args", "bits", "data", "id", "op", "varies")

    def __init__(self, id_: int, op: str, bits: int, args: tuple[Term, ...], data: Hashable, varies: bool) -> None:
        self.id = id_
        self.op = op
        self.bits = bits
        self.args = args
        self.data = data
        self.varies = varies

    @property
    def value(self) -> int:
        """The number that a constant is."""
        assert isinstance(self.data, int)
        return self.data

    @property
    def low(self) -> int:
        """The lowest bit that a slice takes."""
        assert isinstance(self.data, int)
        return self.data

    @property
    def linear(self) -> tuple[int, tuple[int, ...]]:
        """The constant of a sum and the coefficients of its arguments."""
        assert isinstance(self.data, tuple)
        constant, factors = self.data
        return constant, factors

    @property
    def absent(self) -> int:
        """The bits that a symbol of a pair of program points never has, by its name."""
        named = self.op == "symbol" and isinstance(self.data, tuple) and self.data[0] == AT_CUT
        return int(self.data[-1]) if named else 0  # type: ignore[index]

    def __repr__(self) -> str:
        return spelled(self)


class Terms:
    """The table of all terms of one comparison."""

    def __init__(self) -> None:
        self._table: dict[tuple[Hashable, ...], Term] = {}

    def __len__(self) -> int:
        return len(self._table)

    def make(
        self, op: str, bits: int, args: Sequence[Term] = (), data: Hashable = None, varies: bool | None = None
    ) -> Term:
        """The term with these parts, without any simplification."""
        if varies is None:
            varies = any([argument.varies for argument in args])
        key = (op, bits, data, varies, *[argument.id for argument in args])
        found = self._table.get(key)
        if found is None:
            found = self._table[key] = Term(len(self._table), op, bits, tuple(args), data, varies)
        return found

    def const(self, bits: int, value: int) -> Term:
        """A number, taken modulo 2**bits."""
        return self.make("const", bits, (), value & ((1 << bits) - 1))

    def symbol(self, name: Hashable, bits: int, varies: bool) -> Term:
        """A value of which nothing is known but its name."""
        return self.make("symbol", bits, (), name, varies)


def parts_in_this_lane(term: Term) -> tuple[Term, ...]:
    """The arguments that are looked at in this lane, or are the same in all lanes."""
    if term.op in ("opaque", "memory"):
        return ()
    return term.args[1:] if term.op == "at" else term.args


def subterms(roots: Sequence[Term], in_this_lane: bool = False) -> Iterator[Term]:
    """All terms that the roots are made of, each once, arguments first.

    `in_this_lane` leaves out what is seen only through operations on whole registers and memory.
    """
    seen: set[int] = set()
    waiting = [(root, False) for root in reversed(roots)]
    while waiting:
        term, ready = waiting.pop()
        if ready:
            yield term
            continue
        if term.id in seen:
            continue
        seen.add(term.id)
        waiting.append((term, True))
        parts = parts_in_this_lane(term) if in_this_lane else term.args
        waiting += [(part, False) for part in parts if part.id not in seen]


def spelled(term: Term, depth: int = 4) -> str:
    """A term in words, cut off below `depth`; for messages."""
    if term.op == "const":
        return f"{term.value:#x}" if term.value > 9 else str(term.value)
    if term.op == "symbol":
        return "/".join(map(str, term.data)) if isinstance(term.data, tuple) else str(term.data)
    if depth == 0:
        return "..."
    parts = ", ".join(spelled(argument, depth - 1) for argument in term.args)
    note = f"[{term.data}]" if term.data is not None else ""
    return f"{term.op}{note}({parts})"
