"""Sums of 64 bits that are computed in two halves, in one normal form.

Kernels step pointers as `lo' = lo + 16, hi' = hi + carry`, as one sum of 64 bits, or as an offset. With x zero-extended
written [x], B = 2**32, and `top(s)` the upper half of a 64-bit sum s, all are brought to sums over [lo] and B * [hi]:

    lo : hi           = [lo] + B * [hi]                           a pair of words
    [a + b mod B]     = [a] + [b] - B * top([a] + [b])            what a sum of 32 bits lost is its carry
    B * [a + b mod B] = B * [a] + B * [b]                         above B nothing is lost
    [not a]           = (B - 1) - [a]
    top(s + B * t)    = top(s) + t                                done by slices of sums (`bit_fields`)

and a carry bit, `not ([a] + [b] < B)`, is bit 32 of its sum. Each line is an identity modulo 2**64 if [a] + [b] (with
the factors of the sum, as numbers below B) is below 2**64, which is checked. A pair of words whose upper one holds the
carry of the lower one is the sum of 64 bits; a sum that is [lo] + B * [hi] and no more is the pair again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from asmevo.prover.linear import Linear
from asmevo.prover.numbers import is_const, ones
from asmevo.prover.terms import Term

if TYPE_CHECKING:
    from asmevo.prover.normalise import Builder

WORD = 32
WIDE = 64
_BASE = 1 << WORD


class Carries:
    """Rewrites 64-bit sums over words, by the rules of a builder."""

    def __init__(self, build: Builder) -> None:
        self.build = build

    def take_apart(self, linear: Linear) -> None:
        """Replaces the pairs of words and extended sums among the atoms of a 64-bit sum."""
        waiting = [term for _, term in linear.atoms.values() if term.op == "concat"]
        while waiting:
            term = waiting.pop()
            simpler = self._spread(linear.atoms[term.id][0], term) if term.id in linear.atoms else None
            if simpler is None:
                continue
            del linear.atoms[term.id]
            known = set(linear.atoms)
            for coefficient, part in simpler:
                linear.add(coefficient, part)
            waiting += [each for id_, (_, each) in linear.atoms.items() if id_ not in known and each.op == "concat"]

    def _spread(self, coefficient: int, term: Term) -> Iterable[tuple[int, Term]] | None:
        """coefficient * term (64 bits) as a sum of simpler parts; None if it has none."""
        if term.op != "concat":
            return None
        first, rest = term.args[0], term.args[1:]
        if first.bits == WORD and first.op not in ("sum", "not") and len(rest) == 1 and is_const(rest[0], 0):
            return None
        low, high = self.build.slice(term, 0, WORD), self.build.slice(term, WORD, WORD)
        if not is_const(high, 0):
            return (coefficient, self._long(low)), (coefficient << WORD, self._long(high))
        if low.op not in ("sum", "not"):
            return None
        whole = self.unwrapped(low)
        if not coefficient % _BASE:
            return ((coefficient, whole),) if whole is not None else None
        if whole is None:
            return None
        lost = self.build.slice(whole, WORD, WORD)
        return (coefficient, whole), (-coefficient << WORD, self._long(lost))

    def unwrapped(self, word: Term) -> Term | None:
        """The sum of 64 bits whose lower half a sum of 32 bits is, without wrapping; None where it might."""
        build = self.build
        if word.op == "not":
            return build.total(WIDE, ones(WORD), ((-1, self._long(word.args[0])),))
        constant, factors = word.linear
        pairs = list(zip(factors, word.args, strict=True))
        if constant + sum([c * (ones(WORD) & ~build.zeros(t)) for c, t in pairs]) >= 1 << WIDE:
            return None
        return build.total(WIDE, constant, [(c, self._long(t)) for c, t in pairs])

    def out_of(self, whole: Term, bound: Term) -> Term | None:
        """The carry bit that `whole < bound` (64 bits) denies; None if that is no question of a carry.

        It is the lowest bit of the upper word, which is not taken apart any further: extended to a word it is the upper
        word again, as that is 0 or 1.
        """
        if whole.op != "sum" or not is_const(bound, _BASE) or self.build.zeros(whole) >> WORD + 1 != ones(WORD - 1):
            return None
        upper = self.build.slice(whole, WORD, WORD)
        self.build.note_zeros(upper, ones(WORD) - 1)
        return self.build.slice(upper, 0, 1)

    def pair(self, low: Term, high: Term) -> Term | None:
        """Two words as a sum, if the upper one holds the carry of the lower one."""
        whole = self.unwrapped(low) if low.op == "sum" else None
        if whole is None:
            return None
        carry = self.build.slice(whole, WORD, WORD)
        carried = carry.op != "const" and (
            high is carry or (high.op == "sum" and (1, carry) in zip(high.linear[1], high.args, strict=True))
        )
        if not carried:
            return None
        rest = self.build.total(WORD, 0, ((1, high), (-1, carry)))
        return self.build.total(WIDE, 0, ((1, whole), (_BASE, self._long(rest))))

    def folded(self, atoms: list[tuple[int, int, Term]]) -> tuple[int, Term] | None:
        """(factor, pair of words) that two atoms, given as (id, factor, term), are; None if they are none."""
        (_, first, one), (_, second, other) = atoms
        if second << WORD & ones(WIDE) == first:
            first, one, second, other = second, other, first, one
        if first << WORD & ones(WIDE) != second or not first % _BASE:
            return None
        words = [self.build.slice(each, 0, WORD) for each in (one, other)]
        if any(self._long(word) is not each for word, each in zip(words, (one, other), strict=True)):
            return None
        return first, self.build.terms.make("concat", WIDE, self._flat(words))

    def _flat(self, words: list[Term]) -> list[Term]:
        return [part for word in words for part in (word.args if word.op == "concat" else (word,))]

    def _long(self, word: Term) -> Term:
        return self.build.extended(word, WIDE)
