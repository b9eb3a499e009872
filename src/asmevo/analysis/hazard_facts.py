"""What the hazard table says of one encoding, and what two need between them."""

from __future__ import annotations

from msgspec import Struct

from asmevo.analysis.hazard_kinds import Kind, SequenceFacts
from asmevo.program.instruction import Decoded
from asmevo.target.hazards import WaitStateRow


class ForwardingPart(Struct, frozen=True):
    """One instruction's part in VALUPartialForwarding."""

    ends: bool
    writes_exec: bool
    is_valu: bool
    sources: tuple[int, ...]
    results: int


class Facts(Struct, frozen=True, eq=False):
    """What the table says of one encoding.

    `kind` is its opcode's. `produces` and `consumes` are sets of wait-state rows, one bit a row.
    `destination`: what a matrix operation writes (0 for others).
    `horizon`: no row needs this instruction to be farther away than so many wait states. `words` are those that
    hold of it. `sequences`: by set of sequence rows, what was asked so far (`HazardRules.sequence_facts`).
    """

    decoded: Decoded
    words: frozenset[str]
    kind: Kind
    wait_states: int
    produces: int
    consumes: int
    horizon: int
    is_matrix: bool
    destination: int
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
