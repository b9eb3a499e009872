"""What stands in each line of an assembly text: which lines are statements that may make code.

This is no parser of assembly, LLVM is. It only knows what every dialect agrees on: comments, strings,
labels, and the directives that open a stretch of lines which are not statements of their own (macro and
repeat bodies, descriptor and metadata blocks).
"""

from __future__ import annotations

import re
from enum import Enum

from msgspec import Struct

_COMMENT_OR_STRING = re.compile(r'"(?:\\.|[^"\\\n])*"|/\*.*?(?:\*/|\Z)|//[^\n]*|;[^\n]*|^[ \t]*\#[^\n]*', re.S | re.M)
_LABEL = re.compile(r'[ \t]*(?:[\w.$@]+|"[^"]*")[ \t]*:(?!:)')
_TOKEN = re.compile(r"[ \t]*([^\s,]+)")
# fmt: off
_DATA_DIRECTIVES = frozenset({
    ".byte", ".2byte", ".short", ".hword", ".word", ".4byte", ".long", ".int", ".8byte", ".quad",
    ".octa", ".fill", ".space", ".skip", ".zero", ".insn", ".ascii", ".asciz", ".string", ".incbin",
    ".p2align", ".p2alignl", ".p2alignw", ".align", ".balign", ".balignl", ".balignw", ".float",
    ".double",
})
# fmt: on
_REPEATS = frozenset({".rept", ".rep", ".irp", ".irpc"})
_BLOCKS = {
    ".macro": (".endm", ".endmacro"),
    ".amdhsa_kernel": (".end_amdhsa_kernel",),
    ".amdgpu_metadata": (".end_amdgpu_metadata",),
    ".amdgpu_pal_metadata": (".end_amdgpu_pal_metadata",),
}


class LineKind(Enum):
    """What a line can make: nothing, code or data of its own, or an expansion (macro call, repeat)."""

    OTHER = "other"
    INSTRUCTION = "instruction"
    DATA = "data"
    EXPANSION = "expansion"


class SourceLine(Struct, frozen=True):
    """One line; the statement stands in columns `start` to `end` (from 0), labels and comments taken off."""

    kind: LineKind
    start: int
    end: int
    token: str


_NOTHING = SourceLine(LineKind.OTHER, 0, 0, "")


def mask_comments(text: str) -> str:
    """The text with every comment blanked; same lines, same columns."""

    def blank(found: re.Match[str]) -> str:
        part = found[0]
        return part if part.startswith('"') else re.sub(r"[^\n]", " ", part)

    return _COMMENT_OR_STRING.sub(blank, text)


def scan_lines(text: str) -> list[SourceLine]:
    """What stands in each line of `text`, in order; bodies of macros and the like count as OTHER."""
    result: list[SourceLine] = []
    macros: set[str] = set()
    enders: tuple[str, ...] = ()
    depth = 0
    for line in mask_comments(text).split("\n"):
        start = _statement_start(line)
        token = _token(line, start)
        if depth:
            depth += (token in _REPEATS) - (token == ".endr")
            result.append(_NOTHING)
        elif enders:
            enders = () if token in enders else enders
            result.append(_NOTHING)
        elif token in _BLOCKS:
            enders = _BLOCKS[token]
            if token == ".macro":
                macros.add(_macro_name(line, start))
            result.append(_NOTHING)
        else:
            depth += token in _REPEATS
            kind = _kind(token, line, start, macros)
            result.append(
                SourceLine(kind, start, len(line.rstrip()), token) if kind is not LineKind.OTHER else _NOTHING
            )
    return result


def _statement_start(line: str) -> int:
    start = 0
    while (found := _LABEL.match(line, start)) is not None:
        start = found.end()
    return start + len(line[start:]) - len(line[start:].lstrip())


def _token(line: str, start: int) -> str:
    found = _TOKEN.match(line, start)
    return found[1] if found else ""


def _macro_name(line: str, start: int) -> str:
    words = line[start:].replace(",", " ").split()
    return words[1] if len(words) > 1 else ""


def _kind(token: str, line: str, start: int, macros: set[str]) -> LineKind:
    if not token:
        return LineKind.OTHER
    if token in macros or token in _REPEATS:
        return LineKind.EXPANSION
    if token in _DATA_DIRECTIVES:
        return LineKind.DATA
    assignment = line[start + len(token) :].lstrip().startswith("=")
    if token.startswith(".") or assignment or not (token[0].isalpha() or token[0] == "_"):
        return LineKind.OTHER
    return LineKind.INSTRUCTION
