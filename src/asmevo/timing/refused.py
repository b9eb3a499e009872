"""What an instruction costs that LLVM does not decode but silicon executes.

Hardware does not look at the fields that an instruction has no use for, and does something with an opcode that only
another chip of its family has. LLVM refuses such words; traces hold thousands of them. `as_executed` finds the nearest
word that LLVM does take: as few fields cleared as possible, the short form, or the family's other chips asked. A field
that is used decodes as it stands, so what is cleared is no operand. The answer is for timing alone: it says which unit
executes the word and which registers it names, not what it computes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import chain, combinations

from asmevo.program.decode import UNKNOWN, DecodingContext, decode_code
from asmevo.program.instruction import Decoded
from asmevo.target import load_target, target_names

_LONG = 8  # bytes of an encoding of two dwords
_EXEC = 0x7E
_VOP3 = 0b110101
_VOP1_IN_VOP3, _VOP1_OPCODES = 0x180, 0x80
_Field = tuple[int, int, int]
"""Lowest bit and width in the two dwords together, and what LLVM wants there if the field is not used."""
_UNUSED_FIELDS: dict[int, tuple[tuple[_Field, ...], ...]] = {
    _VOP3: (((50, 9, 0),), ((41, 9, 0),), ((0, 8, _EXEC),)),  # VOP3: third source, second, v_cmpx's destination
    0b110011: (((50, 9, 0), (14, 1, 0)), ((41, 9, 0), (60, 1, 0))),  # VOP3P: source, its choice for the upper half
    0b110110: (((56, 8, 0),), ((48, 8, 0),), ((40, 8, 0),)),  # DS: destination, second data, first data
}
"""By the format's prefix (bits 31:26 of the first dword) on gfx11 and later: what an instruction may not have."""


@lru_cache(maxsize=1 << 12)
def as_executed(code: bytes, context: DecodingContext) -> Decoded | None:
    """The instruction that `code`, of two dwords or more, starts with, None if nothing near it decodes."""
    for word in _near(code[:_LONG]):
        found = decode_code(word, context)
        if len(found) == 1 and UNKNOWN not in found[0].flags:
            return found[0]
    for other in _relatives(context):
        first = decode_code(code, other)[0]
        if UNKNOWN not in first.flags:
            return first
    return None


def _near(code: bytes) -> Iterator[bytes]:
    fields = _UNUSED_FIELDS.get(code[3] >> 2, ()) if len(code) == _LONG else ()
    word = int.from_bytes(code, "little")
    for count in range(1, len(fields) + 1):
        for unused in combinations(fields, count):
            other = word
            for low, width, value in chain.from_iterable(unused):
                other = other & ~((1 << width) - 1 << low) | value << low
            yield other.to_bytes(_LONG, "little")
    if len(code) == _LONG and code[3] >> 2 == _VOP3:
        yield from _as_vop1(int.from_bytes(code, "little"))


def _as_vop1(word: int) -> Iterator[bytes]:
    """The short form of a VOP1 opcode in the long format, which not all of them have in LLVM."""
    opcode = (word >> 16 & 0x3FF) - _VOP1_IN_VOP3
    if 0 <= opcode < _VOP1_OPCODES:
        destination, source = word & 0xFF, word >> 32 & 0x1FF
        yield (0b0111111 << 25 | destination << 17 | opcode << 9 | source).to_bytes(4, "little")


def _relatives(context: DecodingContext) -> Iterator[DecodingContext]:
    """The other chips of the family."""
    family = context.target.family.value
    for name in target_names():
        target = load_target(name)
        if target.family.value == family and name != context.target.name:
            yield DecodingContext(target, context.wave_size)
