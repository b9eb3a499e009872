"""Instructions made from the lines of a template: text with the variables filled in, encoded by the toolchain.

LLVM picks the shortest encoding of a text without _e32 or _e64. What it refuses is no instruction: a register where a
number must be, too many literals, an offset that does not fit. Answers are kept, refusals too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from asmevo.program.decode import DecodingContext
from asmevo.program.errors import EditError
from asmevo.program.instruction import REGISTER_LETTERS, Decoded, Modifier
from asmevo.program.instruction_text import encode_text
from asmevo.program.registers import RegisterSpan, span
from asmevo.program.syntax import parse_statements
from asmevo.proposers.templates.block_index import base_mnemonic
from asmevo.proposers.templates.expressions import NoValueError
from asmevo.proposers.templates.language import Line, Slot
from asmevo.proposers.templates.matching import Binding, Bound

_NOT_RESPELLED = frozenset({"vopd", "dpp", "sdwa"})


@lru_cache(maxsize=1 << 15)
def encoded(text: str, context: DecodingContext) -> Decoded | None:
    """The encoding of a text; None where LLVM refuses it."""
    try:
        return encode_text(text, context)
    except EditError:
        return None


def written(line: Line, binding: Binding, context: DecodingContext) -> Decoded | None:
    """A line with its variables filled in; None if that is no instruction of the target."""
    try:
        operands = [operand_text(slot, binding) for slot in line.operands]
        modifiers = [_modifier_text(each.name, each.slot, binding) for each in line.modifiers]
    except NoValueError:
        return None
    if line.rest:
        modifiers += [_as_written(each) for each in binding.rest or ()]
    behind = " ".join([", ".join(operands), *modifiers]).strip()
    found = (encoded(f"{name} {behind}".strip(), context) for name in line.mnemonics)
    return next((each for each in found if each is not None), None)


def operand_text(slot: Slot, binding: Binding) -> str:
    """One operand. Raises NoValueError when a number cannot be computed or registers are no neighbours."""
    if slot.text:
        return slot.text
    if slot.expression is not None:
        return _number_text(slot.expression.value(binding.numbers()))
    bound = binding.bound[slot.name]
    text = bound.text
    if slot.is_number:
        assert bound.number is not None
        text = bound.text if bound.text else _number_text(bound.number)
    elif slot.kind in ("v", "s", "a"):
        text = str(part_of(slot, bound)) + (f".{slot.half}" if slot.half else "")
    if slot.negated:
        return text[1:] if text.startswith("-") else f"-{text}"
    return text


def part_of(slot: Slot, bound: Bound) -> RegisterSpan:
    """The registers of a variable that an operand names. Raises NoValueError."""
    if bound.span is None:
        raise NoValueError
    first = bound.span.first + (slot.index or 0)
    found = span(bound.span.file, first, slot.width)
    if found is None:
        raise NoValueError
    return found


def units_named(slots: Iterable[Slot], binding: Binding) -> dict[int, str]:
    """The variable that each register unit of some operands holds; of two the later one."""
    found: dict[int, str] = {}
    for slot in slots:
        bound = binding.bound.get(slot.name)
        if bound is None or bound.span is None:
            continue
        try:
            span_named = part_of(slot, bound) if slot.kind in REGISTER_LETTERS else bound.span
        except NoValueError:
            continue
        found.update(dict.fromkeys(span_named.units, slot.name))
    return found


def _number_text(value: int) -> str:
    return hex(value & 0xFFFFFFFF) if not -16 <= value <= 64 else str(value)


def _modifier_text(name: str, slot: Slot | None, binding: Binding) -> str:
    if slot is None:
        return name
    if slot.expression is not None:
        return f"{name}:{slot.expression.value(binding.numbers())}"
    if slot.is_number:
        return f"{name}:{binding.bound[slot.name].number}"
    return f"{name}:{slot.text}"


def _as_written(modifier: Modifier) -> str:
    return f"{modifier.name}:{modifier.value}" if modifier.value else modifier.name


def respelled(decoded: Decoded, texts: Mapping[int, str], context: DecodingContext) -> Decoded | None:
    """An instruction with other texts for some of its printed operands; None if it cannot have them."""
    statements = parse_statements(decoded.text)
    if len(statements) != 1 or not decoded.flags.isdisjoint(_NOT_RESPELLED):
        return None
    (statement,) = statements
    operands = [texts.get(place, operand.text) for place, operand in enumerate(statement.operands)]
    modifiers = [_as_written(each) for each in statement.modifiers]
    behind = " ".join([", ".join(operands), *modifiers])
    return encoded(f"{base_mnemonic(decoded.mnemonic)} {behind}", context)


def marks_kept(old: str, register: str, new: str) -> str | None:
    """The text of an operand with a register in it exchanged; None if the marks around it do not fit."""
    if old == register:
        return new
    marked = old in (f"-{register}", f"|{register}|", f"-|{register}|")
    return old.replace(register, new) if marked and not new[:1].isdigit() and new[:1] != "-" else None
