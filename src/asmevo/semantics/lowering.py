"""Expressions as LLVM IR, one vector element a lane.

Idea. `Lowering` walks an expression as `evaluate` does and writes for each node the IR that computes it for all
lanes at once. A value that is the same in all lanes (constants, scalar registers, addresses made of them) stays a
single number until it meets a vector; a meaning of scope WAVE is single numbers throughout. Constants are folded
while writing, so a mode bit that the caller gives as a constant selects its branch at compile time. Wide values are
never formed: a slice of a concatenation, a source or a select asks the parts.

Leaves come from the caller's `Accessors`. The rules the result keeps: bit for bit what `evaluate` gives, but for the
functions `float_lowering` names as approximate there. What needs the slow path, too, stands there.

How to reach hundreds of millions of wave-instructions a second with it (benchmarks/lowering.py measures it):

- Keep registers as arrays of unsigned 32-bit words, [register][lane], in memory aligned to 64 bytes, and a
  register's value as an SSA vector through a block (a dict register -> value while writing; store what was written
  at the block's end). Loads and stores at each instruction instead halve the speed and triple the time to compile.
- Vectors of the whole wave are the fastest to run: their four or two host vectors are independent work. Lane chunk
  by lane chunk of the host's vector width (a loop around the block; only for instructions that see their own lane
  alone) runs at half that speed but compiles twice as fast, as LLVM sees a quarter of the code.
- EXEC as <N x i1> (`bits_to_mask`). A select of old and new value behind each written register costs about a
  tenth; compiling a block twice, without masks for EXEC all ones, is worth it only for the hottest loops.
- `native.object_code` has the short pipeline (full optimisation takes four times as long and gains nothing).
  `inline=False` and level 0 halve the time to compile again, at a third of the speed: right for code that runs
  once. Writing and parsing the IR is a tenth of the whole.
- The host's processor and features decide on AVX-512, FMA and F16C. The host must not flush denormals itself
  (MXCSR's FTZ and DAZ clear, as Python starts).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol, cast

from llvmlite import ir

from asmevo.semantics import float_lowering
from asmevo.semantics.evaluate import apply
from asmevo.semantics.expression import (
    Concat,
    Const,
    Expr,
    Implicit,
    Loaded,
    MaskBit,
    MatrixProduct,
    Op,
    OtherLane,
    Select,
    Slice,
    Source,
)
from asmevo.semantics.float_mode import IEEE_MODE, FloatMode
from asmevo.semantics.lane_code import LaneCode, Splat, bits_of, broadcast, lanes_of
from asmevo.semantics.matrix_lowering import product_function


class Accessors(Protocol):
    """Where the leaves' values come from.

    Each gives an integer value of the asked width: a vector with one element a lane, or a single number that holds
    for all lanes (always a single number in a meaning of scope WAVE).
    """

    def source(self, index: int, low: int, bits: int) -> Any:
        """`bits` bits of printed operand `index` from bit `low` on."""

    def other_lane(self, index: int, low: int, bits: int, lane: Any) -> Any:
        """The same of lane `lane` (an IR value, not reduced by the wave size)."""

    def implicit(self, name: str, bits: int) -> Any:
        """A register of `expression.Implicit`."""

    def mask_bit(self, index: int) -> Any:
        """The lane's bit of printed operand `index`."""

    def loaded(self, access: int, bits: int) -> Any:
        """What memory access `access` gave."""


class MatrixAccessors(Accessors, Protocol):
    """What a `MatrixProduct` needs beside."""

    def registers(self, index: int) -> Any:
        """A pointer to printed operand `index` in memory: 32-bit words [word][lane], all lanes of the wave.

        Values of the operand that are kept in SSA form must be stored there first.
        """


class Lowering:
    """Writes the expressions of one instruction at the builder's place.

    All of it must go into one straight line of code: values are kept by node identity and reused. `lanes` is the
    number of elements of a vector (the wave size, or a chunk of it), None for scope WAVE. Without `inline`
    floating-point operations stay calls, each compiled once a module: for code that runs seldom.
    """

    def __init__(
        self,
        builder: Any,
        lanes: int | None,
        accessors: Accessors,
        mode: FloatMode = IEEE_MODE,
        *,
        inline: bool = True,
    ) -> None:
        self.builder = builder
        self.lanes = lanes
        self.mode = mode
        self._inline = inline
        self._accessors = accessors
        # The node is kept beside its value so that its identity stays taken.
        self._values: dict[int, tuple[Expr, Any]] = {}
        self._pieces: dict[tuple[int, int, int], Expr] = {}
        self._spread: dict[int, tuple[Any, Any]] = {}

    def lower(self, expression: Expr) -> Any:
        """The value of an expression: a vector, or a single number where all lanes agree.

        Raises KeyError for an operation that is not in OPERATIONS, and what the accessors raise.
        """
        waiting = [expression]
        while waiting:
            node = waiting[-1]
            if id(node) in self._values:
                waiting.pop()
                continue
            missing = [part for part in self._needed(node) if id(part) not in self._values]
            if missing:
                waiting.extend(missing)
                continue
            self._values[id(node)] = (node, self._written(node))
            waiting.pop()
        return self._values[id(expression)][1]

    def lower_vector(self, expression: Expr) -> Any:
        """As `lower`, always with one element a lane (`lanes` is not None)."""
        return self.spread(self.lower(expression))

    def lower_piece(self, expression: Expr, low: int, bits: int) -> Any:
        """Bits low .. low+bits-1 of an expression, without forming the rest of it."""
        return self.lower(self._piece(expression, low, bits))

    def spread(self, value: Any) -> Any:
        """A single number in every lane; a vector unchanged."""
        if self.lanes is None or lanes_of(value) is not None:
            return value
        if _number(value) is not None:
            return LaneCode(self.builder, self.lanes).constant(bits_of(value), value.constant)
        known = self._spread.get(id(value))
        if known is None:
            known = (value, broadcast(self.builder, value, self.lanes))
            self._spread[id(value)] = known
        return known[1]

    # --- the walk

    def _needed(self, node: Expr) -> Iterable[Expr]:
        """The parts that must be written before a node."""
        match node:
            case Op():
                return node.args
            case Select():
                condition = self._values.get(id(node.condition))
                if condition is None:
                    return (node.condition,)
                known = _number(condition[1])
                if known is None:
                    return (node.then, node.other)
                return (node.then,) if known else (node.other,)
            case Slice():
                return (self._sliced(node),)
            case Concat():
                return node.parts
            case OtherLane():
                return (node.lane,)
            case _:
                return ()

    def _value(self, node: Expr) -> Any:
        return self._values[id(node)][1]

    def _written(self, node: Expr) -> Any:
        match node:
            case Const():
                return ir.Constant(ir.IntType(node.bits), node.value)
            case Source():
                return self._accessors.source(node.index, node.low, node.bits)
            case OtherLane():
                return self._accessors.other_lane(node.index, node.low, node.bits, self._value(node.lane))
            case Implicit():
                return self._accessors.implicit(node.name, node.bits)
            case MaskBit():
                return self._accessors.mask_bit(node.index)
            case Loaded():
                return self._accessors.loaded(node.access, node.bits)
            case Select():
                return self._select(node)
            case Slice():
                return self._slice(node)
            case Concat():
                return self._concat(node)
            case Op():
                return self._operation(node)
            case MatrixProduct():
                return self._matrix_product(node)
            case _:
                raise TypeError(f"no rule to lower {type(node).__name__}")

    def _alike(self, *values: Any) -> tuple[Any, ...]:
        """The values in one shape."""
        if all(lanes_of(value) is None for value in values):
            return values
        return tuple(self.spread(value) for value in values)

    def _select(self, node: Select) -> Any:
        condition = self._value(node.condition)
        known = _number(condition)
        if known is not None:
            return self._value(node.then if known else node.other)
        then, other = self._alike(self._value(node.then), self._value(node.other))
        if lanes_of(condition) is not None:
            then, other = self.spread(then), self.spread(other)
        return self.builder.select(condition, then, other)

    def _concat(self, node: Concat) -> Any:
        values = self._alike(*(self._value(part) for part in node.parts))
        code = LaneCode(self.builder, lanes_of(values[0]))
        numbers = [_number(value) for value in values]
        total, low, constant = None, 0, 0
        for value, number, part in zip(values, numbers, node.parts, strict=True):
            if number is not None:
                constant |= number << low
            else:
                wide = code.resized(value, node.bits)
                placed = self.builder.shl(wide, code.constant(node.bits, low)) if low else wide
                total = placed if total is None else self.builder.or_(total, placed)
            low += part.bits
        if total is None:
            return code.constant(node.bits, constant)
        return self.builder.or_(total, code.constant(node.bits, constant)) if constant else total

    # --- pieces of wide values

    def _sliced(self, node: Slice) -> Expr:
        """What a slice stands for: a narrower leaf, a part of a concatenation, or the value that is cut."""
        found = self._piece(node.value, node.low, node.bits)
        return found.value if isinstance(found, Slice) else found

    def _slice(self, node: Slice) -> Any:
        found = self._piece(node.value, node.low, node.bits)
        if not isinstance(found, Slice):
            return self._value(found)
        value = self._value(found.value)
        if isinstance(found.value, MatrixProduct):
            return self._product_piece(value, found.low, node.bits)
        known = _number(value)
        if known is not None:
            return ir.Constant(ir.IntType(node.bits), known >> found.low & (1 << node.bits) - 1)
        code = LaneCode(self.builder, lanes_of(value))
        if found.low:
            value = self.builder.lshr(value, code.constant(bits_of(value), found.low))
        return code.resized(value, node.bits)

    def _piece(self, value: Expr, low: int, bits: int) -> Expr:
        if low == 0 and bits == value.bits:
            return value
        key = (id(value), low, bits)
        if key not in self._pieces:
            self._pieces[key] = self._new_piece(value, low, bits)
            self._values.setdefault(-len(self._pieces), (value, None))  # keeps the key's node alive
        return self._pieces[key]

    def _new_piece(self, value: Expr, low: int, bits: int) -> Expr:
        match value:
            case Const():
                return Const(bits, value.value >> low & (1 << bits) - 1)
            case Source():
                return Source(bits, value.index, value.low + low)
            case OtherLane():
                return OtherLane(bits, value.index, value.low + low, value.lane)
            case Slice():
                return self._piece(value.value, value.low + low, bits)
            case Concat():
                return self._piece_of_parts(value, low, bits)
            case Select() if value.bits > 64:
                then, other = self._piece(value.then, low, bits), self._piece(value.other, low, bits)
                return Select(bits, value.condition, then, other)
            case Op(name="and" | "or" | "xor" | "not") if value.bits > 64:
                return Op(bits, value.name, tuple(self._piece(part, low, bits) for part in value.args))
            case Op(name="zext") if value.bits > 64:
                inner = value.args[0]
                if low >= inner.bits:
                    return Const(bits, 0)
                inside = min(bits, inner.bits - low)
                found = self._piece(inner, low, inside)
                return found if inside == bits else Concat(bits, (found, Const(bits - inside, 0)))
            case _:
                return Slice(bits, value, low)

    def _piece_of_parts(self, value: Concat, low: int, bits: int) -> Expr:
        found, start = [], 0
        for part in value.parts:
            first, last = max(low, start), min(low + bits, start + part.bits)
            if first < last:
                found.append(self._piece(part, first - start, last - first))
            start += part.bits
        return found[0] if len(found) == 1 else Concat(bits, tuple(found))

    # --- matrices

    def _matrix_product(self, node: MatrixProduct) -> Any:
        """A pointer to the result in memory, 32-bit words [word][lane]; only its pieces are values."""
        if self.lanes is None or not hasattr(self._accessors, "registers"):
            raise TypeError("a matrix product needs a whole wave and accessors with `registers`")
        registers = cast(MatrixAccessors, self._accessors).registers
        word = ir.IntType(32)
        nothing = ir.Constant(word.as_pointer(), None)
        tiles = (node.a, node.b, node.c, node.sparse)
        operands = [registers(tile.index) if tile and tile.places else nothing for tile in tiles]
        with self.builder.goto_entry_block():
            results = self.builder.alloca(word, -(-node.bits // 32) * self.lanes)
        function = product_function(self.builder.module, node, self.lanes, self.mode)
        self.builder.call(function, [*operands, results])
        return results

    def _product_piece(self, results: Any, low: int, bits: int) -> Any:
        """Bits of each lane's elements; they must not straddle more than two words."""
        lanes = self.lanes
        assert lanes is not None
        code, kind = LaneCode(self.builder, lanes), ir.VectorType(ir.IntType(32), lanes).as_pointer()
        value = None
        for number, word in enumerate(range(low // 32, -(-(low + bits) // 32))):
            where = self.builder.gep(results, [ir.Constant(ir.IntType(64), word * lanes)])
            part = self.builder.load(self.builder.bitcast(where, kind), align=4)
            wide = code.resized(part, 64)
            placed = self.builder.shl(wide, code.constant(64, 32 * number)) if number else wide
            value = placed if value is None else self.builder.or_(value, placed)
        shifted = self.builder.lshr(value, code.constant(64, low % 32)) if low % 32 else value
        return code.resized(shifted, bits)

    # --- operations

    def _operation(self, node: Op) -> Any:
        values = tuple(self._value(argument) for argument in node.args)
        numbers = tuple(_number(value) for value in values)
        if all(number is not None for number in numbers):
            return ir.Constant(ir.IntType(node.bits), apply(node, numbers, self.mode))  # type: ignore[arg-type]
        values = self._alike(*values)
        if node.format:
            return float_lowering.call(self.builder, node.name, node.format, node.bits, values, self.mode, self._inline)
        return _INTEGER[node.name](LaneCode(self.builder, lanes_of(values[0])), node, *values)


def _number(value: Any) -> int | None:
    """The number of a constant that is the same in all lanes and single; None for anything else."""
    if isinstance(value, ir.Constant) and not isinstance(value, Splat) and isinstance(value.constant, int):
        return value.constant & (1 << bits_of(value)) - 1
    return None


# --- shapes and masks, for the emulator -------------------------------------------------------------------


def mask_to_bits(builder: Any, mask: Any) -> Any:
    """<N x i1> as an integer of N bits, lane 0 lowest."""
    return builder.bitcast(mask, ir.IntType(mask.type.count))


def bits_to_mask(builder: Any, bits: Any) -> Any:
    """An integer of N bits as <N x i1>."""
    return builder.bitcast(bits, ir.VectorType(ir.IntType(1), bits.type.width))


# --- integers ---------------------------------------------------------------------------------------------


def _plain(method: str) -> Callable[..., Any]:
    return lambda code, node, *values: getattr(code.builder, method)(*values)


def _signed_compare(operator: str) -> Callable[..., Any]:
    return lambda code, node, a, b: code.builder.icmp_signed(operator, a, b)


def _unsigned_compare(operator: str) -> Callable[..., Any]:
    return lambda code, node, a, b: code.builder.icmp_unsigned(operator, a, b)


def _extreme(name: str) -> Callable[..., Any]:
    return lambda code, node, a, b: code.intrinsic(name, a.type, a, b)


def _shift(method: str) -> Callable[..., Any]:
    """A shift whose amount may be of any width and value."""

    def write(code: LaneCode, node: Op, a: Any, amount: Any) -> Any:
        b = code.builder
        inside = b.icmp_unsigned("<", amount, code.constant(bits_of(amount), node.bits))
        if node.bits >= 1 << bits_of(amount):
            inside = None  # no amount reaches the width
        amount = code.resized(amount, node.bits)
        if method == "ashr":
            if inside is not None:
                amount = b.select(inside, amount, code.constant(node.bits, node.bits - 1))
            return b.ashr(a, amount)
        shifted = getattr(b, method)(a, amount)
        return shifted if inside is None else b.select(inside, shifted, code.constant(node.bits, 0))

    return write


def _high_product(*, signed: bool) -> Callable[..., Any]:
    def write(code: LaneCode, node: Op, a: Any, b: Any) -> Any:
        wide = 2 * node.bits
        x, y = code.resized(a, wide, signed=signed), code.resized(b, wide, signed=signed)
        product = code.builder.mul(x, y)
        return code.resized(code.builder.lshr(product, code.constant(wide, node.bits)), node.bits)

    return write


def _division(method: str, *, rest: bool) -> Callable[..., Any]:
    """Division with the divisors that LLVM leaves undefined taken out."""

    def write(code: LaneCode, node: Op, a: Any, b: Any) -> Any:
        builder, bits = code.builder, node.bits
        by_zero = builder.icmp_unsigned("==", b, code.constant(bits, 0))
        unsafe = by_zero
        if method in ("sdiv", "srem"):
            least = builder.icmp_unsigned("==", a, code.constant(bits, 1 << bits - 1))
            minus_one = builder.icmp_unsigned("==", b, code.constant(bits, -1))
            unsafe = builder.or_(by_zero, builder.and_(least, minus_one))
        # By 1 instead: right for the least number by -1 (itself, rest 0).
        result = getattr(builder, method)(a, builder.select(unsafe, code.constant(bits, 1), b))
        return builder.select(by_zero, a if rest else code.constant(bits, -1), result)

    return write


def _counted(name: str) -> Callable[..., Any]:
    def write(code: LaneCode, node: Op, a: Any) -> Any:
        defined = () if name == "ctpop" else (ir.Constant(ir.IntType(1), 0),)
        return code.resized(code.intrinsic(name, a.type, a, *defined), node.bits)

    return write


def _absolute(code: LaneCode, node: Op, a: Any) -> Any:
    return code.intrinsic("abs", a.type, a, ir.Constant(ir.IntType(1), 0))


_INTEGER: dict[str, Callable[..., Any]] = {
    "add": _plain("add"),
    "sub": _plain("sub"),
    "mul": _plain("mul"),
    "umulh": _high_product(signed=False),
    "smulh": _high_product(signed=True),
    "udiv": _division("udiv", rest=False),
    "urem": _division("urem", rest=True),
    "sdiv": _division("sdiv", rest=False),
    "srem": _division("srem", rest=True),
    "and": _plain("and_"),
    "or": _plain("or_"),
    "xor": _plain("xor"),
    "not": lambda code, node, a: code.builder.xor(a, code.constant(node.bits, -1)),
    "neg": lambda code, node, a: code.builder.sub(code.constant(node.bits, 0), a),
    "shl": _shift("shl"),
    "lshr": _shift("lshr"),
    "ashr": _shift("ashr"),
    "eq": _unsigned_compare("=="),
    "ne": _unsigned_compare("!="),
    "ult": _unsigned_compare("<"),
    "ule": _unsigned_compare("<="),
    "slt": _signed_compare("<"),
    "sle": _signed_compare("<="),
    "umin": _extreme("umin"),
    "umax": _extreme("umax"),
    "smin": _extreme("smin"),
    "smax": _extreme("smax"),
    "zext": lambda code, node, a: code.resized(a, node.bits),
    "sext": lambda code, node, a: code.resized(a, node.bits, signed=True),
    "popcount": _counted("ctpop"),
    "ctlz": _counted("ctlz"),
    "cttz": _counted("cttz"),
    "bitreverse": lambda code, node, a: code.intrinsic("bitreverse", a.type, a),
    "abs": _absolute,
}
