"""Matrix instructions: MFMA and SMFMAC of the CDNA targets, WMMA and SWMMAC of RDNA3 and RDNA4.

Idea. Each of them is D = A * B + C on matrices that lie spread over the lanes of a wave, whatever EXEC says. The
meaning is one `MatrixProduct` node: three tables that say in which lane and at which bit each element stands, and
one that says which elements of D a lane holds. So a meaning is small (one node, however large the product: a
32x32x16 one would be 16384 multiplications as a tree) and whoever runs it can do so with plain loops.
`matrix_definition` writes the same out in scalar nodes for one lane.

Layouts and their source are told in `matrix_layout`.

Arithmetic. Integer products are exact. In which order floating-point products are added, and with how many bits
in between, AMD does not document: the node adds them one by one, k ascending, each rounded to nearest even, and
the meaning says "approximate". What has no entry here is left unsupported: gfx1250's sparse, scaled and f8f6f4
products, xf32, block scales, f8f6f4 of inputs of different widths.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from asmevo.program.decode import DecodingContext
from asmevo.program.instruction import Decoded
from asmevo.semantics.constants import UnsupportedOperandError, constant_value
from asmevo.semantics.expression import (
    FORMATS,
    Concat,
    Exactness,
    Expr,
    MatrixProduct,
    Meaning,
    Result,
    Scope,
    Sign,
    Slice,
    Source,
    Tile,
)
from asmevo.semantics.matrix_layout import (
    Places,
    Shape,
    Wmma12,
    input_places,
    kind_bits,
    mfma_slots,
    moved,
    result_places,
    wmma11_slots,
    wmma12_places,
    wmma12_slots,
)
from asmevo.semantics.operands import bit_list

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
    decoded: Decoded, shape: Shape, kinds: tuple[str, str], signs: tuple[Sign, Sign, Sign]
) -> tuple[Tile, Tile]:
    """A and B of a dense product, with its broadcasts."""
    a_places = input_places(shape, kind_bits(kinds[0]), shape.rows, True, _SAME_LANES)
    lane_map = _SAME_LANES
    if "f8f6f4" not in decoded.mnemonic and kinds[0] != "f64":
        a_places = _shared_blocks(a_places, _number(decoded, "cbsz"), _number(decoded, "abid"))
        lane_map = tuple(map(_B_LANES[_number(decoded, "blgp")], range(64)))
    b_places = input_places(shape, kind_bits(kinds[1]), shape.columns, False, lane_map)
    a_sign, b_sign, _ = signs
    return Tile(1, kinds[0], a_places, sign=(a_sign, a_sign)), Tile(2, kinds[1], b_places, sign=(b_sign, b_sign))


def _mfma_shape(decoded: Decoded, rows: int, columns: int, depth: int, bits: int) -> Shape:
    per_lane = min(_register_bits(decoded, 1) // bits, depth)
    blocks = 64 * per_lane // (rows * depth)
    if rows * blocks * depth != 64 * per_lane or blocks < 1:
        raise UnsupportedOperandError(f"{decoded.text}: shape does not fit the registers")
    return Shape(rows, columns, depth, blocks, per_lane)


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
    slots = mfma_slots(shape, 1 if result == "f64" else 4)
    bits = kind_bits(result)
    c = _accumulator_tile(decoded, 3, result, result_places(slots, shape, bits, 0), signs[2])
    node = MatrixProduct(bits * len(slots[0]), a, b, c, slots, result, result)
    return _meaning(decoded, node, result == "i32")


def _smfmac(decoded: Decoded, rows: int, columns: int, depth: int, kinds: tuple[str, str], result: str) -> Meaning:
    """The accumulator is the destination; src2 holds the indices."""
    bits = kind_bits(kinds[0])
    shape = _mfma_shape(decoded, rows, columns, depth // 2, bits)
    dense = Shape(rows, columns, depth, 1, 2 * shape.per_lane)
    if shape.blocks != 1 or _register_bits(decoded, 2) != bits * dense.per_lane:
        raise UnsupportedOperandError(f"{decoded.text}: shape does not fit the registers")
    index_bits = 2 * shape.per_lane
    chosen = 0 if _number(decoded, "cbsz") else _number(decoded, "abid") % max(32 // index_bits, 1)
    sparse = Tile(3, "u2", moved(input_places(shape, 2, rows, True, _SAME_LANES), chosen * index_bits))
    slots = mfma_slots(dense, 4)
    node = MatrixProduct(
        32 * len(slots[0]),
        Tile(1, kinds[0], input_places(shape, bits, rows, True, _SAME_LANES)),
        Tile(2, kinds[1], input_places(dense, bits, columns, False, _SAME_LANES)),
        Tile(0, result, result_places(slots, dense, 32, 0)),
        slots,
        result,
        result,
        sparse=sparse,
    )
    return _meaning(decoded, node, result == "i32")


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
    shape = Shape(16, 16, depth, 1, depth)
    slots = wmma11_slots(wave)
    bits = kind_bits(result)
    upper = 16 if bits == 16 and (*bit_list(decoded, "op_sel"), 0, 0, 0)[2] else 0
    lanes = tuple(range(wave))
    tiles = [
        Tile(
            position + 1,
            kind,
            input_places(shape, kind_bits(kind), 16, position == 0, lanes),
            sign=_input_sign(decoded, kind, position),
        )
        for position, kind in enumerate(kinds)
    ]
    c = _accumulator_tile(
        decoded, 3, result, result_places(slots, shape, 32, upper), _accumulator_sign(decoded, result)
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
    slots = wmma12_slots(wave)
    bits = kind_bits(result)
    c_places = result_places(slots, Shape(16, 16, depth, 1, 0), kind_bits(c_kind), 0)
    sizes = tuple(kind_bits(kind) for kind in kinds)
    # 4-bit inputs of the shortest depth fill half of a wave of 64 only.
    short = wave == 64 and sizes[0] == 4 and depth == (32 if sparse else 16)
    a_rule = Wmma12(sizes[0], depth, wave, sparse, short)
    b_rule = Wmma12(sizes[1], depth, wave, sparse, short and not sparse)
    indices = None
    if sparse:
        c = Tile(0, result, c_places)
        index_bits = 2 * (depth // 2) // a_rule.groups
        base = _number(decoded, "index_key") * index_bits
        indices = Tile(3, "u2", wmma12_places(a_rule, True, True, 2, base))
    else:
        if _register_bits(decoded, 1) * wave != 16 * depth * sizes[0] * (2 if short else 1):
            raise UnsupportedOperandError(f"{decoded.text}: shape does not fit the registers")
        c = _accumulator_tile(decoded, 3, c_kind, c_places, _accumulator_sign(decoded, result))
    a_places = wmma12_places(a_rule, True, sparse, sizes[0], 0)
    b_places = wmma12_places(b_rule, False, False, sizes[1], 0)
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
