"""Terms made anew with parts replaced, back in normal form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from asmevo.prover.normalise import Builder
from asmevo.prover.terms import Term, subterms


class Rebuilder:
    """Makes terms from terms."""

    def __init__(self, build: Builder) -> None:
        self.build = build

    def replaced(self, root: Term, value_of: Callable[[int], Term | None]) -> Term:
        """The term with every part that `value_of` (by id) knows replaced."""
        made: dict[int, Term] = {}
        for term in subterms((root,)):
            found = value_of(term.id)
            made[term.id] = found if found is not None else self.remade(term, [made[a.id] for a in term.args])
        return made[root.id]

    def expressed(
        self,
        root: Term,
        names: Mapping[int, Term],
        sums: Sequence[tuple[Term, Term]],
        is_ground: Callable[[Term], bool],
    ) -> Term | None:
        """The term over the symbols that `names` gives its parts; None where a part has no name.

        `sums` lists sums with their symbols: of the value 4 * i + b and a register that holds i + 1, named s, it is
        b - 4 + 4 * s. Ground parts may stay.
        """
        made: dict[int, Term | None] = {}
        for term in subterms((root,)):
            made[term.id] = self._expressed(term, names, sums, is_ground, made)
        return made[root.id]

    def _expressed(
        self,
        term: Term,
        names: Mapping[int, Term],
        sums: Sequence[tuple[Term, Term]],
        is_ground: Callable[[Term], bool],
        made: dict[int, Term | None],
    ) -> Term | None:
        if term.id in names:
            return names[term.id]
        parts = [made[argument.id] for argument in term.args]
        if term.args and all(part is not None for part in parts):
            return self.remade(term, [part for part in parts if part is not None])
        if term.op == "sum":
            found = self._by_sums(term, sums, made)
            if found is not None:
                return found
        if is_ground(term):
            return term
        return None

    def _by_sums(self, term: Term, sums: Sequence[tuple[Term, Term]], made: dict[int, Term | None]) -> Term | None:
        build = self.build
        constant, factors = term.linear
        rest = {atom.id: (factor, atom) for factor, atom in zip(factors, term.args, strict=True)}
        total = build.const(term.bits, constant)
        for atom in term.args:
            if made[atom.id] is not None or atom.id not in rest:
                continue
            replacement = self._sum_with(atom, term.bits, sums, rest, made)
            if replacement is None:
                return None
            whole, symbol = replacement
            offset, inner = whole.linear
            unit = next(f for f, a in zip(inner, whole.args, strict=True) if a is atom)
            times = rest[atom.id][0] * unit  # unit is 1 or -1, its own inverse
            total = build.total(term.bits, -times * offset, ((1, total), (times, symbol)))
            for factor, other in zip(inner, whole.args, strict=True):
                left = (rest.get(other.id, (0, other))[0] - times * factor) & ((1 << term.bits) - 1)
                rest[other.id] = (left, other)
                if not left:
                    del rest[other.id]
        for factor, atom in rest.values():
            named = made.get(atom.id)
            if named is None:
                return None
            total = build.total(term.bits, 0, ((1, total), (factor, named)))
        return total

    def _sum_with(
        self,
        atom: Term,
        bits: int,
        sums: Sequence[tuple[Term, Term]],
        rest: Mapping[int, tuple[int, Term]],
        made: Mapping[int, Term | None],
    ) -> tuple[Term, Term] | None:
        """A named sum with this atom once, all of whose other atoms are named or in the rest."""
        units = (1, (1 << bits) - 1)
        for whole, symbol in sums:
            if whole.bits != bits:
                continue
            _, factors = whole.linear
            pairs = list(zip(factors, whole.args, strict=True))
            if any(a is atom and f in units for f, a in pairs) and all(
                a is atom or made.get(a.id) is not None or a.id in rest for _, a in pairs
            ):
                return whole, symbol
        return None

    def remade(self, term: Term, args: Sequence[Term]) -> Term:
        """The same operation on other arguments."""
        if all(a is b for a, b in zip(args, term.args, strict=True)):
            return term
        build = self.build
        match term.op:
            case "sum":
                constant, factors = term.linear
                return build.total(term.bits, constant, tuple(zip(factors, args, strict=True)))
            case "slice":
                return build.slice(args[0], term.low, term.bits)
            case "concat":
                return build.concat(args)
            case "and":
                return build.both(*args)
            case "or":
                return build.either(*args)
            case "xor":
                return build.exclusive(*args)
            case "mul":
                product = args[0]
                for factor in args[1:]:
                    product = build.product(product, factor)
                return product
            case "select":
                return build.selected(args[0], args[1], args[2])
            case "ballot":
                return build.ballot(args[0])
            case "lanebit":
                return build.lanebit(args[0])
            case "at":
                return build.at(args[0], args[1])
            case "opaque" | "memory":
                return build.terms.make(term.op, term.bits, args, term.data, term.varies)
        if term.op.startswith("f:") or term.op == "load":
            return build.terms.make(term.op, term.bits, args, term.data)
        return build.operation(term.op, term.bits, tuple(args))
