"""Native functions that blocks call: memory accesses and matrix products.

An access is some hundred machine instructions, the same for every load of four bytes from global memory. So each
kind is one function, compiled once for the host, and a block only puts the addresses into a buffer and calls it:

    int64 access(context, addresses, first lane, active lanes, words, place, number)

`addresses` has one entry a lane of the chunk, `words` is [word][lane], read by stores and written by loads; place and
number tell the report function which access it is about. The result is 1 when the wave has to stop.

A helper's name says all of it, so the object files of blocks can name what they need.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from msgspec import Struct

from asmevo.emulator.native_memory import MemoryCode, Requester
from asmevo.emulator.native_state import I1, I32, I32_POINTER, I64, I64_POINTER, Slot
from asmevo.semantics.expression import AccessKind, MatrixProduct, Space
from asmevo.semantics.float_mode import FloatMode
from asmevo.semantics.lane_code import LaneCode, broadcast
from asmevo.semantics.lowering import bits_to_mask, mask_to_bits
from asmevo.semantics.matrix_lowering import product_function, product_name

ACCESS_TYPE = ir.FunctionType(I64, [I64_POINTER, I64_POINTER, I64, I64, I32_POINTER, I64, I64])
PRODUCT_TYPE = ir.FunctionType(ir.VoidType(), [I32_POINTER] * 5)
REPORT_TYPE = ir.FunctionType(I64, [I64_POINTER, I64, I64, I64_POINTER, I64, I64])


class AccessHelper(Struct, frozen=True):
    """One kind of access; `lanes` None for a single one. `notice_unwritten`: reads of poison are reported."""

    kind: AccessKind
    space: Space
    size: int
    lanes: int | None
    notice_unwritten: bool

    @property
    def name(self) -> str:
        """The symbol."""
        watch = "watch" if self.notice_unwritten and self.kind is AccessKind.LOAD else "plain"
        return f"asmevo_{self.kind.value}_{self.space.value}_{self.size}_{self.lanes or 'one'}_{watch}"

    def write(self, module: Any, name: str) -> None:
        """Puts the function into a module."""
        _AccessWriter(self, ir.Function(module, ACCESS_TYPE, name)).write()


class _AccessWriter:
    def __init__(self, helper: AccessHelper, function: Any) -> None:
        self.helper = helper
        self.function = function
        self.context, self.addresses, self.first, self.active, self.words, self.place, self.number = function.args

    def write(self) -> None:
        b = ir.IRBuilder(self.function.append_basic_block("entry"))
        stop = self.function.append_basic_block("stop")
        ir.IRBuilder(stop).ret(ir.Constant(I64, 1))
        slots = {slot: b.load(b.gep(self.context, [ir.Constant(I32, int(slot))])) for slot in Slot}
        helper, lanes = self.helper, self.helper.lanes
        code = MemoryCode(b, lanes, slots, stop, helper.notice_unwritten)
        address, lane, active = self._inputs(b, lanes)
        who = Requester(lane, active, self._reporter(slots, lanes))
        places = code.places(helper.space, address, helper.size, lane)
        count = -(-helper.size // 4)
        if helper.kind is AccessKind.LOAD:
            for number, word in enumerate(code.load(places, helper.size, who)):
                b.store(word, self._word(b, number), align=4)
        else:
            words = [b.load(self._word(b, number), align=4) for number in range(count)]
            if lanes is None:
                self._leave_unless(b, active)
            code.store(places, helper.size, words, who)
        b.ret(ir.Constant(I64, 0))

    def _leave_unless(self, b: Any, active: Any) -> None:
        """A single lane that is switched off stores nothing; vectors have masks for that."""
        leave, go_on = self.function.append_basic_block("leave"), self.function.append_basic_block("go_on")
        b.cbranch(active, go_on, leave)
        ir.IRBuilder(leave).ret(ir.Constant(I64, 0))
        b.position_at_end(go_on)

    def _inputs(self, b: Any, lanes: int | None) -> tuple[Any, Any, Any]:
        if lanes is None:
            return b.load(self.addresses), self.first, b.trunc(self.active, I1)
        pointer = b.bitcast(self.addresses, ir.VectorType(I64, lanes).as_pointer())
        steps = ir.Constant(ir.VectorType(I64, lanes), [ir.Constant(I64, n) for n in range(lanes)])
        lane = b.add(broadcast(b, self.first, lanes), steps)
        return b.load(pointer, align=8), lane, bits_to_mask(b, b.trunc(self.active, ir.IntType(lanes)))

    def _word(self, b: Any, number: int) -> Any:
        lanes = self.helper.lanes
        place = b.gep(self.words, [ir.Constant(I64, number * (lanes or 1))])
        return place if lanes is None else b.bitcast(place, ir.VectorType(I32, lanes).as_pointer())

    def _reporter(self, slots: dict[Slot, Any], lanes: int | None) -> Callable[[Any, Any], Any]:
        def report(b: Any, bad: Any) -> Any:
            mask = b.zext(bad if lanes is None else mask_to_bits(b, bad), I64)
            function = b.inttoptr(slots[Slot.REPORT], REPORT_TYPE.as_pointer())
            answer = b.call(function, [self.context, self.place, self.number, self.addresses, self.first, mask])
            return b.icmp_unsigned("==", answer, ir.Constant(I64, 0))

        return report


class ProductHelper(Struct, frozen=True, eq=False):
    """One matrix product: void f(a, b, c, sparse, results), see `semantics.matrix_lowering`."""

    node: MatrixProduct
    lanes: int
    mode: FloatMode

    def write(self, module: Any, name: str) -> None:
        """Puts the function into a module."""
        product_function(module, self.node, self.lanes, self.mode, name).linkage = "external"

    @property
    def name(self) -> str:
        """The symbol."""
        return product_name(self.node, self.lanes, self.mode)


Helper = AccessHelper | ProductHelper


class AccessCalls:
    """Writes calls of access helpers; `entry` is where buffers are made."""

    def __init__(self, context: Any, entry: Any, stopped: Any, notice_unwritten: bool) -> None:
        self.context = context
        self.entry = entry
        self.stopped = stopped
        self.notice_unwritten = notice_unwritten
        self._buffers: dict[tuple[int | None, int], tuple[Any, Any]] = {}

    def _buffers_for(self, lanes: int | None, count: int) -> tuple[Any, Any]:
        """Buffers for addresses and words, used again by every call of the block."""
        key = (lanes, count)
        if key not in self._buffers:
            addresses = self.entry.alloca(ir.VectorType(I64, lanes) if lanes else I64)
            words = self.entry.alloca(ir.VectorType(I32, lanes) if lanes else I32, size=count)
            self._buffers[key] = (addresses, words)
        return self._buffers[key]

    def call(
        self,
        builder: Any,
        helper: AccessHelper,
        place: tuple[Any, int],
        address: Any,
        lane: Any,
        active: Any,
        stored: Sequence[Any] = (),
    ) -> list[Any]:
        """Does an access; gives the words of a load. `place` is (i64 step in the block, access); `lane` the first."""
        lanes, count = helper.lanes, -(-helper.size // 4)
        addresses, words = self._buffers_for(lanes, count)
        builder.store(LaneCode(builder, lanes).resized(address, 64), addresses)
        pieces = [builder.gep(words, [ir.Constant(I32, number)]) for number in range(count)]
        for value, piece in zip(stored, pieces, strict=False):
            builder.store(value, piece)
        mask = builder.zext(active if lanes is None else mask_to_bits(builder, active), I64)
        function = _declared(builder.module, helper.name, ACCESS_TYPE)
        arguments = [
            self.context,
            builder.bitcast(addresses, I64_POINTER),
            lane,
            mask,
            builder.bitcast(words, I32_POINTER),
            place[0],
            ir.Constant(I64, place[1]),
        ]
        stop = builder.call(function, arguments)
        go_on = builder.function.append_basic_block("allowed")
        builder.cbranch(builder.icmp_unsigned("==", stop, ir.Constant(I64, 0)), go_on, self.stopped)
        builder.position_at_end(go_on)
        return [builder.load(piece) for piece in pieces] if helper.kind is AccessKind.LOAD else []


def _declared(module: Any, name: str, signature: Any) -> Any:
    return module.globals.get(name) or ir.Function(module, signature, name=name)


def call_product(builder: Any, helper: ProductHelper, operands: Sequence[Any], results: Any) -> None:
    """Multiplies; `operands` are pointers to the registers of a, b, c and the sparse indices (None: not read)."""
    nothing = ir.Constant(I32_POINTER, None)
    pointers = [nothing if operand is None else operand for operand in operands]
    builder.call(_declared(builder.module, helper.name, PRODUCT_TYPE), [*pointers, results])


def copy_words(builder: Any, to: Any, source: Any, count: int) -> None:
    """Copies 32-bit words that do not overlap."""
    signature = ir.FunctionType(ir.VoidType(), [I32_POINTER, I32_POINTER, I64, I1])
    function = _declared(builder.module, "llvm.memcpy.p0.p0.i64", signature)
    builder.call(function, [to, source, ir.Constant(I64, 4 * count), ir.Constant(I1, 0)])
