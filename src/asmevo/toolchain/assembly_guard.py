"""Refuses assembly text that would read other files or swamp the machine, before LLVM sees it.

LLVM expands `.rept 1000000000` until memory is gone, `.incbin "/etc/passwd"` reads the file, and on some
texts in which a string is left open LLVM never ends. A text is data here, perhaps a program's or a stranger's
proposal, so none of that happens. Counts are read where they are plain numbers or symbols that the text sets
to plain numbers.
"""

from __future__ import annotations

import re

from asmevo.toolchain.errors import AssemblyError, Diagnostic

MOST_BYTES = 1 << 26
MOST_REPEATS = 1 << 20
MOST_ALIGNMENT = 1 << 16

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*|;[^\n]*|'\"'|\"(?:\\.|[^\"\\\n])*\"", re.S)
_OPEN = "a string must end on its line"
_FIRST = r"^[ \t]*(?:[\w.$]+:[ \t]*)*"
_DIRECTIVE = re.compile(_FIRST + r"(?P<name>\.[A-Za-z_0-9\\()@]+)[ \t]*(?P<operands>[^\n]*)", re.M)
_SETTING = re.compile(
    r"^[ \t]*(?:\.(?:set|equ|equiv)[ \t]+(\w[\w.$]*)[ \t]*,|(\w[\w.$]*)[ \t]*=)[ \t]*(\w+)[ \t]*$", re.M
)
_FILES = {".include", ".incbin"}
_REPEATS = {".rept", ".rep"}
_LOOPS = {".irp", ".irpc"}
_ENDS = {".endr"}
_BYTES = {".space", ".skip", ".zero", ".org", ".fill", ".ds", ".dcb", ".nops"}
_ALIGNMENTS = {".balign", ".balignw", ".balignl", ".align"}
_LOGARITHMIC = {".p2align", ".p2alignw", ".p2alignl"}


def seconds_for(source: str) -> float:
    """How long LLVM may take for a text: a thousand times what it needs."""
    return 10 + len(source) / 5_000


def check(source: str, file: str) -> None:
    """Raises AssemblyError with every place that is refused."""
    text = _COMMENT.sub(_blank, source)
    values = _values(text)
    refused = [Diagnostic(file, *_place(text, found.start()), _OPEN) for found in re.finditer('"', text)]
    repeats = [1]
    for found in _DIRECTIVE.finditer(text):
        name = found["name"].lower()
        reason = ""
        if "\\" in name:
            reason = f"{found['name']}: a directive whose name a macro makes up is refused"
        elif name in _FILES:
            reason = f"{name} is refused: a text may not read other files"
        elif name in _REPEATS:
            repeats.append(repeats[-1] * max(1, _number(found["operands"], values)))
            if repeats[-1] > MOST_REPEATS:
                reason = f"{name} would repeat {repeats[-1]} times; at most {MOST_REPEATS} are taken"
        elif name in _LOOPS:
            repeats.append(repeats[-1] * (1 + len(found["operands"]) // 2))
        elif name in _ENDS:
            repeats[1:] = repeats[1:-1]
        else:
            reason = _reason_of_size(name, found["operands"], values, repeats[-1])
        if reason:
            refused.append(Diagnostic(file, *_place(text, found.start("name")), reason))
    if refused:
        raise AssemblyError(tuple(refused))


def _place(text: str, at: int) -> tuple[int, int]:
    """Line and column of a position."""
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def _blank(found: re.Match[str]) -> str:
    """A comment or string as spaces, so that places stay."""
    return re.sub(r"[^\n]", " ", found[0])


def _reason_of_size(name: str, operands: str, values: dict[str, int], repeats: int) -> str:
    parts = operands.split(",")
    if name in _BYTES or name.startswith((".ds.", ".dcb.")):
        size = _number(parts[0], values) * repeats
        if name == ".fill" and len(parts) > 1:
            size *= max(1, _number(parts[1], values))
        elif name.startswith((".ds.", ".dcb.")):
            size *= 16
        if size > MOST_BYTES:
            return f"{name} would write {size} bytes; at most {MOST_BYTES} are taken"
    elif name in _ALIGNMENTS or name in _LOGARITHMIC:
        number = _number(parts[0], values)
        alignment = 1 << max(0, min(number, 64)) if name in _LOGARITHMIC else number
        if alignment > MOST_ALIGNMENT:
            return f"{name} asks for an alignment of {alignment}; at most {MOST_ALIGNMENT} is taken"
    return ""


def _values(text: str) -> dict[str, int]:
    """The largest number that the text gives each symbol."""
    values: dict[str, int] = {}
    for first, second, number in _SETTING.findall(text):
        name = first or second
        values[name] = max(values.get(name, 0), _literal(number) or 0)
    return values


def _number(expression: str, values: dict[str, int]) -> int:
    """An upper bound of a sum, product or shift of numbers and known symbols; 0 where it is none of these."""
    result, operation = 0, "+"
    for part in re.split(r"(\*|\+|<<)", expression.strip().replace("(", "").replace(")", "")):
        if part in ("*", "+", "<<"):
            operation = part
            continue
        value = _literal(part.strip())
        value = values.get(part.strip(), 0) if value is None else value
        if operation == "*":
            result *= value
        elif operation == "<<":
            result <<= max(0, min(value, 64))
        else:
            result += value
    return result


def _literal(text: str) -> int | None:
    try:
        return int(text, 0)
    except ValueError:
        return int(text, 8) if re.fullmatch(r"0[0-7]+", text) else None
