"""What is said of LDS accesses by all who ask: where the address stands, and whether two accesses meet."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from asmevo.program.instruction import Decoded
from asmevo.program.registers import VGPR_MASK


class Meeting(Enum):
    """What is known of two accesses of different waves."""

    APART = "apart"
    MEET = "meet"
    UNKNOWN = "unknown"


class Places(Struct, frozen=True):
    """Where an access goes in each of some work-items: `items` are their numbers, `starts` their addresses in bytes.

    Addresses are relative to a multiple of an atom, `least` is the least number of the atom with which the work-item
    can be on, `pieces` are (offset, size) in bytes.
    """

    items: list[int]
    starts: list[int]
    least: list[int]
    pieces: tuple[tuple[int, int], ...]


def address_of(decoded: Decoded) -> int:
    """The VGPR that holds the address of an LDS instruction, as a mask; 0 if there is none."""
    if "ds" not in decoded.flags:
        return 0
    address = next((each.registers for each in decoded.sources if each.registers is not None), None)
    return address.mask & VGPR_MASK if address is not None else 0
