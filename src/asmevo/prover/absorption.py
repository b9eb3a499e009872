"""Operands of a bitwise operation that say nothing more: how EXEC looks where it is given back behind a branch.

`a & b` is absorbed by `a` in an `or`, and `a | b` by `a` in an `and`; `a & b` and `a & ~b` in an `or` are `a` together.
Each is an identity of every single bit. The first is what comes out where lanes that a branch switched off are put back
to those that stayed, the last where both sides of a branch are.
"""

from __future__ import annotations

from collections.abc import Callable

from asmevo.prover.terms import Term


def absorbed(other: str, operands: list[Term]) -> list[Term]:
    """The operands of an `and` or `or` without those by the `other` one of the two that have one of them as a part."""
    if len(operands) == 1 or all(term.op != other for term in operands):
        return operands
    ids = {term.id for term in operands}
    return [term for term in operands if term.op != other or ids.isdisjoint(part.id for part in term.args)]


def joined_halves(operands: list[Term], negated: Callable[[Term], Term]) -> tuple[list[Term], list[Term]] | None:
    """Of an `or` with `a & b` and `a & ~b`: the parts of `a`, and the other operands; None if there are no such two."""
    conjunctions = [term for term in operands if term.op == "and"]
    for place, one in enumerate(conjunctions):
        for other in conjunctions[:place]:
            mine = [part for part in one.args if part not in other.args]
            theirs = [part for part in other.args if part not in one.args]
            if len(mine) == len(theirs) == 1 and negated(mine[0]) is theirs[0]:
                common = [part for part in one.args if part is not mine[0]]
                return common, [term for term in operands if term is not one and term is not other]
    return None
