"""Finding a template's pattern in a block.

Idea. The lines of a pattern are matched from the last to the first. A line whose result is read by a line that has
been matched already can only be the writer that reaches that reader; lines without such a tie may be anywhere near by.
Operands are unified with variables. At last the flow is compared, register unit by register unit: what a matched
instruction reads must come from the nearest line in front of it (in the pattern) that writes it, or, if there is none,
from outside of the match. So implicit registers (SCC, VCC, EXEC) count like all others, and the instructions of a
match need not be neighbours. Whether the match may be replaced, and where, is `rewriting`'s to say.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

from asmevo.program.instruction import REGISTER_LETTERS, Instruction, Modifier, Operand
from asmevo.program.registers import NAMED_SPANS, RegisterFile, RegisterSpan, units_of
from asmevo.proposers.templates.block_index import BlockIndex
from asmevo.proposers.templates.language import Line, ModifierSlot, Slot
from asmevo.proposers.templates.library import CompiledLine, CompiledTemplate
from asmevo.semantics.constants import constant_value
from asmevo.semantics.operands import UnsupportedOperandError

_WINDOW = 96  # instructions between lines that no register ties together
_MOST_MATCHES = 1024  # of one template in one block
_VCC = NAMED_SPANS["vcc"].base_unit


class Bound(Struct, frozen=True):
    """What a variable stands for: the operand's text, the registers in it, or the 32 bits of a number.

    Of registers that were bound one by one, `span` is what they are part of, from the first on.
    """

    text: str
    span: RegisterSpan | None = None
    number: int | None = None


class Binding(Struct, frozen=True):
    """All variables so far, and the modifiers that `...` stands for."""

    bound: dict[str, Bound] = field(default_factory=dict)
    rest: tuple[Modifier, ...] | None = None

    def numbers(self) -> dict[str, int]:
        """The variables that are numbers."""
        return {name: each.number for name, each in self.bound.items() if each.number is not None}


class Match(Struct, frozen=True):
    """A pattern found: the place of each of its lines, and what its variables are."""

    template: CompiledTemplate
    places: tuple[int, ...]
    binding: Binding


def find_matches(template: CompiledTemplate, index: BlockIndex) -> Iterator[Match]:
    """Matches of a template in a block whose flow and numbers fit, near ones first; each choice of places once."""
    seen: set[tuple[int, ...]] = set()
    for places, binding in _Search(template, index).run():
        if places in seen or not _numbers_fit(template, binding) or not _flows(template, index, places, binding):
            continue
        if len(seen) >= _MOST_MATCHES:
            return
        seen.add(places)
        yield Match(template, places, binding)


def _numbers_fit(template: CompiledTemplate, binding: Binding) -> bool:
    """Whether the conditions that are about numbers alone hold."""
    numbers = binding.numbers()
    alone = (each for each in template.template.conditions if each.names <= numbers.keys())
    return all(each.holds(numbers) for each in alone)


class _Search:
    """Backtracking over the lines of one template in one block."""

    def __init__(self, template: CompiledTemplate, index: BlockIndex) -> None:
        self.template = template
        self.index = index
        self.lines = template.before

    def run(self) -> Iterator[tuple[tuple[int, ...], Binding]]:
        if all(any(self.index.places(name) for name in each.line.mnemonics) for each in self.lines):
            yield from self._extend(len(self.lines) - 1, (), Binding())

    def _extend(
        self, number: int, later: tuple[int, ...], binding: Binding
    ) -> Iterator[tuple[tuple[int, ...], Binding]]:
        if number < 0:
            yield later, binding
            return
        compiled = self.lines[number]
        for place in self._candidates(compiled, number, later, binding):
            if place in later:
                continue
            for order in compiled.line.orders:
                further = unified(compiled.line, order, self.index.code[place], binding)
                if further is not None:
                    yield from self._extend(number - 1, (place, *later), further)

    def _candidates(self, compiled: CompiledLine, number: int, later: tuple[int, ...], binding: Binding) -> list[int]:
        named = [place for name in compiled.line.mnemonics for place in self.index.places(name)]
        if not later:
            return named
        tied = self._tied(compiled, number, later, binding)
        if tied is not None:
            return [tied] if tied in named else []
        middle = later[0]
        near = (place for place in named if abs(place - middle) <= _WINDOW)
        return sorted(near, key=lambda place: (abs(place - middle), place))

    def _tied(self, compiled: CompiledLine, number: int, later: tuple[int, ...], binding: Binding) -> int | None:
        """The only place where a line can be whose result a later line reads."""
        for slot in compiled.defined:
            found = binding.bound.get(slot.name)
            if found is None or found.span is None:
                continue
            unit = found.span.base_unit + (slot.index or 0)
            for step, place in enumerate(later):
                if self._reads(self.lines[number + 1 + step], slot) and self.index.code[place].reads >> unit & 1:
                    return self.index.reaching(place, unit)
        return None

    @staticmethod
    def _reads(compiled: CompiledLine, slot: Slot) -> bool:
        return any(each.name == slot.name and each.index in (None, slot.index) for each in compiled.read)


def _flows(template: CompiledTemplate, index: BlockIndex, places: tuple[int, ...], binding: Binding) -> bool:
    """Whether what each instruction reads comes from where the pattern says.

    Operands that are variables come from the line that writes the variable; what else is read, implicit registers
    above all, from the nearest line that writes the register.
    """
    for number, place in enumerate(places):
        wanted = _wanted(template, number, binding)
        if wanted is None:
            return False
        for unit in units_of(index.code[place].reads):
            if unit in wanted:
                source = wanted[unit]
            else:
                writers = (line for line in range(number - 1, -1, -1) if index.code[places[line]].writes >> unit & 1)
                source = next(writers, None)
            actual = index.reaching(place, unit)
            if actual != places[source] if source is not None else actual in places:
                return False
    return True


def _wanted(template: CompiledTemplate, number: int, binding: Binding) -> dict[int, int | None] | None:
    """For each unit that a line reads as a variable the line that writes it; None for outside.

    None for all if one register would have to hold two variables.
    """
    found: dict[int, int | None] = {}
    sources = template.sources[number]
    for slot in template.before[number].read:
        for name, place in template.words(slot):
            span = binding.bound[name].span
            source = sources.get((name, place))
            if span is not None and found.setdefault(span.base_unit + place, source) != source:
                return None
    return found


def unified(line: Line, order: tuple[Slot, ...], instruction: Instruction, binding: Binding) -> Binding | None:
    """The binding with what an instruction adds to it; None if it is no instance of the line."""
    operands = instruction.decoded.operands
    if instruction.target is not None or instruction.reference is not None or len(operands) != len(order):
        return None
    bound = dict(binding.bound)
    for slot, operand in zip(order, operands, strict=True):
        if not _unify(slot, operand, instruction, bound):
            return None
    rest = _unify_modifiers(line, instruction, bound)
    if rest is None or (line.rest and binding.rest is not None and rest != binding.rest):
        return None
    return Binding(bound, rest if line.rest else binding.rest)


def _unify(slot: Slot, operand: Operand, instruction: Instruction, bound: dict[str, Bound]) -> bool:
    text = operand.text
    if slot.text:
        return text == slot.text
    if slot.negated:
        if not operand.negated or operand.absolute or not text.startswith("-"):
            return False
        text = text[1:]
    elif slot.kind and (operand.negated or operand.absolute):
        return False
    found = _bound(slot, operand, text, instruction)
    if found is None:
        return False
    known = bound.get(slot.name)
    if known is None:
        bound[slot.name] = found
        return True
    if slot.is_number:
        return known.number == found.number
    if slot.kind:
        return known.span is not None and found.span is not None and known.span.base_unit == found.span.base_unit
    return known.text == found.text


def _bound(slot: Slot, operand: Operand, text: str, instruction: Instruction) -> Bound | None:
    """What a variable would stand for here; None if it cannot."""
    if slot.is_number:
        number = number_of(operand, instruction)
        return None if number is None else Bound(text, None, number)
    span = operand.registers
    if not slot.kind:
        return Bound(text, span, number_of(operand, instruction) if span is None else None)
    if span is None or operand.half != slot.half:
        return None
    if slot.is_mask:
        fits = span.count == instruction.decoded.wave_size // 32
        kind_fits = span.file is RegisterFile.SGPR or span.base_unit == _VCC
        return Bound(text, span) if fits and kind_fits else None
    if span.file is not REGISTER_LETTERS[slot.kind]:
        return None
    if span.count != slot.width:
        return None
    if slot.index is None:
        return Bound(text, span)
    first = span.first - slot.index
    return Bound("", RegisterSpan(span.file, first)) if first >= 0 else None


def number_of(operand: Operand, instruction: Instruction) -> int | None:
    """The 32 bits of a printed number; None for registers and words."""
    if not operand.is_literal or (operand.negated and not operand.text[1:2].isdigit()):
        return None
    try:
        return constant_value(instruction.decoded, operand.text, 32)
    except UnsupportedOperandError:
        return None


def _unify_modifiers(line: Line, instruction: Instruction, bound: dict[str, Bound]) -> tuple[Modifier, ...] | None:
    """The modifiers that the line does not name; None if there are such and it allows none."""
    named = {each.name: each for each in line.modifiers}
    present = {each.name: each for each in instruction.decoded.modifiers}
    rest = tuple(each for each in instruction.decoded.modifiers if each.name not in named)
    if rest and not line.rest:
        return None
    for name, slot in named.items():
        found = present.get(name)
        if not _unify_modifier(slot, found.value if found is not None else None, bound):
            return None
    return rest


def _unify_modifier(wanted: ModifierSlot, value: str | None, bound: dict[str, Bound]) -> bool:
    slot = wanted.slot
    if slot is None or not slot.is_number:
        return value is not None and value == (slot.text if slot is not None else "")
    try:
        number = int(value, 0) if value is not None else 0
    except ValueError:
        return False
    known = bound.setdefault(slot.name, Bound(str(number), None, number))
    return known.number == number
