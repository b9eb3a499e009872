"""The enumeration: every fusion is there, each program once, and every kernel is legal by what LLVM says of it."""

from __future__ import annotations

from itertools import islice
from math import comb

import pytest
from chains import chain, chains
from hypothesis import given, settings

from asmevo.fusion.chain import Activate, Bias, Chain, Gemm
from asmevo.fusion.kernels import build
from asmevo.fusion.plan import (
    Direct,
    Flat,
    Group,
    KernelPlan,
    Rows,
    Tile,
    groupings,
    groups,
    nests,
    programs,
    rows_lds_bytes,
    tile_lds_bytes,
)
from asmevo.fusion.search import count_programs, kernel_plans
from asmevo.target import load_target

LDS = 1 << 16
GEMM, BIAS, SILU, NORM = {"op": "gemm", "features": 8}, {"op": "bias"}, {"op": "activation"}, {"op": "norm"}


@settings(max_examples=60, deadline=None)
@given(chains(longest=8))
def test_groupings_are_all_compositions_of_the_chain(found: Chain) -> None:
    count = len(found.operators)
    every = list(groupings(found))
    assert len(every) == len(set(every)) == 2 ** (count - 1)
    assert [sum(len(each) == size for each in every) for size in range(1, count + 1)] == [
        comb(count - 1, size - 1) for size in range(1, count + 1)
    ]
    for grouping in every:
        covered = [place for group in grouping for place in range(group.start, group.stop)]
        assert covered == list(range(count))


@settings(max_examples=20, deadline=None)
@given(chains(longest=4))
def test_no_program_is_there_twice_and_the_count_is_right(found: Chain) -> None:
    target = load_target("gfx1100")
    lds = target.lds.max_per_workgroup.value
    some = list(islice(programs(found, lds), 2_000))
    assert len(some) == len(set(some))
    assert len(some) == min(2_000, count_programs(found, target))
    plans = list(kernel_plans(found, target))
    assert len(plans) == len(set(plans))


@settings(max_examples=60, deadline=None)
@given(chains(longest=6))
def test_every_group_has_a_nest_and_every_nest_fits_its_group(found: Chain) -> None:
    for group in groups(found):
        operators = group.operators(found)
        simple = [isinstance(each, Bias | Activate) for each in operators]
        every = nests(found, group, LDS)
        assert every
        for nest in every:
            match nest:
                case Flat():
                    assert all(simple)
                case Direct() | Tile():
                    assert isinstance(operators[0], Gemm)
                    assert all(simple[1:])
                case Rows():
                    assert not all(simple)


def test_what_a_small_chain_has_by_hand() -> None:
    found = chain(GEMM, BIAS)
    tiles = ["tile 16x16, slices of 8, kij", "tile 16x16, slices of 16, kij"]
    for side in (32, 64):
        for depth in (8, 16):
            tiles += [f"tile {side}x{side}, slices of {depth}, {order}" for order in ("kij", "ijk")]
    rows = ["1 row, nkr", "4 rows, nkr", "4 rows, rnk", "16 rows, nkr", "16 rows, rnk"]
    assert [str(nest) for nest in nests(found, Group(0, 2), LDS)] == ["direct", *tiles, *rows]
    assert [str(nest) for nest in nests(found, Group(1, 2), LDS)] == ["flat x1", "flat x4"]
    assert [str(nest) for nest in nests(chain(NORM), Group(0, 1), LDS)] == ["1 row, nkr", "4 rows, nkr", "16 rows, nkr"]


def test_elements_in_fours_need_rows_of_fours() -> None:
    assert nests(chain(SILU, features=7), Group(0, 1), LDS) == [Flat(1)]


def test_rows_that_do_not_fit_the_lds_are_not_offered() -> None:
    wide = chain(NORM, {"op": "gemm", "features": 1024}, {"op": "top_k_gate", "k": 2}, features=4096)
    counts = {nest.count for nest in nests(wide, Group(0, 3), LDS) if isinstance(nest, Rows)}
    assert counts == {1}  # 4 rows of 4096 floats alone are 64 KiB
    assert nests(chain(NORM, features=16384), Group(0, 1), LDS) == []


@pytest.mark.usefixtures("clang")
@pytest.mark.parametrize("gpu", ["gfx1100", "gfx942"])
def test_lds_is_what_llvm_allocates(gpu: str) -> None:
    found = chain(NORM, GEMM, BIAS, {"op": "top_k_gate", "k": 2}, SILU, GEMM, features=12)
    target = load_target(gpu)
    cases = [(Group(1, 3), Tile(2, 8, "kij")), (Group(1, 3), Tile(4, 16, "ijk")), (Group(0, 1), Rows(4, "nkr"))]
    cases += [(Group(0, 6), Rows(4, "rnk")), (Group(0, 4), Rows(1, "nkr")), (Group(3, 5), Rows(16, "nkr"))]
    cases += [(Group(1, 3), Rows(4, "nkr"))]
    for group, nest in cases:
        descriptor = build(found, KernelPlan(group, nest), target).kernel.descriptor
        assert descriptor is not None
        ours = tile_lds_bytes(nest) if isinstance(nest, Tile) else rows_lds_bytes(found, group, nest.count)
        assert descriptor.group_segment_size == ours, (group, nest)
