"""A sum while its parts are collected."""

from __future__ import annotations

from msgspec import Struct, field

from asmevo.prover.numbers import KnownZeros, ones
from asmevo.prover.terms import Term


class Linear(Struct):
    """constant + sum of factor * term; `atoms` are (factor, term) by the term's id, none of them a sum itself."""

    constant: int = 0
    atoms: dict[int, tuple[int, Term]] = field(default_factory=dict)

    def add(self, coefficient: int, term: Term) -> None:
        """Adds coefficient * term."""
        if term.op == "const":
            self.constant += coefficient * term.value
        elif term.op == "sum":
            offset, factors = term.linear
            self.constant += coefficient * offset
            for factor, atom in zip(factors, term.args, strict=True):
                self.add(coefficient * factor, atom)
        elif term.op == "not":
            self.constant -= coefficient
            self.add(-coefficient, term.args[0])
        else:
            before = self.atoms.get(term.id)
            self.atoms[term.id] = ((before[0] if before else 0) + coefficient, term)

    def most(self, bits: int, zeros: KnownZeros) -> int:
        """What it is at most, with constant and factors as numbers of so many bits and without wrapping."""
        mask = ones(bits)
        return (self.constant & mask) + sum(
            [(factor & mask) * (ones(term.bits) & ~zeros.of(term)) for factor, term in self.atoms.values()]
        )
