"""What an opcode may do under the rows of a hazard table, whatever its registers are.

A row's selectors ask two things: words and mnemonic, which hold of every encoding of an opcode alike, and registers or
immediates, which differ. The first are answered once for a kind of opcode (`Kind`), and all opcodes of which the same
selectors hold are one kind; so an encoding that is met for the first time is asked only for the second.
"""

from __future__ import annotations

from msgspec import Struct

from asmevo.target.hazards import Role, Selector, SequenceRow, WaitStateRow


class Effect(Struct, frozen=True):
    """What an instruction does to a pending sequence: adds to its counts, ends it, arms it, or makes the
    consumer count from zero. `ends_if_primed`: it ends it if one of these registers was touched before."""

    counts: tuple[int, ...]
    ends: bool
    ends_if_primed: int
    arms: bool
    zeroes: bool


class SequencePart(Struct, frozen=True):
    """One instruction's part in one sequence row, as register sets (0 = plays no such part).

    `primes_itself`: what it primes and may start at once, `unprimes`: what is primed no more behind it.
    `waits_for`: what the consumer's own wait modifier says, where the row has one.
    """

    row: int
    checks: int
    starts: int
    primes: int
    primes_itself: int
    unprimes: int
    waits_for: int


class SequenceFacts(Struct, frozen=True):
    """One instruction's parts and effects in sequence rows."""

    parts: tuple[SequencePart, ...]
    effects: tuple[tuple[int, Effect], ...]


class PossiblePart(Struct, frozen=True):
    """Which parts an opcode may play in a sequence row; `clears`: these ends of its priming. `rewrites`:
    what it writes is primed no more.

    `concerns`: an encoding that touches none of these registers plays none of the parts.
    """

    row: int
    concerns: int
    consumer: bool
    producer: bool
    primes: bool
    clears: tuple[Selector, ...]
    rewrites: bool


class Asked(Struct, frozen=True):
    """What an opcode may do in some sequence rows; `settled` are its facts if it plays no part with its registers."""

    parts: tuple[PossiblePart, ...]
    effects: tuple[tuple[int, Effect | None], ...]
    settled: SequenceFacts | None


Bundle = tuple[Role | None, int, int]


class Kind(Struct, frozen=True):
    """Rows in which an opcode may play a part, by their place.

    `producers` and `consumers` are bundles of wait-state rows that ask the same of an encoding: role, register mask
    (0: nothing is asked) and rows, one bit each; rows whose selector looks at registers stand in `..._asking`.
    `horizons` by the rows that an encoding produces for, see Facts. `effects`: what it does to pending sequences,
    None where that depends on registers or the immediate. `checked`: sequence rows that it may be the consumer of, one
    bit each. `asked`: by set of sequence rows.
    """

    producers: tuple[Bundle, ...]
    producers_asking: tuple[int, ...]
    consumers: tuple[Bundle, ...]
    consumers_asking: tuple[int, ...]
    horizons: dict[tuple[int, str, bool], int]
    parts: tuple[PossiblePart, ...]
    effects: tuple[tuple[int, Effect | None], ...]
    checked: int
    asked: dict[int, Asked]


def numbered_alike(rows: list[WaitStateRow | SequenceRow]) -> dict[Selector, int]:
    """All selectors of the rows, with one number for those that ask the same of an opcode."""
    numbers: dict[tuple[object, ...], int] = {}
    alike = {}
    for row in rows:
        selectors = [row.producer, row.consumer]
        if isinstance(row, SequenceRow):
            selectors += affecting(row)
            selectors += [row.primed_by.by, *row.primed_by.until] if row.primed_by is not None else []
        for s in selectors:
            asked = (s.all_of, s.any_of, s.none_of, s.mnemonic, s.not_mnemonic, bool(s.depctr), bool(s.counters))
            alike[s] = numbers.setdefault(asked, len(numbers))
    return alike


def asked_of(kind: Kind, rows: int) -> Asked:
    """What a kind is asked in a set of sequence rows (one bit each), kept with the kind."""
    parts = tuple(part for part in kind.parts if rows >> part.row & 1)
    effects = tuple((row, effect) for row, effect in kind.effects if rows >> row & 1)
    fixed = tuple((row, effect) for row, effect in effects if effect is not None)
    asked = kind.asked[rows] = Asked(parts, effects, SequenceFacts((), fixed) if fixed == effects else None)
    return asked


def affecting(row: SequenceRow) -> list[Selector]:
    """What changes a pending sequence."""
    selectors: list[Selector | None] = [*row.until, row.arm, row.counted_zero_after]
    if row.softens is not None:
        selectors.append(row.softens.after)
    return [selector for selector in selectors if selector is not None]
