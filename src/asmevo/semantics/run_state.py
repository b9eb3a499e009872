"""What a run of pseudocode holds, and how the states of two branches become one.

State. Names map to what they hold at this point: values of variables, `Cell`s of destinations, arrays. A name that
holds nothing yet is an operand, a fact about the wave, or a register.

Destinations. A Cell keeps which bits were assigned. Bits of a destination that no path assigns keep their old
contents; bits that only some paths assign read the old contents on the others. That is what the published texts
rely on (`if SCC then D0 = S0 endif`).

Joining. What differs after two branches becomes a Select on their condition (single static assignment by merging):
a register that one branch leaves alone keeps there what it had before; a variable that only one branch made is as
that branch made it, since the other path has no value of it that could be read.
"""

from __future__ import annotations

from math import inf, nan, pi
from typing import Protocol

from msgspec import Struct

from asmevo.semantics import building as build
from asmevo.semantics import syntax as s
from asmevo.semantics.expression import Const, Expr, Implicit
from asmevo.semantics.values import MeaninglessError, Type, Value, choice, float_constant, unsigned


class Operands(Protocol):
    """What an instruction's text finds outside of itself."""

    wave_size: int

    def read(self, name: str, type: Type) -> Value:
        """Operand S0, S1, S2, SIMM16, SIMM32 or the old D0, D1 as the operation sees it."""

    def old(self, name: str, bits: int) -> Expr:
        """The low bits of a destination before the instruction, as they stand in the register."""

    def lane_mask(self) -> Expr:
        """This lane's bit of the mask that the text calls VCC; 1 bit."""

    def field(self, name: str) -> Value:
        """A field of the encoding: OPSEL, OPSEL_HI, NEG, INST.OMOD and so on. Raises MeaninglessError."""


class Cell(Struct, frozen=True):
    """A destination while the text runs. `assigned` has a 1 for every bit that was written.

    `in_place` says that the text itself named the bits of the register (`VGPR[laneId][VDST.u32][31 : 16]`), so
    that no operand rule may move them again.
    """

    value: Value
    assigned: int
    in_place: bool = False


Held = Value | Cell | list[Value] | s.Function

DESTINATIONS = frozenset({"D0", "D1", "D"})
SOURCES = frozenset({"S0", "S1", "S2", "SIMM16", "SIMM32"})
_FIELDS = frozenset({"OPSEL", "OPSEL_HI", "NEG", "NEG_HI", "ABS"})
WAVE_WIDE = {"EXEC": "exec", "VCC": "vcc"}
_ROUNDING = {"ROUND_NEAREST_EVEN": "rne", "ROUND_TOWARD_ZERO": "rtz"}
_FLOAT_NAMES = {
    "INF": (inf, "f64"),
    "NAN": (nan, "f64"),
    "PI": (pi, "f64"),
    # What a quotient too small or too large for the format is rounded to, to nearest.
    "UNDERFLOW_F32": (0.0, "f32"),
    "UNDERFLOW_F64": (0.0, "f64"),
    "OVERFLOW_F32": (inf, "f32"),
    "OVERFLOW_F64": (inf, "f64"),
    "MAX_FLOAT_F32": ((2.0 - 2.0**-23) * 2.0**127, "f32"),
}
_IMPLICIT = {"SCC": (1, "scc"), "M0": (32, "m0"), "laneId": (32, "lane")}


def lane_key(name: str) -> str:
    """Where the state keeps this lane's bit of a mask that the text has written."""
    return f"{name}[lane]"


def runs(mask: int) -> list[tuple[int, int]]:
    """The runs of ones in a mask, as (lowest bit, length)."""
    found, low = [], 0
    while mask >> low:
        low += ((mask >> low) & -(mask >> low)).bit_length() - 1
        length = (~(mask >> low) & ((mask >> low) + 1)).bit_length() - 1
        found.append((low, length))
        low += length
    return found


def copied(state: dict[str, Held]) -> dict[str, Held]:
    """Arrays are changed in place, hence copied."""
    return {name: list(held) if isinstance(held, list) else held for name, held in state.items()}


class RunState:
    """The names of one run and what they hold. Raises MeaninglessError for a name that nobody knows."""

    def __init__(self, operands: Operands, state: dict[str, Held]) -> None:
        self.operands = operands
        self.state = state

    def _name(self, name: str) -> Value:
        held = self.state.get(name)
        if isinstance(held, Value):
            return held
        if isinstance(held, Cell):
            return self._filled(name, held, held.value.bits)
        if name in SOURCES or name in DESTINATIONS:
            return self.operands.read(name, Type("b", 32))
        if name in _FLOAT_NAMES:
            return float_constant(*_FLOAT_NAMES[name])
        if name in _ROUNDING or name == "ROUND_MODE":
            return Value("mode", Const(1, 0), _ROUNDING.get(name, ""))
        if name in _FIELDS:
            return self.operands.field(name)
        return self._register(name)

    def _register(self, name: str) -> Value:
        """A register outside of the operands, or a fact about the wave."""
        wave = self.operands.wave_size
        if name in ("WAVE32", "WAVE64"):
            return unsigned(build.constant(1, int(wave == int(name[4:]))))
        if name in ("VCCZ", "EXECZ"):
            mask = self._name(name[:-1])
            return unsigned(build.compared("eq", mask.expr, build.constant(mask.bits, 0)))
        if name in WAVE_WIDE:
            return Value("u", Implicit(wave, WAVE_WIDE[name]))
        if name.endswith("[lane]"):
            if name == lane_key("EXEC"):
                return unsigned(Implicit(1, "exec_bit"))
            return unsigned(self.operands.lane_mask())
        if name in _IMPLICIT:
            bits, register = _IMPLICIT[name]
            return unsigned(Implicit(bits, register))
        raise MeaninglessError(f"unknown name {name}")

    def _merged(self, condition: Expr, then: dict[str, Held], other: dict[str, Held]) -> dict[str, Held]:
        merged = dict(then)
        for name in then.keys() | other.keys():
            first, second = then.get(name), other.get(name)
            if first is second:
                continue
            merged[name] = self._joined(condition, name, first, second)
        return merged

    def _joined(self, condition: Expr, name: str, first: Held | None, second: Held | None) -> Held:
        if name in DESTINATIONS or isinstance(first, Cell) or isinstance(second, Cell):
            assert not isinstance(first, Value | list | s.Function)
            assert not isinstance(second, Value | list | s.Function)
            return self._joined_cells(condition, name, first, second)
        if isinstance(first, Value) and isinstance(second, Value):
            return choice(condition, first, second)
        if isinstance(first, list) and isinstance(second, list):
            return [choice(condition, a, b) for a, b in zip(first, second, strict=True)]
        if isinstance(first, Value) or isinstance(second, Value):
            return self._with_default(condition, name, first, second)
        found = first if first is not None else second
        assert found is not None
        return found

    def _with_default(self, condition: Expr, name: str, first: Held | None, second: Held | None) -> Held:
        """A register that one branch leaves alone keeps what it had; a variable has nothing that could be read."""
        if name not in ("SCC", *WAVE_WIDE) and not name.endswith("[lane]"):
            found = first if first is not None else second
            assert found is not None
            return found
        before = self._register(name)
        then = first if isinstance(first, Value) else before
        other = second if isinstance(second, Value) else before
        return choice(condition, then, other)

    def _joined_cells(self, condition: Expr, name: str, first: Cell | None, second: Cell | None) -> Cell:
        if first is not None and second is not None and first.assigned == second.assigned:
            in_place = first.in_place or second.in_place
            return Cell(choice(condition, first.value, second.value), first.assigned, in_place)
        cells = [cell for cell in (first, second) if cell is not None]
        bits = max(cell.value.bits for cell in cells)
        then, other = (self._filled(name, cell, bits) for cell in (first, second))
        assigned = 0
        for cell in cells:
            assigned |= cell.assigned
        return Cell(choice(condition, then, other), assigned, any(cell.in_place for cell in cells))

    def _filled(self, name: str, cell: Cell | None, bits: int) -> Value:
        """A destination's bits with the old contents where nothing was assigned."""
        if cell is not None and cell.value.bits == bits and cell.assigned == (1 << bits) - 1:
            return cell.value
        filled = self.operands.old(name, bits)
        if cell is not None:
            for low, width in runs(cell.assigned):
                filled = build.replaced(filled, low, build.part(cell.value.expr, low, width))
        format = cell.value.format if cell is not None and cell.value.bits == bits else ""
        return Value("f" if format else "b", filled, format)
