"""Normal forms and the solver's translation against `semantics.evaluate`: rewriting must never change a value.

Random expressions are built twice: as terms, which the builder rewrites, and as numbers, which `evaluate.apply` gives
for the same operations on the numbers that the symbols stand for. The lane's own rules (masks, selections under a
condition) are compared lane by lane.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from asmevo.prover.normalise import Builder
from asmevo.prover.sampling import sample
from asmevo.prover.solver import Budget, Equality, SolverLimits
from asmevo.prover.terms import Term, Terms, subterms
from asmevo.semantics.evaluate import apply
from asmevo.semantics.expression import Const, Expr, Op

BINARY = ("add", "sub", "mul", "and", "or", "xor", "umin", "umax", "smin", "smax", "umulh", "smulh")
SHIFTS = ("shl", "lshr", "ashr")
COMPARISONS = ("eq", "ne", "ult", "ule", "slt", "sle")
UNARY = ("not", "neg", "abs")
WIDTHS = (1, 8, 16, 32, 64)
NUMBERS = (0, 1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 255, 256, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
SEEDS = range(6)


@dataclass(frozen=True)
class Both:
    """One value as a term and, for each seed, as a number."""

    term: Term
    values: tuple[int, ...]

    @property
    def bits(self) -> int:
        return self.term.bits


class Growth:
    """Makes random values out of one another."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.build = Builder(Terms(), 64)

    def leaf(self, bits: int) -> Both:
        if self.chance.random() < 0.4:
            number = self.chance.choice(NUMBERS) & ((1 << bits) - 1)
            return Both(self.build.const(bits, number), (number,) * len(SEEDS))
        term = self.build.terms.symbol(("x", self.chance.randrange(3)), bits, False)
        return Both(term, tuple(sample(self.build, (term,), seed)[0] for seed in SEEDS))

    def applied(self, name: str, bits: int, *args: Both) -> Both:
        leaves: tuple[Expr, ...] = tuple(Const(arg.bits, 0) for arg in args)
        node = Op(bits, name, leaves)
        rows = zip(*(arg.values for arg in args), strict=True)
        return Both(
            self.build.operation(name, bits, tuple(arg.term for arg in args)), tuple(apply(node, row) for row in rows)
        )

    def grown(self, depth: int, bits: int) -> Both:
        if depth == 0:
            return self.leaf(bits)
        match self.chance.randrange(8):
            case 0:
                return self.applied(self.chance.choice(UNARY), bits, self.grown(depth - 1, bits))
            case 1:
                amount = self.grown(depth - 1, bits) if self.chance.random() < 0.3 else self.leaf(bits)
                return self.applied(self.chance.choice(SHIFTS), bits, self.grown(depth - 1, bits), amount)
            case 2:
                return self.selected(depth, bits)
            case 3:
                return self.cut(depth, bits)
            case 4 if bits in (16, 32, 64):
                parts = [self.grown(depth - 1, bits // 2) for _ in range(2)]
                values = tuple(low | high << bits // 2 for low, high in zip(*(p.values for p in parts), strict=True))
                return Both(self.build.concat([part.term for part in parts]), values)
            case 5:
                source = self.grown(depth - 1, self.chance.choice(WIDTHS))
                return self.applied(self.chance.choice(("zext", "sext")), bits, source)
            case 6 if bits == 1:
                wide = self.chance.choice(WIDTHS)
                pair = (self.grown(depth - 1, wide), self.grown(depth - 1, wide))
                return self.applied(self.chance.choice(COMPARISONS), 1, *pair)
        return self.applied(self.chance.choice(BINARY), bits, self.grown(depth - 1, bits), self.grown(depth - 1, bits))

    def selected(self, depth: int, bits: int) -> Both:
        wide = self.chance.choice(WIDTHS)
        pair = (self.grown(depth - 1, wide), self.grown(depth - 1, wide))
        condition = self.applied(self.chance.choice(COMPARISONS), 1, *pair)
        arms = pair if wide == bits and self.chance.random() < 0.5 else (self.leaf(bits), self.grown(depth - 1, bits))
        rows = zip(condition.values, arms[0].values, arms[1].values, strict=True)
        values = tuple(then if holds else other for holds, then, other in rows)
        return Both(self.build.selected(condition.term, arms[0].term, arms[1].term), values)

    def cut(self, depth: int, bits: int) -> Both:
        wide = self.chance.choice([each for each in WIDTHS if each >= bits])
        source, low = self.grown(depth - 1, wide), self.chance.randrange(wide - bits + 1)
        values = tuple(value >> low & ((1 << bits) - 1) for value in source.values)
        return Both(self.build.slice(source.term, low, bits), values)


@pytest.mark.parametrize("seed", range(12))
def test_rewriting_keeps_values(seed: int) -> None:
    growth = Growth(seed)
    for _ in range(150):
        made = growth.grown(growth.chance.randrange(1, 5), growth.chance.choice(WIDTHS))
        found = tuple(sample(growth.build, (made.term,), each)[0] for each in SEEDS)
        assert found == made.values, repr(made.term)


@pytest.mark.parametrize("seed", range(4))
def test_the_solver_agrees_about_numbers(seed: int) -> None:
    """With every symbol given its number, the solver finds the value that `evaluate` gives, and no other."""
    growth = Growth(100 + seed)
    build = growth.build
    for _ in range(12):
        made = growth.grown(3, growth.chance.choice(WIDTHS))
        given = build.true
        for symbol in [each for each in subterms((made.term,)) if each.op == "symbol"]:
            given = build.both(given, build.equal(symbol, build.const(symbol.bits, sample(build, (symbol,), 1)[0])))
        equality = Equality(build, Budget(SolverLimits(question=10.0, total=60.0)))
        assert equality.same(made.term, build.const(made.bits, made.values[1]), given) is True
        wrong = build.const(made.bits, made.values[1] ^ 1)
        assert equality.same(made.term, wrong, given) is not True


@pytest.mark.parametrize("seed", range(4))
def test_masks_lane_by_lane(seed: int) -> None:
    """`lanebit` of a mask made of ballots is what the same operations give on this lane's bits."""
    growth = Growth(200 + seed)
    build, chance = growth.build, growth.chance
    for _ in range(40):
        bits = [build.terms.symbol(("p", n), 1, True) for n in range(3)]
        pairs = [(build.ballot(bit), bit) for bit in bits]
        for _ in range(4):
            (mask, bit), (other, more) = chance.choice(pairs), chance.choice(pairs)
            pairs.append(
                chance.choice(
                    [
                        (build.both(mask, other), build.both(bit, more)),
                        (build.either(mask, other), build.either(bit, more)),
                        (build.exclusive(mask, other), build.exclusive(bit, more)),
                        (build.negated(mask), build.negated(bit)),
                    ]
                )
            )
        mask, bit = pairs[-1]
        for each in SEEDS:
            first, second = sample(build, (build.lanebit(mask), bit), each)
            assert first == second


def test_under_a_condition_values_agree_where_it_holds() -> None:
    growth = Growth(300)
    build, chance = growth.build, growth.chance
    conditions = [build.terms.symbol(("c", n), 1, True) for n in range(4)]
    for _ in range(300):
        given = build.both(*chance.sample(conditions, chance.randrange(1, 4)))
        term = build.terms.symbol(("v", 0), 32, True)
        for n in range(1, 4):
            condition = build.both(*chance.sample(conditions, chance.randrange(1, 3)))
            condition = chance.choice([condition, build.negated(condition)])
            arms = [term, build.terms.symbol(("v", n), 32, True)]
            chance.shuffle(arms)
            term = build.selected(condition, *arms)
        reduced = build.under(term, given)
        for each in SEEDS:
            holds, first, second = sample(build, (given, term, reduced), each)
            assert not holds or first == second
