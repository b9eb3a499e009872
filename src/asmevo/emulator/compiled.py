"""The engine that runs native code, block by block.

A loop in native code (`dispatcher`) calls one block after the other. A block starts as threaded code, which needs only
functions of instruction shapes; those of a whole kernel are got together when a wave first comes to it. A block that
has run `hot_after` times is compiled as a whole. What nobody compiles (barriers, ends, jumps, mode changes) is run by
the reference engine. Code depends on the floating-point mode, so there is one table of blocks for each mode that
occurs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Container, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from asmevo.emulator.block_store import BlockStore
from asmevo.emulator.code import NOWHERE, Code, Step
from asmevo.emulator.dispatcher import Entry, Status, dispatcher, split
from asmevo.emulator.errors import EmulationError
from asmevo.emulator.machine import Poison, Stop, Tally
from asmevo.emulator.native_state import Slot, make_context
from asmevo.emulator.native_traits import Shape, traits_of
from asmevo.emulator.reference import ReferenceEngine, float_mode
from asmevo.emulator.threaded_code import REGISTERS, address_of, has_effect, marked, records, runner
from asmevo.emulator.unwritten import UnwrittenReads
from asmevo.emulator.wave import MODE, Lanes, Wave
from asmevo.program.kernel import Kernel
from asmevo.program.registers import units_of
from asmevo.semantics.expression import AccessKind, Control

_LONGEST_BLOCK = 160  # instructions; compile time grows faster than length
HOT_AFTER = 20_000
"""Executions after which compiling a block as a whole pays: it takes milliseconds an instruction, and saves some ten
nanoseconds each time."""

Report = ctypes.CFUNCTYPE(
    ctypes.c_int64,
    ctypes.POINTER(ctypes.c_uint64),
    ctypes.c_int64,
    ctypes.c_int64,
    ctypes.POINTER(ctypes.c_uint64),
    ctypes.c_int64,
    ctypes.c_uint64,
)


class Block(Struct):
    """Steps that run one behind the other. `native` until something in it turns out not to be."""

    number: int
    steps: Sequence[Step]
    native: bool


def blocks_of(steps: Sequence[Step], alone: Container[int] = ()) -> list[Block]:
    """Cuts the code at branches, labels, and instructions without native form. Places in `alone` count as such."""
    native_steps = [step.place not in alone and traits_of(step).native for step in steps]
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


class CompiledEngine:
    """Implements `machine.Engine`. Call `finish` at the end of a run to have everything counted.

    Native code leaves the places in `alone` out, so that another engine may run them.
    """

    def __init__(
        self, code: Code, tally: Tally, poison: Poison, alone: Container[int] = (), hot_after: int = HOT_AFTER
    ) -> None:
        self.code = code
        self.tally = tally
        self.poison = poison
        self.reference = ReferenceEngine(code, tally)
        self.store = BlockStore(code.load_base, notice_unwritten=poison != "ignore")
        self.blocks = blocks_of(code.steps, alone)
        self.block_of_place = {block.steps[0].place: block for block in self.blocks}
        self._number_of_place = [block.number for block in self.blocks for _ in block.steps]
        self.hot_after = hot_after
        self._tables: dict[int, NDArray[np.int64]] = {}
        self._functions: dict[tuple[str, int], dict[Shape, int]] = {}
        self._records: dict[tuple[int, int], NDArray[np.int64]] = {}
        self._unwritten: UnwrittenReads | None = None
        self._certain: dict[int, Lanes] = {}
        self._run = dispatcher()
        self._report = Report(self._reported)
        self._wave: Wave | None = None
        self._error: Exception | None = None

    def advance(self, wave: Wave, turn: int) -> Stop:
        """Runs up to about `turn` instructions: a block is never cut."""
        end = wave.steps + turn
        while wave.steps < end:
            stop = self.go_on(wave, end - wave.steps)
            if stop is not None:
                return stop
        return Stop.TURN

    def go_on(self, wave: Wave, turn: int) -> Stop | None:
        """Runs the block at the wave's place, and in native code those behind it while less than `turn` ran."""
        if self._unwritten is None and self.poison != "ignore":
            self._analyse(wave)
        block = self.block_of_place.get(wave.place)
        if block is None or not self._has_code(block, wave):
            return self._interpret(wave, block)
        return self._run_native(wave, block, turn)

    def reveal(self, wave: Wave) -> None:
        """Makes `wave.written` true for the instruction at the wave's place, so that another engine may look at it."""
        if self._unwritten is None and self.poison != "ignore":
            self._analyse(wave)
        self._reveal(wave, self._number_of_place[wave.place])

    def finish(self) -> None:
        """Adds what native code executed to the tally."""
        for table in self._tables.values():
            for block in self.blocks:
                times = int(table[block.number, Entry.TIMES])
                if times:
                    for step in block.steps:
                        self.tally.executed[step.place] += times
            table[:, Entry.TIMES] = 0

    # --- which code

    def _table(self, wave: Wave) -> NDArray[np.int64]:
        mode = int(wave.scalars[MODE])
        table = self._tables.get(mode)
        nowhere = len(self.blocks)  # an entry that never has code
        if table is None:
            table = self._tables[mode] = np.zeros((len(self.blocks) + 1, len(Entry)), np.int64)
            for block in self.blocks:
                last = block.steps[-1]
                behind, branch = self.block_of_place.get(last.place + 1), self.block_of_place.get(last.branch)
                entry = table[block.number]
                entry[Entry.BEHIND] = behind.number if behind is not None else nowhere
                entry[Entry.BRANCH] = branch.number if branch is not None else nowhere
                entry[Entry.LENGTH] = len(block.steps)
                entry[Entry.HOT] = self.hot_after
        return table

    def _has_code(self, block: Block, wave: Wave) -> bool:
        """Whether there is native code for a block; makes it at the first visit."""
        if not block.native:
            return False
        entry = self._table(wave)[block.number]
        if entry[Entry.FUNCTION]:
            return True
        make = self._thread if self.hot_after or self._checks(block) else self._compile
        block.native = make(block, int(wave.scalars[MODE]), entry)
        return block.native

    def _thread(self, block: Block, mode: int, entry: NDArray[np.int64]) -> bool:
        """Gives a block threaded code."""
        functions = self._shapes(block.steps[0].kernel, mode)
        reads = self._unwritten
        words = records(
            block.steps, functions, self.code.load_base, reads.uncertain if reads else {}, reads.watched if reads else 0
        )
        if words is None:
            return False
        self._use(block, mode, entry, words)
        if self._checks(block):
            entry[Entry.HOT] = 0
        return True

    def _use(self, block: Block, mode: int, entry: NDArray[np.int64], words: NDArray[np.int64]) -> None:
        self._records[block.number, mode] = words
        entry[Entry.FUNCTION], entry[Entry.RECORDS] = runner(), address_of(words)

    def _shapes(self, kernel: Kernel, mode: int) -> dict[Shape, int]:
        """The functions of all shapes in a kernel."""
        found = self._functions.get((kernel.name, mode))
        if found is None:
            steps = [
                step
                for block in self.blocks
                if block.native and block.steps[0].kernel is kernel
                for step in block.steps
                if has_effect(step)
            ]
            found = self.store.instructions(steps, float_mode(mode, steps[0])) if steps else {}
            self._functions[kernel.name, mode] = found
        return found

    def _compile(self, block: Block, mode: int, entry: NDArray[np.int64]) -> bool:
        """Gives a block code of its own."""
        address = self.store.block(block.steps, float_mode(mode, block.steps[0]))
        entry[Entry.HOT] = 0  # never reached
        if address is None:
            return False
        if self._unwritten is not None and self._unwritten.watched:
            self._use(block, mode, entry, marked(address, block.steps, self._unwritten.watched))
        else:
            entry[Entry.FUNCTION] = address
        return True

    # --- registers that nobody wrote

    def _analyse(self, wave: Wave) -> None:
        """Finds out at the first wave what has to be watched; all waves start with the same registers written."""
        nowhere = len(self.blocks)
        table = self._table(wave)
        successors = [[int(next) for next in row[[Entry.BEHIND, Entry.BRANCH]] if next != nowhere] for row in table]
        start = sum(1 << int(unit) for unit in np.flatnonzero(wave.written))
        entry = self.block_of_place.get(wave.place)
        self._unwritten = UnwrittenReads(
            [block.steps for block in self.blocks], successors, entry.number if entry is not None else None, start
        )
        if self._unwritten.watched or entry is None:
            self.reference.poison = self.poison

    def _checks(self, block: Block) -> bool:
        """Whether something in a block may read a register that nobody wrote."""
        reads = self._unwritten
        return reads is not None and any(step.place in reads.uncertain for step in block.steps)

    def _reveal(self, wave: Wave, number: int) -> None:
        """Fills `wave.written` up with what is certain at the wave's place, in a block; the rest is marked there."""
        reads = self._unwritten
        if reads is None or not reads.watched:
            return
        units = self._certain.get(wave.place)
        if units is None:
            units = self._certain[wave.place] = np.fromiter(units_of(reads.certain(number, wave.place)), int)
        wave.written[units] = True

    # --- running

    def _interpret(self, wave: Wave, block: Block | None) -> Stop | None:
        """Runs a block, or what is left of one, by the reference engine."""
        turn = len(block.steps) if block is not None else 1
        for _ in range(turn):
            place = wave.place
            if place < len(self._number_of_place):
                self._reveal(wave, self._number_of_place[place])
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
        self._wave = None
        wave.steps += turn - ctypes.c_int64(context[Slot.BUDGET]).value
        if self._error is not None:
            raise self._error
        status, number = split(outcome)
        if number == len(self.blocks):
            last = self.blocks[context[Slot.BLOCK]].steps[-1]
            words = f"{last.kernel.name}: behind instruction {last.instruction.id} `{last.instruction.text}`"
            raise EmulationError(f"{words} the code goes on where no instruction is")
        wave.place = self.blocks[number].steps[0].place
        if status is Status.HOT:
            self._compile(self.blocks[number], int(wave.scalars[MODE]), table[number])
        return Stop.TURN if status is Status.TURN_OVER else None

    def _reported(self, context: Any, place: int, access: int, addresses: Any, first_lane: int, mask: int) -> int:
        """Called by native code when a check fails, of an access or of registers: 0 goes on, 1 stops."""
        wave = self._wave
        assert wave is not None
        try:
            block = self.blocks[context[Slot.BLOCK]]
            step = block.steps[place]
            wave.place = step.place
            if access == REGISTERS:
                self._reveal(wave, block.number)
                self.reference.check_registers(wave, step)
            else:
                self._examine(wave, step, access, addresses, first_lane, mask)
        except Exception as error:  # native code stands between here and who may handle it
            self._error = error
            return 1
        return 0

    def _examine(self, wave: Wave, step: Step, access: int, addresses: Any, first_lane: int, mask: int) -> None:
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
