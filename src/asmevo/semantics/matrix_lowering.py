"""`MatrixProduct` as LLVM IR: one function a product, with plain loops over tables.

Registers of a wave are memory, [word][lane] of 32 bits, as the accessors give it. The function works in three steps:

1. gather: every element of A, B and C is fetched by a constant table of (place, shift), 16 at a time, converted to
   the accumulator's format and stored into dense matrices on the stack, [block][row][column];
2. multiply: for each row, a vector over the columns runs along the depth: total = fma(A[row][k], B[k][:], total).
   Floating point runs without NaN rules first; if a NaN came out, everything is done again with them, which is rare;
3. hand out: each lane's slots are fetched from the dense result by a table and stored as words.

All operands are read before the result is written, so the result may be the registers of C.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from hashlib import sha256
from typing import Any

from llvmlite import ir
from msgspec import Struct

from asmevo.semantics import float_lowering
from asmevo.semantics.expression import FORMATS, MatrixProduct, Sign, Tile
from asmevo.semantics.float_mode import FloatMode
from asmevo.semantics.lane_code import LaneCode, Splat, broadcast

_GROUP = 16  # elements that are fetched at once
_I32, _I64 = ir.IntType(32), ir.IntType(64)


def _element_bits(kind: str) -> int:
    return FORMATS.get(kind) or int(kind[1:])


def _number(value: int) -> Any:
    return ir.Constant(_I64, value)


class _Dense(Struct):
    """A matrix on the stack; `width` bits an element, `count` elements."""

    memory: Any
    width: int


class _Writer:
    """Writes one function; the builder stands where the next step goes."""

    def __init__(self, builder: Any, node: MatrixProduct, wave: int, mode: FloatMode) -> None:
        self.b = builder
        self.node = node
        self.wave = wave
        # Matrix instructions take no rounding or denormal mode.
        self.mode = FloatMode(fnuz=mode.fnuz)
        self.floating = node.accumulator in FORMATS
        self.width = FORMATS[node.accumulator] if self.floating else (64 if node.saturate else 32)
        self.blocks = len(node.a.places)
        self.rows = len(node.a.places[0])
        self.depth = len(node.a.places[0][0])
        self.b_depth = len(node.b.places[0])
        self.columns = len(node.b.places[0][0])

    # --- tables and loops

    def table(self, values: Iterable[int]) -> Any:
        """A constant array of 32-bit words, padded to whole groups."""
        words = list(values)
        words += [0] * (-len(words) % _GROUP)
        kind = ir.ArrayType(_I32, len(words))
        name = self.b.module.get_unique_name(self.b.function.name + ".table")
        found = ir.GlobalVariable(self.b.module, kind, name)
        found.linkage, found.global_constant, found.align = "internal", True, 64
        found.initializer = ir.Constant(kind, words)
        return self.b.bitcast(found, _I32.as_pointer())

    def loop(self, count: int, body: Callable[[Any, Any], Any], start: Any = None) -> Any:
        """for index in range(count): value = body(index, value); gives the last value."""
        before = self.b.block
        inside, after = self.b.append_basic_block(), self.b.append_basic_block()
        self.b.branch(inside)
        self.b.position_at_end(inside)
        index = self.b.phi(_I64)
        index.add_incoming(_number(0), before)
        value = None
        if start is not None:
            value = self.b.phi(start.type)
            value.add_incoming(start, before)
        result = body(index, value)
        following = self.b.add(index, _number(1))
        index.add_incoming(following, self.b.block)
        if value is not None:
            value.add_incoming(result, self.b.block)
        self.b.cbranch(self.b.icmp_unsigned("<", following, _number(count)), inside, after)
        self.b.position_at_end(after)
        return result

    def dense(self, count: int, width: int) -> _Dense:
        """Room for a matrix, in whole groups."""
        padded = count + -count % _GROUP
        return _Dense(self.b.alloca(ir.ArrayType(ir.IntType(width), padded)), width)

    def place(self, dense: _Dense, index: Any, lanes: int | None = None) -> Any:
        """The address of an element, or of `lanes` elements as a vector."""
        kind = ir.IntType(dense.width)
        where = self.b.gep(self.b.bitcast(dense.memory, kind.as_pointer()), [index])
        return where if lanes is None else self.b.bitcast(where, ir.VectorType(kind, lanes).as_pointer())

    def load(self, pointer: Any, width: int) -> Any:
        return self.b.load(pointer, align=width // 8)

    def fetched(self, base: Any, offsets: Any, width: int) -> Any:
        """base[offsets] for 16 offsets in elements of `width` bits."""
        wide = self.b.zext(offsets, ir.VectorType(_I64, _GROUP))
        code = LaneCode(self.b, _GROUP)
        scaled = self.b.mul(wide, code.constant(64, width // 8))
        start = broadcast(self.b, self.b.ptrtoint(base, _I64), _GROUP)
        element = ir.IntType(width)
        pointers = self.b.inttoptr(self.b.add(start, scaled), ir.VectorType(element.as_pointer(), _GROUP))
        result = ir.VectorType(element, _GROUP)
        name = f"llvm.masked.gather.v{_GROUP}i{width}.v{_GROUP}p0"
        function = self.b.module.globals.get(name)
        mask = ir.VectorType(ir.IntType(1), _GROUP)
        if function is None:
            signature = ir.FunctionType(result, [pointers.type, _I32, mask, result])
            function = ir.Function(self.b.module, signature, name)
        everywhere = Splat(mask, ir.Constant(ir.IntType(1), 1))
        nothing = ir.Constant(result, ir.Undefined)
        return self.b.call(function, [pointers, ir.Constant(_I32, width // 8), everywhere, nothing])

    # --- step 1: elements

    def gathered(self, tile: Tile, registers: Any, width: int) -> _Dense:
        """All elements of a tile, converted, [block][row][column]."""
        if not tile.places:
            return self._constant_matrix(tile, width)
        places = [place for block in tile.places for row in block for place in row]
        dense = self.dense(len(places), width)
        if _element_bits(tile.kind) == 64:
            self._gather_doubles(places, registers, dense, tile)
            return dense
        offsets = self.table((low // 32 * self.wave + lane) for lane, low in places)
        shifts = self.table(low % 32 for _, low in places)
        along = self.table(self._along(tile))

        def group(index: Any, _: Any) -> None:
            first = self.b.mul(index, _number(_GROUP))
            words = self.fetched(registers, self._vector(offsets, first), 32)
            raw = self.b.lshr(words, self._vector(shifts, first))
            odd = self._vector(along, first)
            element = self._element(raw, odd, tile, width)
            self.b.store(element, self.place(dense, first, _GROUP), align=width // 8)

        self.loop(-(-len(places) // _GROUP), group)
        return dense

    def _along(self, tile: Tile) -> list[int]:
        """For each element its place along the depth modulo 2: the column of A, the row of B."""
        by_row = tile is not self.node.b
        return [
            (column if by_row else row) % 2
            for block in tile.places
            for row, line in enumerate(block)
            for column in range(len(line))
        ]

    def _vector(self, table: Any, first: Any) -> Any:
        where = self.b.gep(table, [first])
        return self.b.load(self.b.bitcast(where, ir.VectorType(_I32, _GROUP).as_pointer()), align=64)

    def _gather_doubles(self, places: list[tuple[int, int]], registers: Any, dense: _Dense, tile: Tile) -> None:
        halves = [self.table((low // 32 + half) * self.wave + lane for lane, low in places) for half in (0, 1)]
        along = self.table(self._along(tile))
        code = LaneCode(self.b, _GROUP)

        def group(index: Any, _: Any) -> None:
            first = self.b.mul(index, _number(_GROUP))
            low, high = (code.resized(self.fetched(registers, self._vector(half, first), 32), 64) for half in halves)
            raw = self.b.or_(low, self.b.shl(high, code.constant(64, 32)))
            element = self._signed(raw, self._vector(along, first), tile)
            self.b.store(element, self.place(dense, first, _GROUP), align=8)

        self.loop(-(-len(places) // _GROUP), group)

    def _constant_matrix(self, tile: Tile, width: int) -> _Dense:
        """A matrix all of whose elements are one number; only C is one."""
        count = self.blocks * self.rows * self.columns
        dense = self.dense(count, width)
        code = LaneCode(self.b, _GROUP)
        raw = code.constant(max(32, _element_bits(tile.kind)), tile.constant)
        element = self._element(raw, code.constant(32, 0), tile, width)

        def group(index: Any, _: Any) -> None:
            first = self.b.mul(index, _number(_GROUP))
            self.b.store(element, self.place(dense, first, _GROUP), align=width // 8)

        self.loop(-(-count // _GROUP), group)
        return dense

    def _element(self, raw: Any, odd: Any, tile: Tile, width: int) -> Any:
        """Raw bits, the element lowest, as the accumulator's encoding."""
        code, kind = LaneCode(self.b, _GROUP), tile.kind
        element = code.resized(raw, _element_bits(kind))
        if kind not in FORMATS:
            return code.resized(element, width, signed=kind[0] == "i")
        element = self._signed(element, odd, tile)
        if kind == self.node.accumulator:
            return element
        return self._convert(element, kind, self.node.accumulator)

    def _convert(self, value: Any, kind: str, to: str) -> Any:
        return float_lowering.call(self.b, "fconvert", f"{kind}>{to}", FORMATS[to], (value,), self.mode)

    def _signed(self, element: Any, odd: Any, tile: Tile) -> Any:
        """The tile's treatment of signs; `odd` is the place along the depth modulo 2."""
        if tile.sign == (Sign.KEEP, Sign.KEEP):
            return element
        code = LaneCode(self.b, _GROUP)
        even, other = (self._with_sign(element, sign, tile.kind) for sign in tile.sign)
        return self.b.select(self.b.icmp_unsigned("==", odd, code.constant(32, 0)), even, other)

    def _with_sign(self, element: Any, sign: Sign, kind: str) -> Any:
        bits = _element_bits(kind)
        top = LaneCode(self.b, _GROUP).constant(bits, 1 << bits - 1)
        rest = LaneCode(self.b, _GROUP).constant(bits, (1 << bits - 1) - 1)
        match sign:
            case Sign.NEGATE:
                return self.b.xor(element, top)
            case Sign.CLEAR:
                return self.b.and_(element, rest)
            case Sign.SET:
                return self.b.or_(element, top)
            case _:
                return element

    # --- step 2: products

    def multiplied(self, a: _Dense, b: _Dense, c: _Dense, sparse: _Dense | None) -> _Dense:
        """D in the accumulator's format."""
        d = self.dense(self.blocks * self.rows * self.columns, self.width)
        nan = self._products(a, b, c, d, sparse, exact=not self._native)
        if nan is not None:
            with self.b.if_then(nan, likely=False):
                self._products(a, b, c, d, sparse, exact=True)
        return d

    @property
    def _native(self) -> bool:
        return self.node.accumulator in ("f32", "f64")

    def _products(self, a: _Dense, b: _Dense, c: _Dense, d: _Dense, sparse: _Dense | None, *, exact: bool) -> Any:
        """All rows of all blocks; whether a NaN came out, where NaN rules were left out."""
        columns, flagged = self.columns, self.floating and not exact
        code = LaneCode(self.b, columns)

        def row(index: Any, nan: Any) -> Any:
            block = self.b.udiv(index, _number(self.rows))
            first = self.b.mul(index, _number(columns))
            total = self.load(self.place(c, first, columns), self.width)

            def step(k: Any, total: Any) -> Any:
                at = self.b.add(self.b.mul(index, _number(self.depth)), k)
                factor = self._spread(self.load(self.place(a, at), self.width), columns)
                line = self.b.add(self.b.mul(block, _number(self.b_depth)), self._partner(sparse, at, k))
                where = self.place(b, self.b.mul(line, _number(columns)), columns)
                return self._step(code, factor, self.load(where, self.width), total, exact)

            total = self.loop(self.depth, step, total)
            self.b.store(total, self.place(d, first, columns), align=self.width // 8)
            if not flagged:
                return nan
            number = self.b.bitcast(total, code.real_type(self.node.accumulator))
            return self.b.or_(nan, self.b.fcmp_unordered("uno", number, number))

        start = LaneCode(self.b, columns).constant(1, 0) if flagged else ir.Constant(ir.IntType(1), 0)
        found = self.loop(self.blocks * self.rows, row, start)
        if not flagged:
            return None
        return self.b.icmp_unsigned("!=", self.b.bitcast(found, ir.IntType(columns)), ir.IntType(columns)(0))

    def _spread(self, value: Any, lanes: int) -> Any:
        return broadcast(self.b, value, lanes)

    def _partner(self, sparse: _Dense | None, at: Any, k: Any) -> Any:
        """The row of B that belongs to element k of a row of A."""
        if sparse is None:
            return k
        chosen = self.b.zext(self.load(self.place(sparse, at), 32), _I64)
        return self.b.add(self.b.shl(self.b.lshr(k, _number(1)), _number(2)), chosen)

    def _step(self, code: LaneCode, a: Any, b: Any, total: Any, exact: bool) -> Any:
        if not self.floating:
            return self.b.add(total, self.b.mul(a, b))
        name = self.node.accumulator
        if exact:
            return float_lowering.call(self.b, "fma", name, self.width, (a, b, total), self.mode)
        kind = code.real_type(name)
        x, y, z = (self.b.bitcast(value, kind) for value in (a, b, total))
        return self.b.bitcast(code.intrinsic("fma", kind, x, y, z), a.type)

    # --- step 3: results

    def finished(self, total: Any) -> Any:
        """Accumulated vectors as the result's encoding."""
        node = self.node
        if not self.floating:
            return self._saturated(total) if node.saturate else total
        if node.result != node.accumulator:
            total = self._convert(total, node.accumulator, node.result)
        if node.saturate:
            clamping = FloatMode(fnuz=self.mode.fnuz, dx10_clamp=True)
            total = float_lowering.call(self.b, "fclamp", node.result, FORMATS[node.result], (total,), clamping)
        return total

    def _saturated(self, total: Any) -> Any:
        code = LaneCode(self.b, _GROUP)
        low, high = code.constant(64, -(1 << 31)), code.constant(64, (1 << 31) - 1)
        held = code.intrinsic("smin", total.type, code.intrinsic("smax", total.type, total, low), high)
        return code.resized(held, 32)

    def handed_out(self, d: _Dense, results: Any) -> None:
        """Each lane's slots, one behind the other, into `results`, [word][lane]."""
        slots = self.node.slots
        bits = _element_bits(self.node.result)
        place = [
            (block * self.rows + row) * self.columns + column
            for number in range(len(slots[0]))
            for block, row, column in (lane[number] for lane in slots)
        ]
        table = self.table(place)
        source = self.b.bitcast(d.memory, ir.IntType(d.width).as_pointer())
        turns = self.wave // _GROUP
        in_word = max(1, 32 // bits)

        def group(index: Any, _: Any) -> None:
            """16 lanes of one word (of both words of a 64-bit element)."""
            word, turn = self.b.udiv(index, _number(turns)), self.b.urem(index, _number(turns))
            lane = self.b.mul(turn, _number(_GROUP))
            combined = None
            for part in range(min(in_word, len(slots[0]))):
                number = self.b.add(self.b.mul(word, _number(in_word)), _number(part))
                at = self.b.add(self.b.mul(number, _number(self.wave)), lane)
                value = self.finished(self.fetched(source, self._vector(table, at), d.width))
                combined = self._combined(combined, value, part * bits)
            self._store_words(results, combined, word, lane)

        words = -(-len(slots[0]) // in_word)
        self.loop(words * turns, group)

    def _combined(self, before: Any, value: Any, low: int) -> Any:
        code = LaneCode(self.b, _GROUP)
        wide = code.resized(value, max(32, _element_bits(self.node.result)))
        if low:
            wide = self.b.shl(wide, code.constant(32, low))
        return wide if before is None else self.b.or_(before, wide)

    def _store_words(self, results: Any, value: Any, word: Any, lane: Any) -> None:
        code, kind = LaneCode(self.b, _GROUP), ir.VectorType(_I32, _GROUP).as_pointer()
        per_element = max(1, _element_bits(self.node.result) // 32)
        for half in range(per_element):
            number = self.b.add(self.b.mul(word, _number(per_element)), _number(half))
            at = self.b.add(self.b.mul(number, _number(self.wave)), lane)
            part = value
            if per_element == 2:
                shifted = self.b.lshr(value, code.constant(64, 32)) if half else value
                part = code.resized(shifted, 32)
            self.b.store(part, self.b.bitcast(self.b.gep(results, [at]), kind), align=4)


def _layout(tile: Tile | None) -> tuple[Any, ...]:
    """All of a tile but the operand's number."""
    return () if tile is None else (tile.kind, tile.places, tile.constant, tile.sign)


@cache
def _digest(key: tuple[Any, ...]) -> str:
    return sha256(repr(key).encode()).hexdigest()[:16]


def product_name(node: MatrixProduct, wave: int, mode: FloatMode) -> str:
    """The name of a product's function; the same for products that differ in their operands only."""
    tiles = tuple(_layout(tile) for tile in (node.a, node.b, node.c, node.sparse))
    key = (*tiles, node.slots, node.accumulator, node.result, node.saturate, wave, mode.fnuz)
    return f"matrix.{_digest(key)}"


def product_function(module: Any, node: MatrixProduct, wave: int, mode: FloatMode, name: str = "") -> Any:
    """void f(a, b, c, sparse, results): all pointers to 32-bit words [word][lane] of `wave` lanes.

    Each operand's pointer is that of its first register. Where a tile is a constant, or the product not sparse, the
    pointer is not read. `results` gets ceil(bits / 32) words a lane. Products that differ in their operands only
    share one function of the module, which is called `name` or after what it computes.
    """
    name = name or product_name(node, wave, mode)
    return module.globals.get(name) or _product_function(module, name, node, wave, mode)


def _product_function(module: Any, name: str, node: MatrixProduct, wave: int, mode: FloatMode) -> Any:
    pointer = _I32.as_pointer()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [pointer] * 5), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    builder = ir.IRBuilder(function.append_basic_block())
    writer = _Writer(builder, node, wave, mode)
    a, b, c, indices, results = function.args
    left = writer.gathered(node.a, a, writer.width)
    right = writer.gathered(node.b, b, writer.width)
    start = writer.gathered(node.c, c, writer.width)
    sparse = None if node.sparse is None else writer.gathered(node.sparse, indices, 32)
    writer.handed_out(writer.multiplied(left, right, start, sparse), results)
    builder.ret_void()
    return function
