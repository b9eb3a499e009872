"""Matrix instructions on numpy arrays: gather the operands of the whole wave, multiply, hand out the elements.

`MatrixProduct` says exactly what is computed: one fused multiply-add after the other along the depth. Here the
steps along the depth are a loop and everything else is an array operation. Operands of f32 and smaller are exact
in f64, so each step is `fused_to_odd`, rounded once to f32; f64 steps go element by element through softfloat.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asmevo.emulator.lane_arithmetic import fused_to_odd
from asmevo.emulator.wave import Wave
from asmevo.program.instruction import Decoded
from asmevo.semantics.expression import FORMATS, MatrixProduct, Sign, Tile
from asmevo.semantics.float_mode import FloatMode
from asmevo.semantics.softfloat import arithmetic, conversion
from asmevo.semantics.softfloat.formats import DEFAULT, F64

Array = NDArray[Any]
U64 = np.uint64

_INTEGERS = {"i4": 4, "u4": 4, "i8": 8, "u8": 8, "i32": 32, "u32": 32, "u2": 2}


def element_bits(kind: str) -> int:
    """Bits of an element of a tile."""
    return _INTEGERS.get(kind) or FORMATS[kind]


def matrix_function(node: MatrixProduct, decoded: Decoded, mode: FloatMode) -> Callable[[Wave], Array]:
    """A function from a wave to the 32-bit words [lane][word] of all lanes' elements."""
    a, b, c = (_Reader(tile, decoded) for tile in (node.a, node.b, node.c))
    sparse = _Reader(node.sparse, decoded) if node.sparse is not None else None
    block, row, column = (np.array([[slot[n] for slot in lane] for lane in node.slots]) for n in range(3))
    shape = (int(block.max()) + 1, int(row.max()) + 1, int(column.max()) + 1)

    def run(wave: Wave) -> Array:
        left, right, start = a.signed_bits(wave, 2), b.signed_bits(wave, 1), c.signed_bits(wave, None)
        places = None if sparse is None else sparse.bits(wave)
        if node.accumulator.startswith(("i", "u")):
            product = _integer_product(node, left, right, start, places, shape)
        else:
            product = _float_product(node, left, right, start, places, shape, mode)
        return _words(product[block, row, column], element_bits(node.result))

    return run


class _Reader:
    """Gathers a tile's elements [block][row][column], as raw bits."""

    def __init__(self, tile: Tile, decoded: Decoded) -> None:
        self.tile = tile
        self.width = element_bits(tile.kind)
        span = decoded.operands[tile.index].registers
        if not tile.places:
            self.fixed: Array | None = np.array([[[tile.constant]]], U64)
            return
        assert span is not None
        self.fixed = None
        places = np.array(tile.places, np.int64)
        self.lane, low = places[..., 0], places[..., 1]
        self.unit = span.base_unit + low // 32
        self.last = np.minimum(self.unit + 1, span.base_unit + span.count - 1)
        self.shift = (low % 32).astype(U64)

    def bits(self, wave: Wave) -> Array:
        """The elements as they are."""
        if self.fixed is not None:
            return self.fixed
        low = wave.vectors[self.unit, self.lane].astype(U64)
        high = wave.vectors[self.last, self.lane].astype(U64)
        found: Array = ((low | high << U64(32)) >> self.shift) & U64((1 << self.width) - 1)
        return found

    def signed_bits(self, wave: Wave, depth_axis: int | None) -> Array:
        """The elements with the tile's sign treatment; `depth_axis` is the axis along the depth."""
        found = self.bits(wave)
        if self.tile.sign == (Sign.KEEP, Sign.KEEP):
            return found
        found = found.copy()
        top = U64(1 << self.width - 1)
        for parity in (0, 1):
            part: list[slice] = [slice(None)] * 3
            if depth_axis is not None:
                part[depth_axis] = slice(parity, None, 2)
            elif parity == 1:
                break
            view = found[tuple(part)]
            match self.tile.sign[parity]:
                case Sign.NEGATE:
                    view ^= top
                case Sign.CLEAR:
                    view &= ~top
                case Sign.SET:
                    view |= top
                case Sign.KEEP:
                    pass
        return found


def _integers(bits: Array, kind: str) -> Array:
    width = _INTEGERS[kind]
    if kind.startswith("u"):
        return bits.astype(np.int64)
    shift = U64(64 - width)
    return (bits << shift).view(np.int64) >> np.int64(64 - width)


def _partner(right: Array, places: Array | None, k: int) -> Array:
    """Row of B that column k of A multiplies, [block][row or 1][column]."""
    if places is None:
        return right[:, k, None, :]
    rows = 4 * (k // 2) + places[:, :, k].astype(np.int64)
    return right[np.arange(right.shape[0])[:, None], rows]


def _integer_product(
    node: MatrixProduct, left: Array, right: Array, start: Array, places: Array | None, shape: tuple[int, int, int]
) -> Array:
    x, y = _integers(left, node.a.kind), _integers(right, node.b.kind)
    total = np.broadcast_to(_integers(start, node.c.kind), shape).astype(np.int64)
    for k in range(x.shape[2]):
        total = total + x[:, :, k, None] * _partner(y, places, k)
    if node.saturate:
        total = np.clip(total, -(1 << 31), (1 << 31) - 1)
    return total.view(U64) & U64(0xFFFFFFFF)


def to_f64(bits: Array, kind: str, mode: FloatMode) -> Array:
    """Encodings of any format as f64 values; exact."""
    match kind:
        case "f16":
            return bits.astype(np.uint16).view(np.float16).astype(np.float64)
        case "bf16":
            return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
        case "f32":
            return bits.astype(np.uint32).view(np.float32).astype(np.float64)
        case "f64":
            return bits.view(np.float64)
    source = mode.format(kind)
    exact = DEFAULT
    table = [conversion.convert(source, F64, n, exact, exact) for n in range(1 << source.bits)]
    return np.array(table, U64)[bits.astype(np.int64)].view(np.float64)


def from_f64(values: Array, kind: str) -> Array:
    """f64 values (each exact in f32, or of kind f64) rounded to the nearest encoding."""
    match kind:
        case "f16":
            return values.astype(np.float32).astype(np.float16).view(np.uint16).astype(U64)
        case "bf16":
            bits = values.astype(np.float32).view(np.uint32).astype(U64)
            rounded = (bits + U64(0x7FFF) + ((bits >> U64(16)) & U64(1))) >> U64(16)
            return np.where(np.isnan(values), (bits >> U64(16)) | U64(0x40), rounded)
        case "f32":
            return values.astype(np.float32).view(np.uint32).astype(U64)
        case "f64":
            return values.view(U64)
    raise NotImplementedError(f"matrix results of type {kind}")


def _float_product(
    node: MatrixProduct,
    left: Array,
    right: Array,
    start: Array,
    places: Array | None,
    shape: tuple[int, int, int],
    mode: FloatMode,
) -> Array:
    x, y = to_f64(left, node.a.kind, mode), to_f64(right, node.b.kind, mode)
    total = np.broadcast_to(to_f64(start, node.c.kind, mode), shape)
    step = _fused_f64 if node.accumulator == "f64" else _fused_narrow(node.accumulator, mode)
    for k in range(x.shape[2]):
        total = step(x[:, :, k, None], _partner(y, places, k), total)
    if node.saturate:
        total = np.where(np.isnan(total), 0.0, np.clip(total, 0.0, 1.0))
    return from_f64(np.ascontiguousarray(total), node.result)


def _fused_narrow(accumulator: str, mode: FloatMode) -> Callable[[Array, Array, Array], Array]:
    def step(a: Array, b: Array, c: Array) -> Array:
        wide = fused_to_odd(a, b, c)
        if accumulator == "f32":
            return wide.astype(np.float32).astype(np.float64)
        return to_f64(_to_narrow(wide, accumulator), accumulator, mode)

    return step


def _to_narrow(wide: Array, kind: str) -> Array:
    if kind == "f16":
        return wide.astype(np.float16).view(np.uint16).astype(U64)
    raise NotImplementedError(f"matrix accumulators of type {kind}")


def _fused_f64(a: Array, b: Array, c: Array) -> Array:
    parts = [np.ascontiguousarray(each).view(U64).ravel() for each in np.broadcast_arrays(a, b, c)]
    made = [arithmetic.fused(F64, int(x), int(y), int(z)) for x, y, z in zip(*parts, strict=True)]
    return np.array(made, U64).view(np.float64).reshape(np.broadcast_shapes(a.shape, b.shape, c.shape))


def _words(elements: Array, width: int) -> Array:
    """Elements [lane][n] one behind the other as 32-bit words."""
    kind = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}[width]
    return np.ascontiguousarray(elements.astype(kind)).view(np.uint32)
