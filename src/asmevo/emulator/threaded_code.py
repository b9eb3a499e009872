"""A block as a row of calls: for each instruction a record with its shape's function and its own registers.

Nothing has to be compiled for a block whose shapes are known, which makes it the right form for code that runs a few
thousand times. The runner calls one record's function after the other until one does not say "go on"; that is the
block's answer. Waits and hints have no effect and no record.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from asmevo.emulator.block_code import BLOCK_TYPE, GO_ON, STOPPED
from asmevo.emulator.code import Step
from asmevo.emulator.native_functions import addresses, name_of
from asmevo.emulator.native_helpers import REPORT_TYPE
from asmevo.emulator.native_state import I8, I32, I64, Slot
from asmevo.emulator.native_traits import Shape, shape
from asmevo.emulator.register_places import Word, parameters
from asmevo.program.registers import units_of
from asmevo.semantics.expression import Control

REGISTERS = -1
"""The number of an access, in a report about registers."""


def has_effect(step: Step) -> bool:
    """Whether an instruction does anything but pass time."""
    meaning = step.meaning
    return bool(meaning.results or meaning.memory or meaning.control is Control.BRANCH)


def records(
    steps: Sequence[Step],
    functions: Mapping[Shape, int],
    load_base: int,
    uncertain: Mapping[int, int],
    watched: int,
) -> NDArray[np.int64] | None:
    """The words of a block, a zero behind the last record; None where a function is missing.

    `uncertain` are units to check by instruction, `watched` those to mark when written (see `unwritten`).
    """
    words: list[int] = []
    for place, step in enumerate(steps):
        words += _watching("check", uncertain.get(step.place, 0), place)
        if has_effect(step):
            function = functions.get(shape(step))
            if function is None:
                return None
            words += _record(function, parameters(step, step.kernel.wave_size), place, step.behind - load_base)
        words += _watching("mark", step.instruction.decoded.writes & watched, place)
    return np.array([*words, 0], np.int64)


def marked(function: int, steps: Sequence[Step], watched: int) -> NDArray[np.int64]:
    """The words of a block that has a function of its own, but writes watched units and checks none."""
    written = 0
    for step in steps:
        written |= step.instruction.decoded.writes
    return np.array([*_watching("mark", written & watched, 0), *_record(function, (), 0, 0), 0], np.int64)


def _record(function: int, own: Sequence[int], place: int, behind: int) -> list[int]:
    return [function, Word.PARAMETERS + len(own), place, behind, *own]


def _watching(kind: str, units: int, place: int) -> list[int]:
    return _record(_watcher(kind), list(units_of(units)), place, 0) if units else []


@cache
def runner() -> int:
    """The host address of `int64 run(context, records)`."""
    name = name_of("threaded code")
    return addresses({name: _write_runner})[name]


@cache
def _watcher(kind: str) -> int:
    name = name_of("watch", kind)
    return addresses({name: partial(_write_watcher, check=kind == "check")})[name]


def _write_watcher(module: Any, name: str, check: bool) -> None:
    """For each parameter, a unit: marks its byte, or reports that it is not marked."""
    function = ir.Function(module, BLOCK_TYPE, name)
    context, record = function.args
    names = ("entry", "unit", "report", "next", "done", "stop")
    entry, unit, report, following, done, stop = (function.append_basic_block(each) for each in names)
    ir.IRBuilder(done).ret(ir.Constant(I64, GO_ON))
    ir.IRBuilder(stop).ret(ir.Constant(I64, STOPPED))
    b = ir.IRBuilder(entry)
    written = b.inttoptr(b.load(b.gep(context, [ir.Constant(I32, Slot.WRITTEN)])), I8.as_pointer())
    length = b.load(b.gep(record, [ir.Constant(I32, Word.LENGTH)]))
    b.branch(unit)
    b.position_at_end(unit)
    number = b.phi(I64)
    number.add_incoming(ir.Constant(I64, Word.PARAMETERS), entry)
    place = b.gep(written, [b.load(b.gep(record, [number]))])
    if check:
        b.cbranch(b.icmp_unsigned("==", b.load(place), ir.Constant(I8, 0)), report, following)
    else:
        b.store(ir.Constant(I8, 1), place)
        b.branch(following)
    b.position_at_end(report)
    address = b.load(b.gep(context, [ir.Constant(I32, Slot.REPORT)]))
    zero, nothing = ir.Constant(I64, 0), ir.Constant(context.type, None)
    step = b.load(b.gep(record, [ir.Constant(I32, Word.PLACE)]))
    arguments = [context, step, ir.Constant(I64, REGISTERS), nothing, zero, zero]
    answer = b.call(b.inttoptr(address, REPORT_TYPE.as_pointer()), arguments)
    b.cbranch(b.icmp_unsigned("==", answer, zero), done, stop)
    b.position_at_end(following)
    other = b.add(number, ir.Constant(I64, 1))
    number.add_incoming(other, following)
    b.cbranch(b.icmp_unsigned("<", other, length), unit, done)


def _write_runner(module: Any, name: str) -> None:
    function = ir.Function(module, BLOCK_TYPE, name)
    context, first = function.args
    entry, head, call, leave = (function.append_basic_block(each) for each in ("entry", "head", "call", "leave"))
    ir.IRBuilder(entry).branch(head)
    b = ir.IRBuilder(head)
    record = b.phi(first.type)
    record.add_incoming(first, entry)
    address = b.load(b.gep(record, [ir.Constant(I32, Word.FUNCTION)]))
    b.cbranch(b.icmp_unsigned("==", address, ir.Constant(I64, 0)), leave, call)
    b.position_at_end(call)
    answer = b.call(b.inttoptr(address, BLOCK_TYPE.as_pointer()), [context, record])
    length = b.load(b.gep(record, [ir.Constant(I32, Word.LENGTH)]))
    record.add_incoming(b.gep(record, [length]), call)
    b.cbranch(b.icmp_unsigned("==", answer, ir.Constant(I64, GO_ON)), head, leave)
    b.position_at_end(leave)
    result = b.phi(I64)
    result.add_incoming(ir.Constant(I64, GO_ON), head)
    result.add_incoming(answer, call)
    b.ret(result)


def address_of(words: NDArray[np.int64]) -> int:
    """Where a block's words lie; they must outlive their use."""
    return int(ctypes.c_int64(words.ctypes.data).value)
