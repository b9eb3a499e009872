"""From source text to an object, exactly as a plain assembler would make it, with the line of every byte.

Two things that LLVM as a library adds on its own account are taken off again: the padding that its
compiler part puts behind `.text`, and a code object version other than the text's. The end of `.text` is
measured by a label behind the last line whose address is written into a section that linkers drop.

Lines are found by measuring too: a second copy of the text has a label of its own before each statement,
and its symbol table says where each statement's bytes begin. Labels make no code, and the copy counts only
if its sections are equal to those of the plain text, so a wrong tie is impossible.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from dataclasses import dataclass, replace

from asmevo.program.codeobject import CodeObject
from asmevo.program.errors import UnreadableProgramError
from asmevo.program.source import SourceText
from asmevo.program.statements import LineKind, scan_lines
from asmevo.toolchain import AssemblyError, Diagnostic, toolchain

_MEASURES = ".asmevo.measures"
_LINE_LABEL = "asmevo.line."
_PREFETCH = "instprefsize("
_PREFETCH_LINE_BYTES = 128  # LLVM AMDGPUBaseInfo getInstCacheLineSize: 128 bytes from gfx11 on
_ABI_VERSION = {2: 0, 3: 1, 4: 2, 5: 3, 6: 4}  # e_ident[EI_ABIVERSION] by code object version, user guide
_IDENT_ABI = 8
_SECTION_SIZE_FIELD = 32  # offset of sh_size in an ELF64 section header


@dataclass(frozen=True, slots=True)
class AssembledSource:
    """A relocatable object with the source whose `assembled` text gave it."""

    data: bytes
    source: SourceText


def assemble_source(source: SourceText, file: str) -> AssembledSource:
    """The object of a text. Raises AssemblyError."""
    expressions = _prefetch_expressions(source.assembled)
    if expressions:
        numbers = _measure_prefetch(source, expressions, file)
        source = replace(source, assembled=_replace_prefetch(source.assembled, numbers))
    return AssembledSource(_assemble(source, source.assembled, (), file)[0], source)


def explain_refusal(error: AssemblyError, source: SourceText, file: str) -> UnreadableProgramError:
    """LLVM's first complaint as the one sentence about the file."""
    first: Diagnostic = error.diagnostics[0]
    lines = source.lines
    statement = lines[first.line - 1].strip() if 0 < first.line <= len(lines) else ""
    words = f"LLVM refuses `{statement}`: {first.message}" if statement else first.message
    if "v_dual_" in statement:
        words += " (a newer compiler wrote this text; pass its code object, .hsaco or .co, instead)"
    elif len(error.diagnostics) > 1:
        words += f" (and {len(error.diagnostics) - 1} more)"
    return UnreadableProgramError(file, words, first.line if statement else None)


def _assemble(source: SourceText, text: str, measures: tuple[str, ...], file: str) -> tuple[bytes, list[int]]:
    """The object, its `.text` cut to what the text says, and the values of `measures`."""
    quads = "".join(f"\t.quad {measure}\n" for measure in measures)
    tail = f'\n\t.text\n.Lasmevo_text_end:\n\t.section {_MEASURES},"e",@progbits\n\t.quad .Lasmevo_text_end\n{quads}'
    data = bytearray(toolchain().assemble(text + tail, source.processor, file))
    image = CodeObject(bytes(data), file)
    section = next(section for section in image.sections if section.name == _MEASURES)
    end = next(each.addend for each in image.relocations if each.section == section.index and each.offset == 0)
    code = next(section for section in image.sections if section.name == ".text")
    if end < code.size:
        headers_at, header_size = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<H", data, 58)[0]
        struct.pack_into("<Q", data, headers_at + code.index * header_size + _SECTION_SIZE_FIELD, end)
    if source.version is not None:
        data[_IDENT_ABI] = _ABI_VERSION.get(source.version, data[_IDENT_ABI])
    return bytes(data), list(struct.unpack_from(f"<{len(measures)}Q", section.data, 8))


def _prefetch_expressions(text: str) -> list[tuple[int, int, str]]:
    """(start, end, argument) of each `instprefsize(argument)`."""
    found, place = [], text.find(_PREFETCH)
    while place >= 0:
        begin = place + len(_PREFETCH)
        end, depth = begin, 1
        while end < len(text) and depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        found.append((place, end, text[begin : end - 1]))
        place = text.find(_PREFETCH, end)
    return found


def _replace_prefetch(text: str, numbers: list[int]) -> str:
    parts, place = [], 0
    for (start, end, _), number in zip(_prefetch_expressions(text), numbers, strict=True):
        parts += [text[place:start], str(number)]
        place = end
    return "".join(parts) + text[place:]


def _measure_prefetch(source: SourceText, expressions: list[tuple[int, int, str]], file: str) -> list[int]:
    """What newer compilers mean by `instprefsize(bytes)`: instruction cache lines, as many as the field can say."""
    plain = _replace_prefetch(source.assembled, [0] * len(expressions))
    _, sizes = _assemble(source, plain, tuple(argument for _, _, argument in expressions), file)
    most = (1 << (8 if source.gpu.startswith("gfx12") else 6)) - 1
    return [min(-(-size // _PREFETCH_LINE_BYTES), most) for size in sizes]


@dataclass(frozen=True, slots=True)
class LineTable:
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
        data, _ = _assemble(assembled.source, "\n".join(lines), (), file)
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
