"""From LLVM's text of one instruction to operands and modifiers.

LLVM prints `mnemonic op, op, ... modifier modifier:value ...`; the operands are separated by commas
outside brackets, the modifiers by spaces. Registers carry their width in the text (`v[0:3]`), so
widths never have to be guessed. A dual instruction is two of these joined by `::`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from asmevo.program.instruction import REGISTER_LETTERS, Modifier
from asmevo.program.registers import NAMED_SPANS, RegisterSpan, span

_REGISTER = re.compile(r"^(ttmp|[vsa])(?:(\d+)|\[(\d+):(\d+)\])(?:\.([lh]))?$")
_LIST = re.compile(r"^\[((?:ttmp|[vsa])\d+(?:, (?:ttmp|[vsa])\d+)*)\]$")
# Newer LLVM marks a literal that could have been an inline constant: `lit(0x1)`.
_FORCED_LITERAL = re.compile(r"^lit(?:64)?\((.*)\)$")
_WRAPPED = re.compile(r"^(?P<minus>-)?(?:(?P<bar>\|)(?P<in1>.*)\||(?P<word>abs|neg|sext)\((?P<in2>.*)\)|(?P<in3>.*))$")
OPERANDS_REMEMBERED = 1 << 14  # texts; few are seen once only
# Instructions whose operands are not a comma list of registers and numbers: kept as one opaque operand.
_OPAQUE_EXACT = frozenset({"s_waitcnt", "s_delay_alu", "s_wait_alu", "s_waitcnt_depctr", "s_sendmsg", "s_sendmsghalt"})


class PrintedOperand(NamedTuple):
    """An operand before its role is known; `spans` has several entries for a bracketed register list."""

    text: str
    spans: tuple[RegisterSpan, ...]
    negated: bool
    absolute: bool
    half: str


class Statement(NamedTuple):
    """One mnemonic with what stands behind it."""

    mnemonic: str
    operands: tuple[PrintedOperand, ...]
    modifiers: tuple[Modifier, ...]


def parse_statements(text: str) -> tuple[Statement, ...]:
    """The statement of an instruction, or the two of a dual one."""
    return (
        tuple(_parse_statement(part.strip()) for part in text.split("::"))
        if "::" in text
        else (_parse_statement(text),)
    )


def _parse_statement(text: str) -> Statement:
    mnemonic, _, rest = text.partition(" ")
    rest = rest.strip()
    if not rest:
        return Statement(mnemonic, (), ())
    if mnemonic in _OPAQUE_EXACT:
        return Statement(mnemonic, (PrintedOperand(rest, (), False, False, ""),), ())
    parts = _split(rest, ",")
    last = _split(parts[-1].strip(), " ")
    operand_texts = [part.strip() for part in parts[:-1]]
    modifier_texts = last
    if operand_texts or not _is_modifier(last[0]):
        # An export names its target before the first comma: `exp mrt0 v0, v1, ...`.
        operand_texts.append(last[0])
        modifier_texts = last[1:]
    if operand_texts and " " in operand_texts[0] and mnemonic.startswith("exp"):
        operand_texts[0:1] = operand_texts[0].split(" ", 1)
    operands = tuple(parse_operand(operand) for operand in operand_texts)
    modifiers = tuple(_parse_modifier(word) for word in modifier_texts if word)
    return Statement(mnemonic, operands, modifiers)


_MODIFIER_WORDS = frozenset(
    {"glc", "slc", "dlc", "sc0", "sc1", "nt", "gds", "tfe", "lds", "offen", "idxen", "done", "vm"}
)


def _is_modifier(word: str) -> bool:
    name = word.partition(":")[0]
    return word in _MODIFIER_WORDS or (":" in word and name.isidentifier() and "[" not in name)


def _parse_modifier(word: str) -> Modifier:
    name, _, value = word.partition(":")
    return Modifier(name, value)


def _split(text: str, separator: str) -> list[str]:
    """Splits at `separator` outside brackets and bars."""
    if ("[" not in text and "(" not in text) or separator not in text:
        return text.split(separator)
    parts, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        if letter in "[(":
            depth += 1
        elif letter in "])":
            depth -= 1
        elif letter == separator and depth == 0:
            parts.append(text[start:place])
            start = place + 1
    parts.append(text[start:])
    return parts


@lru_cache(maxsize=OPERANDS_REMEMBERED)
def parse_operand(text: str) -> PrintedOperand:
    """One operand with the marks around it taken off."""
    negated = absolute = False
    forced = _FORCED_LITERAL.match(text)
    inner = text = forced[1] if forced else text
    while True:
        found = _WRAPPED.match(inner)
        if found is None:
            break
        minus, bar, word = found["minus"], found["bar"], found["word"]
        body = found["in1"] or found["in2"] or found["in3"] or ""
        if minus and not bar and not word and not (body[:1].isalpha() or body[:1] == "|"):
            break  # a negative number
        negated = negated or bool(minus) or word == "neg"
        absolute = absolute or bool(bar) or word == "abs"
        if body == inner:
            break
        inner = body
    spans, half = _registers(inner)
    return PrintedOperand(text, spans, negated, absolute, half)


def _registers(text: str) -> tuple[tuple[RegisterSpan, ...], str]:
    found = _REGISTER.match(text)
    if found is not None:
        letter, single, first, last, half = found.groups()
        low = int(single if single is not None else first)
        count = 1 if single is not None else int(last) - low + 1
        whole = span(REGISTER_LETTERS[letter], low, count)
        return ((whole,) if whole else ()), half or ""
    named = NAMED_SPANS.get(text)
    if named is not None:
        return (named,), ""
    listed = _LIST.match(text)
    if listed is not None:
        return tuple(each for part in listed[1].split(", ") for each in _registers(part)[0]), ""
    return (), ""
