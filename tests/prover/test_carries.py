"""Sums of 64 bits in two halves: the value of any chain of carries, one form for all spellings of a pointer step."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asmevo.prover.normalise import Builder
from asmevo.prover.rebuilding import Rebuilder
from asmevo.prover.sampling import sample
from asmevo.prover.terms import Term, Terms

WORD, WIDE = 32, 64
WORDS = 3  # symbols
NUMBERS = (0, 1, 4, 16, 0xFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFF0, 0xFFFFFFFF)

Step = tuple[str, int, int, int]

number = st.one_of(st.sampled_from(NUMBERS), st.integers(0, 0xFFFFFFFF))
step = st.tuples(
    st.sampled_from(["add", "add number", "add long", "sub", "scale", "carry", "borrow", "upper", "field", "swap"]),
    st.integers(0, 5),
    st.integers(0, 5),
    number,
)


def run(build: Builder, steps: list[Step], values: tuple[int, ...]) -> tuple[list[Term], list[int]]:
    """A machine with six words, once on terms and once on numbers."""
    terms = [build.terms.symbol(("source", n), WORD, True) for n in range(WORDS)] + [build.const(WORD, 0)] * WORDS
    numbers = [*values, 0, 0, 0]
    for kind, to, by, constant in steps:
        a, b, high = terms[to], terms[by], (to + 1) % 6
        x, y, top = numbers[to], numbers[by], numbers[high]
        pair, long = build.concat((a, terms[high])), x + (top << WORD)
        wide, other = build.extended(a, WIDE), build.extended(b, WIDE)
        match kind:
            case "add":
                terms[to], numbers[to] = build.operation("add", WORD, (a, b)), x + y
            case "add number":
                terms[to], numbers[to] = build.operation("add", WORD, (a, build.const(WORD, constant))), x + constant
            case "sub":
                terms[to], numbers[to] = build.operation("sub", WORD, (a, b)), x - y
            case "scale":
                factor = build.const(WORD, constant & 0xFF)
                terms[to], numbers[to] = build.operation("mul", WORD, (a, factor)), x * (constant & 0xFF)
            case "carry":  # as s_add_u32 and s_addc_u32 do
                whole = build.operation("add", WIDE, (wide, other))
                bit = build.operation("ule", 1, (build.const(WIDE, 1 << WORD), whole))
                terms[to], numbers[to] = build.slice(whole, 0, WORD), x + y
                terms[high] = build.operation("add", WORD, (terms[high], build.extended(bit, WORD)))
                numbers[high] = top + (x + y >> WORD)
            case "borrow":
                bit = build.operation("ult", 1, (a, b))
                terms[to], numbers[to] = build.operation("sub", WORD, (a, b)), x - y
                terms[high] = build.operation("sub", WORD, (terms[high], build.extended(bit, WORD)))
                numbers[high] = top - (x < y)
            case "add long":
                whole = build.operation("add", WIDE, (pair, build.const(WIDE, constant << (to * 6))))
                long += constant << (to * 6)
                terms[to], terms[high] = build.slice(whole, 0, WORD), build.slice(whole, WORD, WORD)
                numbers[to], numbers[high] = long, long >> WORD
            case "upper":
                whole = build.operation("mul", WIDE, (wide, build.const(WIDE, constant)))
                whole = build.operation("add", WIDE, (whole, other))
                terms[to], numbers[to] = build.slice(whole, WORD, WORD), x * constant + y >> WORD
            case "field":
                low = constant % 31
                terms[to], numbers[to] = (
                    build.extended(build.slice(b, low, 7 % (32 - low) + 1), WORD),
                    y >> low & ((1 << 7 % (32 - low) + 1) - 1),
                )
            case _:
                terms[to], terms[by], numbers[to], numbers[by] = b, a, y, x
        numbers = [each & 0xFFFFFFFF for each in numbers]
    return terms, numbers


@settings(max_examples=300, deadline=None)
@given(st.lists(step, min_size=1, max_size=9), st.tuples(*[number] * WORDS))
def test_chains_of_carries_have_their_value(steps: list[Step], values: tuple[int, ...]) -> None:
    build = Builder(Terms(), 32)
    terms, numbers = run(build, steps, values)
    pairs = [build.concat((low, high)) for low, high in pairwise(terms)]
    expected = [*numbers, *[low | high << WORD for low, high in pairwise(numbers)]]
    known = {build.terms.symbol(("source", n), WORD, True).id: value for n, value in enumerate(values)}
    roots = (*terms, *pairs)
    assert list(sample(build, roots, 1, known)) == expected
    assert all(value & build.zeros(term) == 0 for term, value in zip(roots, expected, strict=True))
    constants = {id_: build.const(WORD, value) for id_, value in known.items()}
    replaced = [Rebuilder(build).replaced(term, constants.get) for term in roots]
    assert list(sample(build, tuple(replaced), 1)) == expected


def words(build: Builder) -> tuple[Term, Term]:
    """The words of a pointer."""
    return build.terms.symbol("low", WORD, False), build.terms.symbol("high", WORD, False)


def stepped(build: Builder, low: Term, high: Term, by: int) -> tuple[Term, Term]:
    """As s_add_u32 and s_addc_u32 step a pointer."""
    whole = build.operation("add", WIDE, (build.extended(low, WIDE), build.const(WIDE, by & 0xFFFFFFFF)))
    carry = build.operation("ule", 1, (build.const(WIDE, 1 << WORD), whole))
    upper = build.operation("add", WORD, (high, build.const(WORD, by >> WORD)))
    return build.slice(whole, 0, WORD), build.operation("add", WORD, (upper, build.extended(carry, WORD)))


@pytest.mark.parametrize("by", [16, 4096, -16, (1 << 32) + 8])
def test_a_step_with_carry_is_a_sum_of_64_bits(by: int) -> None:
    build = Builder(Terms(), 64)
    low, high = words(build)
    pair = build.concat((low, high))
    whole = build.operation("add", WIDE, (pair, build.const(WIDE, by)))
    assert build.concat(stepped(build, low, high, by)) is whole
    assert stepped(build, low, high, by) == (build.slice(whole, 0, WORD), build.slice(whole, WORD, WORD))


def test_two_steps_are_one_and_a_step_back_is_none() -> None:
    build = Builder(Terms(), 64)
    low, high = words(build)
    assert stepped(build, *stepped(build, low, high, 16), 24) == stepped(build, low, high, 40)
    assert stepped(build, *stepped(build, low, high, 16), -16) == (low, high)
    assert build.concat(stepped(build, *stepped(build, low, high, 16), -16)) is build.concat((low, high))


def test_a_lost_carry_is_no_step() -> None:
    build = Builder(Terms(), 64)
    low, high = words(build)
    lower, _ = stepped(build, low, high, 16)
    whole = build.operation("add", WIDE, (build.concat((low, high)), build.const(WIDE, 16)))
    assert build.concat((lower, high)) is not whole
    assert build.total(WIDE, 0, ((1, build.concat((lower, high))), (-1, whole))).op != "const"
