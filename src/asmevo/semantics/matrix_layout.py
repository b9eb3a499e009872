"""Where a matrix instruction's elements stand: in which lane, at which bit of its registers.

Layouts, for M x N x K with `blocks` independent products in a wave of W lanes:

* MFMA, inputs: a lane holds `per_lane` neighbours along K of one row of A (or column of B), packed from the lowest
  bit on. Lane = row + M * (block + blocks * (k // per_lane)). `cbsz`/`abid` let a group of 2**cbsz blocks use the
  A of one of them, `blgp` lets B come from other lanes (f64: `blgp` negates instead).
* MFMA, results: lane % N is the column. The lanes of one column (64 / N of them) take turns in groups of four rows
  (f64: of one row); 4x4 results have one block for each four lanes.
* SMFMAC: A is stored as its non-zero elements, laid out as above with K / 2; two index bits an element stand in
  src2, in the lane of the elements, at the place that `abid` chooses.
* WMMA of gfx11: lane % 16 is the row of A (column of B), all of K in that lane; lanes from 16 on must hold copies
  and are not read. D: row = (W / 16) * register + lane // 16; 16-bit results fill one half of each register.
* WMMA of gfx12: lane % 16 is the row of A (column of B); `Wmma12` says how groups of 16 lanes share K. SWMMAC
  stores A's non-zero elements, its indices are chosen by `index_key`.
* Dense WMMA of gfx1250: as gfx12 in a wave of 32, with a greater depth. A and B of one width have the same order along
  K, which the product does not show; `bf16f32` reads C in f32 and rounds D to bf16.

Source of all layouts: AMD matrix instruction calculator (ROCm/amd_matrix_instruction_calculator, e7603ec: its
formulas `_coord_to_lane_eqn` and `_coord_to_*_reg_eqn`), which agrees with the MI100, MI200, MI300, RDNA3 and RDNA4
guides. `blgp`, `neg` and `index_key`: those guides. A permutation of K that is common to A and B does not change a
product, so only the pairing of A's and B's lanes and D's layout matter for dense products.

`Places` says where each element of a matrix is, by block, row and column; `Slots` which elements of D a lane holds.
"""

from __future__ import annotations

from functools import cache

from msgspec import Struct

from asmevo.semantics.expression import FORMATS

Place = tuple[int, int]
Places = tuple[tuple[tuple[Place, ...], ...], ...]
Slots = tuple[tuple[tuple[int, int, int], ...], ...]


def kind_bits(kind: str) -> int:
    """Bits of an element of a Tile."""
    return FORMATS.get(kind) or int(kind[1:])


class Shape(Struct, frozen=True):
    """One product: sizes, independent blocks, and elements along K that a lane holds of A and B."""

    rows: int
    columns: int
    depth: int
    blocks: int
    per_lane: int


@cache
def input_places(shape: Shape, bits: int, across: int, by_row: bool, lane_map: tuple[int, ...]) -> Places:
    """A (by_row) or B; `across` is M or N. `lane_map` says from which lane a lane's data really come."""

    def where(block: int, line: int, k: int) -> Place:
        group, item = divmod(k, shape.per_lane)
        return lane_map[line + across * (block + shape.blocks * group)], item * bits

    if by_row:
        return tuple(
            tuple(tuple(where(block, line, k) for k in range(shape.depth)) for line in range(across))
            for block in range(shape.blocks)
        )
    return tuple(
        tuple(tuple(where(block, line, k) for line in range(across)) for k in range(shape.depth))
        for block in range(shape.blocks)
    )


@cache
def mfma_slots(shape: Shape, group: int) -> Slots:
    """Results of MFMA: rows in groups of `group` go round the lanes of one column."""
    return tuple(tuple(_mfma_lane(shape, group, lane)) for lane in range(64))


def _mfma_lane(shape: Shape, group: int, lane: int) -> list[tuple[int, int, int]]:
    column = lane % shape.columns
    turn = lane // shape.columns
    if shape.rows == 4:  # each four lanes hold a block; f64 has four blocks and one row a lane
        if group == 1:
            return [(turn % shape.blocks, turn // shape.blocks, column)]
        return [(turn, row, column) for row in range(4)]
    turns = 64 // shape.columns
    rounds = shape.rows // (group * turns)
    return [
        (block, group * (turn + turns * number) + place, column)
        for block in range(shape.blocks)
        for number in range(rounds)
        for place in range(group)
    ]


@cache
def wmma11_slots(wave: int) -> Slots:
    turns = wave // 16
    return tuple(
        tuple((0, turns * register + lane // 16, lane % 16) for register in range(16 // turns)) for lane in range(wave)
    )


@cache
def wmma12_slots(wave: int) -> Slots:
    """Lanes 0-15 hold the first eight rows, 16-31 the last; a wave of 64 deals the upper four of each to lane + 32."""
    count = 256 // wave
    return tuple(
        tuple((0, 8 * (lane // 16 % 2) + 4 * (lane // 32) + item, lane % 16) for item in range(count))
        for lane in range(wave)
    )


class Wmma12(Struct, frozen=True):
    """How gfx12 deals the depth of an input to groups of 16 lanes. `narrow`: only the first 32 lanes have any."""

    bits: int
    depth: int
    wave: int
    sparse: bool
    narrow: bool

    @property
    def groups(self) -> int:
        """Groups of 16 lanes that hold data."""
        return 2 if self.narrow else self.wave // 16

    def place(self, k: int) -> tuple[int, int]:
        """The group of lanes and the place in the lane of element k of a row that is not compressed."""
        if self.bits == 16:
            chunk = 8 if self.sparse else 4
            number = k // chunk
            return number % self.groups, chunk * (number // self.groups) + k % chunk
        half = self.depth // 2
        if self.groups == 2:
            return k // half, k % half
        quarter = half // 2
        return 2 * (k // quarter % 2) + k // half, k % quarter

    def compressed(self, c: int) -> tuple[int, int]:
        """The same of the c-th stored element of a row that stores two of four."""
        group, item = self.place(4 * (c // 2))
        return group, item // 2 + c % 2


@cache
def wmma12_places(rule: Wmma12, by_row: bool, compressed: bool, bits: int, base: int) -> Places:
    """A (by_row) or B, or the indices of A; `bits` apart, from bit `base` on."""
    place = rule.compressed if compressed else rule.place
    spots = [place(k) for k in range(rule.depth // 2 if compressed else rule.depth)]
    lines = tuple(tuple((line + 16 * group, base + item * bits) for group, item in spots) for line in range(16))
    return (lines,) if by_row else (tuple(zip(*lines, strict=True)),)


@cache
def result_places(slots: Slots, shape: Shape, stride: int, low: int) -> Places:
    """Where C's elements are, which have D's layout: each slot `stride` bits behind the one before."""
    found = {
        element: (lane, low + stride * place)
        for lane, elements in enumerate(slots)
        for place, element in enumerate(elements)
    }
    return tuple(
        tuple(tuple(found[block, row, column] for column in range(shape.columns)) for row in range(shape.rows))
        for block in range(shape.blocks)
    )


@cache
def moved(places: Places, amount: int) -> Places:
    return tuple(tuple(tuple((lane, low + amount) for lane, low in row) for row in block) for block in places)
