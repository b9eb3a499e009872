"""The loop in native code that calls one block after the other.

A table has one entry a block. An entry's function gives GO_ON, TAKEN or STOPPED; the loop follows to the block behind
or to the one branched to, until a block has no code, has become hot, the turn is over, or a report stopped the wave.
"""

from __future__ import annotations

import ctypes
from enum import IntEnum
from functools import cache
from typing import Any

from llvmlite import ir

from asmevo.emulator.block_code import BLOCK_TYPE, STOPPED, TAKEN
from asmevo.emulator.native_functions import addresses, name_of
from asmevo.emulator.native_state import I32, I64, I64_POINTER, Slot


class Entry(IntEnum):
    """Words of a table entry. FUNCTION 0: no code. TIMES counts executions; the loop stops before the HOT-th."""

    FUNCTION = 0
    RECORDS = 1
    BEHIND = 2
    BRANCH = 3
    LENGTH = 4
    TIMES = 5
    HOT = 6


class Status(IntEnum):
    """Why the loop came back; the block's number stands below."""

    NO_CODE = 0
    TURN_OVER = 1
    STOPPED = 2
    HOT = 3


_STATUS_SHIFT = 32


def split(outcome: int) -> tuple[Status, int]:
    """(status, block) of what the loop came back with."""
    return Status(outcome >> _STATUS_SHIFT), outcome & ((1 << _STATUS_SHIFT) - 1)


@cache
def dispatcher() -> Any:
    """int64 run(context, table, first block) as a ctypes function."""
    name = name_of("dispatcher")
    signature = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    return signature(addresses({name: _write})[name])


def _write(module: Any, name: str) -> None:
    kind = ir.FunctionType(I64, [I64_POINTER, I64_POINTER, I64])
    function = ir.Function(module, kind, name)
    context, table, first = function.args
    entry, head, enter, cool, call, follow, leave = (
        function.append_basic_block(each) for each in ("entry", "head", "enter", "cool", "call", "follow", "leave")
    )
    ir.IRBuilder(entry).branch(head)
    b = ir.IRBuilder(head)

    def slot(number: int) -> Any:
        return b.gep(context, [ir.Constant(I32, number)])

    block = b.phi(I64)
    block.add_incoming(first, entry)
    place = b.gep(table, [b.mul(block, ir.Constant(I64, len(Entry)))])

    def word(number: int) -> Any:
        return b.gep(place, [ir.Constant(I32, number)])

    address = b.load(word(Entry.FUNCTION))
    b.cbranch(b.icmp_unsigned("==", address, ir.Constant(I64, 0)), leave, enter)
    b.position_at_end(enter)
    left = b.sub(b.load(slot(Slot.BUDGET)), b.load(word(Entry.LENGTH)))
    b.cbranch(b.icmp_signed("<", left, ir.Constant(I64, 0)), leave, cool)
    b.position_at_end(cool)
    times = b.add(b.load(word(Entry.TIMES)), ir.Constant(I64, 1))
    b.cbranch(b.icmp_unsigned("==", times, b.load(word(Entry.HOT))), leave, call)
    b.position_at_end(call)
    b.store(left, slot(Slot.BUDGET))
    b.store(block, slot(Slot.BLOCK))
    b.store(times, word(Entry.TIMES))
    pointer = b.inttoptr(address, BLOCK_TYPE.as_pointer())
    result = b.call(pointer, [context, b.inttoptr(b.load(word(Entry.RECORDS)), I64_POINTER)])
    b.cbranch(b.icmp_unsigned("==", result, ir.Constant(I64, STOPPED)), leave, follow)
    b.position_at_end(follow)
    taken = b.icmp_unsigned("==", result, ir.Constant(I64, TAKEN))
    behind, branch = b.load(word(Entry.BEHIND)), b.load(word(Entry.BRANCH))
    block.add_incoming(b.select(taken, branch, behind), follow)
    b.branch(head)
    b.position_at_end(leave)
    status = b.phi(I64)
    for value, before in (
        (Status.NO_CODE, head), (Status.TURN_OVER, enter), (Status.HOT, cool), (Status.STOPPED, call)
    ):  # fmt: skip
        status.add_incoming(ir.Constant(I64, value), before)
    b.ret(b.or_(b.shl(status, ir.Constant(I64, _STATUS_SHIFT)), block))
