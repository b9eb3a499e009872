"""Giving an instruction other registers: the text with some operands' registers replaced.

Registers stand in LLVM's text in the order of the operands, and nowhere else, so the n-th register of the text is
the n-th register operand. Where that does not hold (it is checked), nothing is renamed. Only the numbered files are
renamed; `vcc`, `exec` and the like are what they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from asmevo.program.errors import EditError
from asmevo.program.instruction import REGISTER_LETTERS, Decoded
from asmevo.program.registers import RegisterFile, RegisterSpan

RENAMED_FILES = frozenset({RegisterFile.VGPR, RegisterFile.AGPR, RegisterFile.SGPR})
"""Files whose registers an instruction names by number."""

_REGISTER = re.compile(r"\b([vsa])(?:(\d+)|\[(\d+):(\d+)\])")


def register_operands(decoded: Decoded) -> list[int]:
    """Places in `operands` of those that name a register of a renamed file."""
    return [
        place
        for place, operand in enumerate(decoded.operands)
        if operand.registers is not None and operand.registers.file in RENAMED_FILES
    ]


def renamed_text(decoded: Decoded, spans: Mapping[int, RegisterSpan]) -> str:
    """The instruction's text with the registers of some operands (by place) replaced by spans of the same width.

    Raises EditError where the text does not show its registers in the order of the operands.
    """
    places = iter(register_operands(decoded))

    def other(found: re.Match[str]) -> str:
        place = next(places, None)
        present = decoded.operands[place].registers if place is not None else None
        if present is None or place is None or _span(found) != present:
            raise EditError(f"the registers of `{decoded.text}` cannot be told apart")
        wanted = spans.get(place, present)
        if wanted.file is not present.file or wanted.count != present.count:
            raise EditError(f"`{decoded.text}` cannot have {wanted} in the place of {present}")
        return _spelled(wanted, brackets=found[2] is None)

    head, space, rest = decoded.text.partition(" ")
    text = head + space + _REGISTER.sub(other, rest)
    if next(places, None) is not None:
        raise EditError(f"the registers of `{decoded.text}` cannot be told apart")
    return text


def _span(found: re.Match[str]) -> RegisterSpan:
    first = int(found[2] if found[2] is not None else found[3])
    last = int(found[4]) if found[4] is not None else first
    return RegisterSpan(REGISTER_LETTERS[found[1]], first, last - first + 1)


def _spelled(span: RegisterSpan, *, brackets: bool) -> str:
    if not brackets:
        return f"{span.file.value}{span.first}"
    return f"{span.file.value}[{span.first}:{span.first + span.count - 1}]"
