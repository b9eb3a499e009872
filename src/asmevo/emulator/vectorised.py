"""The reference engine: meanings as Python functions over numpy arrays, one element a lane.

Each instruction's meaning is turned into the text of a function once: a statement for every different node
(nodes that do the same to the same operands are one statement), constants and whatever follows from the lane's
number alone computed beforehand. All values are computed from the state before the instruction; then memory is
accessed, then registers are written. Wide values never exist as a whole, see `narrowing`.

Atomics run lane after lane; their update is a function of its own that sees one lane.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asmevo.emulator.lane_arithmetic import U64, operation
from asmevo.emulator.matrix_product import matrix_function
from asmevo.emulator.narrowing import piece
from asmevo.emulator.wave import EXEC, FLAT_SCRATCH, M0, MODE, SCC, VCC, VECTOR_UNITS, Wave
from asmevo.program.instruction import Decoded
from asmevo.program.registers import RegisterFile, RegisterSpan
from asmevo.semantics.constants import constant_value
from asmevo.semantics.expression import (
    Access,
    AccessKind,
    Concat,
    Const,
    Control,
    Expr,
    Implicit,
    Loaded,
    MaskBit,
    MatrixProduct,
    Meaning,
    Op,
    OtherLane,
    Result,
    Scope,
    Select,
    Slice,
    Source,
    Space,
)
from asmevo.semantics.float_mode import FloatMode

Lanes = NDArray[Any]
Execute = Callable[[Wave, int], int]
"""(wave, address behind the instruction) -> 1 where a branch is taken, or the address to jump to."""

_WORD = 0xFFFFFFFF
_HALF_REGISTERS = {"exec": EXEC, "vcc": VCC, "flat_scratch": FLAT_SCRATCH}
_WORD_REGISTERS = {"scc": SCC, "m0": M0, "mode": MODE}


def compile_meaning(decoded: Decoded, meaning: Meaning, mode: FloatMode, lanes: int) -> Execute:
    """The function that does what an instruction means. Raises NotImplementedError for a leaf nobody knows."""
    return InstructionWriter(decoded, meaning, mode, lanes).build()


def _is_vector(span: RegisterSpan) -> bool:
    return span.file in (RegisterFile.VGPR, RegisterFile.AGPR)


class _Emitter:
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
        if name in _WORD_REGISTERS:
            place = _WORD_REGISTERS[name]
            return self.statement((name,), f"S[{place}:{place + 1}].astype(U64)")
        if name in _HALF_REGISTERS:
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
        place = _HALF_REGISTERS[name]
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


class InstructionWriter(_Emitter):
    """The function of one instruction. `state` names what holds the registers that an atomic's update reads."""

    state = "w"

    def __init__(self, decoded: Decoded, meaning: Meaning, mode: FloatMode, lanes: int) -> None:
        super().__init__(decoded, mode, lanes, meaning.scope, single=False)
        self.meaning = meaning
        self.space |= {"all_lanes": np.ones(lanes, bool), "wave_lane": np.ones(1, bool), "Space": Space}

    def build(self) -> Execute:
        """Everything at once."""
        self.begin()
        self.complete()
        found: Execute = self.function()
        return found

    def begin(self) -> None:
        """What comes before everything else."""
        self.lines += ["V = w.vectors", "S = w.scalars"]
        if self.meaning.scope is Scope.WAVE:
            self.lines.append("act = wave_lane")
        else:
            self.lines.append("act = all_lanes" if self.meaning.ignores_exec else "act = w.active()")

    def complete(self) -> None:
        """Memory, registers, and what the function gives."""
        for number, access in enumerate(self.meaning.memory):
            self._access(number, access)
        values = [self._staged(result) for result in self.meaning.results]
        outcome = self._outcome()
        for result, names in zip(self.meaning.results, values, strict=True):
            self._write(result, names)
        self.lines.append(f"return {outcome}")

    def function(self) -> Any:
        """The function that the lines make."""
        body = "\n    ".join(self.lines)
        exec(f"def execute(w, pc):\n    {body}", self.space)
        return self.space["execute"]

    def _outcome(self) -> str:
        if self.meaning.control is Control.BRANCH:
            return "1" if self.meaning.condition is None else f"int({self.value(self.meaning.condition)}[0])"
        for result in self.meaning.results:
            if result.target == "pc":
                return f"int({self.value(result.value)}[0])"
        return "0"

    # --- memory

    def active_lanes(self, number: int, access: Access) -> str:
        """The name of the lanes that an access is made for."""
        if access.in_bounds is None:
            return "act"
        return self.statement(("bounds", number), f"act & ({self.value(access.in_bounds)} != 0)")

    def _access(self, number: int, access: Access) -> None:
        address = self.value(access.address)
        active = self.active_lanes(number, access)
        where = f"Space.{access.space.name}, {address}"
        match access.kind:
            case AccessKind.LOAD:
                self.lines.append(f"load{number} = w.reach.load({where}, {access.size}, {active})")
            case AccessKind.STORE:
                assert access.value is not None
                content = self.bytes_of(access.value, access.size)
                self.lines.append(f"w.reach.store({where}, {content}, {active})")
            case AccessKind.LOAD_TO_LDS:
                assert access.lds_address is not None
                place = self.value(access.lds_address)
                self.lines.append(f"load{number} = w.reach.load({where}, {access.size}, {active})")
                content = f"load{number}"
                if access.value is not None:
                    content = self.bytes_of(access.value, access.value.bits // 8)
                self.lines.append(f"w.reach.store(Space.LDS, {place}, {content}, act)")
            case AccessKind.ATOMIC:
                assert access.atomic is not None
                self.space[f"update{number}"] = self._update(number, access.atomic, access.size)
                update = f"lambda at, old: update{number}({self.state}, pc, at, old)"
                self.lines.append(f"load{number} = w.reach.atomic({where}, {access.size}, {active}, {update})")

    def _update(self, number: int, atomic: Expr, size: int) -> Callable[..., Lanes]:
        inner = _Emitter(self.decoded, self.mode, self.lanes, self.meaning.scope, single=True)
        content = inner.bytes_of(atomic, size)
        setup = ["V = w.vectors", "S = w.scalars", "one = slice(at, at + 1)"]
        body = "\n    ".join([*setup, *inner.lines, f"return {content}"])
        exec(f"def update(w, pc, at, load{number}):\n    {body}", inner.space)
        found: Callable[..., Lanes] = inner.space["update"]
        return found

    # --- results

    def _staged(self, result: Result) -> list[str]:
        if result.target != "operand":
            return [self.value(result.value)] if result.target != "pc" else []
        names = [self.value(part) for _, _, part in _unit_parts(result)]
        if result.lane is not None:
            names.append(self.value(result.lane))
        return names

    def _write(self, result: Result, names: list[str]) -> None:
        match result.target:
            case "operand":
                self._write_operand(result, names)
            case "mask":
                span = self.decoded.operands[result.index].registers
                if span is not None:
                    self._write_mask(span.base_unit - VECTOR_UNITS, names[0])
            case "vcc_bit" | "exec_bit":
                self._write_mask(_HALF_REGISTERS[result.target.removesuffix("_bit")], names[0])
            case "vcc" | "exec" | "flat_scratch":
                place = _HALF_REGISTERS[result.target]
                self.lines.append(f"S[{place}] = int({names[0]}[0]) & {_WORD}")
                if result.value.bits > 32:
                    self.lines.append(f"S[{place + 1}] = int({names[0]}[0]) >> 32")
            case "scc" | "m0" | "mode":
                self.lines.append(f"S[{_WORD_REGISTERS[result.target]}] = int({names[0]}[0])")
            case "pc":
                pass
            case _:
                raise NotImplementedError(f"a result in {result.target}, {self.decoded.text}")

    def _write_mask(self, place: int, name: str) -> None:
        """One bit a lane; lanes that are switched off get 0."""
        self.space["pack_bits"] = pack_bits
        word = self.statement(("packed", place, name, len(self.lines)), f"pack_bits({name}, act)")
        self.lines.append(f"S[{place}] = {word} & {_WORD}")
        if self.lanes == 64:
            self.lines.append(f"S[{place + 1}] = {word} >> 32")

    def _write_operand(self, result: Result, names: list[str]) -> None:
        span = self.decoded.operands[result.index].registers
        if span is None:
            return
        for (word, low, part), name in zip(_unit_parts(result), names, strict=False):
            if word < span.count:
                self._write_unit(span.base_unit + word, low, part.bits, name, result, names)

    def _write_unit(self, unit: int, low: int, bits: int, name: str, result: Result, names: list[str]) -> None:
        target = f"V[{unit}]" if unit < VECTOR_UNITS else f"S[{unit - VECTOR_UNITS}]"
        if bits < 32:
            keep = _WORD ^ ((1 << bits) - 1 << low)
            old = f"{target}.astype(U64)"
            name = f"(({name} << U64({low})) | ({old} & U64({keep})))"
        if unit >= VECTOR_UNITS:
            self.lines.append(f"{target} = {name}[0]")
        elif result.lane is not None:
            self.space["put_lanes"] = put_lanes
            self.lines.append(f"put_lanes({target}, {names[-1]}, {name}, act)")
        elif self.meaning.scope is Scope.WAVE:
            self.lines.append(f"{target}[:] = {name}")
        else:
            self.lines.append(f"np.copyto({target}, {name}, where=act, casting='unsafe')")


def _unit_parts(result: Result) -> list[tuple[int, int, Expr]]:
    """(register of the operand, lowest bit in it, part of the value) of everything a result writes."""
    parts = []
    low, end = result.low, result.low + result.value.bits
    while low < end:
        bits = min(32 - low % 32, end - low)
        parts.append((low // 32, low % 32, piece(result.value, low - result.low, bits)))
        low += bits
    return parts


def pack_bits(value: Lanes, active: Lanes) -> int:
    """One bit a lane as an integer, 0 for lanes that are not active."""
    bits = np.broadcast_to(value != 0, active.shape) & active
    return int.from_bytes(np.packbits(bits, bitorder="little").tobytes(), "little")


def put_lanes(target: Lanes, lane: Lanes, value: Lanes, active: Lanes) -> None:
    """Writes each active lane's value to the lane it names; the highest wins."""
    places = np.broadcast_to(lane, active.shape)[active].astype(np.int64) % target.size
    target[places] = np.broadcast_to(value, active.shape)[active].astype(np.uint32)
