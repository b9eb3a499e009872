"""The body of a conditional region written so that it runs in any case, and its results selected behind it.

What the body writes and nobody reads behind it is written where it was. What is read behind it goes to free registers;
an operand of several keeps its registers together, and they are free as long as the region lasts. A body's last act is
one selection for each such register, between what was there and what the body made of it:

    vector     v_cndmask_b32 v, v, new, mask       the mask has a one where the body was meant
    scalar     s_cselect_b32 s, new, s             by SCC, in pairs where they are neighbours

A move into such a register is no work of its own: the selection reads what the move would have. An instruction that
keeps part of what it writes is given a copy of it first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property

from msgspec import Struct

from asmevo.analysis.events import union
from asmevo.analysis.pressure import register_use
from asmevo.program.errors import EditError
from asmevo.program.instruction import Decoded, Instruction, Operand
from asmevo.program.register_counts import register_counts
from asmevo.program.registers import (
    SCC_MASK,
    SGPR_MASK,
    VECTOR_MASK,
    VGPR_MASK,
    RegisterFile,
    RegisterSpan,
    file_mask,
    unit_span,
    units_of,
)
from asmevo.program.renaming import renamed_text
from asmevo.proposers.branch_regions import Region
from asmevo.proposers.proposer import Facts
from asmevo.proposers.register_room import vgpr_room

_MOVES = {"v_mov_b32": RegisterFile.VGPR, "s_mov_b32": RegisterFile.SGPR}
_SIZE = re.compile(r"_e(?:32|64)$")
_KEEPS_HALF = re.compile(r"_(?:f|i|u|b|bf)16$")
_PAIR = 2
_MOVE_OPERANDS = 2


class Speculated(Struct):
    """A body: new texts by the id of an instruction (None: it goes), copies in front of some, selections behind it."""

    texts: dict[int, str | None]
    copies: dict[int, list[str]]
    selections: list[str]


class FreeRegisters:
    """Registers that nothing holds or names from a region's condition to what comes behind it."""

    def __init__(self, facts: Facts, region: Region) -> None:
        self._facts, self._region = facts, region
        self._taken = 0

    @cached_property
    def _held(self) -> int:
        kernel, region, held = self._facts.kernel, self._region, 0
        for number in region.blocks:
            code, states = kernel.blocks[number].instructions, self._facts.liveness.states(number)
            first = code.index(region.narrows or region.branch or code[0]) if number == region.head else 0
            end = self._end(code) if number == region.join != region.head else len(code)
            held |= union(each.any_lane for each in states[first : end + 1])
            held |= union(each.decoded.reads | each.decoded.writes for each in code[first:end])
        return held

    def _end(self, code: Sequence[Instruction]) -> int:
        return 0 if self._region.restores is None else code.index(self._region.restores) + 1

    def take(self, like: RegisterSpan) -> RegisterSpan:
        """Registers that can stand where `like` does: as many, of the same alignment. Raises EditError."""
        step = 1 if like.count == 1 else _PAIR
        if like.file is RegisterFile.SGPR and like.count > _PAIR:
            step = 2 * _PAIR
        for first in range(like.first % step, self._room(like.file) - like.count + 1, step):
            found = RegisterSpan(like.file, first, like.count)
            if not found.mask & (self._held | self._taken):
                self._taken |= found.mask
                return found
        raise EditError(f"no registers are free for {like}")

    def are_free(self, span: RegisterSpan) -> bool:
        """Whether nothing holds or names these."""
        return not span.mask & (self._held | self._taken)

    def keep(self, units: int) -> None:
        """Lets nobody take these."""
        self._taken |= units

    def _room(self, file: RegisterFile) -> int:
        kernel = self._facts.kernel
        if file is RegisterFile.VGPR:
            return vgpr_room(kernel)
        named = register_use(kernel).sgprs
        if kernel.descriptor is None:
            return named
        given = register_counts(kernel.descriptor, kernel.target, kernel.wave_size).sgprs
        return max(named, min(given, kernel.target.sgpr.max_usable.value))


class Speculation:
    """The body of one region, with `free` registers; `folds` moves into selections, if it shall."""

    def __init__(self, region: Region, free: FreeRegisters, *, folds: bool) -> None:
        self.region = region
        self._body = [each for _, each in region.body]
        self._free, self._folds = free, folds
        self._now: dict[int, int] = {}
        self._copies: dict[int, list[str]] = {}

    @cached_property
    def selected(self) -> int:
        """Units whose old value is wanted where the body is not. Raises EditError for what cannot be selected."""
        kept = self.region.writes & self.region.live & ~SCC_MASK
        if self.region.narrows is not None:
            kept &= VECTOR_MASK
        if kept & ~(VGPR_MASK | SGPR_MASK):
            raise EditError("only numbered registers are selected")
        return kept

    def made(self, mask: str, *, swapped: bool = False) -> Speculated:
        """The body's new form; `swapped`: SCC is 0 where the body is meant. Raises EditError."""
        moves = dict(self._moves())
        texts: dict[int, str | None] = {}
        sources: dict[int, str] = {}
        for each in self._body:
            if each.id in moves:
                texts[each.id] = None
                sources[moves[each.id]] = self._renamed_operand(each.decoded.operands[1])
            else:
                text = self._renamed(each)
                if text != each.decoded.text:
                    texts[each.id] = text
        sources |= {unit: str(unit_span(self._now[unit])) for unit in units_of(self.selected) if unit not in sources}
        vector = [_vector_selection(unit, sources[unit], mask) for unit in units_of(self.selected & VGPR_MASK)]
        scalar = _scalar_selections(self.selected & SGPR_MASK, sources, swapped=swapped)
        return Speculated(texts, self._copies, [*scalar, *vector])

    def _moves(self) -> Iterator[tuple[int, int]]:
        """Moves that a selection takes over, with the unit that each writes."""
        for place, each in enumerate(self._body if self._folds else ()):
            decoded = each.decoded
            file = _MOVES.get(_SIZE.sub("", decoded.mnemonic))
            if file is None or len(decoded.operands) != _MOVE_OPERANDS or decoded.modifiers:
                continue
            into, source = (operand.registers for operand in decoded.operands)
            if into is None or into.file is not file or not into.mask & self.selected:
                continue
            others = [other.decoded for at, other in enumerate(self._body) if at != place]
            read_later = union(other.decoded.reads for other in self._body[place + 1 :])
            changed = union(other.decoded.writes for other in self._body[place + 1 :])
            if into.mask & (union(other.writes for other in others) | read_later):
                continue
            if source is None or not source.mask & changed:
                yield each.id, into.base_unit

    # --- other registers ------------------------------------------------------------------------------------

    @cached_property
    def _bundles(self) -> list[RegisterSpan]:
        """Spans of selected registers that operands hold together, each once, none meeting another."""
        spans = [o.registers for each in self._body for o in each.decoded.operands if o.registers is not None]
        bundles: list[RegisterSpan] = []
        for file in (RegisterFile.VGPR, RegisterFile.SGPR):
            touched = self.selected & file_mask(file)
            while (more := touched | union(span.mask for span in spans if span.mask & touched)) != touched:
                touched = more
            bundles += _joined([span for span in spans if span.file is file and span.mask & touched])
        return bundles

    def _new_unit(self, unit: int) -> int:
        """Where a register's new value goes."""
        bundle = next(each for each in self._bundles if each.mask >> unit & 1)
        if bundle not in self._places:
            self._places[bundle] = self._free.take(bundle)
        return self._places[bundle].base_unit + unit - bundle.base_unit

    @cached_property
    def _places(self) -> dict[RegisterSpan, RegisterSpan]:
        return {}

    def _renamed(self, instruction: Instruction) -> str:
        decoded = instruction.decoded
        spans: dict[int, RegisterSpan] = {}
        for place, operand in enumerate(decoded.operands):
            if operand.registers is not None and not operand.written and (span := self._read(operand.registers)):
                spans[place] = span
        for place, operand in enumerate(decoded.operands):
            if operand.registers is not None and operand.written and (span := self._written(instruction, operand)):
                spans[place] = span
        return renamed_text(decoded, spans) if spans else decoded.text

    def _renamed_operand(self, operand: Operand) -> str:
        span = self._read(operand.registers) if operand.registers is not None else None
        return operand.text if span is None else str(span)

    def _read(self, span: RegisterSpan) -> RegisterSpan | None:
        """Where what is read is now; None where it was. Raises EditError for half and half."""
        moved = [self._now.get(unit) for unit in span.units]
        if not any(each is not None for each in moved):
            return None
        if None in moved:
            raise EditError(f"part of {span} is new")
        return _span_at(moved[0], span)

    def _written(self, instruction: Instruction, operand: Operand) -> RegisterSpan | None:
        span = operand.registers
        assert span is not None
        if not any(bundle.mask & span.mask for bundle in self._bundles):
            return None
        for unit in span.units if _keeps(instruction.decoded, operand) else ():
            if unit not in self._now:
                move = "v_mov_b32_e32" if span.file is RegisterFile.VGPR else "s_mov_b32"
                copy = f"{move} {unit_span(self._new_unit(unit))}, {unit_span(unit)}"
                self._copies.setdefault(instruction.id, []).append(copy)
        self._now |= {unit: self._new_unit(unit) for unit in span.units}
        return _span_at(self._now[span.base_unit], span)


def _span_at(unit: int | None, like: RegisterSpan) -> RegisterSpan:
    assert unit is not None
    return RegisterSpan(like.file, unit_span(unit).first, like.count)


def _joined(spans: list[RegisterSpan]) -> list[RegisterSpan]:
    """Spans of one file, those that meet made one."""
    result: list[RegisterSpan] = []
    for span in sorted(spans, key=lambda each: (each.first, each.count)):
        last = result[-1] if result else None
        if last is not None and span.first < last.first + last.count:
            end = max(last.first + last.count, span.first + span.count)
            result[-1] = RegisterSpan(span.file, last.first, end - last.first)
        else:
            result.append(span)
    return result


def _keeps(decoded: Decoded, operand: Operand) -> bool:
    """Whether a written operand keeps part of what was there."""
    assert operand.registers is not None
    if operand.read or _KEEPS_HALF.search(_SIZE.sub("", decoded.mnemonic)):
        return True
    named = union(each.registers.mask for each in decoded.operands if each.read and each.registers is not None)
    return bool(operand.registers.mask & decoded.reads & ~named)


def _vector_selection(unit: int, source: str, mask: str) -> str:
    register = unit_span(unit)
    short = source.startswith("v") and mask.startswith("vcc")
    return f"v_cndmask_b32_{'e32' if short else 'e64'} {register}, {register}, {source}, {mask}"


def _scalar_selections(units: int, sources: dict[int, str], *, swapped: bool) -> Iterator[str]:
    while units:
        unit = next(units_of(units))
        old, new = unit_span(unit), sources[unit]
        count = 1
        if old.first % _PAIR == 0 and units >> unit & 1 << 1 and _neighbours(new, sources[unit + 1]):
            count = _PAIR
            old, new = (RegisterSpan(old.file, old.first, _PAIR)), _as_pair(new)
        first, second = (str(old), new) if swapped else (new, str(old))
        yield f"s_cselect_b{32 * count} {old}, {first}, {second}"
        units &= ~(((1 << count) - 1) << unit)


def _neighbours(first: str, second: str) -> bool:
    numbers = [text[1:] for text in (first, second) if text.startswith("s") and text[1:].isdigit()]
    return len(numbers) == _PAIR and int(numbers[0]) % _PAIR == 0 and int(numbers[1]) == int(numbers[0]) + 1


def _as_pair(text: str) -> str:
    return str(RegisterSpan(RegisterFile.SGPR, int(text[1:]), _PAIR))
