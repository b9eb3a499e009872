"""Where code finds registers and its own place: fixed numbers in a block, words of a record in shared code.

Code of a whole block is for one place in one program, so register numbers are constants in it. Code of an
instruction's shape is shared by all instructions that differ in their registers only: it is written for a stand-in
whose operands are registers of its own choice, and finds the real ones in the record that it is called with.

A record is a row of 64-bit words: the function, the record's length in words, the instruction's place in its block,
the address behind the instruction from the load base, and one word an operand that is a register: for a vector the
place of its first lane in words, for a scalar its unit.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Protocol

from llvmlite import ir
from msgspec import Struct
from msgspec.structs import replace

from asmevo.emulator.code import Step
from asmevo.emulator.native_state import I32, I64
from asmevo.emulator.native_traits import is_vector
from asmevo.emulator.wave import VECTOR_UNITS
from asmevo.program.instruction import Operand
from asmevo.program.registers import RegisterFile, RegisterSpan


class Word(IntEnum):
    """The first words of a record; parameters follow."""

    FUNCTION = 0
    LENGTH = 1
    PLACE = 2
    BEHIND = 3
    PARAMETERS = 4


class Places(Protocol):
    """All are 64-bit values that hold at the function's entry and after."""

    def vector(self, unit: int) -> Any:
        """The place of a vector register's first lane, in words from the first register's."""

    def scalar(self, unit: int) -> Any:
        """A scalar register's unit, from the first scalar unit."""

    def number(self, place: int) -> Any:
        """An instruction's place in the block."""

    def behind(self, step: Step) -> Any:
        """The address behind an instruction, from the load base."""


class FixedPlaces(Struct, frozen=True):
    """For code of one place in one program."""

    lanes: int
    load_base: int

    def vector(self, unit: int) -> Any:
        return ir.Constant(I64, unit * self.lanes)

    def scalar(self, unit: int) -> Any:
        return ir.Constant(I64, unit)

    def number(self, place: int) -> Any:
        return ir.Constant(I64, place)

    def behind(self, step: Step) -> Any:
        return ir.Constant(I64, step.behind - self.load_base)


class RecordPlaces:
    """For code of the stand-in `step`; `entry` builds the function's first block, `record` points at the words."""

    def __init__(self, step: Step, lanes: int, entry: Any, record: Any) -> None:
        self.lanes = lanes
        self._entry = entry
        self._record = record
        self._words: dict[int, Any] = {}
        self._parameter_of: dict[int, tuple[int, int]] = {}
        for number, span in enumerate(_varying(step)):
            for offset, unit in enumerate(span.units):
                self._parameter_of[unit] = (Word.PARAMETERS + number, offset)

    def _word(self, number: int) -> Any:
        if number not in self._words:
            place = self._entry.gep(self._record, [ir.Constant(I32, number)])
            self._words[number] = self._entry.load(place)
        return self._words[number]

    def _shifted(self, number: int, by: int) -> Any:
        word = self._word(number)
        return self._entry.add(word, ir.Constant(I64, by)) if by else word

    def vector(self, unit: int) -> Any:
        number, offset = self._parameter_of[unit]
        return self._shifted(number, offset * self.lanes)

    def scalar(self, unit: int) -> Any:
        found = self._parameter_of.get(unit + VECTOR_UNITS)
        return ir.Constant(I64, unit) if found is None else self._shifted(*found)

    def number(self, place: int) -> Any:
        return self._word(Word.PLACE)

    def behind(self, step: Step) -> Any:
        return self._word(Word.BEHIND)


_SCALAR_FILES = (RegisterFile.SGPR, RegisterFile.TTMP)


def _varies(operand: Operand) -> bool:
    """Whether an operand is a numbered register. VCC, EXEC, M0 and the like are part of a shape."""
    span = operand.registers
    return span is not None and (is_vector(span) or span.file in _SCALAR_FILES)


def _varying(step: Step) -> list[RegisterSpan]:
    return [each.registers for each in step.instruction.decoded.operands if _varies(each) and each.registers]


def parameters(step: Step, lanes: int) -> list[int]:
    """The record's words for the operands of an instruction."""
    return [span.base_unit * lanes if is_vector(span) else span.base_unit - VECTOR_UNITS for span in _varying(step)]


def stand_in(step: Step) -> Step:
    """The instruction with registers that no two operands share.

    Instructions read all that they need before they write, so code that is right for operands apart is right for
    operands that overlap.
    """
    free = {RegisterFile.VGPR: 0, RegisterFile.SGPR: 0}
    operands = []
    for operand in step.instruction.decoded.operands:
        span = operand.registers
        if _varies(operand) and span is not None:
            file = RegisterFile.VGPR if is_vector(span) else RegisterFile.SGPR
            operand = replace(operand, registers=RegisterSpan(file, free[file], span.count))
            free[file] += span.count
        operands.append(operand)
    decoded = replace(step.instruction.decoded, operands=tuple(operands))
    return replace(step, instruction=replace(step.instruction, decoded=decoded))
