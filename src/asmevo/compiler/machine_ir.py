"""Machine IR as LLVM prints it (`llc -stop-before=...`): YAML documents whose bodies hold machine instructions.

A module is its lines, and every line that nobody moves is written again as it was. The first document is the LLVM IR
that memory operands refer to. Each further one is a function: its YAML head is read for the classes of virtual
registers, its body for blocks and instructions.

    name: fused_mlp
    registers: [{ id: 0, class: vgpr_32 }, ...]
    body: |
      bb.2 (%ir-block.15):
        successors: %bb.4(0x04000000), %bb.2
        liveins: $vgpr0
        %5:vgpr_32 = ...

A bundle (`BUNDLE ... {` to `}`) is one instruction that has all the operands of its members. Debug instructions belong
to the instruction before them, as for LLVM's own scheduler; those that follow none stay where they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import yaml
from msgspec import Struct

from asmevo.compiler.errors import MachineIRError
from asmevo.compiler.machine_instruction import MachineInstruction, parse_instruction
from asmevo.compiler.machine_registers import class_lanes

_BLOCK = re.compile(r"  bb\.(?P<number>\d+)(?:\.[^\s:(]+)?(?:\s*\((?P<attributes>.*)\))?:\s*$")
_SUCCESSOR = re.compile(r"%bb\.(\d+)")
_LIVE_IN = re.compile(r"\$(\w+)(?::0x([0-9A-Fa-f]+))?")
_DEBUG = ("DBG_VALUE", "DBG_VALUE_LIST", "DBG_INSTR_REF", "DBG_PHI", "DBG_LABEL", "PSEUDO_PROBE")
_WORD = re.compile(r"(?:.*? = )?(?:[a-z-]+ )*([A-Z]\w*)")
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Statement(Struct, frozen=True):
    """An instruction with its place: `lines` of the module, counted from 0, debug instructions behind it included.

    `members` are the instructions of a bundle, its head first, or the one instruction.
    """

    lines: range
    members: tuple[MachineInstruction, ...]

    @property
    def head(self) -> MachineInstruction:
        """The instruction, or the bundle's head."""
        return self.members[0]

    @property
    def opcode(self) -> str:
        """The opcode of `head`."""
        return self.head.opcode


class MachineBlock(Struct, frozen=True):
    """One basic block; `live_in` are names of physical registers."""

    number: int
    successors: tuple[int, ...]
    live_in: tuple[str, ...]
    statements: tuple[Statement, ...]


class MachineFunction(Struct, frozen=True):
    """One function: its document's `lines`, and the register class of each virtual register (`%5`)."""

    name: str
    lines: range
    classes: dict[str, str]
    blocks: tuple[MachineBlock, ...]

    def lanes(self, register: str) -> int:
        """All lanes of a virtual register."""
        return class_lanes(self.classes[register])


class MachineModule(Struct, frozen=True, dict=True):
    """A file of machine IR; `file` is for messages."""

    file: str
    lines: tuple[str, ...]
    ir: tuple[str, ...]
    functions: tuple[MachineFunction, ...]

    @cached_property
    def text(self) -> str:
        """The file as it was read."""
        return "".join(self.lines)

    @cached_property
    def code(self) -> str:
        """The functions' part of the text. The IR in front of it names files, which differ from run to run."""
        return "".join("".join(self.lines[each.lines.start : each.lines.stop]) for each in self.functions)

    def with_lines(self, changed: Mapping[range, Sequence[str]]) -> str:
        """The text with some runs of lines replaced; everything else byte for byte."""
        pieces: list[str] = []
        at = 0
        for lines in sorted(changed, key=lambda each: each.start):
            pieces += self.lines[at : lines.start]
            pieces += changed[lines]
            at = lines.stop
        return "".join([*pieces, *self.lines[at:]])


def read_machine_ir(text: str, file: str = "<machine IR>") -> MachineModule:
    """Reads a module. Raises MachineIRError."""
    lines = tuple(f"{line}\n" for line in text.split("\n"))
    lines = (*lines[:-1], lines[-1].removesuffix("\n"))
    documents = list(_documents(lines))
    if not documents:
        raise MachineIRError(file, "holds no machine IR; make it with `llc -stop-before=machine-scheduler`")
    ir = next((lines[each.start : each.stop] for each in documents if lines[each.start - 1].startswith("--- |")), ())
    bodies = [each for each in documents if not lines[each.start - 1].startswith("--- |")]
    return MachineModule(file, lines, ir, tuple(_FunctionReader(lines, each, file).read() for each in bodies))


def _documents(lines: Sequence[str]) -> Iterator[range]:
    """The lines of each YAML document, marks left out."""
    start = None
    for number, line in enumerate(lines):
        if line.startswith("---"):
            start = number + 1
        elif line.startswith("...") and start is not None:
            yield range(start, number)
            start = None
    if start is not None and start < len(lines):
        yield range(start, len(lines))


class _FunctionReader:
    """Reads one document."""

    def __init__(self, lines: Sequence[str], place: range, file: str) -> None:
        self.lines = lines
        self.place = place
        self.file = file

    def _wrong(self, words: str, number: int) -> MachineIRError:
        return MachineIRError(self.file, words, number + 1)

    def read(self) -> MachineFunction:
        body = next((n for n in self.place if self.lines[n].startswith("body:")), None)
        if body is None:
            raise self._wrong("a function without a body", self.place.start)
        head = self._head(range(self.place.start, body))
        if not isinstance(head.get("name"), str):
            raise self._wrong("a function without a name", self.place.start)
        classes = self._classes(head, self.place.start)
        return MachineFunction(head["name"], self.place, classes, tuple(self._blocks(range(body + 1, self.place.stop))))

    def _head(self, place: range) -> dict[str, Any]:
        try:
            head = yaml.load("".join(self.lines[place.start : place.stop]), Loader=_Loader)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            line = place.start + (mark.line if mark is not None else 0)
            raise self._wrong(f"the head of a function is no YAML: {getattr(error, 'problem', error)}", line) from None
        if not isinstance(head, dict):
            raise self._wrong("the head of a function is no mapping", place.start)
        return head

    def _classes(self, head: dict[str, Any], number: int) -> dict[str, str]:
        classes = {}
        for row in head.get("registers") or ():
            if not isinstance(row, dict) or "id" not in row or "class" not in row:
                raise self._wrong("`registers` lists something without id and class", number)
            register = f"%{row['id']}"
            try:
                class_lanes(str(row["class"]))
            except ValueError as error:
                raise self._wrong(f"{register} has an {error}", number) from None
            classes[register] = str(row["class"])
        return classes

    def _blocks(self, place: range) -> Iterator[MachineBlock]:
        starts = [(n, found) for n in place if (found := _BLOCK.fullmatch(self.lines[n].rstrip("\n")))]
        if not starts:
            raise self._wrong("a body without blocks", place.start)
        ends = [*(n for n, _ in starts[1:]), place.stop]
        for (start, found), end in zip(starts, ends, strict=True):
            yield self._block(int(found["number"]), range(start + 1, end))

    def _block(self, number: int, place: range) -> MachineBlock:
        successors: tuple[int, ...] = ()
        live_in: tuple[str, ...] = ()
        statements: list[Statement] = []
        at = place.start
        while at < place.stop:
            line = self.lines[at].strip()
            if line.startswith("successors:"):
                successors = tuple(int(each) for each in _SUCCESSOR.findall(line))
            elif line.startswith("liveins:"):
                live_in = tuple(name for name, _ in _LIVE_IN.findall(line))
            elif line and not line.startswith(";"):
                statement = self._statement(at, place.stop)
                at = statement.lines.stop - 1
                self._take(statements, statement)
            at += 1
        return MachineBlock(number, successors, live_in, tuple(statements))

    @staticmethod
    def _take(statements: list[Statement], new: Statement) -> None:
        last = statements[-1] if statements else None
        if new.opcode not in _DEBUG:
            statements.append(new)
        elif last is not None and last.lines.stop == new.lines.start:
            statements[-1] = Statement(range(last.lines.start, new.lines.stop), last.members)

    def _statement(self, start: int, limit: int) -> Statement:
        if not self.lines[start].rstrip().endswith("{"):
            return Statement(range(start, start + 1), (self._instruction(start),))
        end = next((n for n in range(start + 1, limit) if self.lines[n].strip() == "}"), None)
        if end is None:
            raise self._wrong("a bundle is not closed", start)
        return Statement(range(start, end + 1), tuple(self._instruction(n) for n in range(start, end)))

    def _instruction(self, number: int) -> MachineInstruction:
        text = self.lines[number].strip().removesuffix("{").rstrip()
        found = _WORD.match(text)
        try:
            instruction = parse_instruction(text)
        except ValueError as error:
            name = f"`{found[1]}`: " if found else ""
            raise self._wrong(f"{name}{error}", number) from None
        return instruction
