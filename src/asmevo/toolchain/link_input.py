"""Reads a relocatable AMDGPU object into plain records that the linker works on."""

from __future__ import annotations

import struct

from msgspec import Struct, field

from asmevo.toolchain import elf_records as elf
from asmevo.toolchain.errors import LinkError


class Relocation(Struct, frozen=True):
    """A place in a section that waits for a symbol's address."""

    offset: int
    kind: int
    symbol: Symbol
    addend: int


class InputSection(Struct):
    """A section of the object, with the relocations that apply to it."""

    index: int
    name: str
    kind: int
    flags: int
    alignment: int
    entry_size: int
    size: int
    content: bytes
    relocations: list[Relocation] = field(default_factory=list)

    @property
    def allocated(self) -> bool:
        """Whether the section is part of the loaded image."""
        return bool(self.flags & elf.SHF_ALLOC)


class Symbol(Struct, frozen=True, eq=False):
    """A symbol of the object. `section` is None for absolute and undefined symbols."""

    name: str
    kind: int
    binding: int
    visibility: int
    section_index: int
    section: InputSection | None
    value: int
    size: int

    @property
    def undefined(self) -> bool:
        """No definition in this object."""
        return self.section_index == elf.SHN_UNDEF

    @property
    def absolute(self) -> bool:
        """A number, not an address: the place where the image is loaded does not move it."""
        return self.section_index == elf.SHN_ABS

    @property
    def local(self) -> bool:
        """Local in the linked image: local already, or not visible outside."""
        return self.binding == elf.STB_LOCAL or self.visibility not in (elf.STV_DEFAULT, elf.STV_PROTECTED)

    @property
    def preemptible(self) -> bool:
        """Whether another image may supply the definition, so that only the loader knows the address."""
        return not self.local and (self.undefined or self.visibility == elf.STV_DEFAULT)


class ObjectFile(Struct, frozen=True):
    """A relocatable object: identity bytes, flags, sections (space for common symbols first), symbols."""

    identity: bytes
    flags: int
    sections: list[InputSection]
    symbols: list[Symbol]


def read_object(content: bytes) -> ObjectFile:
    """The records of a relocatable object. Raises LinkError for anything else."""
    try:
        return _read(content)
    except (struct.error, UnicodeDecodeError, IndexError, ValueError) as error:
        raise LinkError(f"not a readable ELF object: {error}") from error


def _read(content: bytes) -> ObjectFile:
    if content[:6] != b"\x7fELF\x02\x01":
        raise LinkError("not a 64-bit little-endian ELF object")
    (identity, kind, machine, _, _, _, sections_at, flags, *_, count, names_index) = elf.HEADER.unpack_from(content)
    if machine != elf.EM_AMDGPU:
        raise LinkError("not an AMDGPU object")
    if kind != elf.ET_REL:
        raise LinkError("not a relocatable object; is it linked already?")
    headers = [
        elf.SECTION_HEADER.unpack_from(content, sections_at + at * elf.SECTION_HEADER_SIZE) for at in range(count)
    ]
    names = _content(content, headers[names_index], "section names")
    sections = [_section(content, index, header, names) for index, header in enumerate(headers)]
    tables = [index for index, section in enumerate(sections) if section.kind == elf.SHT_SYMTAB]
    symbols = _symbols(sections[tables[0]], sections[headers[tables[0]][6]], sections) if tables else []
    for section, header in zip(sections, headers, strict=False):  # space for common symbols has no header
        if section.kind == elf.SHT_RELA:
            target = sections[header[7]]
            for offset, info, addend in elf.RELA.iter_unpack(section.content):
                target.relocations.append(Relocation(offset, info & 0xFFFFFFFF, symbols[info >> 32], addend))
        elif section.kind == elf.SHT_REL:
            raise LinkError(f"section {section.name}: relocations without addends are not supported")
    return ObjectFile(identity, flags, [*sections[count:], *sections[:count]], symbols)


def _content(content: bytes, header: tuple[int, ...], name: str) -> bytes:
    offset, size = header[4], header[5]
    if offset + size > len(content):
        raise LinkError(f"{name} reaches beyond the end of the object")
    return content[offset : offset + size]


def _section(content: bytes, index: int, header: tuple[int, ...], names: bytes) -> InputSection:
    name_at, kind, flags, _, _, size, _, _, alignment, entry_size = header
    name = _text(names, name_at)
    if alignment & (alignment - 1):
        raise LinkError(f"section {name} has alignment {alignment}, which is no power of two")
    if flags & elf.SHF_COMPRESSED:
        raise LinkError(f"section {name} is compressed, which is not supported")
    if flags & elf.SHF_TLS:
        raise LinkError(f"section {name} is thread-local, which AMD GPUs do not have")
    data = b"" if kind in (elf.SHT_NOBITS, elf.SHT_NULL) else _content(content, header, f"section {name}")
    return InputSection(index, name, kind, flags, max(alignment, 1), entry_size, size, data)


def _symbols(table: InputSection, names: InputSection, sections: list[InputSection]) -> list[Symbol]:
    symbols = []
    for name_at, info, other, index, value, size in elf.SYMBOL.iter_unpack(table.content):
        name = _text(names.content, name_at)
        if index == elf.SHN_AMDGPU_LDS:
            raise LinkError(f"symbol '{name}' is LDS memory that a linker must place, which is not supported")
        if index >= elf.SHN_LORESERVE and index not in (elf.SHN_ABS, elf.SHN_COMMON):
            raise LinkError(f"symbol '{name}' lies in the special section {index:#x}, which is not supported")
        if index == elf.SHN_COMMON:
            index, value = _add_space(sections, alignment=value, size=size), 0
        section = sections[index] if elf.SHN_UNDEF < index != elf.SHN_ABS else None
        symbols.append(Symbol(name, info & 15, info >> 4, other & 3, index, section, value, size))
    return symbols


def _add_space(sections: list[InputSection], alignment: int, size: int) -> int:
    """Room in .bss for a common symbol; the answer is the section's index."""
    flags = elf.SHF_ALLOC | elf.SHF_WRITE
    sections.append(InputSection(len(sections), ".bss", elf.SHT_NOBITS, flags, max(alignment, 1), 0, size, b""))
    return sections[-1].index


def _text(table: bytes, offset: int) -> str:
    return table[offset : table.index(b"\0", offset)].decode()
