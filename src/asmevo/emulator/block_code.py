"""A straight run of instructions as one native function.

Idea. Scalar instructions become single numbers that stay in SSA form until the block's end. Vector instructions
that see only their own lane are collected, and written as one loop over the wave in chunks of the host's vector
width, so that registers stay in host registers between them (see `semantics.lowering`). Each collected instruction
remembers the scalar values of its own time, so scalar instructions may pass it. The loop is written out ("flush")
when something needs its results: a scalar instruction that reads a lane mask, an instruction that looks into other
lanes, memory whose order matters, a change of EXEC, the end of the block.

Order of memory. Within a loop one chunk runs all instructions before the next chunk does. Loads may be reordered
among themselves; a store or an atomic is the last of its loop, so that no access passes it.

An instruction that looks into other lanes has a loop of its own, which writes to a buffer, and a second loop, which
copies, so that no lane sees a new value. Atomics are a loop over single lanes.

The function gets the context (`native_state`) and gives 0 (go on behind the block), 1 (its branch is taken) or 2
(a report said to stop). What is not known here raises NotNativeError, and the reference engine runs the block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from llvmlite import ir

from asmevo.emulator.code import Step
from asmevo.emulator.native_helpers import AccessCalls, AccessHelper, Helper, ProductHelper, call_product
from asmevo.emulator.native_memory import MemoryCode
from asmevo.emulator.native_state import I1, I32, I64, I64_POINTER, Slot
from asmevo.emulator.wave import EXEC, FLAT_SCRATCH, M0, MODE, SCC, VCC, VECTOR_UNITS
from asmevo.program.registers import RegisterFile, RegisterSpan
from asmevo.semantics.constants import constant_value
from asmevo.semantics.expression import (
    Access,
    AccessKind,
    Control,
    Exactness,
    Expr,
    Implicit,
    Loaded,
    MatrixProduct,
    Meaning,
    OtherLane,
    Result,
    Scope,
    Source,
    Space,
    Tile,
    children,
)
from asmevo.semantics.float_mode import FloatMode
from asmevo.semantics.lane_code import LaneCode, broadcast, lanes_of
from asmevo.semantics.lowering import Lowering, bits_to_mask, mask_to_bits

GO_ON, TAKEN, STOPPED = 0, 1, 2

_PAIRS = {"exec": EXEC, "vcc": VCC, "flat_scratch": FLAT_SCRATCH}
_WORDS = {"scc": SCC, "m0": M0, "mode": MODE}
_CONTROLS = (Control.NONE, Control.WAIT, Control.HINT, Control.MESSAGE, Control.BRANCH)
_KINDS = (AccessKind.LOAD, AccessKind.STORE, AccessKind.ATOMIC)
_SPACES = (Space.GLOBAL, Space.LDS, Space.SCRATCH, Space.FLAT, Space.SCALAR)


class NotNativeError(Exception):
    """An instruction that only the reference engine runs."""


def roots(meaning: Meaning) -> Iterator[Expr]:
    """Every expression of a meaning."""
    for result in meaning.results:
        yield result.value
        if result.lane is not None:
            yield result.lane
    for access in meaning.memory:
        for each in (access.address, access.in_bounds, access.value, access.atomic, access.lds_address):
            if each is not None:
                yield each
    if meaning.condition is not None:
        yield meaning.condition


def nodes(meaning: Meaning) -> Iterator[Expr]:
    """Every node of a meaning, once."""
    waiting, seen = list(roots(meaning)), set()
    while waiting:
        node = waiting.pop()
        if id(node) not in seen:
            seen.add(id(node))
            yield node
            waiting.extend(children(node))


def is_vector(span: RegisterSpan | None) -> bool:
    """Whether a register span has one value a lane."""
    return span is not None and span.file in (RegisterFile.VGPR, RegisterFile.AGPR)


@dataclass(frozen=True, slots=True)
class Traits:
    """What a block must know of an instruction. `others`: it looks into other lanes."""

    native: bool
    others: bool = False
    stores: bool = False
    accesses: bool = False
    atomic: bool = False
    product: bool = False
    whole_masks: bool = False


def traits_of(step: Step) -> Traits:
    """How an instruction can be compiled, if at all."""
    meaning = step.meaning
    if meaning.exactness is Exactness.UNSUPPORTED or meaning.control not in _CONTROLS:
        return Traits(native=False)
    if any(result.target in ("mode", "pc") for result in meaning.results):
        return Traits(native=False)
    if any(access.kind not in _KINDS or access.space not in _SPACES for access in meaning.memory):
        return Traits(native=False)
    if product_of(meaning) is not None:
        return Traits(native=True, product=True)
    lane = meaning.scope is Scope.LANE
    if lane and any(
        result.lane is not None or result.target in ("scc", "m0", "vcc", "exec") for result in meaning.results
    ):
        return Traits(native=False)
    if not lane and any(access.kind is not AccessKind.LOAD for access in meaning.memory):
        return Traits(native=False)
    others = whole = False
    for node in nodes(meaning):
        if isinstance(node, MatrixProduct) or (isinstance(node, Implicit) and node.name == "clock"):
            return Traits(native=False)
        others |= isinstance(node, OtherLane)
        if isinstance(node, Source):
            span = step.instruction.decoded.operands[node.index].registers
            whole |= span is not None and not is_vector(span)
            if not lane and is_vector(span):
                return Traits(native=False)
        whole |= isinstance(node, Implicit) and node.name in ("exec", "vcc", "scc", "m0")
    kinds = {access.kind for access in meaning.memory}
    atomic = AccessKind.ATOMIC in kinds
    if (lane and others and kinds) or (atomic and len(meaning.memory) > 1):
        return Traits(native=False)
    return Traits(
        native=True,
        others=lane and others,
        stores=bool(kinds - {AccessKind.LOAD}),
        accesses=bool(kinds),
        atomic=atomic,
        whole_masks=whole,
    )


def product_of(meaning: Meaning) -> MatrixProduct | None:
    """The matrix product that an instruction is, when it is nothing but one."""
    if len(meaning.results) != 1 or meaning.memory or not meaning.ignores_exec:
        return None
    (result,) = meaning.results
    plain = result.target == "operand" and result.low == 0 and result.lane is None and result.value.bits % 32 == 0
    return result.value if plain and isinstance(result.value, MatrixProduct) else None


def helpers_of(steps: Sequence[Step], mode: FloatMode, chunk: int, notice_unwritten: bool) -> list[Helper]:
    """The native functions that a block of these instructions calls."""
    found: list[Helper] = []
    for step in steps:
        product = product_of(step.meaning)
        if product is not None:
            found.append(ProductHelper(product, step.kernel.wave_size, mode))
        for access in step.meaning.memory:
            whole_wave = step.meaning.scope is Scope.WAVE
            lanes = None if whole_wave or access.kind is AccessKind.ATOMIC else min(chunk, step.kernel.wave_size)
            kinds: tuple[AccessKind, ...] = (access.kind,)
            if access.kind is AccessKind.ATOMIC:
                kinds = (AccessKind.LOAD, AccessKind.STORE)
            found += [AccessHelper(kind, access.space, access.size, lanes, notice_unwritten) for kind in kinds]
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _LoadedPiece(Expr):
    """Bits of what an access gave, so that nothing wider than needed is put together."""

    access: int
    low: int


class _Lowering(Lowering):
    """Lowering that takes loaded values apart by words."""

    def __init__(self, builder: Any, lanes: int | None, leaves: _Leaves, mode: FloatMode) -> None:
        super().__init__(builder, lanes, leaves, mode)
        self._leaves = leaves

    def _new_piece(self, value: Expr, low: int, bits: int) -> Expr:
        if isinstance(value, Loaded):
            return _LoadedPiece(bits, value.access, low)
        if isinstance(value, _LoadedPiece):
            return _LoadedPiece(bits, value.access, value.low + low)
        return super()._new_piece(value, low, bits)

    def _written(self, node: Expr) -> Any:
        if isinstance(node, _LoadedPiece):
            return self._leaves.loaded_piece(node.access, node.low, node.bits)
        return super()._written(node)


@dataclass
class _Leaves:
    """Values of leaves of one instruction in one place: `lanes` lanes from `lane` on, or the wave (None).

    `vector(unit)` and `scalar(unit)` give 32-bit words, `mask(unit)` the lanes' bits of a lane mask.
    """

    block: BlockWriter
    builder: Any
    step: Step
    lanes: int | None
    lane: Any
    vector: Callable[[int], Any]
    scalar: Callable[[int], Any]
    mask: Callable[[int], Any]
    words: dict[int, list[Any]] = field(default_factory=dict)

    def source(self, index: int, low: int, bits: int) -> Any:
        operand = self.step.instruction.decoded.operands[index]
        span = operand.registers
        if span is None:
            value = constant_value(self.step.instruction.decoded, operand.text, max(32, low + bits))
            return ir.Constant(ir.IntType(bits), value >> low & ((1 << bits) - 1))
        read = self.vector if is_vector(span) else self.scalar
        base = span.base_unit - (0 if is_vector(span) else VECTOR_UNITS)
        count = span.count

        def word(number: int) -> Any:
            return read(base + number) if number < count else None

        return self._joined(word, low, bits)

    def loaded(self, access: int, bits: int) -> Any:
        return self.loaded_piece(access, 0, bits)

    def loaded_piece(self, access: int, low: int, bits: int) -> Any:
        words = self.words[access]
        return self._joined(lambda number: words[number] if number < len(words) else None, low, bits)

    def _joined(self, word: Callable[[int], Any], low: int, bits: int) -> Any:
        """Bits of consecutive 32-bit words; missing ones are 0."""
        first, last = low // 32, (low + bits - 1) // 32
        total, code = None, LaneCode(self.builder, None)
        width = 32 * (last - first + 1)
        for number in range(first, last + 1):
            value = word(number)
            if value is None:
                continue
            code = LaneCode(self.builder, lanes_of(value))
            wide = code.resized(value, width)
            shift = 32 * (number - first)
            placed = self.builder.shl(wide, code.constant(width, shift)) if shift else wide
            total = placed if total is None else self.builder.or_(total, placed)
        if total is None:
            return ir.Constant(ir.IntType(bits), 0)
        if low % 32:
            total = self.builder.lshr(total, code.constant(width, low % 32))
        return code.resized(total, bits)

    def other_lane(self, index: int, low: int, bits: int, lane: Any) -> Any:
        span = self.step.instruction.decoded.operands[index].registers
        if span is None or not is_vector(span):
            return self.source(index, low, bits)
        code = LaneCode(self.builder, lanes_of(lane))
        place = self.builder.and_(code.resized(lane, 64), code.constant(64, self.block.lanes - 1))
        base, count = span.base_unit, span.count

        def word(number: int) -> Any:
            return self.block.gathered(self.builder, base + number, place) if number < count else None

        return self._joined(word, low, bits)

    def mask_bit(self, index: int) -> Any:
        operand = self.step.instruction.decoded.operands[index]
        if operand.registers is not None:
            return self.mask(operand.registers.base_unit - VECTOR_UNITS)
        value = ir.Constant(I64, constant_value(self.step.instruction.decoded, operand.text, 64))
        return self.block.lane_bits(self.builder, value, self.lane, self.lanes)

    def implicit(self, name: str, bits: int) -> Any:
        if name in ("exec_bit", "vcc_bit"):
            return self.mask(_PAIRS[name.removesuffix("_bit")])
        if name in _WORDS:
            return LaneCode(self.builder, None).resized(self.scalar(_WORDS[name]), bits)
        if name in _PAIRS:
            base = _PAIRS[name]
            return self._joined(lambda number: self.scalar(base + number), 0, bits)
        if name == "lane":
            return self._lane_number(bits)
        if name == "wave_size":
            return ir.Constant(ir.IntType(bits), self.block.lanes)
        return self._run_time(name, bits)

    def _lane_number(self, bits: int) -> Any:
        if self.lane is None:
            return ir.Constant(ir.IntType(bits), 0)
        return LaneCode(self.builder, lanes_of(self.lane)).resized(self.lane, bits)

    def _run_time(self, name: str, bits: int) -> Any:
        slots = self.block.slots
        match name:
            case "pc":
                behind = ir.Constant(I64, self.block.offset_behind(self.step))
                value = self.builder.add(slots[Slot.LOAD_BASE], behind)
            case "lds_size":
                value = slots[Slot.LDS_SIZE]
            case "shared_base":
                value = slots[Slot.SHARED_BASE]
            case "private_base":
                value = slots[Slot.PRIVATE_BASE]
            case _:
                raise NotNativeError(f"the register {name}")
        return LaneCode(self.builder, None).resized(value, bits)


@dataclass(frozen=True, slots=True)
class _Collected:
    """A vector instruction that waits for its loop, with the scalar values of its time."""

    place: int
    step: Step
    scalars: dict[int, Any]


class BlockWriter:
    """Writes one block. `load_base` only serves to make addresses relative."""

    def __init__(
        self, steps: Sequence[Step], mode: FloatMode, lanes: int, chunk: int, load_base: int, notice_unwritten: bool
    ) -> None:
        self.steps = steps
        self.mode = mode
        self.lanes = lanes
        self.chunk = min(chunk, lanes)
        self.load_base = load_base
        self.notice_unwritten = notice_unwritten
        self.initial: dict[int, Any] = {}
        self.scalars: dict[int, Any] = {}
        self.changed: set[int] = set()
        self.collected: list[_Collected] = []
        self.collected_reads = self.collected_writes = 0
        self.collected_loads = False

    def write(self, name: str) -> Any:
        """An IR module with the one function `name`. Raises NotNativeError."""
        module = ir.Module(name)
        function = ir.Function(module, ir.FunctionType(I64, [I64_POINTER]), name)
        self.entry = ir.IRBuilder(function.append_basic_block("entry"))
        self.context = function.args[0]
        self.slots = {
            slot: self.entry.load(self.entry.gep(self.context, [ir.Constant(I32, int(slot))])) for slot in Slot
        }
        self.vectors = self.entry.inttoptr(self.slots[Slot.VECTORS], I32.as_pointer())
        self.scalar_words = self.entry.inttoptr(self.slots[Slot.SCALARS], I32.as_pointer())
        start = function.append_basic_block("start")
        self.stopped = function.append_basic_block("stopped")
        ir.IRBuilder(self.stopped).ret(ir.Constant(I64, STOPPED))
        self.calls = AccessCalls(self.context, self.entry, self.stopped, self.notice_unwritten)
        self.builder = ir.IRBuilder(start)
        taken: Any = ir.Constant(I64, GO_ON)
        for place, step in enumerate(self.steps):
            branch = self._step(place, step)
            taken = branch if branch is not None else taken
        self._flush()
        self._store_scalars()
        self.builder.ret(taken)
        self.entry.branch(start)
        return module

    # --- places and values

    def offset_behind(self, step: Step) -> int:
        """The address behind an instruction, from the load base."""
        return step.behind - self.load_base

    def scalar(self, unit: int) -> Any:
        """A scalar register's value now; read from memory at the function's start where nothing changed it."""
        return self.scalar_then(unit, self.scalars)

    def scalar_then(self, unit: int, then: dict[int, Any]) -> Any:
        """A scalar register's value at the time of a snapshot; what is not in it, nothing had changed by then."""
        found = then.get(unit)
        if found is None:
            found = self.initial.get(unit)
        if found is None:
            place = self.entry.gep(self.scalar_words, [ir.Constant(I32, unit)])
            found = self.initial[unit] = self.entry.load(place)
        return found

    def set_scalar(self, unit: int, value: Any) -> None:
        """Changes a scalar register."""
        self.scalars[unit] = value
        self.changed.add(unit)

    def _store_scalars(self) -> None:
        for unit in sorted(self.changed):
            self.builder.store(self.scalars[unit], self.builder.gep(self.scalar_words, [ir.Constant(I32, unit)]))

    def _pair(self, unit: int, read: Callable[[int], Any], builder: Any) -> Any:
        """A lane mask as 64 bits."""
        low = builder.zext(read(unit), I64)
        if self.lanes == 32:
            return low
        return builder.or_(low, builder.shl(builder.zext(read(unit + 1), I64), ir.Constant(I64, 32)))

    def lane_bits(self, builder: Any, mask: Any, lane: Any, lanes: int | None) -> Any:
        """The bits of a 64-bit mask that belong to the lanes from `lane` on, one i1 each."""
        if lanes is None:
            return builder.trunc(builder.lshr(mask, lane), I1) if lane is not None else builder.trunc(mask, I1)
        first = builder.extract_element(lane, ir.Constant(I32, 0))
        return bits_to_mask(builder, builder.trunc(builder.lshr(mask, first), ir.IntType(lanes)))

    def vector_place(self, builder: Any, unit: int, lane: Any) -> Any:
        """Pointer to a lane's word of a vector register."""
        return builder.gep(self.vectors, [builder.add(ir.Constant(I64, unit * self.lanes), lane)])

    def gathered(self, builder: Any, unit: int, lane: Any) -> Any:
        """A vector register's word in the lanes that `lane` (64 bits) names."""
        count = lanes_of(lane)
        if count is None:
            return builder.load(self.vector_place(builder, unit, lane))
        code = MemoryCode(builder, count, self.slots, self.stopped, False)
        start = builder.add(code.wide(Slot.VECTORS), code.constant(64, 4 * unit * self.lanes))
        address = builder.add(start, builder.shl(lane, code.constant(64, 2)))
        every = ir.Constant(ir.VectorType(I1, count), [ir.Constant(I1, 1)] * count)
        return code.gather(address, 4, every)

    # --- instructions in order

    def _step(self, place: int, step: Step) -> Any:
        traits = traits_of(step)
        if not traits.native:
            raise NotNativeError(step.instruction.text)
        decoded = step.instruction.decoded
        if step.meaning.scope is Scope.WAVE:
            if (
                decoded.reads | decoded.writes
            ) & self.collected_writes or decoded.writes & self.collected_reads_of_vectors:
                self._flush()
            return self._scalar_step(place, step)
        if traits.product:
            self._flush()
            self._product_step(step)
        elif traits.atomic:
            self._flush()
            self._atomic_step(place, step)
        elif traits.others:
            self._flush()
            self._crossing_step(place, step)
        else:
            self._collect(place, step, traits)
        return None

    @property
    def collected_reads_of_vectors(self) -> int:
        """Vector registers that collected instructions still have to read."""
        return self.collected_reads & ((1 << VECTOR_UNITS) - 1)

    def _collect(self, place: int, step: Step, traits: Traits) -> None:
        decoded = step.instruction.decoded
        waiting_masks = self.collected_writes >> VECTOR_UNITS << VECTOR_UNITS
        if (traits.whole_masks and decoded.reads & waiting_masks) or (traits.stores and self.collected_loads):
            self._flush()
        self.collected.append(_Collected(place, step, dict(self.scalars)))
        self.collected_reads |= decoded.reads
        self.collected_writes |= decoded.writes
        self.collected_loads |= traits.accesses
        changes_exec = any(result.target in ("exec_bit",) for result in step.meaning.results)
        if traits.stores or changes_exec or self._writes_exec(step):
            self._flush()

    def _writes_exec(self, step: Step) -> bool:
        return bool(step.instruction.decoded.writes >> (VECTOR_UNITS + EXEC) & 3)

    # --- scalar instructions

    def _scalar_step(self, place: int, step: Step) -> Any:
        b = self.builder
        leaves = _Leaves(self, b, step, None, None, self._no_vector, self.scalar, self._no_mask)
        lowering = _Lowering(b, None, leaves, self.mode)
        for number, access in enumerate(step.meaning.memory):
            self._scalar_load(place, number, access, lowering, leaves)
            b = self.builder
        values = [self._scalar_result(lowering, step, result) for result in step.meaning.results]
        condition = None
        if step.meaning.control is Control.BRANCH:
            taken = ir.Constant(I1, 1) if step.meaning.condition is None else lowering.lower(step.meaning.condition)
            condition = b.zext(taken, I64)
        for write in values:
            write()
        return condition

    def _no_vector(self, unit: int) -> Any:
        raise NotNativeError("a vector register in a scalar instruction")

    def _no_mask(self, unit: int) -> Any:
        raise NotNativeError("a lane's bit in a scalar instruction")

    def _scalar_load(self, place: int, number: int, access: Access, lowering: Lowering, leaves: _Leaves) -> None:
        address = lowering.lower(access.address)
        active: Any = ir.Constant(I1, 1)
        if access.in_bounds is not None:
            active = lowering.lower(access.in_bounds)
        helper = AccessHelper(access.kind, access.space, access.size, None, self.notice_unwritten)
        first = ir.Constant(I64, 0)
        leaves.words[number] = self.calls.call(self.builder, helper, (place, number), address, first, active)

    def _scalar_result(self, lowering: Lowering, step: Step, result: Result) -> Callable[[], None]:
        b, span = (
            self.builder,
            step.instruction.decoded.operands[result.index].registers if result.target == "operand" else None,
        )
        if result.target == "operand":
            if span is None:
                return lambda: None
            if is_vector(span):
                return self._lane_write(lowering, result, span)
            parts = [
                (span.base_unit - VECTOR_UNITS + word, low, lowering.lower_piece(result.value, at, bits))
                for word, low, at, bits in _unit_parts(result)
                if word < span.count
            ]
        elif result.target in _PAIRS:
            value = LaneCode(b, None).resized(lowering.lower(result.value), 64)
            base = _PAIRS[result.target]
            parts = [(base, 0, b.trunc(value, I32))]
            if result.value.bits > 32:
                parts.append((base + 1, 0, b.trunc(b.lshr(value, ir.Constant(I64, 32)), I32)))
        elif result.target in ("scc", "m0"):
            value = LaneCode(b, None).resized(lowering.lower(result.value), 32)
            parts = [(_WORDS[result.target], 0, value)]
        else:
            raise NotNativeError(f"a scalar instruction that writes {result.target}")

        def write() -> None:
            for unit, low, part in parts:
                self.set_scalar(unit, self._merged(part, low, lambda unit=unit: self.scalar(unit)))  # type: ignore[misc]

        return write

    def _merged(self, part: Any, low: int, old: Callable[[], Any]) -> Any:
        """A 32-bit word of which only some bits are new."""
        code = LaneCode(self.builder, lanes_of(part))
        bits = part.type.element.width if lanes_of(part) else part.type.width
        if bits == 32:
            return part
        mask = ((1 << bits) - 1) << low
        placed = code.resized(part, 32)
        if low:
            placed = self.builder.shl(placed, code.constant(32, low))
        return self.builder.or_(self.builder.and_(old(), code.constant(32, ~mask)), placed)

    def _lane_write(self, lowering: Lowering, result: Result, span: RegisterSpan) -> Callable[[], None]:
        """One lane of a vector register (writelane)."""
        if result.lane is None or result.low or result.value.bits != 32:
            raise NotNativeError("a scalar instruction that writes a whole vector register")
        value = lowering.lower(result.value)
        number = LaneCode(self.builder, None).resized(lowering.lower(result.lane), 64)
        lane = self.builder.and_(number, ir.Constant(I64, self.lanes - 1))
        unit = span.base_unit
        return lambda: self.builder.store(value, self.vector_place(self.builder, unit, lane))

    # --- vector instructions

    def _flush(self) -> None:
        if not self.collected:
            return
        collected, self.collected = self.collected, []
        self.collected_reads = self.collected_writes = 0
        self.collected_loads = False
        loop = _Loop(self)
        loop.run(collected)
        loop.finish()

    def _crossing_step(self, place: int, step: Step) -> None:
        """Results go to a buffer first: no lane may see another one's new value."""
        loop = _Loop(self, buffered=True)
        loop.run([_Collected(place, step, dict(self.scalars))])
        loop.finish()
        loop.copy_buffers()

    def _product_step(self, step: Step) -> None:
        """A matrix product reads whole registers from memory and writes its result there."""
        node = product_of(step.meaning)
        assert node is not None
        operands = step.instruction.decoded.operands
        destination = operands[step.meaning.results[0].index].registers
        if not is_vector(destination):
            raise NotNativeError("a matrix product that is not written to vector registers")
        assert destination is not None
        count = node.bits // 32 * self.lanes
        buffer = self.entry.alloca(I32, size=count)
        spans = [operands[tile.index].registers if tile and tile.places else None for tile in self._tiles(node)]
        rows = [None if span is None else self._row(span.base_unit) for span in spans]
        call_product(self.builder, ProductHelper(node, self.lanes, self.mode), rows, buffer)
        kind = ir.ArrayType(I32, count).as_pointer()
        result = self.builder.load(self.builder.bitcast(buffer, kind))
        self.builder.store(result, self.builder.bitcast(self._row(destination.base_unit), kind))

    def _tiles(self, node: MatrixProduct) -> tuple[Tile | None, ...]:
        return (node.a, node.b, node.c, node.sparse)

    def _row(self, unit: int) -> Any:
        """Pointer to a vector register's lanes."""
        return self.builder.gep(self.vectors, [ir.Constant(I64, unit * self.lanes)])

    def _atomic_step(self, place: int, step: Step) -> None:
        """Lane after lane, each whole: load, new value, store, results."""
        b = self.builder
        function = b.function
        head, body, following, after = (function.append_basic_block(n) for n in ("lane", "active", "next", "done"))
        exec_mask = self._pair(EXEC, self.scalar, b)
        before = b.block
        b.branch(head)
        b.position_at_end(head)
        lane = b.phi(I64)
        lane.add_incoming(ir.Constant(I64, 0), before)
        b.cbranch(b.trunc(b.lshr(exec_mask, lane), I1), body, following)
        b.position_at_end(body)
        self._atomic_lane(place, step, lane)
        b.branch(following)
        b.position_at_end(following)
        other = b.add(lane, ir.Constant(I64, 1))
        lane.add_incoming(other, following)
        b.cbranch(b.icmp_unsigned("<", other, ir.Constant(I64, self.lanes)), head, after)
        b.position_at_end(after)

    def _atomic_lane(self, place: int, step: Step, lane: Any) -> None:
        b = self.builder
        (access,) = step.meaning.memory
        assert access.atomic is not None

        def vector(unit: int) -> Any:
            return b.load(self.vector_place(b, unit, lane))

        def mask(unit: int) -> Any:
            return self.lane_bits(b, self._pair(unit, self.scalar, b), lane, None)

        leaves = _Leaves(self, b, step, None, lane, vector, self.scalar, mask)
        lowering = _Lowering(b, None, leaves, self.mode)
        address = lowering.lower(access.address)
        active: Any = ir.Constant(I1, 1) if access.in_bounds is None else lowering.lower(access.in_bounds)
        load = AccessHelper(AccessKind.LOAD, access.space, access.size, None, self.notice_unwritten)
        leaves.words[0] = self.calls.call(b, load, (place, 0), address, lane, active)
        code = LaneCode(b, None)
        fresh = [
            code.resized(lowering.lower_piece(access.atomic, low, min(32, access.atomic.bits - low)), 32)
            for low in range(0, access.atomic.bits, 32)
        ]
        results = [
            (span.base_unit + word, lowering.lower_piece(result.value, at, bits))
            for result in step.meaning.results
            if (span := step.instruction.decoded.operands[result.index].registers) is not None
            for word, low, at, bits in self._whole_words(result)
            if word < span.count
        ]
        store = AccessHelper(AccessKind.STORE, access.space, access.size, None, self.notice_unwritten)
        self.calls.call(b, store, (place, 0), address, lane, active, fresh)
        for unit, value in results:
            b.store(value, self.vector_place(b, unit, lane))

    def _whole_words(self, result: Result) -> list[tuple[int, int, int, int]]:
        parts = _unit_parts(result)
        if result.target != "operand" or any(bits != 32 for _, _, _, bits in parts):
            raise NotNativeError("an atomic that writes part of a register")
        return parts


class _Loop:
    """The loop over a wave's chunks in which collected instructions run."""

    def __init__(self, block: BlockWriter, buffered: bool = False) -> None:
        self.block = block
        self.builder = block.builder
        self.buffered = buffered
        self.count = block.lanes // block.chunk
        self.kept: dict[int, Any] = {}
        self.changed: set[int] = set()
        self.masks: dict[int, Any] = {}
        self.bits: dict[int, Any] = {}
        self.buffers: dict[int, Any] = {}
        self.exec_masks: dict[tuple[int, int], Any] = {}

    def run(self, instructions: Sequence[_Collected], fill: Callable[[], None] = lambda: None) -> None:
        """Writes the loop around the instructions; `fill` may set registers first."""
        b = self.builder
        before, inside = b.block, b.function.append_basic_block("chunk")
        b.branch(inside)
        b.position_at_end(inside)
        number = b.phi(I64)
        number.add_incoming(ir.Constant(I64, 0), before)
        self.number = number
        self.first = b.mul(number, ir.Constant(I64, self.block.chunk))
        self.lane = self._lane_numbers()
        fill()
        for each in instructions:
            self.instruction(each)
        self._store()
        after = b.function.append_basic_block("chunks_done")
        following = b.add(number, ir.Constant(I64, 1))
        number.add_incoming(following, b.block)
        b.cbranch(b.icmp_unsigned("<", following, ir.Constant(I64, self.count)), inside, after)
        b.position_at_end(after)

    def _lane_numbers(self) -> Any:
        chunk = self.block.chunk
        steps = ir.Constant(ir.VectorType(I64, chunk), [ir.Constant(I64, n) for n in range(chunk)])
        return self.builder.add(broadcast(self.builder, self.first, chunk), steps)

    def _vector_type(self) -> Any:
        return ir.VectorType(I32, self.block.chunk)

    def _place(self, unit: int) -> Any:
        pointer = self.block.vector_place(self.builder, unit, self.first)
        return self.builder.bitcast(pointer, self._vector_type().as_pointer())

    def vector(self, unit: int) -> Any:
        """A register's words in this chunk."""
        if unit not in self.kept:
            self.kept[unit] = self.builder.load(self._place(unit), align=32)
        return self.kept[unit]

    def _store(self) -> None:
        """Puts what changed where it belongs at the end of each turn."""
        for unit in sorted(self.changed):
            if self.buffered:
                self.buffers[unit] = self.block.entry.alloca(self._vector_type(), size=self.count)
                place = self.builder.gep(self.buffers[unit], [self.number])
            else:
                place = self._place(unit)
            self.builder.store(self.kept[unit], place, align=32)
        for unit, mask in self.masks.items():
            kind = ir.IntType(self.block.chunk)
            self.bits[unit] = self.block.entry.alloca(kind, size=self.count)
            self.builder.store(mask_to_bits(self.builder, mask), self.builder.gep(self.bits[unit], [self.number]))

    def finish(self) -> None:
        """Puts the lane masks together into scalar registers; behind the loop."""
        b = self.builder
        for unit, buffer in self.bits.items():
            whole = b.load(b.bitcast(buffer, ir.IntType(self.block.lanes).as_pointer()), align=1)
            if self.block.lanes == 32:
                self.block.set_scalar(unit, whole)
            else:
                self.block.set_scalar(unit, b.trunc(whole, I32))
                self.block.set_scalar(unit + 1, b.trunc(b.lshr(whole, ir.Constant(I64, 32)), I32))

    def copy_buffers(self) -> None:
        """A second loop that puts buffered results into the registers."""
        if not self.buffers:
            return
        buffers, self.buffers = self.buffers, {}
        copy = _Loop(self.block)

        def fill() -> None:
            for unit, buffer in buffers.items():
                copy.kept[unit] = copy.builder.load(copy.builder.gep(buffer, [copy.number]), align=32)
                copy.changed.add(unit)

        copy.run([], fill)

    # --- one instruction

    def _exec(self, scalars: dict[int, Any]) -> Any:
        """EXEC's bits of this chunk at the time of a snapshot."""
        block = self.block

        def read(unit: int) -> Any:
            return block.scalar_then(unit, scalars)

        key = (id(read(EXEC)), id(read(EXEC + 1)))
        if key not in self.exec_masks:
            whole = block._pair(EXEC, read, self.builder)
            self.exec_masks[key] = block.lane_bits(self.builder, whole, self.lane, block.chunk)
        return self.exec_masks[key]

    def instruction(self, collected: _Collected) -> None:
        """Writes one instruction for this chunk."""
        block, step, scalars = self.block, collected.step, collected.scalars
        b, chunk = self.builder, self.block.chunk

        def scalar(unit: int) -> Any:
            return block.scalar_then(unit, scalars)

        def mask(unit: int) -> Any:
            if unit in self.masks:
                return self.masks[unit]
            return block.lane_bits(b, block._pair(unit, scalar, b), self.lane, chunk)

        every = ir.Constant(ir.VectorType(I1, chunk), [ir.Constant(I1, 1)] * chunk)
        active = every if step.meaning.ignores_exec else self._exec(scalars)
        leaves = _Leaves(block, b, step, chunk, self.lane, self.vector, scalar, mask)
        lowering = _Lowering(b, chunk, leaves, block.mode)
        for number, access in enumerate(step.meaning.memory):
            self._access(collected.place, number, access, active, lowering, leaves)
        writes = [self._result(lowering, step, result, active) for result in step.meaning.results]
        for write in writes:
            write()

    def _access(
        self, place: int, number: int, access: Access, active: Any, lowering: Lowering, leaves: _Leaves
    ) -> None:
        block, b, chunk = self.block, self.builder, self.block.chunk
        address = lowering.lower_vector(access.address)
        if access.in_bounds is not None:
            active = b.and_(active, lowering.lower_vector(access.in_bounds))
        words: list[Any] = []
        if access.value is not None:
            whole = min(access.value.bits, 8 * access.size)
            code = LaneCode(b, chunk)
            words = [
                code.resized(lowering.spread(lowering.lower_piece(access.value, low, min(32, whole - low))), 32)
                for low in range(0, whole, 32)
            ]
        helper = AccessHelper(access.kind, access.space, access.size, chunk, block.notice_unwritten)
        leaves.words[number] = block.calls.call(b, helper, (place, number), address, self.first, active, words)

    def _result(self, lowering: Lowering, step: Step, result: Result, active: Any) -> Callable[[], None]:
        b = self.builder
        if result.target in ("mask", "vcc_bit", "exec_bit"):
            bit = b.and_(lowering.lower_vector(result.value), active)
            return self._mask_write(step, result, bit)
        if result.target != "operand":
            raise NotNativeError(f"a vector instruction that writes {result.target}")
        span = step.instruction.decoded.operands[result.index].registers
        if span is None:
            return lambda: None
        if not is_vector(span):
            raise NotNativeError("a vector instruction that writes a scalar register")
        parts = [
            (span.base_unit + word, low, lowering.spread(lowering.lower_piece(result.value, at, bits)))
            for word, low, at, bits in _unit_parts(result)
            if word < span.count
        ]

        def write() -> None:
            for unit, low, part in parts:
                old = self.vector(unit)
                fresh = self.block._merged(part, low, lambda old=old: old)  # type: ignore[misc]
                self.kept[unit] = fresh if step.meaning.ignores_exec else b.select(active, fresh, old)
                self.changed.add(unit)

        return write

    def _mask_write(self, step: Step, result: Result, bit: Any) -> Callable[[], None]:
        if result.target == "mask":
            span = step.instruction.decoded.operands[result.index].registers
            if span is None:
                return lambda: None
            unit = span.base_unit - VECTOR_UNITS
        else:
            unit = _PAIRS[result.target.removesuffix("_bit")]

        def write() -> None:
            self.masks[unit] = bit

        return write


def _unit_parts(result: Result) -> list[tuple[int, int, int, int]]:
    """(register of the operand, lowest bit in it, lowest bit of the value, bits) of everything a result writes."""
    parts = []
    low, end = result.low, result.low + result.value.bits
    while low < end:
        bits = min(32 - low % 32, end - low)
        parts.append((low // 32, low % 32, low - result.low, bits))
        low += bits
    return parts
