"""Bytes called apart are apart, whatever the lanes hold; and addresses as kernels make them are seen to be apart."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asmevo.prover.disjoint import certainly_disjoint
from asmevo.prover.normalise import Builder
from asmevo.prover.sampling import sample
from asmevo.prover.terms import Term, Terms

DRAWS = 40
NAMES = ("row", "column", "base", "tile")  # the first two vary with the lane
WIDTHS = {"row": 6, "column": 4, "base": 32, "tile": 3}

part = st.tuples(
    st.sampled_from(NAMES),
    st.sampled_from([1, 2, 4, 8, 12, 16, 24, 64, 256, -4, -16, 1 << 20, (1 << 32) - 8]),
    st.sampled_from(["plain", "flipped", "kept low"]),
)
address = st.tuples(st.lists(part, max_size=4), st.integers(-40, 300))
size = st.sampled_from([1, 2, 4, 8, 12, 16])


def written(build: Builder, bits: int, parts: list[tuple[str, int, str]], constant: int) -> Term:
    """A sum of scaled fields of a lane or the wave, some of them with bits turned or cut."""
    total = build.const(bits, constant)
    for name, factor, how in parts:
        field = build.terms.symbol(name, WIDTHS[name], name in NAMES[:2])
        term = build.extended(field, bits)
        if how == "flipped":
            term = build.exclusive(term, build.const(bits, 5))
        elif how == "kept low":
            term = build.both(term, build.const(bits, 7))
        total = build.total(bits, 0, ((1, total), (factor, term)))
    return total


@settings(max_examples=300, deadline=None)
@given(st.sampled_from([32, 64]), address, address, size, size, st.booleans(), st.integers(0, 1 << 30))
def test_what_is_called_apart_is_apart_in_all_lanes(
    bits: int,
    first: tuple[list[tuple[str, int, str]], int],
    second: tuple[list[tuple[str, int, str]], int],
    first_size: int,
    second_size: int,
    of_a_lane: bool,
    seed: int,
) -> None:
    build = Builder(Terms(), 32)
    # Mostly the same fields: others are seldom called apart.
    shared = first[0] if seed % 3 else second[0]
    one, other = written(build, bits, *first), written(build, bits, shared, second[1])
    if not certainly_disjoint(build, one, first_size, other, second_size, of_a_lane):
        return
    chance, whole = random.Random(seed), 1 << bits
    for _ in range(DRAWS):
        wave = {name: _drawn(chance, name) for name in NAMES[2:]}
        lanes = [{name: _drawn(chance, name) for name in NAMES[:2]} for _ in range(2)]
        if of_a_lane:
            lanes[1] = lanes[0]
        starts = []
        for term, lane in zip((one, other), lanes, strict=True):
            values = {build.terms.symbol(n, WIDTHS[n], n in NAMES[:2]).id: v for n, v in {**wave, **lane}.items()}
            starts.append(sample(build, (term,), 1, values)[0])
        distance = (starts[1] - starts[0]) % whole
        assert first_size <= distance <= whole - second_size


def _drawn(chance: random.Random, name: str) -> int:
    most = (1 << WIDTHS[name]) - 1
    return chance.choice([0, most, chance.randint(0, most), chance.randint(0, most)])


@pytest.mark.parametrize(
    ("stride", "offset", "apart"),
    [(8, 4, True), (12, 4, True), (12, 8, True), (12, 12, False), (4, 4, False), (16, 14, False), (4, 256, True)],
)
def test_fields_of_records_and_rows(stride: int, offset: int, apart: bool) -> None:
    build = Builder(Terms(), 32)
    row = build.terms.symbol("row", 6, True)
    first = build.total(32, 0, ((stride, build.extended(row, 32)),))
    second = build.total(32, offset, ((1, first),))
    assert certainly_disjoint(build, first, 4, second, 4, False) is apart
    assert certainly_disjoint(build, second, 4, first, 4, False) is apart


@pytest.mark.parametrize(
    ("pitch", "offset", "apart"), [(256, 64, True), (256, 60, False), (256, 252, False), (60, 4, False)]
)
def test_columns_of_rows(pitch: int, offset: int, apart: bool) -> None:
    build = Builder(Terms(), 32)
    row, column = build.terms.symbol("row", 6, True), build.terms.symbol("column", 4, True)
    parts = ((pitch, build.extended(row, 32)), (4, build.extended(column, 32)))
    first, second = build.total(32, 0, parts), build.total(32, offset, parts)
    assert certainly_disjoint(build, first, 4, second, 4, False) is apart


def test_a_tile_of_the_wave_may_be_unknown() -> None:
    build = Builder(Terms(), 32)
    row, tile = build.terms.symbol("row", 4, True), build.terms.symbol("tile", 3, False)
    first = build.total(32, 0, ((4, build.extended(row, 32)),))
    beyond = build.total(32, 64, ((1, first), (64, build.extended(tile, 32))))
    assert certainly_disjoint(build, first, 4, beyond, 4, False)
    assert not certainly_disjoint(build, first, 8, beyond, 4, False)
