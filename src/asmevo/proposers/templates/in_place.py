"""Replacements line by line: each new instruction stands where the matched one stood that it takes the place of.

Loads and stores stay in their order and keep their distance from what waits for them. Because nothing moves, it is
enough to look at registers. With the new instructions in their places

* each reads what the template says: what an earlier new line writes for the same variable, or else what the matched
  instructions read there;
* what a matched instruction wrote and the new one does not write had readers in the match only;
* what a new instruction writes beyond that held nothing that is still needed behind it.
"""

from __future__ import annotations

from msgspec import Struct

from asmevo.program.instruction import Decoded
from asmevo.program.registers import units_of
from asmevo.proposers.templates.block_index import BEFORE, BlockIndex
from asmevo.proposers.templates.matching import Binding, Match
from asmevo.proposers.templates.writing import units_named


class _Placed(Struct, frozen=True):
    """New instructions by place, in the template's order, and the variables that each reads and writes by unit."""

    code: dict[int, Decoded]
    reads: dict[int, dict[int, str]]
    writes: dict[int, dict[int, str]]


def replaced_in_place(
    match: Match, binding: Binding, new: tuple[Decoded, ...], index: BlockIndex
) -> dict[int, Decoded] | None:
    """New instructions by their places; None if registers stand in the way."""
    places = [match.places[line] for line in match.template.stands]
    lines = match.template.after
    placed = _Placed(
        dict(zip(places, new, strict=True)),
        {place: units_named(line.read, binding) for place, line in zip(places, lines, strict=True)},
        {place: units_named(line.defined, binding) for place, line in zip(places, lines, strict=True)},
    )
    defined: dict[tuple[int, str], int] = {}
    for place in places:
        if not _reads_right(place, placed, defined, match, index):
            return None
        defined |= {(unit, name): place for unit, name in placed.writes[place].items()}
    return placed.code if _writes_right(placed, match, index) else None


def _reads_right(
    place: int, placed: _Placed, defined: dict[tuple[int, str], int], match: Match, index: BlockIndex
) -> bool:
    """Whether a new instruction reads what it should; `defined` is where earlier lines write variables."""
    for unit in units_of(placed.code[place].reads):
        writer = _reaching(place, unit, placed, match, index)
        wanted = defined.get((unit, placed.reads[place].get(unit, "")))
        if wanted is not None or writer in placed.code:
            if wanted != writer:
                return False
            continue
        readers = [each for each in match.places if index.code[each].reads >> unit & 1]
        sources = {index.reaching(each, unit) for each in readers}
        if sources and sources != {writer}:
            return False
    return True


def _reaching(place: int, unit: int, placed: _Placed, match: Match, index: BlockIndex) -> int:
    """The last writer of a unit in front of a place, in the new code."""
    old = index.reaching(place, unit, match.places)
    new = (each for each in placed.code if each < place and placed.code[each].writes >> unit & 1)
    return max(old, max(new, default=BEFORE))


def _writes_right(placed: _Placed, match: Match, index: BlockIndex) -> bool:
    for place in match.places:
        new = placed.code.get(place)
        written = 0 if new is None else new.writes
        for unit in units_of(index.code[place].writes & ~written):
            if index.survives(place, unit) or not set(match.places).issuperset(index.uses(place, unit)):
                return False
        if written & ~index.code[place].writes & index.needed_behind(place):
            return False
    return True
