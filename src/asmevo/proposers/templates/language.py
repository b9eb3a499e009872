"""The pattern language: an instruction of a template, as assembly with variables.

    v_lshlrev_b32 v$t, n$n, $a          names as LLVM prints them; without _e32 or _e64 both are meant
    v_add_u32|v_add_nc_u32 v$d, v$t ~ $b    `|`: what generations call it; `~`: operands in either order
    global_load_dword v$x.0, v2$p, off offset:n$o ...

An operand is a variable, a word that must stand there (vcc, off, 0), or, in a replacement, `(...)`: a number that is
computed (`expressions`). `$name` is any source; in front of the `$` stands what it must be:

    v$x     a vector register       s$x     a scalar one (not vcc)    a$x   an accumulation register
    v2$x    so many of them         n$x     a number                  m$x   one bit a lane: scalar registers or vcc

`v$x.0`, `v$x.1` are neighbours in `v2$x`, `v2$x.2` is the upper half of `v4$x`; `v$x.l` and `v$x.h` are 16 bits of a
register, as gfx11 and later name them. A minus in front is the sign that the
operand itself carries. Behind the operands stand modifiers; one with a number may be left out where it is 0, and `...`
is whatever else stands there, the same in all instructions with `...`. `vcc`, `exec` and `{wave}` mean what the wave
size makes of them.
"""

from __future__ import annotations

import re
from functools import cached_property, lru_cache
from itertools import permutations, product

from msgspec import Struct
from msgspec.structs import replace

from asmevo.proposers.templates.expressions import Expression, ExpressionError, parse_expression

REST = "..."
_MNEMONIC = re.compile(r"[a-z][a-z0-9_]*")
_VARIABLE = re.compile(
    r"(?P<minus>-?)(?P<kind>[vsanm]?)(?P<width>\d*)\$(?P<name>[a-z][a-z0-9_]*)(?:\.(?:(?P<index>\d)|(?P<half>[lh])))?"
)
_WORD = re.compile(r"-?[A-Za-z0-9_.\[\]:,]+")
_MODIFIER = re.compile(r"(?P<name>[a-z][a-z0-9_]*)(?::(?P<value>.+))?")
_WIDEST = 32  # registers of one operand
_MOST_ORDERS = 6
_ANY, _NUMBER, _MASK = "", "n", "m"


class PatternError(ValueError):
    """A text is no instruction of the pattern language; the words say why."""


class Slot(Struct, frozen=True):
    """One operand: a variable (`name`), a word (`text`) or a computed number (`expression`).

    `kind` is one of v s a n m or nothing, `width` counts 32-bit registers, `index` is where they begin in a variable
    that has more, `half` is l or h for 16 bits of a register.
    """

    kind: str = _ANY
    width: int = 1
    name: str = ""
    index: int | None = None
    half: str = ""
    negated: bool = False
    text: str = ""
    expression: Expression | None = None

    @property
    def is_number(self) -> bool:
        """Whether the variable is a number."""
        return self.kind == _NUMBER

    @property
    def is_mask(self) -> bool:
        """Whether the variable holds one bit a lane."""
        return self.kind == _MASK

    @property
    def names(self) -> frozenset[str]:
        """Variables that the operand needs."""
        if self.expression is not None:
            return self.expression.names
        return frozenset({self.name}) if self.name else frozenset()


class ModifierSlot(Struct, frozen=True):
    """A modifier: a bare word (no `slot`), or one with a value."""

    name: str
    slot: Slot | None


class Line(Struct, frozen=True, dict=True):
    """One instruction of a template. `groups` are runs of operands that may stand in any order among themselves."""

    text: str
    mnemonics: tuple[str, ...]
    groups: tuple[tuple[Slot, ...], ...]
    modifiers: tuple[ModifierSlot, ...]
    rest: bool

    @cached_property
    def operands(self) -> tuple[Slot, ...]:
        """The operands as they were written."""
        return tuple(slot for group in self.groups for slot in group)

    @cached_property
    def orders(self) -> tuple[tuple[Slot, ...], ...]:
        """All orders of the operands, the one that was written first."""
        ways = product(*(permutations(group) for group in self.groups))
        return tuple(tuple(slot for group in way for slot in group) for way in ways)

    def turned(self) -> Line:
        """The same line with operands of each group the other way round."""
        return replace(self, groups=tuple(group[::-1] for group in self.groups))

    @property
    def slots(self) -> tuple[Slot, ...]:
        """Operands and values of modifiers."""
        return self.operands + tuple(each.slot for each in self.modifiers if each.slot is not None)


@lru_cache(maxsize=1 << 12)
def parse_line(text: str, wave_size: int) -> Line:
    """Reads one instruction for waves of so many lanes. Raises PatternError."""
    text = " ".join(text.split())
    words = _for_wave(text, wave_size)
    head, _, rest = words.partition(" ")
    mnemonics = tuple(head.split("|"))
    for mnemonic in mnemonics:
        if not _MNEMONIC.fullmatch(mnemonic):
            raise PatternError(f"`{mnemonic}` in `{text}` is no mnemonic")
    pieces = _split(rest, ",") if rest else []
    modifiers: list[str] = []
    if pieces:
        last, *modifiers = _split(pieces[-1].strip(), " ") or [""]
        while modifiers[:1] == ["~"]:
            last, modifiers = f"{last} ~ {modifiers[1] if len(modifiers) > 1 else ''}", modifiers[2:]
        pieces[-1] = last
    groups = [tuple(_slot(part.strip(), text) for part in _split(piece, "~")) for piece in pieces]
    _refuse_many_orders(groups, text)
    found = tuple(_modifier(each, text) for each in modifiers if each != REST)
    return Line(text, mnemonics, tuple(groups), found, REST in modifiers)


def _for_wave(text: str, wave_size: int) -> str:
    text = text.replace("{wave}", str(wave_size))
    return re.sub(r"(?<![\w$])(vcc|exec)(?![\w$])", r"\1_lo", text) if wave_size == 32 else text


def _split(text: str, separator: str) -> list[str]:
    """Parts of a text between separators that stand outside of parentheses and brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(character, 0)
        if character == separator and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part for part in parts if part] if separator == " " else parts


def _refuse_many_orders(groups: list[tuple[Slot, ...]], text: str) -> None:
    ways = 1
    for group in groups:
        for count in range(2, len(group) + 1):
            ways *= count
    if ways > _MOST_ORDERS:
        raise PatternError(f"`{text}` has operands in more than {_MOST_ORDERS} orders")


def _slot(part: str, text: str) -> Slot:
    if part.startswith("(") and part.endswith(")"):
        try:
            return Slot(kind=_NUMBER, expression=parse_expression(part[1:-1]))
        except ExpressionError as error:
            raise PatternError(str(error)) from None
    found = _VARIABLE.fullmatch(part)
    if found is None:
        if not _WORD.fullmatch(part):
            raise PatternError(f"`{part}` in `{text}` is no operand")
        return Slot(text=part)
    width = int(found["width"] or 1)
    index = int(found["index"]) if found["index"] is not None else None
    if not 1 <= width <= _WIDEST or (found["kind"] not in "vsa" and (found["width"] or index is not None)):
        raise PatternError(f"`{part}` in `{text}` has no such width")
    if found["kind"] == _ANY and (found["width"] or index is not None):
        raise PatternError(f"`{part}` in `{text}` needs v, s or a in front of its width or index")
    half = found["half"] or ""
    if half and (found["kind"] != "v" or width != 1):
        raise PatternError(f"`{part}` in `{text}`: only one vector register has halves")
    return Slot(found["kind"], width, found["name"], index, half, bool(found["minus"]))


def _modifier(word: str, text: str) -> ModifierSlot:
    found = _MODIFIER.fullmatch(word)
    if found is None:
        raise PatternError(f"`{word}` in `{text}` is no modifier")
    return ModifierSlot(found["name"], _slot(found["value"], text) if found["value"] else None)
