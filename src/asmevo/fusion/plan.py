"""Which programs there are for a chain: contiguous groups of operators, one kernel each, and loop nests for a kernel.

A fusion is a way to cut the chain into contiguous groups; a group is one kernel that reads the matrix at the group's
first place and writes the one at its last. A nest is how a kernel walks rows, columns and depth. Three kinds:

    Flat    every work-item has one element or four neighbours. For groups of element-wise operators (bias, activation)
            only, since nothing else of a row is known.
    Tile    a workgroup makes a tile of the result of one product, and applies what follows to the sums in registers.
            For groups that begin with a gemm and go on element-wise. Without LDS (`direct`) a work-item makes one
            element; else slices of both operands pass through LDS and a work-item keeps own x own sums. `order` is
            that of the loops inside a slice: `kij` with the depth outside (a value read from LDS feeds `own`
            multiply-adds), `ijk` with the depth inside.
    Rows    a workgroup keeps whole rows in LDS, so any operators may follow each other. For groups with at least one
            gemm, norm or gate. `order` is that of a product's loops: `nkr` gives a work-item a column and all rows (a
            weight is read once a workgroup), `rnk` an element (a weight is read once a row).

A kernel is legal where its nest fits its group and the rows that it keeps fit the LDS of a workgroup. Nests that would
be the same program are listed once: with one row or one sum a work-item the orders coincide.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise, product
from typing import Literal

from msgspec import Struct

from asmevo.fusion.chain import Activate, Bias, Chain, Gemm, Norm, Operator, TopKGate

F32_BYTES = 4
ROW_ITEMS = 128
"""Work-items of a workgroup that keeps rows, and of a flat one."""
TILE_SIDE = 16
"""Work-items of a tile's workgroup in each direction."""

_FLAT_WIDTHS = (1, 4)
_TILE_OWN = (1, 2, 4)
_TILE_SLICES = (8, 16)
_ROW_COUNTS = (1, 4, 16)


class Flat(Struct, frozen=True):
    """`width` neighbouring elements a work-item."""

    width: int

    def __str__(self) -> str:
        return f"flat x{self.width}"


class Direct(Struct, frozen=True):
    """One element of a product a work-item, operands straight from memory."""

    def __str__(self) -> str:
        return "direct"


class Tile(Struct, frozen=True):
    """`own` x `own` sums a work-item; `depth` of a slice in LDS."""

    own: int
    depth: int
    order: Literal["kij", "ijk"]

    @property
    def side(self) -> int:
        """Rows and columns of a workgroup's tile."""
        return self.own * TILE_SIDE

    def __str__(self) -> str:
        return f"tile {self.side}x{self.side}, slices of {self.depth}, {self.order}"


class Rows(Struct, frozen=True):
    """`count` whole rows a workgroup."""

    count: int
    order: Literal["nkr", "rnk"]

    def __str__(self) -> str:
        return f"{self.count} row{'s' if self.count > 1 else ''}, {self.order}"


Nest = Flat | Direct | Tile | Rows


class Group(Struct, frozen=True):
    """The operators at indices start <= i < stop."""

    start: int
    stop: int

    def operators(self, chain: Chain) -> list[Operator]:
        """In order."""
        return chain.operators[self.start : self.stop]


class KernelPlan(Struct, frozen=True):
    """One kernel: a group and the nest that makes it."""

    group: Group
    nest: Nest


Program = tuple[KernelPlan, ...]
"""Kernels that run one after the other."""


def groupings(chain: Chain) -> Iterator[tuple[Group, ...]]:
    """Every way to cut the chain, the fewest kernels first."""
    count = len(chain.operators)
    for cuts in range(count):
        for places in combinations(range(1, count), cuts):
            edges = (0, *places, count)
            yield tuple(Group(*pair) for pair in pairwise(edges))


def groups(chain: Chain) -> list[Group]:
    """Every group that some fusion has."""
    count = len(chain.operators)
    return [Group(start, stop) for start in range(count) for stop in range(start + 1, count + 1)]


def nests(chain: Chain, group: Group, lds_bytes: int) -> list[Nest]:
    """Every legal nest of a group, none twice; `lds_bytes` is what a workgroup may have."""
    operators = group.operators(chain)
    if all(isinstance(each, Bias | Activate) for each in operators):
        return [Flat(width) for width in _FLAT_WIDTHS if chain.width(group.start) % width == 0]
    found: list[Nest] = []
    if isinstance(operators[0], Gemm) and all(isinstance(each, Bias | Activate) for each in operators[1:]):
        found += [Direct(), *_tiles(lds_bytes)]
    return found + [rows for rows in _rows(operators) if rows_lds_bytes(chain, group, rows.count) <= lds_bytes]


def _tiles(lds_bytes: int) -> Iterator[Tile]:
    for own, depth in product(_TILE_OWN, _TILE_SLICES):
        tile = Tile(own, depth, "kij")
        if tile_lds_bytes(tile) <= lds_bytes:
            yield tile
            if own > 1:
                yield Tile(own, depth, "ijk")


def _rows(operators: list[Operator]) -> Iterator[Rows]:
    multiplies = any(isinstance(each, Gemm) for each in operators)
    for count in _ROW_COUNTS:
        yield Rows(count, "nkr")
        if multiplies and count > 1:
            yield Rows(count, "rnk")


def tile_lds_bytes(tile: Tile) -> int:
    """Slices of both operands; rows of the transposed one are padded by a work-item's own."""
    return tile.depth * (2 * tile.side + tile.own) * F32_BYTES


def kept_widths(chain: Chain, group: Group) -> tuple[int, int]:
    """Features that the two row buffers have to hold: operators that mix a row go from one to the other.

    0 for a buffer that is not used.
    """
    sizes, side = [0, 0], 0
    sizes[side] = chain.width(group.start)
    for place in range(group.start, group.stop):
        if isinstance(chain.operators[place], Gemm | TopKGate):
            side = 1 - side
            last = not any(isinstance(each, Gemm | Norm | TopKGate) for each in chain.operators[place + 1 : group.stop])
            if not last or isinstance(chain.operators[place], TopKGate):
                sizes[side] = max(sizes[side], chain.width(place + 1))
    return sizes[0], sizes[1]


def rows_lds_bytes(chain: Chain, group: Group, count: int) -> int:
    """Both row buffers, and a word a work-item where there are sums over a row."""
    return (count * sum(kept_widths(chain, group)) + ROW_ITEMS * sums_rows(chain, group)) * F32_BYTES


def sums_rows(chain: Chain, group: Group) -> bool:
    """Whether an operator of the group needs a sum over a row."""
    return any(isinstance(each, Norm | TopKGate) for each in group.operators(chain))


def programs(chain: Chain, lds_bytes: int) -> Iterator[Program]:
    """Every program, none twice: each fusion with each choice of nests for its kernels."""
    for grouping in groupings(chain):
        choices = [[KernelPlan(group, nest) for nest in nests(chain, group, lds_bytes)] for group in grouping]
        yield from product(*choices)
