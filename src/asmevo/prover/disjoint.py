"""Whether two accesses to memory certainly touch no common byte.

An address is split into what is the same in the whole wave and what varies with the lane. Two accesses are apart

* in memory that each lane has for itself (scratch), or where neither address varies: if the addresses differ by a
  constant that is at least the size of the lower one, and wrapping round does not bring them together;
* in memory that lanes share: if the uniform parts are equal up to a constant D, and for whatever two lanes

  - the varying parts stay in ranges that keep the accesses apart, or
  - the varying parts are multiples of a step G, so that the starts are D + m * G apart for some whole number m, and the
    rest of D by G leaves room for the first access below the second one and for the second one below G: fields of
    one record, records lying one behind the other.

The range and the step of a varying part follow from its factors and from the bits of its atoms that are certainly 0.
Where the range shows that nothing wraps round, m * G is meant as it stands; else it is modulo the width of an address,
and only the power of two in G counts.

Everything else counts as possibly the same.
"""

from __future__ import annotations

from math import gcd

from msgspec import Struct

from asmevo.prover.normalise import Builder
from asmevo.prover.numbers import is_const, lowest_run, ones, signed
from asmevo.prover.terms import Term


class _Split(Struct, frozen=True):
    """An address: `uniform`, and a varying part from `least` to `most` bytes that is a multiple of `step` (0: none)."""

    uniform: Term
    least: int
    most: int
    step: int


def certainly_disjoint(
    build: Builder, first: Term, first_size: int, second: Term, second_size: int, of_a_lane: bool
) -> bool:
    """Whether bytes first .. first+first_size-1 of any lane and second's of any lane are apart.

    `of_a_lane` says that each lane has memory of its own, so that only accesses of one lane can meet.
    """
    if first.bits != second.bits:
        return False
    whole = 1 << first.bits
    if of_a_lane or not (first.varies or second.varies):
        apart = build.total(first.bits, 0, ((1, second), (-1, first)))
        return apart.op == "const" and first_size <= apart.value <= whole - second_size
    one, other = _split(build, first), _split(build, second)
    apart = build.total(first.bits, 0, ((1, other.uniform), (-1, one.uniform)))
    if apart.op != "const":
        return False
    # Between the starts lies `apart` and what the varying parts add.
    least, most = other.least - one.most, other.most - one.least
    if first_size - least <= apart.value <= whole - second_size - most:
        return True
    step = gcd(one.step, other.step)
    start = signed(apart.value, first.bits)
    if not -whole // 2 < start + least - first_size <= start + most + second_size < whole // 2:
        step = gcd(step, whole)
    return first_size <= start % step <= step - second_size if step else False


def _split(build: Builder, address: Term) -> _Split:
    constant, factors = address.linear if address.op == "sum" else (0, (1,))
    atoms = address.args if address.op == "sum" else (address,)
    uniform, least, most, step = [], 0, 0, 0
    for factor, atom in zip(factors, atoms, strict=True):
        if not atom.varies:
            uniform.append((factor, atom))
            continue
        zeros, times = build.zeros(atom), signed(factor, address.bits)
        bound = times * (ones(atom.bits) & ~zeros)
        least, most = least + min(bound, 0), most + max(bound, 0)
        step = gcd(step, times * _step(build, atom))
    return _Split(build.total(address.bits, constant, uniform), least, most, step)


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
