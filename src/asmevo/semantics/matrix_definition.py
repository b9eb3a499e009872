"""What a `MatrixProduct` stands for: its definition in scalar nodes, and its value.

`expand` writes the product out for one lane and is the definition; `evaluate_product` computes the same with plain
loops. Integer products are exact. Floating-point products are added one by one, k ascending, each rounded to nearest
even, with MODE as it resets.
"""

from __future__ import annotations

from collections.abc import Callable

from asmevo.semantics.destinations import saturated
from asmevo.semantics.expression import (
    FORMATS,
    Concat,
    Const,
    Expr,
    MatrixProduct,
    Op,
    OtherLane,
    Sign,
    Slice,
    Tile,
)
from asmevo.semantics.float_mode import FloatMode
from asmevo.semantics.matrix_layout import kind_bits
from asmevo.semantics.softfloat import arithmetic, comparison, conversion


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
