"""Scheduling regions: the runs of instructions inside of which LLVM's machine scheduler may change the order.

A region ends before each border and begins behind it; a border itself stays where it is. Borders are terminators,
calls, labels, writes of EXEC (the generic instructions that follow do not name EXEC as an operand although they work
under it), and those listed with their source in `data/borders.yaml`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any

import yaml
from msgspec import Struct

from asmevo.compiler.machine_instruction import MachineInstruction
from asmevo.compiler.machine_ir import MachineBlock, MachineFunction, Statement
from asmevo.compiler.machine_opcodes import opcode_facts
from asmevo.compiler.machine_registers import physical_units
from asmevo.proposers.scheduling import Kind

_EXEC = physical_units("exec")


@cache
def _borders() -> dict[str, Any]:
    rows: dict[str, Any] = yaml.safe_load(files("asmevo.compiler").joinpath("data", "borders.yaml").read_text())
    return rows


class MachineRegion(Struct, frozen=True):
    """Statements `start` and up to `stop` of a block, in the compiler's order. `name` is unique in a module."""

    function: MachineFunction
    block: MachineBlock
    start: int
    stop: int
    number: int

    @property
    def name(self) -> str:
        """`kernel:bb.4:0`: function, block, place among the block's regions."""
        return f"{self.function.name}:bb.{self.block.number}:{self.number}"

    @property
    def statements(self) -> tuple[Statement, ...]:
        """What may change places."""
        return self.block.statements[self.start : self.stop]


def regions_of(function: MachineFunction, gpu: str) -> Iterator[MachineRegion]:
    """All regions of two instructions or more."""
    for block in function.blocks:
        borders = [n for n, each in enumerate(block.statements) if is_border(each, gpu)]
        starts = [0, *(n + 1 for n in borders)]
        ends = [*borders, len(block.statements)]
        runs = [(start, stop) for start, stop in zip(starts, ends, strict=True) if stop - start > 1]
        for number, (start, stop) in enumerate(runs):
            yield MachineRegion(function, block, start, stop, number)


def is_border(statement: Statement, gpu: str) -> bool:
    """Whether nothing may cross a statement; an opcode that LLVM 22 does not know is one too."""
    return any(_is_border(each, gpu) for each in statement.members)


def _is_border(instruction: MachineInstruction, gpu: str) -> bool:
    facts = opcode_facts(instruction.opcode, gpu)
    if facts is None or facts.flags & {"terminator", "call"}:
        return True
    borders = _borders()
    if instruction.opcode in borders["anywhere"]:
        return True
    if instruction.opcode in borders["with_mask_zero"] and 0 in instruction.numbers[:1]:
        return True
    written = [each.name[1:] for each in instruction.registers if each.is_def and not each.is_virtual]
    return any(_EXEC & physical_units(name) for name in written)


def is_hint(instruction: MachineInstruction) -> bool:
    """Whether it only tells LLVM's scheduler something."""
    return instruction.opcode in _borders()["hints"]


def passing_kinds(instruction: MachineInstruction) -> frozenset[Kind] | None:
    """What a barrier for the scheduler lets pass, None for any other instruction."""
    borders = _borders()
    if instruction.opcode not in borders["with_mask_zero"]:
        return None
    mask = instruction.numbers[0] if instruction.numbers else 0
    return frozenset(Kind(kind) for row in borders["mask"] if mask & row["bit"] for kind in row["kinds"])
