"""`instead`: the readers of an operand read another one.

For a register that the pattern writes these are the instructions that its value reaches; all of them must be able to
read the other operand, and it must still hold there what it held at the pattern. For a number these are the later
instructions that carry it as a literal, while the register that holds it is not overwritten; each that gets shorter.
"""

from __future__ import annotations

from asmevo.program.instruction import Decoded, Operand
from asmevo.proposers.templates.block_index import BlockIndex
from asmevo.proposers.templates.expressions import NoValueError
from asmevo.proposers.templates.language import Slot
from asmevo.proposers.templates.matching import Binding, Match, number_of
from asmevo.proposers.templates.writing import marks_kept, operand_text, respelled


def substituted(match: Match, binding: Binding, index: BlockIndex) -> dict[int, Decoded]:
    """New encodings by place; nothing if there is no reader or one cannot change."""
    assert match.template.instead is not None
    was, now = match.template.instead
    if was.is_number:
        return _literals(match, was, now, binding, index)
    return _readers(match, was, now, binding, index)


def _readers(match: Match, was: Slot, now: Slot, binding: Binding, index: BlockIndex) -> dict[int, Decoded]:
    place, bound = match.places[-1], binding.bound[was.name]
    assert bound.span is not None
    unit = bound.span.base_unit
    other = binding.bound.get(now.name)
    found: dict[int, Decoded] = {}
    for reader in index.uses(place, unit):
        if other is not None and other.span is not None:
            units = other.span.units
            if any(index.reaching(reader, each) != index.reaching(place, each) for each in units):
                return {}
        changed = _reading(index.code[reader].decoded, bound.span.mask, now, binding, match)
        if changed is None or index.code[reader].reference is not None:
            return {}
        found[reader] = changed
    return found


def _reading(decoded: Decoded, mask: int, now: Slot, binding: Binding, match: Match) -> Decoded | None:
    """An instruction that reads `now` where it read the registers of `mask`."""
    try:
        text = operand_text(now, binding)
    except NoValueError:
        return None
    texts: dict[int, str] = {}
    for place, operand in enumerate(decoded.operands):
        if operand.registers is None or not operand.read or not operand.registers.mask & mask:
            continue
        if operand.written or operand.half or operand.registers.mask != mask:
            return None
        replaced = marks_kept(operand.text, str(operand.registers), text)
        if replaced is None:
            return None
        texts[place] = replaced
    changed = respelled(decoded, texts, match.template.context) if texts else None
    return changed if changed is not None and not changed.reads & mask else None


def _literals(match: Match, was: Slot, now: Slot, binding: Binding, index: BlockIndex) -> dict[int, Decoded]:
    number, bound = binding.bound[was.name].number, binding.bound[now.name]
    place = match.places[-1]
    assert bound.span is not None
    unit = bound.span.base_unit
    found: dict[int, Decoded] = {}
    for later in range(place + 1, len(index.code)):
        if index.reaching(later, unit) != place:
            break
        decoded = index.code[later].decoded
        texts = {
            where: bound.text
            for where, operand in enumerate(decoded.operands)
            if _is_literal(operand) and number_of(operand, index.code[later]) == number
        }
        changed = respelled(decoded, texts, match.template.context) if texts else None
        if changed is not None and changed.size < decoded.size and index.code[later].reference is None:
            found[later] = changed
    return found


def _is_literal(operand: Operand) -> bool:
    return operand.is_literal and operand.text.startswith(("0x", "-0x"))
