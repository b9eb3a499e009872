"""One instruction of machine IR, read from the line in which LLVM prints it.

    %5:vgpr_32, dead $scc = nofpexcept OPCODE killed %1.sub0, 16, implicit $exec :: (load (s32) from %ir.p, addrspace 1)

Only what an order depends on is understood: the opcode, the flags before it, register operands with their roles,
numbers among the operands, memory operands. Everything else (blocks, globals, metadata, text of inline assembly) is
skipped as a whole, and the line itself is kept, so nothing is lost when it is written at another place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from asmevo.compiler.memory_operand import MemoryOperand, parse_memory_operand
from asmevo.compiler.splitting import split_outside

_ROLE = r"implicit-def|implicit|def|dead|killed|undef|internal|early-clobber|debug-use|renamable"
_REGISTER = re.compile(
    rf"(?P<roles>(?:(?:{_ROLE})\s+)*)"
    r"(?P<name>\$[a-z0-9_]+|%(?:\d+|(?!(?:bb|ir|ir-block|stack|fixed-stack|const|jump-table|subreg)\.)[A-Za-z_][\w-]*))"
    r"(?:\.(?P<sub>[a-z0-9_]+))?(?::(?P<class>[A-Za-z0-9_]+))?(?:\([^()]*\))*"
)
_OPCODE = re.compile(r"(?P<flags>(?:[a-z][a-z0-9-]*\s+)*)(?P<opcode>[A-Z]\w*)(?:\s+(?P<rest>.*))?", re.DOTALL)
_NUMBER = re.compile(r"-?\d+")
_COMMENT = re.compile(r"/\*.*?\*/")


class RegisterOperand(Struct, frozen=True):
    """A register in an instruction: `name` with its `%` or `$`, `sub` the sub-register index or ''."""

    name: str
    sub: str
    roles: frozenset[str]
    is_def: bool

    @property
    def is_virtual(self) -> bool:
        """Whether it still has to be given a register of the machine."""
        return self.name.startswith("%")

    @property
    def is_undefined(self) -> bool:
        """A read of no value in particular, or a write that leaves the other lanes without one."""
        return "undef" in self.roles

    @property
    def is_dead(self) -> bool:
        """A write that nobody reads."""
        return "dead" in self.roles


class MachineInstruction(Struct, frozen=True):
    """See the module. `numbers` are the operands that are plain integers, in order."""

    opcode: str
    flags: frozenset[str]
    registers: tuple[RegisterOperand, ...]
    numbers: tuple[int, ...]
    memory: tuple[MemoryOperand, ...]


def parse_instruction(text: str) -> MachineInstruction:
    """Reads one instruction, without its indentation. Raises ValueError with what is wrong."""
    body, *memory = split_outside(text, " :: ")
    sides = split_outside(body, " = ")
    if len(sides) > 2:
        raise ValueError("more than one ` = `")
    found = _OPCODE.fullmatch(sides[-1].strip())
    if found is None:
        raise ValueError("no opcode")
    results = [_result(word) for word in split_outside(sides[0], ",")] if len(sides) == 2 else []
    numbers, operands = [], []
    for word in split_outside(found["rest"] or "", ","):
        word = _COMMENT.sub("", word).strip()
        if _NUMBER.fullmatch(word):
            numbers.append(int(word))
        elif (operand := _register(word)) is not None:
            operands.append(operand)
    return MachineInstruction(
        found["opcode"],
        frozenset(found["flags"].split()),
        (*results, *operands),
        tuple(numbers),
        tuple(_memory_operands(memory)),
    )


def _memory_operands(parts: list[str]) -> Iterator[MemoryOperand]:
    if len(parts) > 1:
        raise ValueError("more than one ` :: `")
    for word in split_outside(parts[0], ",") if parts else ():
        word = word.strip()
        if word.startswith("("):
            if not word.endswith(")"):
                raise ValueError(f"memory operand `{word}` is cut off")
            yield parse_memory_operand(word[1:-1])


def _result(word: str) -> RegisterOperand:
    operand = _register(word.strip(), is_result=True)
    if operand is None:
        raise ValueError(f"`{word.strip()}` is no register")
    return operand


def _register(word: str, is_result: bool = False) -> RegisterOperand | None:
    found = _REGISTER.fullmatch(word)
    if found is None:
        return None
    roles = frozenset(found["roles"].split())
    is_def = is_result or "def" in roles or "implicit-def" in roles
    return RegisterOperand(found["name"], found["sub"] or "", roles, is_def)
