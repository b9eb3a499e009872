"""Values of leaves in native code: registers, lane masks, loaded words, and the launch's own numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from llvmlite import ir
from msgspec import Struct, field

from asmevo.emulator.code import Step
from asmevo.emulator.native_state import I64, Slot
from asmevo.emulator.native_traits import PAIRS, WORDS, NotNativeError, is_vector
from asmevo.emulator.wave import VECTOR_UNITS
from asmevo.semantics.constants import constant_value
from asmevo.semantics.expression import Expr, Loaded
from asmevo.semantics.float_mode import FloatMode
from asmevo.semantics.lane_code import LaneCode, lanes_of
from asmevo.semantics.lowering import Lowering

if TYPE_CHECKING:
    from asmevo.emulator.block_code import BlockWriter


class _LoadedPiece(Expr, frozen=True, eq=False):
    """Bits of what an access gave, so that nothing wider than needed is put together."""

    access: int
    low: int


class BlockLowering(Lowering):
    """Lowering that takes loaded values apart by words."""

    def __init__(self, builder: Any, lanes: int | None, leaves: Leaves, mode: FloatMode) -> None:
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


class Leaves(Struct):
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
            return self.mask(PAIRS[name.removesuffix("_bit")])
        if name in WORDS:
            return LaneCode(self.builder, None).resized(self.scalar(WORDS[name]), bits)
        if name in PAIRS:
            base = PAIRS[name]
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
                value = self.builder.add(slots[Slot.LOAD_BASE], self.block.places.behind(self.step))
            case "lds_size":
                value = slots[Slot.LDS_SIZE]
            case "shared_base":
                value = slots[Slot.SHARED_BASE]
            case "private_base":
                value = slots[Slot.PRIVATE_BASE]
            case _:
                raise NotNativeError(f"the register {name}")
        return LaneCode(self.builder, None).resized(value, bits)
