"""Fields of bits: slices and concatenations in normal form. The rules are listed in `normalise`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from asmevo.prover.carries import WIDE, WORD
from asmevo.prover.numbers import is_const, ones
from asmevo.prover.terms import Term

if TYPE_CHECKING:
    from asmevo.prover.normalise import Builder


class BitFields:
    """Cuts terms and puts them together, by the rules of a builder."""

    def __init__(self, build: Builder) -> None:
        self.build = build

    def slice(self, term: Term, low: int, bits: int) -> Term:
        """Bits low .. low+bits-1."""
        if low == 0 and bits == term.bits:
            return term
        if term.op == "const":
            return self.build.const(bits, term.value >> low)
        if term.op == "slice":
            return self.slice(term.args[0], term.low + low, bits)
        if term.op == "concat":
            return self.concat(_cut(self.build, term.args, low, bits))
        if term.op in ("and", "or", "xor", "not") and bits:
            parts = [self.slice(part, low, bits) for part in term.args]
            if term.op == "not":
                return self.build.negated(parts[0])
            join = {"and": self.build.both, "or": self.build.either, "xor": self.build.exclusive}[term.op]
            result = parts[0]
            for part in parts[1:]:
                result = join(result, part)
            return result
        if term.op == "select":
            then, other = (self.slice(part, low, bits) for part in term.args[1:])
            return self.build.selected(term.args[0], then, other)
        if term.op == "sext" and low + bits <= term.args[0].bits:
            return self.slice(term.args[0], low, bits)
        if term.op == "ashr" and low + bits + self._most(term.args[1]) <= term.bits:
            return self.slice(self.build.shifted_right(*term.args), low, bits)  # no copy of the sign is in it
        if term.op == "sum":
            moved = self._slice_of_sum(term, low, bits)
            if moved is not None:
                return moved
        if term.op == "mul" and low == 0:
            result = self.slice(term.args[0], 0, bits)
            for part in term.args[1:]:
                result = self.build.product(result, self.slice(part, 0, bits))
            return result
        return self.build.terms.make("slice", bits, (term,), low)

    def _most(self, term: Term) -> int:
        """What a number is at most."""
        return ones(term.bits) & ~self.build.zeros(term)

    def _slice_of_sum(self, term: Term, low: int, bits: int) -> Term | None:
        constant, factors = term.linear
        if (low, bits) == (0, 1) and self.build.zeros(term) >> 1 == ones(term.bits - 1):
            return self.build.terms.make("slice", 1, (term,), 0)  # a carry: extended it is the term again
        if low == 0:
            parts = [(c, self.slice(t, 0, bits)) for c, t in zip(factors, term.args, strict=True)]
            return self.build.total(bits, constant, parts)
        below, most = ones(low), constant & ones(low)
        inside, outside = [], []
        for coefficient, atom in zip(factors, term.args, strict=True):
            # What is a multiple of 2**low passes the cut as it is.
            apart = coefficient & below == 0 or (term.bits, low) == (WIDE, WORD)
            within = coefficient & below if apart else coefficient
            if within:
                inside.append((within, atom))
                most += within * (ones(term.bits) & ~self.build.zeros(atom))
            if coefficient != within:
                outside.append((coefficient >> low, self.slice(atom, 0, bits)))
        if most <= below:  # nothing is carried over the cut
            return self.build.total(bits, constant >> low, outside)
        if outside or constant >> low:
            rest = self.build.total(term.bits, constant & below, inside)
            return self.build.total(bits, constant >> low, (*outside, (1, self.slice(rest, low, bits))))
        if constant == 0 and len(factors) == 1 and factors[0] & (factors[0] - 1) == 0:
            shift = factors[0].bit_length() - 1
            if low >= shift:
                return self.slice(term.args[0], low - shift, bits)
        return None

    def concat(self, parts: Iterable[Term]) -> Term:
        """Parts one behind the other, the first in the lowest bits."""
        flat: list[Term] = []
        for part in parts:
            for each in part.args if part.op == "concat" else (part,):
                if not each.bits:
                    continue
                if flat and is_const(each, 0):
                    flat[-1], each = self._widened(flat[-1], each)
                    if not each.bits:
                        continue
                last = flat[-1] if flat else None
                joined = self._joined(last, each) if last is not None else None
                if joined is not None:
                    flat[-1] = joined
                else:
                    flat.append(each)
        if len(flat) == 1:
            return flat[0]
        bits = sum(each.bits for each in flat)
        if bits == WIDE and flat[0].bits == WORD and flat[0].op == "sum":
            pair = self.build.carries.pair(flat[0], self.concat(flat[1:]))
            if pair is not None:
                return pair
        return self.build.terms.make("concat", bits, flat)

    def _widened(self, field: Term, zeros: Term) -> tuple[Term, Term]:
        """A field of a sum with zeros above it: a wider field, as far as the sum has zeros there, and what is left."""
        if field.op != "slice" or field.args[0].op != "sum":
            return field, zeros
        whole, end = field.args[0], field.low + field.bits
        more = min(zeros.bits, whole.bits - end)
        if not more or self.build.zeros(whole) >> end & ones(more) != ones(more):
            return field, zeros
        return self.slice(whole, field.low, field.bits + more), self.build.const(zeros.bits - more, 0)

    def _joined(self, low: Term, high: Term) -> Term | None:
        """Two neighbours as one part, where they are."""
        if low.op == high.op == "const":
            return self.build.const(low.bits + high.bits, low.value | high.value << low.bits)
        if high.op == "slice":
            whole, place = high.args[0], high.low
            if low.op == "slice" and low.args[0] is whole and low.low + low.bits == place:
                return self.slice(whole, low.low, low.bits + high.bits)
            # The low part may have been simplified where it was cut.
            if low.bits == place and low.op != "slice" and self.slice(whole, 0, place) is low:
                return self.slice(whole, 0, place + high.bits)
        if low.op == high.op == "select" and low.args[0] is high.args[0]:
            then, other = (self.concat((low.args[n], high.args[n])) for n in (1, 2))
            return self.build.selected(low.args[0], then, other)
        return None


def _cut(build: Builder, parts: tuple[Term, ...], low: int, bits: int) -> list[Term]:
    taken, start = [], 0
    for part in parts:
        first, last = max(low, start), min(low + bits, start + part.bits)
        if first < last:
            taken.append(build.slice(part, first - start, last - first))
        start += part.bits
    return taken
