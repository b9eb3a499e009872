"""Splitting LLVM's text at a separator that stands outside of quotes and brackets."""

from __future__ import annotations

_OPEN = "([{"
_CLOSE = ")]}"


def split_outside(text: str, separator: str) -> list[str]:
    """The pieces between separators at depth 0; empty text has none. Raises ValueError if brackets do not match."""
    pieces = []
    depth, start, at, quote = 0, 0, 0, ""
    while at < len(text):
        character = text[at]
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"`'":
            quote = character
        elif depth == 0 and text.startswith(separator, at):
            pieces.append(text[start:at])
            at += len(separator)
            start = at
            continue
        elif character in _OPEN:
            depth += 1
        elif character in _CLOSE:
            depth -= 1
        at += 1
    if depth or quote:
        raise ValueError("a bracket or quote is not closed")
    if text[start:].strip() or pieces:
        pieces.append(text[start:])
    return pieces
