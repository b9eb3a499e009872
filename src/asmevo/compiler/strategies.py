"""LLVM's own ways to order instructions, as `data/llvm_strategies.yaml` lists them: options, attributes, hints."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import yaml
from msgspec import Struct

from asmevo.compiler.compilation import Compilation
from asmevo.compiler.errors import SchedulingError
from asmevo.compiler.machine_ir import MachineBlock, MachineModule
from asmevo.compiler.machine_opcodes import opcode_facts
from asmevo.proposers.scheduling import Kind

_KERNEL = re.compile(r"^define .*\bamdgpu_kernel\b.*?\) .*?#(\d+)")
_ATTRIBUTES = re.compile(r"^attributes #(\d+) = \{(.*)\}$")


class Strategy(Struct, frozen=True):
    """One row of the data; see the file."""

    name: str
    options: tuple[str, ...] = ()
    attributes: tuple[tuple[str, str], ...] = ()
    insert: tuple[str, ...] = ()
    times: int = 1
    needs: frozenset[Kind] = frozenset()
    through_text: bool = False

    def assembly(self, compilation: Compilation) -> str:
        """What LLVM makes of the source this way. Raises CompilationError."""
        if self.insert or self.through_text:
            return compilation.resumed(self._with_hints(compilation.module, compilation.gpu), self.options)
        return compilation.lower(self.options, _with_attributes(compilation.ir, dict(self.attributes)))

    def _with_hints(self, module: MachineModule, gpu: str) -> str:
        """The module with the hints in front of each block that holds work of the kinds needed."""
        blocks = (block for function in module.functions for block in function.blocks if block.statements)
        changed = {}
        for block in blocks:
            if self.needs <= _kinds(block, gpu):
                start = block.statements[0].lines.start
                hints = [f"    {text}\n" for text in self.insert * self.times]
                changed[range(start, start + 1)] = [*hints, module.lines[start]]
        return module.with_lines(changed)


@cache
def llvm_strategies() -> Mapping[str, Strategy]:
    """All strategies by name."""
    rows: dict[str, dict[str, Any]] = yaml.safe_load(
        files("asmevo.compiler").joinpath("data", "llvm_strategies.yaml").read_text()
    )["strategies"]
    return {
        name: Strategy(
            name,
            tuple(row.get("options", ())),
            tuple(row.get("attributes", {}).items()),
            tuple(row.get("insert", ())),
            row.get("times", 1),
            frozenset(Kind(kind) for kind in row.get("needs", ())),
            row.get("through_text", False),
        )
        for name, row in rows.items()
    }


def strategy_named(name: str, file: str) -> Strategy:
    """Raises SchedulingError with the names that there are; `file` is for the message."""
    found = llvm_strategies().get(name)
    if found is None:
        raise SchedulingError(file, f"LLVM has no strategy {name}; there are {', '.join(llvm_strategies())}")
    return found


def _kinds(block: MachineBlock, gpu: str) -> frozenset[Kind]:
    found = (opcode_facts(statement.opcode, gpu) for statement in block.statements)
    return frozenset(facts.kind for facts in found if facts is not None)


def _with_attributes(ir: str, attributes: Mapping[str, str]) -> str:
    """The IR with string attributes on every kernel; those that it has are replaced."""
    if not attributes:
        return ir
    groups = {found[1] for line in ir.splitlines() if (found := _KERNEL.match(line))}
    return "".join(_attributed(line, groups, attributes) for line in ir.splitlines(keepends=True))


def _attributed(line: str, groups: set[str], attributes: Mapping[str, str]) -> str:
    found = _ATTRIBUTES.match(line.rstrip("\n"))
    if found is None or found[1] not in groups:
        return line
    body = found[2]
    for name, value in attributes.items():
        body = re.sub(rf'\s*"{re.escape(name)}"="[^"]*"', "", body).rstrip() + f' "{name}"="{value}" '
    return f"attributes #{found[1]} = {{{body}}}\n"
