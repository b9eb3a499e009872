"""The loop over a wave's chunks in which vector instructions run.

Registers stay in host registers between the instructions of one turn. What changed is stored at the turn's end; lane
masks are put together behind the loop. Where instructions look into other lanes, results go to a buffer first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from llvmlite import ir
from msgspec import Struct

from asmevo.emulator.code import Step
from asmevo.emulator.native_helpers import AccessHelper
from asmevo.emulator.native_leaves import BlockLowering, Leaves
from asmevo.emulator.native_state import I1, I32, I64
from asmevo.emulator.native_traits import PAIRS, NotNativeError, is_vector, unit_parts
from asmevo.emulator.wave import EXEC, VECTOR_UNITS
from asmevo.semantics.expression import Access, Result
from asmevo.semantics.lane_code import LaneCode, broadcast
from asmevo.semantics.lowering import mask_to_bits

if TYPE_CHECKING:
    from asmevo.emulator.block_code import BlockWriter


class Collected(Struct, frozen=True):
    """A vector instruction that waits for its loop, with the scalar values of its time."""

    place: int
    step: Step
    scalars: dict[int, Any]


class ChunkLoop:
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

    def run(self, instructions: Sequence[Collected], fill: Callable[[], None] = lambda: None) -> None:
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
        copy = ChunkLoop(self.block)

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
            whole = block.pair(EXEC, read, self.builder)
            self.exec_masks[key] = block.lane_bits(self.builder, whole, self.lane, block.chunk)
        return self.exec_masks[key]

    def instruction(self, collected: Collected) -> None:
        """Writes one instruction for this chunk."""
        block, step, scalars = self.block, collected.step, collected.scalars
        b, chunk = self.builder, self.block.chunk

        def scalar(unit: int) -> Any:
            return block.scalar_then(unit, scalars)

        def mask(unit: int) -> Any:
            if unit in self.masks:
                return self.masks[unit]
            return block.lane_bits(b, block.pair(unit, scalar, b), self.lane, chunk)

        every = ir.Constant(ir.VectorType(I1, chunk), [ir.Constant(I1, 1)] * chunk)
        active = every if step.meaning.ignores_exec else self._exec(scalars)
        leaves = Leaves(block, b, step, chunk, self.lane, self.vector, scalar, mask)
        lowering = BlockLowering(b, chunk, leaves, block.mode)
        for number, access in enumerate(step.meaning.memory):
            self._access(collected.place, number, access, active, lowering, leaves)
        writes = [self._result(lowering, step, result, active) for result in step.meaning.results]
        for write in writes:
            write()

    def _access(
        self, place: int, number: int, access: Access, active: Any, lowering: BlockLowering, leaves: Leaves
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
        at = (block.places.number(place), number)
        leaves.words[number] = block.calls.call(b, helper, at, address, self.first, active, words)

    def _result(self, lowering: BlockLowering, step: Step, result: Result, active: Any) -> Callable[[], None]:
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
            for word, low, at, bits in unit_parts(result)
            if word < span.count
        ]

        def write() -> None:
            for unit, low, part in parts:
                old = self.vector(unit)
                fresh = self.block.merged(part, low, lambda old=old: old)  # type: ignore[misc]
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
            unit = PAIRS[result.target.removesuffix("_bit")]

        def write() -> None:
            self.masks[unit] = bit

        return write
