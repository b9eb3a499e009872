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

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from asmevo.emulator.chunk_loop import ChunkLoop, Collected
from asmevo.emulator.code import Step
from asmevo.emulator.native_helpers import AccessCalls, AccessHelper, ProductHelper, call_product, copy_words
from asmevo.emulator.native_leaves import BlockLowering, Leaves
from asmevo.emulator.native_memory import MemoryCode
from asmevo.emulator.native_state import I1, I32, I64, I64_POINTER, Slot
from asmevo.emulator.native_traits import (
    PAIRS,
    WORDS,
    NotNativeError,
    Traits,
    is_vector,
    product_of,
    traits_of,
    unit_parts,
)
from asmevo.emulator.register_places import Places
from asmevo.emulator.wave import EXEC, VECTOR_UNITS
from asmevo.program.registers import RegisterSpan
from asmevo.semantics.expression import Access, AccessKind, Control, MatrixProduct, Result, Scope, Tile
from asmevo.semantics.float_mode import FloatMode
from asmevo.semantics.lane_code import LaneCode, broadcast, lanes_of
from asmevo.semantics.lowering import bits_to_mask

GO_ON, TAKEN, STOPPED = 0, 1, 2

BLOCK_TYPE = ir.FunctionType(I64, [I64_POINTER, I64_POINTER])
"""(context, record) -> what comes next. Code of a whole block does not look at the record."""


class BlockWriter:
    """Writes one block; `make_places` gets the builder of the function's first block and the record."""

    def __init__(
        self,
        steps: Sequence[Step],
        mode: FloatMode,
        lanes: int,
        chunk: int,
        notice_unwritten: bool,
        make_places: Callable[[Any, Any], Places],
    ) -> None:
        self.steps = steps
        self.mode = mode
        self.lanes = lanes
        self.chunk = min(chunk, lanes)
        self.notice_unwritten = notice_unwritten
        self._make_places = make_places
        self.initial: dict[int, Any] = {}
        self.scalars: dict[int, Any] = {}
        self.changed: set[int] = set()
        self.collected: list[Collected] = []
        self.collected_reads = self.collected_writes = 0
        self.collected_loads = False

    def write(self, module: Any, name: str) -> None:
        """Puts the function `name` into a module. Raises NotNativeError."""
        function = ir.Function(module, BLOCK_TYPE, name)
        self.entry = ir.IRBuilder(function.append_basic_block("entry"))
        self.context, record = function.args
        self.places = self._make_places(self.entry, record)
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

    # --- places and values

    def scalar(self, unit: int) -> Any:
        """A scalar register's value now; read from memory at the function's start where nothing changed it."""
        return self.scalar_then(unit, self.scalars)

    def scalar_then(self, unit: int, then: dict[int, Any]) -> Any:
        """A scalar register's value at the time of a snapshot; what is not in it, nothing had changed by then."""
        found = then.get(unit)
        if found is None:
            found = self.initial.get(unit)
        if found is None:
            place = self.entry.gep(self.scalar_words, [self.places.scalar(unit)])
            found = self.initial[unit] = self.entry.load(place)
        return found

    def set_scalar(self, unit: int, value: Any) -> None:
        """Changes a scalar register."""
        self.scalars[unit] = value
        self.changed.add(unit)

    def _store_scalars(self) -> None:
        for unit in sorted(self.changed):
            self.builder.store(self.scalars[unit], self.builder.gep(self.scalar_words, [self.places.scalar(unit)]))

    def pair(self, unit: int, read: Callable[[int], Any], builder: Any) -> Any:
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
        return builder.gep(self.vectors, [builder.add(self.places.vector(unit), lane)])

    def gathered(self, builder: Any, unit: int, lane: Any) -> Any:
        """A vector register's word in the lanes that `lane` (64 bits) names."""
        count = lanes_of(lane)
        if count is None:
            return builder.load(self.vector_place(builder, unit, lane))
        code = MemoryCode(builder, count, self.slots, self.stopped, False)
        word = builder.add(broadcast(builder, self.places.vector(unit), count), lane)
        address = builder.add(code.wide(Slot.VECTORS), builder.shl(word, code.constant(64, 2)))
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
        self.collected.append(Collected(place, step, dict(self.scalars)))
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
        leaves = Leaves(self, b, step, None, None, self._no_vector, self.scalar, self._no_mask)
        lowering = BlockLowering(b, None, leaves, self.mode)
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

    def _scalar_load(self, place: int, number: int, access: Access, lowering: BlockLowering, leaves: Leaves) -> None:
        address = lowering.lower(access.address)
        active: Any = ir.Constant(I1, 1)
        if access.in_bounds is not None:
            active = lowering.lower(access.in_bounds)
        helper = AccessHelper(access.kind, access.space, access.size, None, self.notice_unwritten)
        first = ir.Constant(I64, 0)
        leaves.words[number] = self.calls.call(
            self.builder, helper, (self.places.number(place), number), address, first, active
        )

    def _scalar_result(self, lowering: BlockLowering, step: Step, result: Result) -> Callable[[], None]:
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
                for word, low, at, bits in unit_parts(result)
                if word < span.count
            ]
        elif result.target in PAIRS:
            value = LaneCode(b, None).resized(lowering.lower(result.value), 64)
            base = PAIRS[result.target]
            parts = [(base, 0, b.trunc(value, I32))]
            if result.value.bits > 32:
                parts.append((base + 1, 0, b.trunc(b.lshr(value, ir.Constant(I64, 32)), I32)))
        elif result.target in ("scc", "m0"):
            value = LaneCode(b, None).resized(lowering.lower(result.value), 32)
            parts = [(WORDS[result.target], 0, value)]
        else:
            raise NotNativeError(f"a scalar instruction that writes {result.target}")

        def write() -> None:
            for unit, low, part in parts:
                self.set_scalar(unit, self.merged(part, low, lambda unit=unit: self.scalar(unit)))  # type: ignore[misc]

        return write

    def merged(self, part: Any, low: int, old: Callable[[], Any]) -> Any:
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

    def _lane_write(self, lowering: BlockLowering, result: Result, span: RegisterSpan) -> Callable[[], None]:
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
        loop = ChunkLoop(self)
        loop.run(collected)
        loop.finish()

    def _crossing_step(self, place: int, step: Step) -> None:
        """Results go to a buffer first: no lane may see another one's new value."""
        loop = ChunkLoop(self, buffered=True)
        loop.run([Collected(place, step, dict(self.scalars))])
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
        copy_words(self.builder, self._row(destination.base_unit), buffer, count)

    def _tiles(self, node: MatrixProduct) -> tuple[Tile | None, ...]:
        return (node.a, node.b, node.c, node.sparse)

    def _row(self, unit: int) -> Any:
        """Pointer to a vector register's lanes."""
        return self.builder.gep(self.vectors, [self.places.vector(unit)])

    def _atomic_step(self, place: int, step: Step) -> None:
        """Lane after lane, each whole: load, new value, store, results."""
        b = self.builder
        function = b.function
        head, body, following, after = (function.append_basic_block(n) for n in ("lane", "active", "next", "done"))
        exec_mask = self.pair(EXEC, self.scalar, b)
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
            return self.lane_bits(b, self.pair(unit, self.scalar, b), lane, None)

        leaves = Leaves(self, b, step, None, lane, vector, self.scalar, mask)
        lowering = BlockLowering(b, None, leaves, self.mode)
        address = lowering.lower(access.address)
        active: Any = ir.Constant(I1, 1) if access.in_bounds is None else lowering.lower(access.in_bounds)
        load = AccessHelper(AccessKind.LOAD, access.space, access.size, None, self.notice_unwritten)
        leaves.words[0] = self.calls.call(b, load, (self.places.number(place), 0), address, lane, active)
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
        self.calls.call(b, store, (self.places.number(place), 0), address, lane, active, fresh)
        for unit, value in results:
            b.store(value, self.vector_place(b, unit, lane))

    def _whole_words(self, result: Result) -> list[tuple[int, int, int, int]]:
        parts = unit_parts(result)
        if result.target != "operand" or any(bits != 32 for _, _, _, bits in parts):
            raise NotNativeError("an atomic that writes part of a register")
        return parts
