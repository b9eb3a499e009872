"""ELF as AMD's code objects use it: 64 bits, little endian. The numbers, and the records packed to bytes."""

from __future__ import annotations

import struct
from typing import Final

PAGE: Final = 0x1000
HEADER_SIZE, PROGRAM_HEADER_SIZE, SECTION_HEADER_SIZE = 64, 56, 64
SYMBOL_SIZE, RELA_SIZE, DYNAMIC_SIZE = 24, 24, 16

ET_REL, ET_DYN, EM_AMDGPU = 1, 3, 224

SHT_NULL, SHT_PROGBITS, SHT_SYMTAB, SHT_STRTAB, SHT_RELA, SHT_HASH = 0, 1, 2, 3, 4, 5
SHT_DYNAMIC, SHT_NOTE, SHT_NOBITS, SHT_REL, SHT_DYNSYM = 6, 7, 8, 9, 11
SHT_INIT_ARRAY, SHT_FINI_ARRAY, SHT_PREINIT_ARRAY, SHT_GROUP, SHT_SYMTAB_SHNDX = 14, 15, 16, 17, 18
SHT_LLVM_FIRST, SHT_LLVM_LAST = 0x6FFF4C00, 0x6FFF4CFF  # hints for a linker; they never reach its output
SHT_GNU_HASH = 0x6FFFFFF6

SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR, SHF_MERGE, SHF_STRINGS = 1, 2, 4, 0x10, 0x20
SHF_INFO_LINK, SHF_LINK_ORDER, SHF_GROUP, SHF_TLS, SHF_COMPRESSED = 0x40, 0x80, 0x200, 0x400, 0x800
SHF_EXCLUDE = 0x80000000

SHN_UNDEF, SHN_LORESERVE, SHN_AMDGPU_LDS, SHN_ABS, SHN_COMMON = 0, 0xFF00, 0xFF00, 0xFFF1, 0xFFF2

STB_LOCAL, STB_GLOBAL, STB_WEAK = 0, 1, 2
STT_NOTYPE, STT_SECTION, STT_FILE = 0, 3, 4
STV_DEFAULT, STV_HIDDEN, STV_PROTECTED = 0, 2, 3

PT_LOAD, PT_DYNAMIC, PT_NOTE, PT_PHDR = 1, 2, 4, 6
PT_GNU_STACK, PT_GNU_RELRO = 0x6474E551, 0x6474E552
PF_X, PF_W, PF_R = 1, 2, 4

DT_NULL, DT_HASH, DT_STRTAB, DT_SYMTAB, DT_RELA, DT_RELASZ, DT_RELAENT = 0, 4, 5, 6, 7, 8, 9
DT_STRSZ, DT_SYMENT, DT_INIT_ARRAY, DT_FINI_ARRAY, DT_INIT_ARRAYSZ, DT_FINI_ARRAYSZ = 10, 11, 25, 26, 27, 28
DT_GNU_HASH, DT_RELACOUNT = 0x6FFFFEF5, 0x6FFFFFF9

HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")
SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
RELA = struct.Struct("<QQq")
_DYNAMIC = struct.Struct("<qQ")
_MASK = (1 << 64) - 1


def align(value: int, boundary: int) -> int:
    """`value` rounded up to a multiple of `boundary`."""
    return -(-value // boundary) * boundary if boundary > 1 else value


def pack_header(
    identity: bytes, flags: int, sections_at: int, segment_count: int, section_count: int, names_index: int
) -> bytes:
    """The file header of a code object; `identity` is the 16 bytes of the object that was linked."""
    return HEADER.pack(
        identity, ET_DYN, EM_AMDGPU, 1, 0, HEADER_SIZE, sections_at, flags,
        HEADER_SIZE, PROGRAM_HEADER_SIZE, segment_count, SECTION_HEADER_SIZE, section_count, names_index,
    )  # fmt: skip


def pack_program_header(
    kind: int, flags: int, offset: int, address: int, file_size: int, memory_size: int, alignment: int
) -> bytes:
    """One program header; physical and virtual address are the same."""
    return _PROGRAM_HEADER.pack(kind, flags, offset, address, address, file_size, memory_size, alignment)


def pack_section_header(
    name: int, kind: int, flags: int, address: int, offset: int, size: int,
    link: int, info: int, alignment: int, entry_size: int,
) -> bytes:  # fmt: skip
    """One section header; `name` is its offset in .shstrtab."""
    return SECTION_HEADER.pack(name, kind, flags, address, offset, size, link, info, alignment, entry_size)


def pack_symbol(name: int, kind: int, binding: int, visibility: int, section: int, value: int, size: int) -> bytes:
    """One symbol table entry; `name` is its offset in the string table."""
    return SYMBOL.pack(name, binding << 4 | kind, visibility, section, value & _MASK, size)


def pack_rela(offset: int, symbol: int, kind: int, addend: int) -> bytes:
    """One relocation with addend."""
    return RELA.pack(offset, symbol << 32 | kind, addend)


def pack_dynamic(tag: int, value: int) -> bytes:
    """One entry of .dynamic."""
    return _DYNAMIC.pack(tag, value)
