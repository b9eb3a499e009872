"""Operations that compiled code hands back to the reference evaluator.

The host computes with round-to-nearest only, and not in every format. What it cannot do bit for bit, compiled code
gets from `evaluate.apply` through one C function, registered with LLVM under `SYMBOL`:

    void asmevo_softfloat(const char *operation, int lanes, const uint64_t *arguments, uint64_t *results)

`operation` spells an operation with its widths and mode (see `spelling`), `arguments` holds `lanes` numbers for
each operand, one operand behind the other. A spelling means the same in every process, so code that contains it can
be cached. A call costs microseconds a lane.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import llvmlite.binding as llvm

from asmevo.semantics.evaluate import apply
from asmevo.semantics.expression import Const, Op
from asmevo.semantics.float_mode import FloatMode

SYMBOL = "asmevo_softfloat"


def spelling(name: str, form: str, bits: int, argument_bits: tuple[int, ...], mode: FloatMode) -> str:
    """The operation as text: name, format, result bits, operand bits, MODE register, fnuz."""
    operands = ",".join(map(str, argument_bits))
    return f"{name} {form} {bits} {operands} {mode.register()} {int(mode.fnuz)}"


@cache
def _operation(text: bytes) -> tuple[Op, FloatMode]:
    name, form, bits, operands, register, fnuz = text.decode().split(" ")
    arguments = tuple(Const(int(width), 0) for width in operands.split(","))
    return Op(int(bits), name, arguments, form), FloatMode.from_register(int(register), fnuz=fnuz == "1")


_Words = ctypes.POINTER(ctypes.c_uint64)


def _softfloat(text: bytes, lanes: int, arguments: Any, results: Any) -> None:
    node, mode = _operation(text)
    for lane in range(lanes):
        operands = tuple(arguments[place * lanes + lane] for place in range(len(node.args)))
        results[lane] = apply(node, operands, mode)


_CALLABLE = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_int, _Words, _Words)(_softfloat)


@cache
def install() -> None:
    """Makes the function known to LLVM in this process; call before code that may need it is finalised."""
    address = ctypes.cast(_CALLABLE, ctypes.c_void_p).value
    llvm.add_symbol(SYMBOL, address)
