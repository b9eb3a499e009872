"""What the two disassemblers share: words that must not reach LLVM, and words that a newer LLVM wrote.

Words that must not reach LLVM. Its AMDGPU decoder takes some words that are no instruction, and ends the
process in printing them. Found by decoding random words (tests/toolchain/test_fuzz.py repeats it):

* gfx8, gfx9, gfx10: an SDWA word (VOP1, VOP2 or VOPC whose first source is 0xf9) with a selector of 7 in its
  second dword. The selectors end at 6 (DWORD); 7 is reserved.
* gfx8, gfx9: a buffer access (MUBUF, MTBUF) with scalar offset 0xff, and a VOP3 or VOP3P instruction with a
  source 0xff: "a literal follows". These chips allow no literal behind 64-bit encodings.
* gfx950, gfx1250: a matrix instruction of the f8f6f4 kind, alone or behind its scale prefix, whose first or
  second source is no vector register, or whose third is 0xff. Matrices lie in vector registers only.

Words that a newer LLVM wrote. In VOP3 instructions of gfx10 and later, a source field that the instruction
does not use holds 0x80 (the constant 0) rather than 0, which this LLVM does not decode. Such a word is tried
again with 0 in the field. This is sound, since an instruction that uses the field decodes with 0x80 in it.

Words that this LLVM writes and does not read. On gfx8 and gfx9 a VOP3 comparison that also writes EXEC (`v_cmpx_*_e64`)
names its result like one that does not (`v_cmp_*_e64`), and AMD's LLVM 22 has no decoder row for it. The two differ
in one bit of the opcode only (AMD's "Vega" ISA document, VOPC opcodes: 0x10 apart, for classes 1), so the word is
decoded as its twin and the text gets the other name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from asmevo.toolchain.base import DecodedWord

# LLVM reads the literal of an instruction without asking whether the buffer still has it, so a code section
# that ends inside an instruction would be read beyond its end. So many zeros behind it prevent that.
PADDING = 32

_SDWA_WORD = re.compile(rb"(?=\xf9..[\x00-\x7f])", re.S)
_BUFFER_WORD = re.compile(rb"(?=...[\xe0-\xe3\xe8-\xeb]...\xff)", re.S)
_VOP3_WORD = re.compile(rb"(?=...[\xd0-\xd3])", re.S)
_VECTOR_REGISTER = 0x100
_LITERAL = 0xFF
_RESERVED_SELECTOR = 7
_VOPC, _VOP1 = 0x3E, 0x3F
_SOURCE2, _SOURCE1 = 18, 9
_SOURCE_MASK = 0x1FF
_CONSTANT_ZERO = 0x80
_VOP3 = 0b110101
_OLDER_VOP3 = 0b110100  # before gfx10
_OPERATION, _OPERATION_MASK = 16, 0x3FF
# Opcodes of comparisons before gfx10 and the bit by which those that write EXEC differ: classes, the others.
_WRITE_EXEC = ((range(0x10, 0x16), 0x01), (range(0x20, 0x100), 0x10))


class _Matrices(Struct, frozen=True):
    """The f8f6f4 matrix instructions of a chip, by the upper halves of their first words."""

    words: re.Pattern[bytes]
    plain: frozenset[bytes]

    def is_deadly(self, code: bytes, at: int) -> bool:
        """Whether the instruction at `at`, perhaps behind its scale prefix, has a source that is none."""
        if code[at + 2 : at + 4] not in self.plain:
            at += 8
            if code[at + 2 : at + 4] not in self.plain:
                return False
        second = int.from_bytes(code[at + 4 : at + 8], "little")
        in_registers = all(second >> position & _VECTOR_REGISTER for position in (0, _SOURCE1))
        return not in_registers or _has_literal_source(code, at)


_MATRICES = {
    "gfx950": _Matrices(re.compile(rb"(?=..[\xac-\xae]\xd3)", re.S), frozenset({b"\xad\xd3", b"\xae\xd3"})),
    "gfx125": _Matrices(re.compile(rb"(?=..[\x33\x35\x3a]\xcc)", re.S), frozenset({b"\x33\xcc"})),
}


def generation(cpu: str) -> int:
    """The generation of a gfx processor name: 8 for gfx803, 9 for gfx90a; 0 for other names."""
    digits = re.fullmatch(r"gfx(\d+)[0-9a-f]{2}", cpu)
    if digits:
        return int(digits[1])
    generic = re.match(r"gfx(\d+)-", cpu)
    return int(generic[1]) if generic else 0


def deadly_offsets(code: bytes, cpu: str) -> frozenset[int]:
    """Where `code` has words, at multiples of 4, that LLVM must not be asked to decode."""
    chip = generation(cpu)
    found: set[int] = set()
    if chip < 11:
        found.update(at for at in _aligned(_SDWA_WORD, code) if _is_deadly_sdwa(code, at))
    if chip < 10:
        found.update(_aligned(_BUFFER_WORD, code))
        found.update(at for at in _aligned(_VOP3_WORD, code) if _has_literal_source(code, at))
    matrices = next((known for name, known in _MATRICES.items() if cpu.startswith(name)), None)
    if matrices is not None:
        found.update(at for at in _aligned(matrices.words, code) if matrices.is_deadly(code, at))
    return frozenset(found)


def _aligned(pattern: re.Pattern[bytes], code: bytes) -> Iterator[int]:
    return (match.start() for match in pattern.finditer(code) if match.start() % 4 == 0)


def _is_deadly_sdwa(code: bytes, at: int) -> bool:
    first = int.from_bytes(code[at : at + 4], "little")
    second = int.from_bytes(code[at + 4 : at + 8], "little")
    if first & _SOURCE_MASK != 0xF9:
        return False
    operation = first >> 25
    selectors = [second >> 16 & 7]
    if operation != _VOPC:
        selectors.append(second >> 8 & 7)
    if operation != _VOP1:
        selectors.append(second >> 24 & 7)
    return _RESERVED_SELECTOR in selectors


def _has_literal_source(code: bytes, at: int) -> bool:
    second = int.from_bytes(code[at + 4 : at + 8], "little")
    return any(second >> position & _SOURCE_MASK == _LITERAL for position in (0, _SOURCE1, _SOURCE2))


class Respelling(Struct, frozen=True):
    """A word that this LLVM decodes in the place of one that it does not, and what the text is then called.

    `exact`: the text assembles to the word that was there.
    """

    word: bytes
    exact: bool = False
    family: str = ""
    own_family: str = ""

    def decoded(self, offset: int, size: int, text: str) -> DecodedWord:
        """The word that was there, from the text of this one."""
        return DecodedWord(offset, size, self.own_family + text.removeprefix(self.family), self.exact)


def respellings(code: bytes, at: int, cpu: str) -> list[Respelling]:
    """What the 8 bytes at `at` may be decoded as instead; tried in order."""
    if at + 8 > len(code):
        return []
    return _comparison_twin(code, at) if generation(cpu) < 10 else _older_spellings(code, at)


def _comparison_twin(code: bytes, at: int) -> list[Respelling]:
    first = int.from_bytes(code[at : at + 4], "little")
    operation = first >> _OPERATION & _OPERATION_MASK
    twin = next((operation ^ bit for range_, bit in _WRITE_EXEC if operation in range_ and operation & bit), None)
    if first >> 26 != _OLDER_VOP3 or twin is None:
        return []
    word = (first ^ (operation ^ twin) << _OPERATION).to_bytes(4, "little") + code[at + 4 : at + 8]
    return [Respelling(word, True, "v_cmp_", "v_cmpx_")]


def _older_spellings(code: bytes, at: int) -> list[Respelling]:
    """The word with unused source fields as this LLVM wants them."""
    if code[at + 3] >> 2 != _VOP3:
        return []
    second = int.from_bytes(code[at + 4 : at + 8], "little")
    spellings = []
    for position in (_SOURCE2, _SOURCE1):
        if second >> position & _SOURCE_MASK == _CONSTANT_ZERO:
            second &= ~(_SOURCE_MASK << position)
            spellings.append(Respelling(code[at : at + 4] + second.to_bytes(4, "little")))
    return spellings
