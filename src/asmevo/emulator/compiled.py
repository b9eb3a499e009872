"""The engine that runs native code, block by block.

A loop in native code calls one block after the other as their results say, until a block has no code, the turn is
over, or a report stops the wave. A block is compiled when a wave first comes to it. What nobody compiles (barriers,
ends, jumps, mode changes) is run by the reference engine. Code depends on the floating-point mode, so there is one
table of blocks for each mode that occurs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from asmevo.emulator.block_code import STOPPED, TAKEN, NotNativeError, traits_of
from asmevo.emulator.block_store import BlockStore
from asmevo.emulator.code import NOWHERE, Code, Step
from asmevo.emulator.errors import EmulationError
from asmevo.emulator.machine import Poison, Stop, Tally
from asmevo.emulator.native_state import I32, I64, I64_POINTER, Slot, make_context
from asmevo.emulator.reference import ReferenceEngine, float_mode
from asmevo.emulator.wave import MODE, Wave
from asmevo.semantics import native
from asmevo.semantics.expression import AccessKind, Control

_LONGEST_BLOCK = 160  # instructions; compile time grows faster than length

# Words of a table entry: function, block behind, block branched to, instructions, times executed.
_FUNCTION, _BEHIND, _BRANCH, _LENGTH, _TIMES, _ENTRY_WORDS = 0, 1, 2, 3, 4, 5
# What the native loop comes back with, above the block's number.
_NO_CODE, _TURN_OVER, _STOPPED = 0, 1, 2
_STATUS_SHIFT = 32

Report = ctypes.CFUNCTYPE(
    ctypes.c_int64,
    ctypes.POINTER(ctypes.c_uint64),
    ctypes.c_int64,
    ctypes.c_int64,
    ctypes.POINTER(ctypes.c_uint64),
    ctypes.c_int64,
    ctypes.c_uint64,
)


@dataclass(slots=True)
class Block:
    """Steps that run one behind the other. `native` until something in it turns out not to be."""

    number: int
    steps: Sequence[Step]
    native: bool


def blocks_of(steps: Sequence[Step]) -> list[Block]:
    """Cuts the code at branches, labels, and instructions without native form."""
    native_steps = [traits_of(step).native for step in steps]
    leaders = {0} | {step.branch for step in steps if step.branch != NOWHERE}
    for step, is_native in zip(steps, native_steps, strict=True):
        if not is_native:
            leaders |= {step.place, step.place + 1}
        elif step.meaning.control is Control.BRANCH:
            leaders.add(step.place + 1)
        if step.place and step.kernel is not steps[step.place - 1].kernel:
            leaders.add(step.place)
    blocks: list[Block] = []
    start = 0
    for place in range(1, len(steps) + 1):
        if place == len(steps) or place in leaders or place - start >= _LONGEST_BLOCK:
            blocks.append(Block(len(blocks), steps[start:place], native_steps[start]))
            start = place
    return blocks


@cache
def _dispatcher() -> tuple[Any, Any]:
    """(its owner, int64 run(context, table, first block)): see the module's idea."""
    module = ir.Module("dispatcher")
    kind = ir.FunctionType(I64, [I64_POINTER, I64_POINTER, I64])
    function = ir.Function(module, kind, "run")
    context, table, first = function.args
    entry, head, enter, call, follow, leave = (
        function.append_basic_block(name) for name in ("entry", "head", "enter", "call", "follow", "leave")
    )
    ir.IRBuilder(entry).branch(head)
    b = ir.IRBuilder(head)

    def slot(number: int) -> Any:
        return b.gep(context, [ir.Constant(I32, number)])

    block = b.phi(I64)
    block.add_incoming(first, entry)
    place = b.gep(table, [b.mul(block, ir.Constant(I64, _ENTRY_WORDS))])

    def word(number: int) -> Any:
        return b.gep(place, [ir.Constant(I32, number)])

    address = b.load(word(_FUNCTION))
    b.cbranch(b.icmp_unsigned("==", address, ir.Constant(I64, 0)), leave, enter)
    b.position_at_end(enter)
    left = b.sub(b.load(slot(Slot.BUDGET)), b.load(word(_LENGTH)))
    b.cbranch(b.icmp_signed("<", left, ir.Constant(I64, 0)), leave, call)
    b.position_at_end(call)
    b.store(left, slot(Slot.BUDGET))
    b.store(block, slot(Slot.BLOCK))
    b.store(b.add(b.load(word(_TIMES)), ir.Constant(I64, 1)), word(_TIMES))
    pointer = b.inttoptr(address, ir.FunctionType(I64, [I64_POINTER]).as_pointer())
    result = b.call(pointer, [context])
    b.cbranch(b.icmp_unsigned("==", result, ir.Constant(I64, STOPPED)), leave, follow)
    b.position_at_end(follow)
    taken = b.icmp_unsigned("==", result, ir.Constant(I64, TAKEN))
    behind, branch = b.load(word(_BEHIND)), b.load(word(_BRANCH))
    block.add_incoming(b.select(taken, branch, behind), follow)
    b.branch(head)
    b.position_at_end(leave)
    status = b.phi(I64)
    for value, before in ((_NO_CODE, head), (_TURN_OVER, enter), (_STOPPED, call)):
        status.add_incoming(ir.Constant(I64, value), before)
    b.ret(b.or_(b.shl(status, ir.Constant(I64, _STATUS_SHIFT)), block))
    engine = native.load(native.object_code(module))
    signature = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    return engine, signature(engine.get_function_address("run"))


class CompiledEngine:
    """Implements `machine.Engine`. Call `finish` at the end of a run to have everything counted."""

    def __init__(self, code: Code, tally: Tally, poison: Poison) -> None:
        self.code = code
        self.tally = tally
        self.reference = ReferenceEngine(code, tally)
        self.store = BlockStore(code.load_base, notice_unwritten=poison != "ignore")
        self.blocks = blocks_of(code.steps)
        self.block_of_place = {block.steps[0].place: block for block in self.blocks}
        self._tables: dict[int, NDArray[np.int64]] = {}
        _, self._run = _dispatcher()
        self._report = Report(self._reported)
        self._wave: Wave | None = None
        self._error: Exception | None = None

    def advance(self, wave: Wave, turn: int) -> Stop:
        """Runs up to about `turn` instructions: a block is never cut."""
        end = wave.steps + turn
        while wave.steps < end:
            block = self.block_of_place.get(wave.place)
            if block is None or not self._has_code(block, wave):
                stop = self._interpret(wave, block)
            else:
                stop = self._run_native(wave, block, end - wave.steps)
            if stop is not None:
                return stop
        return Stop.TURN

    def finish(self) -> None:
        """Adds what native code executed to the tally."""
        for table in self._tables.values():
            for block in self.blocks:
                times = int(table[block.number, _TIMES])
                if times:
                    for step in block.steps:
                        self.tally.executed[step.place] += times
            table[:, _TIMES] = 0

    # --- which code

    def _table(self, wave: Wave) -> NDArray[np.int64]:
        mode = int(wave.scalars[MODE])
        table = self._tables.get(mode)
        nowhere = len(self.blocks)  # an entry that never has code
        if table is None:
            table = self._tables[mode] = np.zeros((len(self.blocks) + 1, _ENTRY_WORDS), np.int64)
            for block in self.blocks:
                last = block.steps[-1]
                behind, branch = self.block_of_place.get(last.place + 1), self.block_of_place.get(last.branch)
                entry = table[block.number]
                entry[_BEHIND] = behind.number if behind is not None else nowhere
                entry[_BRANCH] = branch.number if branch is not None else nowhere
                entry[_LENGTH] = len(block.steps)
        return table

    def _has_code(self, block: Block, wave: Wave) -> bool:
        """Whether there is native code for a block; compiles it at the first visit."""
        if not block.native:
            return False
        table = self._table(wave)
        if table[block.number, _FUNCTION]:
            return True
        mode = float_mode(int(wave.scalars[MODE]), block.steps[0])
        try:
            table[block.number, _FUNCTION] = self.store.address(block.steps, mode)
        except NotNativeError:
            block.native = False
            return False
        return True

    # --- running

    def _interpret(self, wave: Wave, block: Block | None) -> Stop | None:
        """Runs a block, or what is left of one, by the reference engine."""
        turn = len(block.steps) if block is not None else 1
        for _ in range(turn):
            place = wave.place
            stop = self.reference.advance(wave, 1)
            if stop is not Stop.TURN:
                return stop
            if wave.place != place + 1:
                return None
        return None

    def _run_native(self, wave: Wave, block: Block, turn: int) -> Stop | None:
        if wave.context is None:
            report = ctypes.cast(self._report, ctypes.c_void_p).value
            assert report is not None
            wave.context = make_context(wave, self.code.load_base, report)
        table = self._table(wave)
        turn = max(turn, len(block.steps))
        context: ctypes.Array[Any] = wave.context
        context[Slot.BUDGET] = turn
        self._wave, self._error = wave, None
        outcome = self._run(ctypes.addressof(context), table.ctypes.data, block.number)
        wave.steps += turn - ctypes.c_int64(context[Slot.BUDGET]).value
        if self._error is not None:
            raise self._error
        status, number = outcome >> _STATUS_SHIFT, outcome & ((1 << _STATUS_SHIFT) - 1)
        if number == len(self.blocks):
            last = self.blocks[context[Slot.BLOCK]].steps[-1]
            words = f"{last.kernel.name}: behind instruction {last.instruction.id} `{last.instruction.text}`"
            raise EmulationError(f"{words} the code goes on where no instruction is")
        wave.place = self.blocks[number].steps[0].place
        return Stop.TURN if status == _TURN_OVER else None

    def _reported(self, context: Any, place: int, access: int, addresses: Any, first_lane: int, mask: int) -> int:
        """Called by native code when the check of an access fails: 0 goes on, 1 stops."""
        wave = self._wave
        assert wave is not None
        try:
            self._examine(wave, self.blocks[context[Slot.BLOCK]].steps[place], access, addresses, first_lane, mask)
        except Exception as error:  # native code stands between here and who may handle it
            self._error = error
            return 1
        return 0

    def _examine(self, wave: Wave, step: Step, access: int, addresses: Any, first_lane: int, mask: int) -> None:
        wave.place = step.place
        request = step.meaning.memory[access]
        active = np.zeros(wave.lanes, bool)
        where = np.zeros(wave.lanes, np.uint64)
        for bit in range(mask.bit_length()):
            if mask >> bit & 1:
                active[first_lane + bit] = True
                where[first_lane + bit] = addresses[bit]
        store = request.kind is AccessKind.STORE
        wave.reach.examine(request.space, where, request.size, active, store)
        if request.kind is AccessKind.ATOMIC:
            wave.reach.examine(request.space, where, request.size, active, True)
