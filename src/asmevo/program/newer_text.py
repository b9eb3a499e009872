"""Text of newer compilers that LLVM's assembler here refuses, in words that it takes.

Three things are known. Dual instructions with operands of one bank (`dual`). `s_set_vgpr_msb` with the modes that were
in force before in its upper byte (LLVM 22, which leaves them to trap handlers; older assemblers take one byte and
disassemblers two): the word is put together and counts only if LLVM decodes it to the very statement. And plain
scalars of the metadata such as `.name: n`: older readers take every word of YAML 1.1 for a truth value, newer ones
`true` and `false` alone, so the others are marked as the strings that they are.

The lines stay where they are, and only lines that LLVM complained about change.
"""

from __future__ import annotations

import re

from asmevo.program.dual import code_of, dual_code
from asmevo.program.spelling import data_words
from asmevo.program.statements import SourceLine
from asmevo.toolchain import AssemblyError, Processor, toolchain

_BANKS = re.compile(r"^s_set_vgpr_msb\s+(\w+)$")
_METADATA, _METADATA_END = ".amdgpu_metadata", ".end_amdgpu_metadata"
_TRUTHS = r"[yYnN]|[yY]es|YES|[nN]o|NO|[oO]n|ON|[oO]ff|OFF|True|TRUE|False|FALSE"
_SCALAR = re.compile(rf"^(\s*(?:-\s+)*(?:[\w.]+:\s+)?)(['\"]?)({_TRUTHS})\2(\s*)$")


def respell_newer(text: str, scanned: list[SourceLine], error: AssemblyError, processor: Processor) -> str | None:
    """The text in words that this LLVM takes; None when anything else was refused."""
    lines = text.split("\n")
    for diagnostic in error.diagnostics:
        number = diagnostic.line - 1
        if not 0 <= number < len(lines):
            return None
        place, line = scanned[number], lines[number]
        statement = line[place.start : place.end]
        if line.strip().startswith(_METADATA_END):
            if not _respell_metadata(lines, number):
                return None
            continue
        code = dual_code(statement, diagnostic.message, processor) or _banks_code(statement, processor)
        if code is None:
            return None
        lines[number] = line[: place.start] + data_words(code) + line[place.end :]
    return "\n".join(lines)


def _respell_metadata(lines: list[str], end: int) -> bool:
    """Marks the strings of the metadata that ends at a line; whether there were any."""
    found = False
    for number in range(end - 1, -1, -1):
        if lines[number].strip().startswith(_METADATA):
            return found
        marked = _SCALAR.sub(r"\1!str \3\4", lines[number])
        found = found or marked != lines[number]
        lines[number] = marked
    return False


def _banks_code(statement: str, processor: Processor) -> bytes | None:
    written = _BANKS.match(statement)
    if written is None:
        return None
    try:
        value = int(written[1], 0)
        code = code_of(f"s_set_vgpr_msb {value & 0xFF:#x}", processor)
    except (ValueError, AssemblyError):
        return None
    code = code[:1] + bytes([value >> 8 & 0xFF]) + code[2:]
    (decoded,) = toolchain().disassemble(code, processor)
    found = _BANKS.match(decoded.text or "")
    return code if found is not None and int(found[1], 0) == value else None
