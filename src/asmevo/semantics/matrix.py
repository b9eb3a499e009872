"""Matrix instructions: MFMA and SMFMAC of the CDNA targets, WMMA and SWMMAC of RDNA3 and RDNA4.

Idea. Each of them is D = A * B + C on matrices that lie spread over the lanes of a wave, whatever EXEC says. The
meaning is one `MatrixProduct` node: three tables that say in which lane and at which bit each element stands, and
one that says which elements of D a lane holds. So a meaning is small (one node, however large the product: a
32x32x16 one would be 16384 multiplications as a tree) and whoever runs it can do so with plain loops.
`expand` writes the same out in scalar nodes for one lane and is the definition; `evaluate_product` computes it.

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
* WMMA of gfx12: lane % 16 is the row of A (column of B); `_Wmma12` says how groups of 16 lanes share K. SWMMAC
  stores A's non-zero elements, its indices are chosen by `index_key`.
* Dense WMMA of gfx1250: as gfx12 in a wave of 32, with a greater depth. A and B of one width have the same order along
  K, which the product does not show; `bf16f32` reads C in f32 and rounds D to bf16.

Source of all layouts: AMD matrix instruction calculator (ROCm/amd_matrix_instruction_calculator, e7603ec: its
formulas `_coord_to_lane_eqn` and `_coord_to_*_reg_eqn`), which agrees with the MI100, MI200, MI300, RDNA3 and RDNA4
guides. `blgp`, `neg` and `index_key`: those guides. A permutation of K that is common to A and B does not change a
product, so only the pairing of A's and B's lanes and D's layout matter for dense products.

Arithmetic. Integer products are exact. In which order floating-point products are added, and with how many bits
in between, AMD does not document: the node adds them one by one, k ascending, each rounded to nearest even, and
the meaning says "approximate". What has no entry here is left unsupported: gfx1250's sparse, scaled and f8f6f4
products, xf32, block scales, f8f6f4 of inputs of different widths.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from msgspec import Struct

from asmevo.program.decode import DecodingContext
from asmevo.program.instruction import Decoded
from asmevo.semantics.constants import UnsupportedOperandError, constant_value
from asmevo.semantics.expression import (
    FORMATS,
    Concat,
    Const,
    Exactness,
    Expr,
    MatrixProduct,
    Meaning,
    Op,
    OtherLane,
    Result,
    Scope,
    Sign,
    Slice,
    Source,
    Tile,
)
from asmevo.semantics.float_mode import FloatMode
from asmevo.semantics.operands import bit_list, saturated
from asmevo.semantics.softfloat import arithmetic, comparison, conversion

Place = tuple[int, int]
Places = tuple[tuple[tuple[Place, ...], ...], ...]
Slots = tuple[tuple[tuple[int, int, int], ...], ...]


def kind_bits(kind: str) -> int:
    """Bits of an element of a Tile."""
    return FORMATS.get(kind) or int(kind[1:])


# --- layouts ------------------------------------------------------------------------------------------------


class _Shape(Struct, frozen=True):
    """One product: sizes, independent blocks, and elements along K that a lane holds of A and B."""

    rows: int
    columns: int
    depth: int
    blocks: int
    per_lane: int


@cache
def _input_places(shape: _Shape, bits: int, across: int, by_row: bool, lane_map: tuple[int, ...]) -> Places:
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
def _mfma_slots(shape: _Shape, group: int) -> Slots:
    """Results of MFMA: rows in groups of `group` go round the lanes of one column."""
    return tuple(tuple(_mfma_lane(shape, group, lane)) for lane in range(64))


def _mfma_lane(shape: _Shape, group: int, lane: int) -> list[tuple[int, int, int]]:
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
def _wmma11_slots(wave: int) -> Slots:
    turns = wave // 16
    return tuple(
        tuple((0, turns * register + lane // 16, lane % 16) for register in range(16 // turns)) for lane in range(wave)
    )


@cache
def _wmma12_slots(wave: int) -> Slots:
    """Lanes 0-15 hold the first eight rows, 16-31 the last; a wave of 64 deals the upper four of each to lane + 32."""
    count = 256 // wave
    return tuple(
        tuple((0, 8 * (lane // 16 % 2) + 4 * (lane // 32) + item, lane % 16) for item in range(count))
        for lane in range(wave)
    )


class _Wmma12(Struct, frozen=True):
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
def _wmma12_places(rule: _Wmma12, by_row: bool, compressed: bool, bits: int, base: int) -> Places:
    """A (by_row) or B, or the indices of A; `bits` apart, from bit `base` on."""
    place = rule.compressed if compressed else rule.place
    spots = [place(k) for k in range(rule.depth // 2 if compressed else rule.depth)]
    lines = tuple(tuple((line + 16 * group, base + item * bits) for group, item in spots) for line in range(16))
    return (lines,) if by_row else (tuple(zip(*lines, strict=True)),)


@cache
def _result_places(slots: Slots, shape: _Shape, stride: int, low: int) -> Places:
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


# --- building the node --------------------------------------------------------------------------------------


def _accumulator_tile(decoded: Decoded, index: int, kind: str, places: Places, sign: Sign = Sign.KEEP) -> Tile:
    """C, in registers or one inline constant for all elements."""
    operand = decoded.operands[index]
    if operand.registers is not None:
        return Tile(index, kind, places, sign=(sign, sign))
    bits = kind_bits(kind)
    value = constant_value(decoded, operand.text, bits, kind if kind in FORMATS else "")
    return Tile(index, kind, constant=value, sign=(sign, sign))


def _register_bits(decoded: Decoded, index: int) -> int:
    registers = decoded.operands[index].registers
    if registers is None:
        raise UnsupportedOperandError(f"{decoded.text}: a matrix that is not in registers")
    return registers.bits


def _number(decoded: Decoded, name: str) -> int:
    return int(decoded.modifier(name) or "0", 0)


def _meaning(decoded: Decoded, result: Expr, exact: bool) -> Meaning:
    exactness = Exactness.EXACT if exact else Exactness.APPROXIMATE
    results = (Result("operand", result),)
    return Meaning(Scope.LANE, results, ignores_exec=True, exactness=exactness, source=f"written: {decoded.mnemonic}")


# --- MFMA and SMFMAC ----------------------------------------------------------------------------------------

_MFMA = re.compile(
    r"^v_(?P<name>mfma|smfmac)_(?P<result>f32|f64|i32)_(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+?)_?(?:\d+b_)?"
    r"(?P<a>f8f6f4|f32|f16|bf16|f64|i8|fp8|bf8)(?:_(?P<b>fp8|bf8))?(?:_1k)?$"
)
_F8F6F4 = ("fp8", "bf8", "fp6", "bf6", "fp4")
_SAME_LANES = tuple(range(64))
# BLGP: from which lane each lane's part of B comes (MI100 and MI200 ISA guides, "Broadcasting values").
_B_LANES: tuple[Callable[[int], int], ...] = (
    lambda lane: lane,
    lambda lane: lane % 32,
    lambda lane: 32 + lane % 32,
    lambda lane: (lane + 16) % 64,
    lambda lane: lane % 16,
    lambda lane: 16 + lane % 16,
    lambda lane: 32 + lane % 16,
    lambda lane: 48 + lane % 16,
)


def _mfma_kinds(decoded: Decoded, first: str, second: str | None) -> tuple[str, str]:
    if first != "f8f6f4":
        return first, second or first
    chosen = [_number(decoded, name) for name in ("cbsz", "blgp")]
    if max(chosen) >= len(_F8F6F4):
        raise UnsupportedOperandError(f"{decoded.text}: unknown format of f8f6f4")
    kinds = (_F8F6F4[chosen[0]], _F8F6F4[chosen[1]])
    if FORMATS[kinds[0]] != FORMATS[kinds[1]]:
        raise UnsupportedOperandError(f"{decoded.text}: inputs of different widths")
    return kinds


def _mfma_signs(decoded: Decoded) -> tuple[Sign, Sign, Sign]:
    """Of f64 products, printed as `neg:[a,b,c]` or as the bits of `blgp`."""
    listed = bit_list(decoded, "neg")
    bits = sum(bit << place for place, bit in enumerate(listed)) if listed else _number(decoded, "blgp")
    a, b, c = (Sign.NEGATE if bits >> place & 1 else Sign.KEEP for place in range(3))
    return a, b, c


def _shared_blocks(places: Places, cbsz: int, abid: int) -> Places:
    """CBSZ and ABID: within each 2**cbsz blocks of A, all use the one numbered `abid`."""
    size = 1 << cbsz
    return tuple(places[block // size * size + abid] for block in range(len(places)))


def _mfma_inputs(
    decoded: Decoded, shape: _Shape, kinds: tuple[str, str], signs: tuple[Sign, Sign, Sign]
) -> tuple[Tile, Tile]:
    """A and B of a dense product, with its broadcasts."""
    a_places = _input_places(shape, kind_bits(kinds[0]), shape.rows, True, _SAME_LANES)
    lane_map = _SAME_LANES
    if "f8f6f4" not in decoded.mnemonic and kinds[0] != "f64":
        a_places = _shared_blocks(a_places, _number(decoded, "cbsz"), _number(decoded, "abid"))
        lane_map = tuple(map(_B_LANES[_number(decoded, "blgp")], range(64)))
    b_places = _input_places(shape, kind_bits(kinds[1]), shape.columns, False, lane_map)
    a_sign, b_sign, _ = signs
    return Tile(1, kinds[0], a_places, sign=(a_sign, a_sign)), Tile(2, kinds[1], b_places, sign=(b_sign, b_sign))


def _mfma_shape(decoded: Decoded, rows: int, columns: int, depth: int, bits: int) -> _Shape:
    per_lane = min(_register_bits(decoded, 1) // bits, depth)
    blocks = 64 * per_lane // (rows * depth)
    if rows * blocks * depth != 64 * per_lane or blocks < 1:
        raise UnsupportedOperandError(f"{decoded.text}: shape does not fit the registers")
    return _Shape(rows, columns, depth, blocks, per_lane)


def _mfma(decoded: Decoded, context: DecodingContext) -> Meaning | None:
    found = _MFMA.match(decoded.mnemonic.removesuffix("_e64"))
    if found is None:
        return None
    rows, columns, depth = (int(found[name]) for name in "mnk")
    kinds = _mfma_kinds(decoded, found["a"], found["b"])
    if found["name"] == "smfmac":
        return _smfmac(decoded, rows, columns, depth, kinds, found["result"])
    result = found["result"]
    shape = _mfma_shape(decoded, rows, columns, depth, kind_bits(kinds[0]))
    signs = _mfma_signs(decoded) if result == "f64" else (Sign.KEEP,) * 3
    a, b = _mfma_inputs(decoded, shape, kinds, signs)
    slots = _mfma_slots(shape, 1 if result == "f64" else 4)
    bits = kind_bits(result)
    c = _accumulator_tile(decoded, 3, result, _result_places(slots, shape, bits, 0), signs[2])
    node = MatrixProduct(bits * len(slots[0]), a, b, c, slots, result, result)
    return _meaning(decoded, node, result == "i32")


def _smfmac(decoded: Decoded, rows: int, columns: int, depth: int, kinds: tuple[str, str], result: str) -> Meaning:
    """The accumulator is the destination; src2 holds the indices."""
    bits = kind_bits(kinds[0])
    shape = _mfma_shape(decoded, rows, columns, depth // 2, bits)
    dense = _Shape(rows, columns, depth, 1, 2 * shape.per_lane)
    if shape.blocks != 1 or _register_bits(decoded, 2) != bits * dense.per_lane:
        raise UnsupportedOperandError(f"{decoded.text}: shape does not fit the registers")
    index_bits = 2 * shape.per_lane
    chosen = 0 if _number(decoded, "cbsz") else _number(decoded, "abid") % max(32 // index_bits, 1)
    sparse = Tile(3, "u2", _moved(_input_places(shape, 2, rows, True, _SAME_LANES), chosen * index_bits))
    slots = _mfma_slots(dense, 4)
    node = MatrixProduct(
        32 * len(slots[0]),
        Tile(1, kinds[0], _input_places(shape, bits, rows, True, _SAME_LANES)),
        Tile(2, kinds[1], _input_places(dense, bits, columns, False, _SAME_LANES)),
        Tile(0, result, _result_places(slots, dense, 32, 0)),
        slots,
        result,
        result,
        sparse=sparse,
    )
    return _meaning(decoded, node, result == "i32")


@cache
def _moved(places: Places, amount: int) -> Places:
    return tuple(tuple(tuple((lane, low + amount) for lane, low in row) for row in block) for block in places)


# --- WMMA and SWMMAC ----------------------------------------------------------------------------------------

_WMMA = re.compile(
    r"^v_(?P<name>wmma|swmmac)_(?P<result>f32|f16|bf16|bf16f32|i32)_16x16x(?P<k>\d+)_"
    r"(?P<a>f32|f16|bf16|iu8|iu4|fp8|bf8)(?:_(?P<b>fp8|bf8))?$"
)


def _input_kind(decoded: Decoded, kind: str, position: int) -> str:
    """`iu8` is signed where neg_lo says so."""
    if not kind.startswith("iu"):
        return kind
    signed = (*bit_list(decoded, "neg_lo"), 0, 0)[position]
    return ("i" if signed else "u") + kind[2:]


def _input_sign(decoded: Decoded, kind: str, position: int) -> tuple[Sign, Sign]:
    """neg_lo and neg_hi negate the elements in low and high halves."""
    if kind not in ("f16", "bf16"):
        return Sign.KEEP, Sign.KEEP
    low, high = ((*bit_list(decoded, name), 0, 0)[position] for name in ("neg_lo", "neg_hi"))
    return (Sign.NEGATE if low else Sign.KEEP), (Sign.NEGATE if high else Sign.KEEP)


def _accumulator_sign(decoded: Decoded, result: str) -> Sign:
    """neg_lo negates C, neg_hi takes its absolute value."""
    if result == "i32":
        return Sign.KEEP
    negate, absolute = ((*bit_list(decoded, name), 0, 0, 0)[2] for name in ("neg_lo", "neg_hi"))
    if absolute:
        return Sign.SET if negate else Sign.CLEAR
    return Sign.NEGATE if negate else Sign.KEEP


def _wmma(decoded: Decoded, context: DecodingContext) -> Meaning | None:
    found = _WMMA.match(decoded.mnemonic.removesuffix("_e64"))
    if found is None:
        return None
    if decoded.family == "gfx1250" and found["name"] == "swmmac":
        raise UnsupportedOperandError(f"{decoded.mnemonic}: where gfx1250 keeps the elements of sparse rows is unknown")
    a_kind, b_kind = (
        _input_kind(decoded, kind, position) for position, kind in enumerate((found["a"], found["b"] or found["a"]))
    )
    build = _wmma11 if decoded.family == "gfx11" else _wmma12
    node = build(decoded, int(found["k"]), (a_kind, b_kind), found["result"], found["name"] == "swmmac")
    return _meaning(decoded, node, found["result"] == "i32")


def _working_format(result: str) -> str:
    return "i32" if result == "i32" else "f32"


def _wmma11(decoded: Decoded, depth: int, kinds: tuple[str, str], result: str, sparse: bool) -> Expr:
    wave = decoded.wave_size
    shape = _Shape(16, 16, depth, 1, depth)
    slots = _wmma11_slots(wave)
    bits = kind_bits(result)
    upper = 16 if bits == 16 and (*bit_list(decoded, "op_sel"), 0, 0, 0)[2] else 0
    lanes = tuple(range(wave))
    tiles = [
        Tile(
            position + 1,
            kind,
            _input_places(shape, kind_bits(kind), 16, position == 0, lanes),
            sign=_input_sign(decoded, kind, position),
        )
        for position, kind in enumerate(kinds)
    ]
    c = _accumulator_tile(
        decoded, 3, result, _result_places(slots, shape, 32, upper), _accumulator_sign(decoded, result)
    )
    clamp = decoded.modifier("clamp") is not None
    count = len(slots[0])
    node = MatrixProduct(bits * count, tiles[0], tiles[1], c, slots, _working_format(result), result, clamp)
    if bits == 32:
        return node
    parts: list[Expr] = []
    for number in range(count):
        other = Source(16, 0, 32 * number + 16 - upper)
        half = Slice(16, node, 16 * number)
        parts += [other, half] if upper else [half, other]
    return Concat(32 * count, tuple(parts))


def _wmma12(decoded: Decoded, depth: int, kinds: tuple[str, str], result: str, sparse: bool) -> Expr:
    wave = decoded.wave_size
    c_kind = "f32" if result == "bf16f32" else result
    result = result.removesuffix("f32") or result
    slots = _wmma12_slots(wave)
    bits = kind_bits(result)
    c_places = _result_places(slots, _Shape(16, 16, depth, 1, 0), kind_bits(c_kind), 0)
    sizes = tuple(kind_bits(kind) for kind in kinds)
    # 4-bit inputs of the shortest depth fill half of a wave of 64 only.
    short = wave == 64 and sizes[0] == 4 and depth == (32 if sparse else 16)
    a_rule = _Wmma12(sizes[0], depth, wave, sparse, short)
    b_rule = _Wmma12(sizes[1], depth, wave, sparse, short and not sparse)
    indices = None
    if sparse:
        c = Tile(0, result, c_places)
        index_bits = 2 * (depth // 2) // a_rule.groups
        base = _number(decoded, "index_key") * index_bits
        indices = Tile(3, "u2", _wmma12_places(a_rule, True, True, 2, base))
    else:
        if _register_bits(decoded, 1) * wave != 16 * depth * sizes[0] * (2 if short else 1):
            raise UnsupportedOperandError(f"{decoded.text}: shape does not fit the registers")
        c = _accumulator_tile(decoded, 3, c_kind, c_places, _accumulator_sign(decoded, result))
    a_places = _wmma12_places(a_rule, True, sparse, sizes[0], 0)
    b_places = _wmma12_places(b_rule, False, False, sizes[1], 0)
    return MatrixProduct(
        bits * len(slots[0]),
        Tile(1, kinds[0], a_places, sign=_input_sign(decoded, kinds[0], 0)),
        Tile(2, kinds[1], b_places, sign=_input_sign(decoded, kinds[1], 1)),
        c,
        slots,
        _working_format(result),
        result,
        decoded.modifier("clamp") is not None,
        indices,
    )


# --- the definition of MatrixProduct ------------------------------------------------------------------------


def _element(tile: Tile, block: int, row: int, column: int, along: int, format: str) -> Expr:
    """An element converted to the working format; `along` is its place along the depth (for its sign)."""
    bits = kind_bits(tile.kind)
    value: Expr
    if tile.places:
        lane, low = tile.places[block][row][column]
        value = OtherLane(bits, tile.index, low, Const(32, lane))
    else:
        value = Const(bits, tile.constant)
    if tile.kind not in FORMATS:
        return Op(32, "sext" if tile.kind[0] == "i" else "zext", (value,)) if bits < 32 else value
    sign = tile.sign[along % 2]
    if sign in (Sign.CLEAR, Sign.SET):
        value = Op(bits, "fabs", (value,), tile.kind)
    if sign in (Sign.NEGATE, Sign.SET):
        value = Op(bits, "fneg", (value,), tile.kind)
    return value if tile.kind == format else Op(FORMATS[format], "fconvert", (value,), f"{tile.kind}>{format}")


def _partner(node: MatrixProduct, block: int, row: int, k: int, column: int) -> Expr:
    """The element of B that A's element k of a row meets: with sparse indices one of four, selected by a shift."""
    if node.sparse is None:
        return _element(node.b, block, k, column, k, node.accumulator)
    group = 4 * (k // 2)
    width = FORMATS.get(node.accumulator, 32)
    four = Concat(
        4 * width,
        tuple(_element(node.b, block, group + number, column, number, node.accumulator) for number in range(4)),
    )
    lane, low = node.sparse.places[block][row][k]
    index = OtherLane(2, node.sparse.index, low, Const(32, lane))
    amount = Op(32, "mul", (Op(32, "zext", (index,)), Const(32, width)))
    return Slice(width, Op(4 * width, "lshr", (four, amount)), 0)


def expand(node: MatrixProduct, lane: int) -> Expr:
    """What the node stands for in lane `lane`, in scalar nodes only; of every format with MODE as it resets.

    The number of nodes is about 8 * depth for each element that the lane holds (and 20 * depth when sparse).
    """
    return Concat(node.bits, tuple(_expanded(node, *slot) for slot in node.slots[lane]))


def _expanded(node: MatrixProduct, block: int, row: int, column: int) -> Expr:
    total = _element(node.c, block, row, column, 0, node.accumulator)
    width = total.bits
    integer = node.accumulator not in FORMATS
    for k in range(len(node.a.places[0][0])):
        a = _element(node.a, block, row, k, k, node.accumulator)
        b = _partner(node, block, row, k, column)
        if integer:
            total = Op(width, "add", (total, Op(width, "mul", (a, b))))
        else:
            total = Op(width, "fma", (a, b, total), node.accumulator)
    if integer:
        return saturated(total, width, True) if node.saturate else total
    if node.result != node.accumulator:
        total = Op(FORMATS[node.result], "fconvert", (total,), f"{node.accumulator}>{node.result}")
    return Op(total.bits, "fclamp", (total,), node.result) if node.saturate else total


Reader = Callable[[int, int, int, int], int]
"""(printed operand, lowest bit, bits, lane) -> those bits of the operand in that lane."""


def evaluate_product(node: MatrixProduct, lane: int, read: Reader, fnuz: bool = False) -> int:
    """The value of the node in one lane, exactly as `expand` defines it.

    `fnuz` says that the target's 8-bit floats are those of gfx942.
    """
    product = _Product(node, read, FloatMode(fnuz=fnuz))
    width = kind_bits(node.result)
    return sum(product.value(*slot) << width * place for place, slot in enumerate(node.slots[lane]))


class _Product:
    """One evaluation; keeps elements that it has read and converted."""

    def __init__(self, node: MatrixProduct, read: Reader, mode: FloatMode) -> None:
        self.node = node
        self.read = read
        self.mode = mode
        self.known: dict[tuple[int, int, int, int], int] = {}

    def element(self, tile: Tile, block: int, row: int, column: int, along: int) -> int:
        key = (id(tile), block, row, column)
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self._element(tile, block, row, column, along)
        return found

    def _element(self, tile: Tile, block: int, row: int, column: int, along: int) -> int:
        bits = kind_bits(tile.kind)
        value = tile.constant
        if tile.places:
            lane, low = tile.places[block][row][column]
            value = self.read(tile.index, low, bits, lane)
        if tile.kind not in FORMATS:
            return value - (1 << bits) if tile.kind[0] == "i" and value >> (bits - 1) else value
        top = 1 << (bits - 1)
        sign = tile.sign[along % 2]
        if sign in (Sign.CLEAR, Sign.SET):
            value &= ~top
        if sign in (Sign.NEGATE, Sign.SET):
            value ^= top
        return self._converted(value, tile.kind, self.node.accumulator)

    def _converted(self, value: int, kind: str, to: str) -> int:
        if kind == to:
            return value
        form, wanted = self.mode.format(kind), self.mode.format(to)
        return conversion.convert(form, wanted, value, self.mode.environment(kind), self.mode.environment(to))

    def value(self, block: int, row: int, column: int) -> int:
        node = self.node
        total = self.element(node.c, block, row, column, 0)
        depth = len(node.a.places[0][0])
        pairs = [(self.element(node.a, block, row, k, k), self._partner(block, row, k, column)) for k in range(depth)]
        if node.accumulator not in FORMATS:
            total += sum(a * b for a, b in pairs)
            if node.saturate:
                total = min(max(total, -(1 << 31)), (1 << 31) - 1)
            return total & 0xFFFFFFFF
        form, environment = self.mode.format(node.accumulator), self.mode.environment(node.accumulator)
        for a, b in pairs:
            total = arithmetic.fused(form, a, b, total, environment)
        total = self._converted(total, node.accumulator, node.result)
        return comparison.clamp(self.mode.format(node.result), total, True) if node.saturate else total

    def _partner(self, block: int, row: int, k: int, column: int) -> int:
        node = self.node
        place = k
        if node.sparse is not None:
            place = 4 * (k // 2) + self.element(node.sparse, block, row, k, 0)
        return self.element(node.b, block, place, column, place)


# --- doors --------------------------------------------------------------------------------------------------


def meaning(decoded: Decoded, context: DecodingContext) -> Meaning | None:
    """The meaning of a matrix instruction, "unsupported" for those without a layout here; None for all others."""
    if not decoded.mnemonic.startswith(("v_mfma_", "v_smfmac_", "v_wmma_", "v_swmmac_")):
        return None
    try:
        found = _mfma(decoded, context) or _wmma(decoded, context)
    except UnsupportedOperandError as error:
        return Meaning(Scope.LANE, exactness=Exactness.UNSUPPORTED, source=str(error))
    return found or Meaning(Scope.LANE, exactness=Exactness.UNSUPPORTED, source=f"{decoded.mnemonic} has no layout")
