"""From source text to an object, with the line of every byte.

Lines are found by measuring too: a second copy of the text has a label of its own before each statement,
and its symbol table says where each statement's bytes begin. Labels make no code, and the copy counts only
if its sections are equal to those of the plain text, so a wrong tie is impossible.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right

from msgspec import Struct
from msgspec.structs import replace

from asmevo.program.codeobject import CodeObject
from asmevo.program.errors import UnreadableProgramError
from asmevo.program.newer_text import respell_newer
from asmevo.program.prefetch import prefetch_lines
from asmevo.program.source import SourceText
from asmevo.program.statements import LineKind, mask_comments, scan_lines
from asmevo.program.unused_fields import with_unused_fields
from asmevo.target import load_target, parse_target_id
from asmevo.toolchain import AssemblyError, Diagnostic, toolchain

_MEASURES = ".asmevo.measures"
_LINE_LABEL = "asmevo.line."
_PREFETCH = "instprefsize("


class AssembledSource(Struct, frozen=True):
    """A relocatable object with the source whose `assembled` text gave it."""

    data: bytes
    source: SourceText

    def as_compiled(self, file: str) -> bytes:
        """The object as the compiler that wrote the text would have made it."""
        return with_unused_fields(self.data, self.source, file)


def assemble_source(source: SourceText, file: str) -> AssembledSource:
    """The object of a text. Raises AssemblyError."""
    expressions = _prefetch_expressions(source.assembled)
    if expressions:
        plain = _replace_prefetch(source.assembled, [0] * len(expressions))
        toolchain().assemble(plain, source.processor, file)  # complains about everything else first
        numbers = _measure_prefetch(source, plain, [argument for _, _, argument in expressions], file)
        source = replace(source, assembled=_replace_prefetch(source.assembled, numbers))
    return AssembledSource(toolchain().assemble(source.assembled, source.processor, file), source)


def assemble_first(variants: list[SourceText], file: str) -> AssembledSource:
    """The object of the first variant that assembles. Raises UnreadableProgramError about the likeliest."""
    refusals: list[UnreadableProgramError] = []
    for variant in variants:
        try:
            return _assemble_newer(variant, file)
        except AssemblyError as error:
            refusals.append(explain_refusal(error, variant, file))
    raise refusals[0]


def _assemble_newer(source: SourceText, file: str) -> AssembledSource:
    """The object of a text that a newer compiler may have written. Raises AssemblyError."""
    try:
        return assemble_source(source, file)
    except AssemblyError as error:
        respelled = respell_newer(source.assembled, source.scanned, error, source.processor)
        if respelled is None:
            raise
        return assemble_source(replace(source, assembled=respelled), file)


def explain_refusal(error: AssemblyError, source: SourceText, file: str) -> UnreadableProgramError:
    """LLVM's first complaint as the one sentence about the file."""
    first: Diagnostic = error.diagnostics[0]
    lines = source.lines
    statement = lines[first.line - 1].strip() if 0 < first.line <= len(lines) else ""
    words = f"LLVM refuses `{statement}`: {first.message}" if statement else first.message
    if "v_dual_" in statement:
        words += "; a newer compiler's text is best passed as its code object (.hsaco, .co)"
    elif len(error.diagnostics) > 1:
        words += f" (and {len(error.diagnostics) - 1} more)"
    return UnreadableProgramError(file, words, first.line if statement else None)


def _measure_prefetch(source: SourceText, plain: str, arguments: list[str], file: str) -> list[int]:
    """What the text's `instprefsize()` come to; nothing when an argument is no expression.

    The arguments are values that only the text's end knows, so they are written behind it, into a section
    that linkers drop, and read back.
    """
    quads = "".join(f"\t.quad {argument}\n" for argument in arguments)
    text = f'{plain}\n\t.section {_MEASURES},"e",@progbits\n{quads}'
    try:
        image = CodeObject(toolchain().assemble(text, source.processor, file), file)
    except AssemblyError:
        return []
    data = next(section.data for section in image.sections if section.name == _MEASURES)
    if len(data) != 8 * len(arguments):
        return []
    target = load_target(parse_target_id(source.gpu).name)
    return [prefetch_lines(size, target) or 0 for size in struct.unpack(f"<{len(arguments)}Q", data)]


def _prefetch_expressions(text: str) -> list[tuple[int, int, str]]:
    """(start, end, argument) of each `instprefsize(argument)`; one that its line does not close is none."""
    if _PREFETCH not in text:
        return []
    masked = mask_comments(text)
    found, place = [], masked.find(_PREFETCH)
    while place >= 0:
        begin = place + len(_PREFETCH)
        end, depth = begin, 1
        while end < len(masked) and depth and masked[end] != "\n":
            depth += {"(": 1, ")": -1}.get(masked[end], 0)
            end += 1
        if not depth:
            found.append((place, end, masked[begin : end - 1]))
        place = masked.find(_PREFETCH, end)
    return found


def _replace_prefetch(text: str, numbers: list[int]) -> str:
    """The text with numbers in place of the expressions, as far as there are numbers."""
    parts, place = [], 0
    for (start, end, _), number in zip(_prefetch_expressions(text), numbers, strict=False):
        parts += [text[place:start], str(number)]
        place = end
    return "".join(parts) + text[place:]


class LineTable(Struct, frozen=True):
    """Per section (by name) the offsets at which the code of a line begins, with the line (from 1)."""

    offsets: dict[str, list[int]]
    lines: dict[str, list[int]]
    functions: dict[str, tuple[str, int]]

    def line_at(self, section: str, offset: int) -> int | None:
        """The line whose statement made the byte at `offset`."""
        place = bisect_right(self.offsets.get(section, []), offset) - 1
        return self.lines[section][place] if place >= 0 else None


def line_table(assembled: AssembledSource, file: str) -> LineTable | None:
    """Where the bytes of each line begin; None when labels of our own change the object."""
    lines = assembled.source.assembled.split("\n")
    for number, scanned in enumerate(scan_lines(assembled.source.assembled), 1):
        if scanned.kind is not LineKind.OTHER:
            line = lines[number - 1]
            lines[number - 1] = f"{line[: scanned.start]} {_LINE_LABEL}{number}: {line[scanned.start :]}"
    try:
        data = toolchain().assemble("\n".join(lines), assembled.source.processor, file)
    except AssemblyError:
        return None
    labelled, plain = CodeObject(data, file), CodeObject(assembled.data, file)
    if _contents(labelled) != _contents(plain):
        return None
    return _table_of(labelled)


def _contents(image: CodeObject) -> dict[str, bytes]:
    return {section.name: section.data[: section.size] for section in image.sections if section.allocated}


def _table_of(image: CodeObject) -> LineTable:
    starts: dict[str, list[tuple[int, int]]] = {}
    functions = {}
    for symbol in image.symbols:
        section = image.section_of(symbol)
        if section is None:
            continue
        if symbol.name.startswith(_LINE_LABEL):
            number = int(re.sub(r"\D", "", symbol.name))
            starts.setdefault(section.name, []).append((symbol.value, number))
        elif section.executable:
            functions[symbol.name] = (section.name, symbol.value)
    for each in starts.values():
        each.sort()
    return LineTable(
        {name: [offset for offset, _ in each] for name, each in starts.items()},
        {name: [line for _, line in each] for name, each in starts.items()},
        functions,
    )
