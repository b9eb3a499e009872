"""The template library: what is shipped, and what users add.

`data/templates/*.yaml` has one file a theme. A file with variants makes one `Template` of each. A template is compiled
for a context (target and wave size) when it is first used there; it applies where LLVM knows its instructions.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, cached_property, lru_cache
from pathlib import Path

from msgspec import Struct

from asmevo.checks.documents import DocumentError, line_of, read_document
from asmevo.program.decode import DecodingContext
from asmevo.program.registers import NAMED_SPANS
from asmevo.proposers.templates.expressions import Expression, parse_expression
from asmevo.proposers.templates.language import Line, Slot, parse_line
from asmevo.proposers.templates.model import TemplateDocument, TemplateEntry, parsed, variables
from asmevo.prover import FloatPolicy
from asmevo.target.opcodes import OpcodeInfo, opcode_info

DATA = Path(__file__).parent.parent / "data" / "templates"
_FORMS = ("", "_e32", "_e64")


class Template(Struct, frozen=True, eq=False, dict=True):
    """One rule. `file` and `line` say where it was read."""

    entry: TemplateEntry
    file: str
    line: int
    theme: str = ""

    @property
    def name(self) -> str:
        """As reports name it."""
        return self.entry.name

    @cached_property
    def policy(self) -> FloatPolicy:
        """The floating-point policy under which both sides are equal."""
        return FloatPolicy.named(self.entry.floating_point)

    @cached_property
    def conditions(self) -> tuple[Expression, ...]:
        """What must hold."""
        return tuple(parse_expression(text) for text in self.entry.where)


class CompiledLine(Struct, frozen=True, eq=False):
    """A line whose opcode is known."""

    line: Line
    info: OpcodeInfo

    @property
    def defined(self) -> tuple[Slot, ...]:
        """Operands that are written."""
        return self.line.operands[: self.info.defs]

    @property
    def read(self) -> tuple[Slot, ...]:
        """Operands that are read."""
        operands = enumerate(self.line.operands)
        return tuple(slot for place, slot in operands if place >= self.info.defs or place in self.info.tied)


class CompiledTemplate(Struct, frozen=True, eq=False, dict=True):
    """A template for one context. `instead` is (what was read, what is read).

    `stands` are the lines of `before` whose places the lines of `after` get; none if they stand in one place.
    """

    template: Template
    context: DecodingContext
    before: tuple[CompiledLine, ...]
    after: tuple[CompiledLine, ...]
    variables: dict[str, Slot]
    instead: tuple[Slot, Slot] | None
    stands: tuple[int, ...] = ()

    @cached_property
    def lost(self) -> int:
        """Units that both sides write, but not alike."""
        return self._units(self.template.entry.loses)

    @cached_property
    def restored(self) -> int:
        """Units that are behind the pattern what they were in front of it."""
        return self._units(self.template.entry.restores)

    def _units(self, names: tuple[str, ...]) -> int:
        mask = 0
        for name in names:
            mask |= NAMED_SPANS[name].mask
        return mask

    @cached_property
    def sources(self) -> tuple[dict[tuple[str, int], int], ...]:
        """For each line of the pattern, where its variables come from: (name, index) to the line that writes it.

        What is not there comes from outside.
        """
        written: dict[tuple[str, int], int] = {}
        found = []
        for number, each in enumerate(self.before):
            found.append(dict(written))
            written |= {key: number for slot in each.defined for key in self.words(slot)}
        return tuple(found)

    def words(self, slot: Slot) -> list[tuple[str, int]]:
        """The 32-bit registers that an operand names, as (variable, index)."""
        if not slot.name or slot.is_number:
            return []
        width = self.context.wave_size // 32 if slot.is_mask else slot.width
        return [(slot.name, (slot.index or 0) + each) for each in range(width)]

    @property
    def fresh(self) -> tuple[Slot, ...]:
        """Registers of the replacement that the pattern does not name."""
        named = variables(line.line for line in self.before)
        return tuple(slot for name, slot in self.variables.items() if name not in named)


@lru_cache(maxsize=1 << 12)
def compiled(template: Template, context: DecodingContext) -> CompiledTemplate | None:
    """The template for a context; None where it does not apply."""
    family = context.target.family.value
    entry = template.entry
    if entry.families and family not in entry.families:
        return None
    before, after = parsed(entry.replaces, context.wave_size), parsed(entry.new_lines, context.wave_size)
    old, new = _compiled_lines(before, family), _compiled_lines(after, family)
    if old is None or new is None:
        return None
    instead = None
    for was, now in entry.instead.items():
        first, second = parse_line(f"v_nop {was}, {now}", context.wave_size).operands
        instead = (first, second)
    return CompiledTemplate(template, context, old, new, variables((*before, *after)), instead, entry.stands)


def _compiled_lines(lines: tuple[Line, ...], family: str) -> tuple[CompiledLine, ...] | None:
    """Lines with their opcodes; None if the family lacks one."""
    found = [CompiledLine(line, info) for line in lines if (info := _opcode(line, family)) is not None]
    return tuple(found) if len(found) == len(lines) else None


def _opcode(line: Line, family: str) -> OpcodeInfo | None:
    """The first of a line's opcodes that the family has with so many operands."""
    count = len(line.operands)
    found = (opcode_info(name + form, family, operands=count) for name in line.mnemonics for form in _FORMS)
    return next((info for info in found if info is not None and len(info.widths) == count), None)


def read_templates(path: Path, name: str | None = None) -> tuple[Template, ...]:
    """The templates of a file. Raises DocumentError."""
    label = name or str(path)
    document, node = read_document(path, label, TemplateDocument)
    found = []
    for index, entry in enumerate(document.templates):
        line = line_of(node, ("templates", index))
        found += [Template(each, label, line, document.theme) for each in entry.expanded()]
    return tuple(found)


@cache
def built_in_templates() -> tuple[Template, ...]:
    """All templates that are shipped, by file and in the order of the files' names."""
    return joined(read_templates(path, path.name) for path in sorted(DATA.glob("*.yaml")))


def joined(files: Iterable[tuple[Template, ...]]) -> tuple[Template, ...]:
    """Templates of several files. Raises DocumentError when a name is there twice."""
    found: dict[str, Template] = {}
    for template in (each for file in files for each in file):
        other = found.setdefault(template.name, template)
        if other is not template:
            words = f"the template `{template.name}` stands in {other.file} already"
            raise DocumentError(template.file, words, template.line, "name")
    return tuple(found.values())
