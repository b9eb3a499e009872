"""Normal forms, sampling and the solver's translation, each against `semantics.evaluate` on random expressions."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from asmevo.prover.normalise import Builder
from asmevo.prover.rebuilding import Rebuilder
from asmevo.prover.sampling import sample
from asmevo.prover.solver import Budget, Equality, SolverLimits
from asmevo.prover.terms import Term, Terms
from asmevo.semantics.evaluate import evaluate
from asmevo.semantics.expression import Concat, Const, Expr, Op, Select, Slice, Source

BINARY = ("add", "sub", "mul", "and", "or", "xor", "umin", "umax", "smin", "smax", "umulh", "smulh", "udiv", "urem")
SHIFTS = ("shl", "lshr", "ashr")
COMPARISONS = ("eq", "ne", "ult", "ule", "slt", "sle")
UNARY = ("not", "neg", "abs", "popcount", "ctlz", "cttz", "bitreverse")
SOURCES = 4
EDGES = (0, 1, 2, 3, 5, 31, 32, 0x7F, 0x80, 0xFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


class Numbers(Struct, frozen=True):
    """A lane whose operands are given; see LaneState."""

    values: tuple[int, ...]

    def source(self, index: int, low: int, bits: int) -> int:
        return self.values[index] >> low & ((1 << bits) - 1)

    def other_lane(self, index: int, low: int, bits: int, lane: int) -> int:
        raise NotImplementedError

    def implicit(self, name: str, bits: int) -> int:
        raise NotImplementedError

    def mask_bit(self, index: int) -> int:
        raise NotImplementedError

    def loaded(self, access: int, bits: int) -> int:
        raise NotImplementedError


numbers = st.one_of(st.sampled_from(EDGES), st.integers(0, (1 << 64) - 1))


@st.composite
def expressions(draw: st.DrawFn, bits: int, depth: int) -> Expr:
    """An expression of so many bits."""
    if depth == 0 or draw(st.integers(0, 7)) == 0:
        if draw(st.booleans()):
            return Source(bits, draw(st.integers(0, SOURCES - 1)), draw(st.sampled_from([0, 0, min(8, 64 - bits)])))
        return Const(bits, draw(numbers) & ((1 << bits) - 1))

    def part(width: int) -> Expr:
        return draw(expressions(width, depth - 1))

    kinds = ["binary", "binary", "shift", "unary", "select", "slice", "extend"]
    kind = draw(st.sampled_from([*kinds, "compare"] if bits == 1 else [*kinds, "concat"]))
    match kind:
        case "binary":
            return Op(bits, draw(st.sampled_from(BINARY)), (part(bits), part(bits)))
        case "shift":
            return Op(bits, draw(st.sampled_from(SHIFTS)), (part(bits), part(draw(st.sampled_from([8, 32])))))
        case "unary":
            return Op(bits, draw(st.sampled_from(UNARY)), (part(bits),))
        case "select":
            return Select(bits, part(1), part(bits), part(bits))
        case "slice":
            wide = draw(st.sampled_from([each for each in (8, 16, 32, 64) if each >= bits]))
            return Slice(bits, part(wide), draw(st.integers(0, wide - bits)))
        case "extend":
            narrow = draw(st.sampled_from([each for each in (1, 8, 16, 32, 64) if each <= bits]))
            return Op(bits, draw(st.sampled_from(["zext", "sext"])), (part(narrow),))
        case "concat":
            low = bits // 2
            return Concat(bits, (part(low), part(bits - low)))
        case _:
            width = draw(st.sampled_from([8, 32]))
            return Op(1, draw(st.sampled_from(COMPARISONS)), (part(width), part(width)))


def lifted(build: Builder, node: Expr) -> Term:
    """The term of an expression over symbols of 64 bits for its sources."""
    match node:
        case Const():
            return build.const(node.bits, node.value)
        case Source():
            return build.slice(build.terms.symbol(("source", node.index), 64, True), node.low, node.bits)
        case Select():
            parts = [lifted(build, each) for each in (node.condition, node.then, node.other)]
            return build.selected(*parts)
        case Slice():
            return build.slice(lifted(build, node.value), node.low, node.bits)
        case Concat():
            return build.concat([lifted(build, each) for each in node.parts])
        case Op():
            return build.operation(node.name, node.bits, tuple(lifted(build, each) for each in node.args))
    raise TypeError(node)


def known(build: Builder, values: tuple[int, ...]) -> dict[int, int]:
    return {build.terms.symbol(("source", index), 64, True).id: value for index, value in enumerate(values)}


states = st.tuples(*[numbers] * SOURCES)
anything = st.sampled_from([1, 8, 16, 32, 64]).flatmap(lambda bits: expressions(bits, 4))


@settings(max_examples=400, deadline=None)
@given(anything, states)
def test_a_normal_form_has_the_value_of_the_expression(node: Expr, values: tuple[int, ...]) -> None:
    build = Builder(Terms(), 32)
    term = lifted(build, node)
    assert term.bits == node.bits
    assert sample(build, (term,), 1, known(build, values)) == (evaluate(node, Numbers(values)),)


@settings(max_examples=200, deadline=None)
@given(anything, expressions(1, 3), states)
def test_under_keeps_the_value_where_the_condition_holds(node: Expr, given_: Expr, values: tuple[int, ...]) -> None:
    build = Builder(Terms(), 32)
    term, condition = lifted(build, node), lifted(build, given_)
    if evaluate(given_, Numbers(values)):
        assert sample(build, (build.under(term, condition),), 1, known(build, values)) == (
            evaluate(node, Numbers(values)),
        )


@settings(max_examples=150, deadline=None)
@given(anything, states)
def test_replacing_symbols_is_evaluating(node: Expr, values: tuple[int, ...]) -> None:
    build = Builder(Terms(), 32)
    numbers_ = {id_: build.const(64, value) for id_, value in known(build, values).items()}
    made = Rebuilder(build).replaced(lifted(build, node), numbers_.get)
    assert sample(build, (made,), 1) == (evaluate(node, Numbers(values)),)


@settings(max_examples=120, deadline=None)
@given(st.sampled_from([1, 8, 32]).flatmap(lambda bits: expressions(bits, 3)), states)
def test_the_solver_agrees_on_the_value(node: Expr, values: tuple[int, ...]) -> None:
    build = Builder(Terms(), 32)
    equality = Equality(build, Budget(SolverLimits(100_000, 1_200_000)))
    term = lifted(build, node)
    holds = build.true
    for index, value in enumerate(values):
        symbol = build.terms.symbol(("source", index), 64, True)
        holds = build.both(holds, build.terms.make("eq", 1, (symbol, build.const(64, value))))
    expected = build.const(node.bits, evaluate(node, Numbers(values)))
    assert equality._ask(term, expected, holds) is not False
    assert equality._ask(term, build.negated(expected), holds) is not True


@pytest.mark.parametrize("step", [1, 2, 3, 4])
@pytest.mark.parametrize("width", [1, 4, 8, 16])
def test_a_field_of_a_signed_shift_by_multiples(step: int, width: int) -> None:
    """It is the field of the unsigned shift just where no shift brings a copy of the sign into it."""
    amount = Op(32, "and", (Source(32, 1, 0), Const(32, 0x1F & -1 << step)))
    fields = [Slice(width, Op(32, shift, (Source(32, 0, 0), amount)), 0) for shift in ("ashr", "lshr")]
    build = Builder(Terms(), 64)
    signed, unsigned = (lifted(build, each) for each in fields)
    amounts = range(0, 32, 1 << step)
    alike = all(len({evaluate(each, Numbers((0x80000000, value, 0, 0))) for each in fields}) == 1 for value in amounts)
    assert (signed is unsigned) == alike


@pytest.mark.parametrize("wave_size", [32, 64])
def test_masks_of_comparisons_and_lanes(wave_size: int) -> None:
    build = Builder(Terms(), wave_size)
    x, y = (build.terms.symbol(("source", n), 1, True) for n in (0, 1))
    exec_mask = build.terms.symbol("exec", wave_size, False)
    enabled = build.lanebit(exec_mask)
    assert build.lanebit(build.ballot(x)) is x
    assert build.ballot(enabled) is exec_mask
    both = build.both(build.ballot(x), build.ballot(y))
    assert build.lanebit(both) is build.both(x, y)
    saved = build.both(exec_mask, build.ballot(build.both(enabled, x)))
    assert build.lanebit(saved) is build.both(enabled, x)
    assert build.at(exec_mask, build.lane) is exec_mask
    assert build.at(x, build.lane) is x
    assert build.at(x, build.const(32, 3)) is not x
    assert not build.at(x, build.const(32, 3)).varies
