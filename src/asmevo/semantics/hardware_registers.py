"""s_getreg and s_setreg: fields of registers that the hardware keeps for a wave.

    s_getreg_b32 s0, hwreg(HW_REG_MODE, 4, 4)         4 bits from bit 4 on, into the low bits
    s_setreg_b32 hwreg(HW_REG_MODE, 0, 4), s0         the low 4 bits into bits 0..3, the rest of MODE keeps

MODE is state of the wave and exact: rounding (bits 0..3), denormals (4..7), DX10_CLAMP, IEEE, exceptions and so
on; what its bits do is told by the operations that look at them. SH_MEM_BASES holds the upper 16 bits of the
private and the shared aperture. Clocks give any value. Where a wave runs (HW_ID, XCC_ID) reads as 0 and is
approximate. SCHED_MODE says how the hardware waits, not what it calculates: writing it is a hint. All others are
refused by name, so is a number that names no register.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from asmevo.program.instruction import Decoded
from asmevo.semantics.building import constant
from asmevo.semantics.expression import (
    Concat,
    Control,
    Exactness,
    Expr,
    Implicit,
    Meaning,
    Result,
    Scope,
    Slice,
)
from asmevo.semantics.moves import unsupported
from asmevo.semantics.operands import raw, resize

_FIELD = re.compile(r"hwreg\((?P<name>\w+)(?:,\s*(?P<offset>\w+),\s*(?P<size>\w+))?\)")
_REGISTER_BITS = 32
_SOURCE = "written: hardware register"


class RegisterField(NamedTuple):
    """`size` bits of a register from bit `offset` on; the name without HW_REG_ and WAVE_."""

    name: str
    offset: int
    size: int


def register_field(text: str) -> RegisterField | None:
    """The field that an operand `hwreg(...)` names; None for other text."""
    found = _FIELD.fullmatch(text)
    if found is None:
        return None
    name = found["name"].removeprefix("HW_REG_").removeprefix("WAVE_")
    return RegisterField(name, int(found["offset"] or "0", 0), int(found["size"] or "32", 0))


def _mode() -> Expr:
    return Implicit(_REGISTER_BITS, "mode")


def _memory_bases() -> Expr:
    return Concat(_REGISTER_BITS, tuple(Slice(16, Implicit(64, f"{name}_base"), 48) for name in ("private", "shared")))


def _clock_low() -> Expr:
    return Slice(_REGISTER_BITS, Implicit(64, "clock"), 0)


def _clock_high() -> Expr:
    return Slice(_REGISTER_BITS, Implicit(64, "clock"), 32)


def _nothing() -> Expr:
    return constant(_REGISTER_BITS, 0)


_READABLE: dict[str, Callable[[], Expr]] = {
    "MODE": _mode,
    "SH_MEM_BASES": _memory_bases,
    "SHADER_CYCLES": _clock_low,
    "SHADER_CYCLES_LO": _clock_low,
    "SHADER_CYCLES_HI": _clock_high,
    "HW_ID": _nothing,
    "HW_ID1": _nothing,
    "HW_ID2": _nothing,
    "XCC_ID": _nothing,
}
_WHERE_IT_RUNS = ("HW_ID", "HW_ID1", "HW_ID2", "XCC_ID")
_SCHEDULING = ("SCHED_MODE",)


def read_register(decoded: Decoded) -> Meaning:
    """s_getreg_b32."""
    field = register_field(decoded.operands[1].text)
    if field is None or field.name not in _READABLE or field.offset + field.size > _REGISTER_BITS:
        return unsupported(decoded, f"register {decoded.operands[1].text} is not modelled")
    value = resize(Slice(field.size, _READABLE[field.name](), field.offset), _REGISTER_BITS)
    exactness = Exactness.APPROXIMATE if field.name in _WHERE_IT_RUNS else Exactness.EXACT
    results = (Result("operand", value),)
    return Meaning(Scope.WAVE, results, ignores_exec=True, exactness=exactness, source=_SOURCE)


def write_register(decoded: Decoded) -> Meaning:
    """s_setreg_b32 and s_setreg_imm32_b32. Raises UnsupportedOperandError."""
    field = register_field(decoded.operands[0].text)
    if field is not None and field.name in _SCHEDULING:
        return Meaning(Scope.WAVE, control=Control.HINT, ignores_exec=True, source=_SOURCE)
    if field is None or field.name != "MODE" or field.offset + field.size > _REGISTER_BITS:
        return unsupported(decoded, f"register {decoded.operands[0].text} is not modelled")
    return mode_change(resize(raw(decoded, 1, _REGISTER_BITS), field.size), field.offset)


def mode_change(value: Expr, offset: int) -> Meaning:
    """MODE with `value` from bit `offset` on."""
    end = offset + value.bits
    parts: list[Expr] = [value]
    if offset:
        parts.insert(0, Slice(offset, _mode(), 0))
    if end < _REGISTER_BITS:
        parts.append(Slice(_REGISTER_BITS - end, _mode(), end))
    results = (Result("mode", Concat(_REGISTER_BITS, tuple(parts))),)
    return Meaning(Scope.WAVE, results, ignores_exec=True, source=_SOURCE)
