"""Whether two accesses to memory certainly touch no common byte.

How far the starts of two accesses are apart is written as a constant D and a rest that is not known. In memory that
each lane has for itself (scratch), or where neither address varies, the rest is what the difference of the addresses
has beside D. In memory that lanes share the accesses of any two lanes may meet: only what is the same in the whole
wave is subtracted, and what varies in either address belongs to the rest as it stands. The accesses are apart if

* the rest stays in a range that keeps them apart, wrapping round included, or
* some parts of the rest are multiples of a step G and all others stay in a range, so that the starts are m * G + R
  apart for some whole number m and an R from a to b; and a to b lies between two multiples of G, with room for the
  first access above the lower one and for the second one below the upper one: fields of one record, columns of one
  row, with records or rows lying one behind the other.

Ranges and steps follow from the factors of the parts and from the bits of their atoms that are certainly 0. Where the
range of the whole shows that nothing wraps round, m * G is meant as it stands; else it is modulo the width of an
address, and only steps that are a power of two count.

Everything else counts as possibly the same.
"""

from __future__ import annotations

from math import gcd

from asmevo.prover.normalise import Builder
from asmevo.prover.numbers import is_const, lowest_run, ones, signed
from asmevo.prover.terms import Term

Parts = list[tuple[int, Term]]
"""Terms and the factors that they are added with."""


def certainly_disjoint(
    build: Builder, first: Term, first_size: int, second: Term, second_size: int, of_a_lane: bool
) -> bool:
    """Whether bytes first .. first+first_size-1 of any lane and second's of any lane are apart.

    `of_a_lane` says that each lane has memory of its own, so that only accesses of one lane can meet.
    """
    bits = first.bits
    if bits != second.bits:
        return False
    parts: Parts = []
    if not of_a_lane and (first.varies or second.varies):
        first, mine = _split(build, first)
        second, theirs = _split(build, second)
        parts = theirs + [(-factor, atom) for factor, atom in mine]
    start, shared = _linear(build.total(bits, 0, ((1, second), (-1, first))))
    parts += shared
    bounds = [signed(factor & ones(bits), bits) * (ones(bits) & ~build.zeros(atom)) for factor, atom in parts]
    least, most = sum(min(bound, 0) for bound in bounds), sum(max(bound, 0) for bound in bounds)
    whole = 1 << bits
    if first_size - least <= start <= whole - second_size - most:
        return True
    start = signed(start, bits)
    wraps = not -whole // 2 < start + least - first_size <= start + most + second_size < whole // 2
    steps = [signed(factor & ones(bits), bits) * _step(build, atom) for factor, atom in parts]
    for step in {gcd(each, whole) if wraps else abs(each) for each in (*steps, gcd(*steps))}:
        others = [bound for bound, each in zip(bounds, steps, strict=True) if step and each % step]
        low, high = (start + sum(pick(bound, 0) for bound in others) for pick in (min, max))
        if step and low // step == high // step and low % step >= first_size and high % step <= step - second_size:
            return True
    return False


def _linear(term: Term) -> tuple[int, Parts]:
    """The constant and the parts of a sum."""
    if term.op == "const":
        return term.value, []
    if term.op != "sum":
        return 0, [(1, term)]
    constant, factors = term.linear
    return constant, list(zip(factors, term.args, strict=True))


def _split(build: Builder, address: Term) -> tuple[Term, Parts]:
    """What is the same in the whole wave, and the parts that vary."""
    constant, parts = _linear(address)
    uniform = build.total(address.bits, constant, [part for part in parts if not part[1].varies])
    return uniform, [part for part in parts if part[1].varies]


def _step(build: Builder, term: Term) -> int:
    """A number of which the term is certainly a multiple."""
    inner = term
    if term.op == "concat" and all(is_const(part, 0) for part in term.args[1:]):
        inner = term.args[0]
    if inner.op == "sum":
        constant, factors = inner.linear
        pairs = list(zip(factors, inner.args, strict=True))
        if constant + sum([c * (ones(t.bits) & ~build.zeros(t)) for c, t in pairs]) <= ones(inner.bits):
            return gcd(constant, *[c * _step(build, t) for c, t in pairs])
    return 1 << lowest_run(build.zeros(term))
