"""What the hazard table says of one encoding, and what two need between them."""

from __future__ import annotations

from msgspec import Struct

from asmevo.program.instruction import Decoded
from asmevo.target.hazards import WaitStateRow


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

    `waits_for`: what the consumer's own wait modifier says, where the row has one.
    """

    row: int
    checks: int
    starts: int
    primes: int
    clears_priming: bool
    waits_for: int


class SequenceFacts(Struct, frozen=True):
    """One instruction's parts and effects in sequence rows."""

    parts: tuple[SequencePart, ...]
    effects: tuple[tuple[int, Effect], ...]


class ForwardingPart(Struct, frozen=True):
    """One instruction's part in VALUPartialForwarding."""

    ends: bool
    writes_exec: bool
    is_valu: bool
    sources: tuple[int, ...]
    results: int


class Facts(Struct, frozen=True, eq=False):
    """What the table says of one encoding.

    `produces` and `consumes` are sets of wait-state rows, `checked` one of sequence rows, one bit a row.
    `destination`: what a matrix operation writes (0 for others).
    `horizon`: no row needs this instruction to be farther away than so many wait states. `words` are those that
    hold of it. `sequences`: by set of sequence rows, what was asked so far (`HazardRules.sequence_facts`).
    """

    decoded: Decoded
    words: frozenset[str]
    wait_states: int
    produces: int
    consumes: int
    horizon: int
    is_matrix: bool
    destination: int
    checked: int
    sequences: dict[int, SequenceFacts]
    is_call: bool
    is_nop: bool
    forwarding: ForwardingPart | None


class Need(Struct, frozen=True):
    """Between two encodings: the row, its wait states, the registers that tie them together (`ALL_UNITS` if
    none do), and whether a later matrix operation on these registers stands for the producer."""

    row: WaitStateRow
    wait_states: int
    registers: int
    superseded: bool
