"""Buffer addresses and bounds against the manuals' formulas, written down in plain integers."""

from __future__ import annotations

import random

import pytest
from msgspec import Struct

from asmevo.semantics.buffer_resource import Element, Resource
from asmevo.semantics.evaluate import evaluate
from asmevo.semantics.expression import Source
from asmevo.semantics.operands import resize

GCN = ("gfx8", "gfx9", "gfx90a", "gfx940")
RDNA = ("gfx10", "gfx11", "gfx12")


class Case(Struct, frozen=True):
    """One lane's access: fields of the resource, and what the instruction brings."""

    stride: int
    records: int
    swizzle: int
    element: int
    group: int
    add_tid: int
    more_stride: int
    mode: int
    index: int
    offset: int
    scalar: int
    lane: int

    def bits(self) -> int:
        """The resource as it stands in four SGPRs; fields that a family lacks lie where another has some."""
        words = [0x1000, self.stride << 16 | self.swizzle << 30, self.records, 0]
        words[3] = self.more_stride << 15 | self.element << 19 | self.group << 21 | self.add_tid << 23 | self.mode << 28
        return sum(word << 32 * place for place, word in enumerate(words))

    # --- LaneState

    def source(self, index: int, low: int, bits: int) -> int:
        return (self.bits(), self.index, self.offset, self.scalar)[index] >> low & ((1 << bits) - 1)

    def implicit(self, name: str, bits: int) -> int:
        assert name == "lane"
        return self.lane

    def other_lane(self, index: int, low: int, bits: int, lane: int) -> int:
        raise AssertionError("nothing of other lanes")

    def mask_bit(self, index: int) -> int:
        raise AssertionError("no masks")

    def loaded(self, access: int, bits: int) -> int:
        raise AssertionError("nothing loaded")


def random_case(rng: random.Random) -> Case:
    """Numbers around the edges of small buffers."""
    return Case(
        stride=rng.choice([0, 0, 4, 16, 32, 100]),
        records=rng.choice([0, 3, 40, 40, 1000, 0xFFFFFFFF]),
        swizzle=rng.randrange(4),
        element=rng.randrange(4),
        group=rng.randrange(4),
        add_tid=rng.randrange(2),
        more_stride=rng.choice([0, 0, 1, 2]),
        mode=rng.randrange(4),
        index=rng.choice([0, 1, 2, 3, 39, 40, rng.randrange(100)]),
        offset=rng.choice([rng.randrange(20), rng.randrange(100), 0xFFFFFFF8]),
        scalar=rng.choice([0, 1, 3, 5, 40, 41]),
        lane=rng.randrange(64),
    )


def stride_of(case: Case, family: str) -> int:
    wide = family in GCN and case.add_tid
    # The upper bits lie in DATA_FORMAT, bits 15 to 18 of word 3; bit 15 is the lowest of them.
    return case.stride | (case.more_stride << 14 if wide else 0)


def is_swizzled(case: Case, family: str) -> bool:
    return bool(case.swizzle if family in ("gfx11", "gfx12") else case.swizzle >> 1)


def expected_address(case: Case, family: str, has_index: bool, start: int) -> int:
    index = (case.index if has_index else 0) + (case.lane if case.add_tid else 0)
    offset, stride = case.offset + start, stride_of(case, family)
    if not is_swizzled(case, family):
        return 0x1000 + case.scalar + index * stride + offset
    element = 4
    if family == "gfx8":
        element = 2 << case.element
    if family in ("gfx11", "gfx12"):
        element = 2 << case.swizzle
    n = 8 << case.group
    row = (index // n) * stride + (offset // element) * element
    return 0x1000 + case.scalar + row * n + (index % n) * element + offset % element


def expected_bounds(case: Case, family: str, has_index: bool, start: int) -> bool:
    index = (case.index if has_index else 0) + (case.lane if case.add_tid else 0)
    offset, stride = case.offset + start, stride_of(case, family)
    swizzled = is_swizzled(case, family)
    linear = case.scalar + index * stride + offset
    if family in GCN:
        if case.add_tid and swizzled and not has_index:
            return True
        if stride and (swizzled if family == "gfx8" else has_index):
            return index < case.records and (offset < stride or not (has_index or case.add_tid))
        return linear < case.records
    if case.mode == 0:
        return index < case.records and offset + 4 <= stride
    if case.mode == 1:
        return index < case.records
    if case.mode == 2:
        return case.records > 0
    if swizzled and stride:
        return offset + 4 <= stride and case.scalar < case.records
    return linear + 4 <= case.records


@pytest.mark.parametrize("family", [*GCN, *RDNA])
@pytest.mark.parametrize("has_index", [False, True])
def test_formulas_of_the_manuals(family: str, has_index: bool) -> None:
    index = Source(32, 1) if has_index else None
    element = Element(Resource(0, family), index, resize(Source(32, 2), 64), resize(Source(32, 3), 64))
    forms = [(start, element.address(start), element.in_bounds(start, 4)) for start in (0, 4, 12)]

    rng = random.Random(family)
    for _ in range(400):
        case = random_case(rng)
        for start, address, in_bounds in forms:
            assert evaluate(address, case) == expected_address(case, family, has_index, start), case
            assert bool(evaluate(in_bounds, case)) == expected_bounds(case, family, has_index, start), case
