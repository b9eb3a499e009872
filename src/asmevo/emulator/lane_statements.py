"""Expressions as statements over numpy arrays, one element a lane.

Every different node becomes one statement: nodes that do the same to the same operands share theirs. Constants, and
whatever follows from the lane's number alone, are computed beforehand. Wide values never exist as a whole, see
`narrowing`. Where registers or memory are meant, the text reads them through `w` (the wave), `V`, `S`, `pc` and
`load0`, `load1` and so on, the bytes that an access gave: [lane][byte].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asmevo.emulator.lane_arithmetic import U64, operation
from asmevo.emulator.matrix_product import matrix_function
from asmevo.emulator.narrowing import piece
from asmevo.emulator.wave import EXEC, FLAT_SCRATCH, M0, MODE, SCC, VCC, VECTOR_UNITS
from asmevo.program.instruction import Decoded
from asmevo.program.registers import RegisterFile, RegisterSpan
from asmevo.semantics.constants import constant_value
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
    Scope,
    Select,
    Slice,
    Source,
)
from asmevo.semantics.float_mode import FloatMode

Lanes = NDArray[Any]

HALF_REGISTERS = {"exec": EXEC, "vcc": VCC, "flat_scratch": FLAT_SCRATCH}
WORD_REGISTERS = {"scc": SCC, "m0": M0, "mode": MODE}


def _is_vector(span: RegisterSpan) -> bool:
    return span.file in (RegisterFile.VGPR, RegisterFile.AGPR)


class LaneStatements:
    """Turns expressions into statements; `single` for a function that sees lane `at` only."""

    def __init__(self, decoded: Decoded, mode: FloatMode, lanes: int, scope: Scope, single: bool) -> None:
        self.decoded = decoded
        self.mode = mode
        self.lanes = lanes
        self.single = single
        self.lines: list[str] = []
        self.names: dict[Any, str] = {}
        self.space: dict[str, Any] = {"np": np, "U64": U64}
        self.constants: dict[str, Lanes] = {}
        self.per_lane = scope is Scope.LANE

    def constant(self, value: Lanes) -> str:
        key = ("constant", value.dtype.str, value.shape, tuple(value.tolist()))
        name = self.names.get(key)
        if name is None:
            name = self.names[key] = f"c{len(self.names)}"
            self.constants[name] = self.space[name] = value
        return name

    def number(self, value: int, bits: int) -> str:
        return self.constant(np.array([value], U64 if bits <= 64 else object))

    def statement(self, key: Any, text: str) -> str:
        name = self.names.get(key)
        if name is None:
            name = self.names[key] = f"t{len(self.names)}"
            self.lines.append(f"{name} = {text}")
        return name

    def value(self, node: Expr) -> str:
        """The name of a node's value. Deep expressions are walked with a stack of their own."""
        waiting: list[tuple[Expr, bool]] = [(node, False)]
        while waiting:
            top, ready = waiting.pop()
            if ("node", id(top)) in self.names:
                continue
            if ready:
                self.names["node", id(top)] = self._emit(top)
                self.space[f"keep{id(top)}"] = top  # keeps the identity from being given again
                continue
            waiting.append((top, True))
            waiting.extend((child, False) for child in self._needed(top))
        return self.names["node", id(node)]

    def _needed(self, node: Expr) -> tuple[Expr, ...]:
        match node:
            case Slice():
                return (self._inner(node),)
            case Concat():
                return node.parts
            case Op():
                return node.args
            case Select():
                return (node.condition, node.then, node.other)
            case OtherLane():
                return (node.lane,)
            case _:
                return ()

    def _inner(self, node: Slice) -> Expr:
        """What a slice is computed from: a narrower piece, or the value itself."""
        cached = self.space.get(f"inner{id(node)}")
        if cached is None:
            cached = piece(node.value, node.low, node.bits)
            if isinstance(cached, Slice):
                cached = cached.value
            self.space[f"inner{id(node)}"] = cached
        found: Expr = cached
        return found

    def _emit(self, node: Expr) -> str:
        match node:
            case Const():
                return self.number(node.value, node.bits)
            case Source():
                return self._source(node)
            case OtherLane():
                return self._other_lane(node)
            case Implicit():
                return self._implicit(node)
            case MaskBit():
                return self._mask_bit(node)
            case Op():
                return self._operation(node)
            case Select():
                names = tuple(self.value(each) for each in (node.condition, node.then, node.other))
                return self._apply(("select", *names), np.where, names)
            case Slice():
                return self._slice(node)
            case Concat():
                return self._concat(node)
            case Loaded():
                return self._loaded(node.access, 0, node.bits)
            case MatrixProduct():
                return self._matrix(node)
        raise NotImplementedError(f"{type(node).__name__} in {self.decoded.text}")

    def _apply(self, key: Any, function: Callable[..., Lanes], names: tuple[str, ...]) -> str:
        """A statement, or a constant where all arguments are constants."""
        if all(name in self.constants for name in names):
            with np.errstate(all="ignore"):
                return self.constant(np.asarray(function(*(self.constants[name] for name in names))))
        call = f"f{len(self.space)}"
        if key not in self.names:
            self.space[call] = function
        return self.statement(key, f"{call}({', '.join(names)})")

    def _operation(self, node: Op) -> str:
        names = tuple(self.value(argument) for argument in node.args)
        widths = tuple(argument.bits for argument in node.args)
        key = ("op", node.name, node.format, node.bits, widths, names)
        if key in self.names:
            return self.names[key]
        return self._apply(key, operation(node, self.mode), names)

    # --- leaves

    def _source(self, node: Source) -> str:
        operand = self.decoded.operands[node.index]
        span = operand.registers
        if span is None:
            value = constant_value(self.decoded, operand.text, max(32, node.low + node.bits))
            return self.number(value >> node.low & ((1 << node.bits) - 1), node.bits)
        if _is_vector(span):
            pick = "V[{}, one]" if self.single else "V[{}]"
            return self._words(("v", span.base_unit), span, node.low, node.bits, pick, 0)
        return self._words(("s", span.base_unit), span, node.low, node.bits, "S[{0}:{0}+1]", VECTOR_UNITS)

    def _other_lane(self, node: OtherLane) -> str:
        span = self.decoded.operands[node.index].registers
        if span is None or not _is_vector(span):
            return self.value(Source(node.bits, node.index, node.low))
        lane = self.value(node.lane)
        number = self._apply(("lane", lane), lambda value: (value % U64(self.lanes)).astype(np.int64), (lane,))
        return self._words(("o", span.base_unit, number), span, node.low, node.bits, f"V[{{}}][{number}]", 0)

    def _words(self, key: Any, span: RegisterSpan, low: int, bits: int, pick: str, base: int) -> str:
        """Bits of registers; those beyond the operand are 0."""
        parts = []
        for word in range(low // 32, (low + bits - 1) // 32 + 1):
            if word < span.count:
                text = pick.format(span.base_unit - base + word) + ".astype(U64)"
                name = self.statement((*key, word), text)
                parts.append((name, word * 32 - low))
        if bits > 64:
            return self.statement((*key, low, bits), _joined_objects(parts, bits))
        text = " | ".join(_shifted(name, shift) for name, shift in parts) or "np.zeros(1, U64)"
        whole = len(parts) * 32 == bits and low % 32 == 0
        return self.statement((*key, low, bits), text if whole else f"({text}) & U64({(1 << bits) - 1})")

    def _implicit(self, node: Implicit) -> str:
        name = node.name
        if name in WORD_REGISTERS:
            place = WORD_REGISTERS[name]
            return self.statement((name,), f"S[{place}:{place + 1}].astype(U64)")
        if name in HALF_REGISTERS:
            return self._pair(name)
        if name in ("exec_bit", "vcc_bit"):
            return self._bit(self._pair(name.removesuffix("_bit")))
        if name == "lane":
            return self._lane()
        if name == "wave_size":
            return self.number(self.lanes, 32)
        run_time = {
            "pc": "np.array([pc], U64)",
            "clock": "np.array([w.steps], U64)",
            "lds_size": "np.array([w.reach.lds.size], U64)",
            "shared_base": "np.array([w.reach.apertures.shared << 32], U64)",
            "private_base": "np.array([w.reach.apertures.private << 32], U64)",
        }
        if name not in run_time:
            raise NotImplementedError(f"the register {name} in {self.decoded.text}")
        return self.statement((name,), run_time[name])

    def _lane(self) -> str:
        if not self.per_lane:
            return self.number(0, 32)
        if self.single:
            return self.statement(("lane",), "np.array([at], U64)")
        return self.constant(np.arange(self.lanes, dtype=U64))

    def _pair(self, name: str) -> str:
        place = HALF_REGISTERS[name]
        high = f" | S[{place + 1}:{place + 2}].astype(U64) << U64(32)" if self.lanes == 64 or "flat" in name else ""
        return self.statement((name,), f"S[{place}:{place + 1}].astype(U64){high}")

    def _bit(self, mask: str) -> str:
        return self.statement(("bit", mask), f"({mask} >> {self._lane()}) & U64(1)")

    def _mask_bit(self, node: MaskBit) -> str:
        operand = self.decoded.operands[node.index]
        if operand.registers is None:
            value = constant_value(self.decoded, operand.text, 64)
            return self._bit(self.number(value, 64))
        return self._bit(self.value(Source(min(self.lanes, operand.registers.bits), node.index)))

    # --- structure

    def _slice(self, node: Slice) -> str:
        inner = self._inner(node)
        if isinstance(inner, Loaded):
            narrowed = piece(node.value, node.low, node.bits)
            low = narrowed.low if isinstance(narrowed, Slice) else 0
            return self._loaded(inner.access, low, node.bits)
        narrowed = piece(node.value, node.low, node.bits)
        name = self.value(inner)
        if not isinstance(narrowed, Slice):
            return name
        if isinstance(inner, MatrixProduct):
            self.space["from_words"] = from_words
            return self.statement(
                ("elements", name, narrowed.low, node.bits), f"from_words({name}, {narrowed.low}, {node.bits})"
            )
        low, mask = narrowed.low, (1 << node.bits) - 1
        if inner.bits > 64:
            cut = f"(({name} >> {low}) & {mask})" + (".astype(U64)" if node.bits <= 64 else "")
            return self.statement(("cut", name, low, node.bits), cut)

        def narrow(value: Lanes) -> Lanes:
            found: Lanes = (value >> U64(low)) & U64(mask)
            return found

        return self._apply(("slice", name, low, node.bits), narrow, (name,))

    def _concat(self, node: Concat) -> str:
        names = tuple(self.value(part) for part in node.parts)
        places, place = [], 0
        for part in node.parts:
            places.append(place)
            place += part.bits
        key = ("concat", node.bits, names, tuple(places))
        if node.bits > 64:
            return self.statement(key, _joined_objects(list(zip(names, places, strict=True)), node.bits))

        def join(*values: Lanes) -> Lanes:
            total = values[0]
            for value, shift in zip(values[1:], places[1:], strict=True):
                total = total | (value << U64(shift))
            return total

        return self._apply(key, join, names)

    def _matrix(self, node: MatrixProduct) -> str:
        name = f"matrix{id(node)}"
        self.space[name] = matrix_function(node, self.decoded, self.mode)
        return self.statement((name,), f"{name}(w)")

    def _loaded(self, access: int, low: int, bits: int) -> str:
        first, last = low // 8, (low + bits + 7) // 8
        self.space["from_bytes"] = from_bytes
        shift = low % 8
        text = f"from_bytes(load{access}, {first}, {last}, {shift}, {bits})"
        return self.statement(("loaded", access, low, bits), text)

    def bytes_of(self, value: Expr, size: int) -> str:
        """The name of an array [lane][size] with the value's bytes."""
        names = [
            self.value(piece(value, low, min(64, value.bits - low))) for low in range(0, min(value.bits, size * 8), 64)
        ]
        self.space["to_bytes"] = to_bytes
        return self.statement(("bytes", size, *names), f"to_bytes({size}, {', '.join(names)})")


def _shifted(name: str, shift: int) -> str:
    if shift == 0:
        return name
    return f"({name} << U64({shift}))" if shift > 0 else f"({name} >> U64({-shift}))"


def _joined_objects(parts: list[tuple[str, int]], bits: int) -> str:
    terms = [f"({name}.astype(object) {'<<' if shift >= 0 else '>>'} {abs(shift)})" for name, shift in parts] or [
        "np.array([0], object)"
    ]
    return f"({' | '.join(terms)}) & {(1 << bits) - 1}"


def from_bytes(content: Lanes, first: int, last: int, shift: int, bits: int) -> Lanes:
    """Bytes [lane][size] to numbers: `bits` bits from bit `shift` of byte `first` on."""
    size = last - first
    if size > 8 or bits > 64:
        whole = [int.from_bytes(row[first:last].tobytes(), "little") >> shift & ((1 << bits) - 1) for row in content]
        wide = np.empty(len(whole), U64 if bits <= 64 else object)
        wide[:] = whole
        return wide
    padded = np.zeros((content.shape[0], 8), np.uint8)
    available = content[:, first:last]
    padded[:, : available.shape[1]] = available
    found: Lanes = (padded.view("<u8")[:, 0] >> U64(shift)) & U64((1 << bits) - 1)
    return found


def from_words(words: Lanes, low: int, bits: int) -> Lanes:
    """Bits low .. low+bits-1 (at most 32, in one word) of words [lane][word]."""
    found: Lanes = (words[:, low // 32].astype(U64) >> U64(low % 32)) & U64((1 << bits) - 1)
    return found


def to_bytes(size: int, *words: Lanes) -> Lanes:
    """64-bit parts, lowest first, as bytes [lane][size]."""
    lanes = np.broadcast_arrays(*words)
    joined = np.stack([np.asarray(each, "<u8") for each in lanes], axis=1)
    found: Lanes = np.ascontiguousarray(joined).view(np.uint8)[:, :size]
    return found
