"""Reads a relocatable AMDGPU object into plain records that the linker works on."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.construct import ConstructError
from elftools.elf.elffile import ELFFile

from asmevo.toolchain import elf_records as elf
from asmevo.toolchain.errors import LinkError


@dataclass(frozen=True, slots=True)
class Relocation:
    """A place in a section that waits for a symbol's address."""

    offset: int
    kind: int
    symbol: Symbol
    addend: int


@dataclass(slots=True)
class InputSection:
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


@dataclass(frozen=True, slots=True, eq=False)
class Symbol:
    """A symbol of the object. `section` is None for absolute, undefined and common symbols."""

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
    def common(self) -> bool:
        """Space that the linker gives in .bss; the value is the alignment."""
        return self.section_index == elf.SHN_COMMON

    @property
    def local(self) -> bool:
        """Local in the linked image: local already, or not visible outside."""
        return self.binding == elf.STB_LOCAL or self.visibility not in (elf.STV_DEFAULT, elf.STV_PROTECTED)

    @property
    def preemptible(self) -> bool:
        """Whether another image may supply the definition, so that only the loader knows the address."""
        return not self.local and (self.undefined or self.visibility == elf.STV_DEFAULT)


@dataclass(frozen=True, slots=True)
class ObjectFile:
    """A relocatable object: its identity bytes, flags, sections in file order, and symbols in file order."""

    identity: bytes
    flags: int
    sections: list[InputSection]
    symbols: list[Symbol]


def read_object(content: bytes) -> ObjectFile:
    """The records of a relocatable object. Raises LinkError for anything else."""
    try:
        return _read(content)
    except (ELFError, ConstructError, UnicodeDecodeError, IndexError, ValueError, AttributeError) as error:
        raise LinkError(f"not a readable ELF object: {error or type(error).__name__}") from error


def _read(content: bytes) -> ObjectFile:
    file = ELFFile(io.BytesIO(content))
    header = file.header
    if file.elfclass != 64 or not file.little_endian or header["e_machine"] != "EM_AMDGPU":
        raise LinkError("not an AMDGPU object (64 bits, little endian)")
    if header["e_type"] != "ET_REL":
        raise LinkError("not a relocatable object; it is linked already")
    raw = list(file.iter_sections())
    sections = [_section(index, section, len(content)) for index, section in enumerate(raw)]
    tables = [section for section in raw if section.header["sh_type"] == "SHT_SYMTAB"]
    symbols = _symbols(tables[0], sections) if tables else []
    for section in raw:
        if section.header["sh_type"] == "SHT_RELA":
            target = sections[section.header["sh_info"]]
            target.relocations += [_relocation(entry, symbols, target) for entry in section.iter_relocations()]
        elif section.header["sh_type"] == "SHT_REL":
            raise LinkError(f"section {section.name}: relocations without addends are not supported")
    return ObjectFile(content[:16], header["e_flags"], sections, symbols)


def _section(index: int, section: Any, limit: int) -> InputSection:
    header = section.header
    kind = _number(header["sh_type"], _SECTION_KINDS)
    size = header["sh_size"]
    if kind not in (elf.SHT_NOBITS, elf.SHT_NULL) and header["sh_offset"] + size > limit:
        raise LinkError(f"section {section.name} reaches beyond the end of the object")
    if header["sh_flags"] & elf.SHF_COMPRESSED:
        raise LinkError(f"section {section.name} is compressed, which is not supported")
    if header["sh_flags"] & elf.SHF_ALLOC and header["sh_flags"] & elf.SHF_TLS:
        raise LinkError(f"section {section.name} is thread-local, which AMD GPUs do not have")
    content = b"" if kind in (elf.SHT_NOBITS, elf.SHT_NULL) else section.data()
    return InputSection(
        index, section.name, kind, header["sh_flags"], max(header["sh_addralign"], 1),
        header["sh_entsize"], size, content,
    )  # fmt: skip


def _symbols(table: Any, sections: list[InputSection]) -> list[Symbol]:
    symbols = []
    for entry in table.iter_symbols():
        index = _number(entry["st_shndx"], _SPECIAL_SECTIONS)
        section = sections[index] if elf.SHN_UNDEF < index < elf.SHN_LORESERVE else None
        if section is None and index not in (elf.SHN_UNDEF, elf.SHN_ABS, elf.SHN_COMMON, elf.SHN_AMDGPU_LDS):
            raise LinkError(f"symbol '{entry.name}' lies in the unknown special section {index:#x}")
        if index == elf.SHN_AMDGPU_LDS:
            raise LinkError(f"symbol '{entry.name}' is LDS memory that a linker must place, which is not supported")
        symbols.append(
            Symbol(
                entry.name,
                _number(entry["st_info"]["type"], _SYMBOL_KINDS),
                _number(entry["st_info"]["bind"], _BINDINGS),
                _number(entry["st_other"]["visibility"], _VISIBILITIES),
                index,
                section,
                entry["st_value"],
                entry["st_size"],
            )
        )
    return symbols


def _relocation(entry: Any, symbols: list[Symbol], target: InputSection) -> Relocation:
    if entry["r_info_sym"] >= len(symbols):
        raise LinkError(f"section {target.name}: a relocation names symbol {entry['r_info_sym']}, which is not there")
    return Relocation(entry["r_offset"], entry["r_info_type"], symbols[entry["r_info_sym"]], entry["r_addend"])


# pyelftools gives names where it knows a value and the number where it does not.
_SECTION_KINDS = {
    "SHT_NULL": 0, "SHT_PROGBITS": 1, "SHT_SYMTAB": 2, "SHT_STRTAB": 3, "SHT_RELA": 4, "SHT_HASH": 5,
    "SHT_DYNAMIC": 6, "SHT_NOTE": 7, "SHT_NOBITS": 8, "SHT_REL": 9, "SHT_DYNSYM": 11, "SHT_INIT_ARRAY": 14,
    "SHT_FINI_ARRAY": 15, "SHT_PREINIT_ARRAY": 16, "SHT_GROUP": 17, "SHT_SYMTAB_SHNDX": 18,
    "SHT_GNU_HASH": elf.SHT_GNU_HASH,
}  # fmt: skip
_SPECIAL_SECTIONS = {"SHN_UNDEF": elf.SHN_UNDEF, "SHN_ABS": elf.SHN_ABS, "SHN_COMMON": elf.SHN_COMMON}
_SYMBOL_KINDS = {
    name: number
    for number, name in enumerate(
        ("STT_NOTYPE", "STT_OBJECT", "STT_FUNC", "STT_SECTION", "STT_FILE", "STT_COMMON", "STT_TLS")
    )
} | {"STT_LOOS": 10}
_BINDINGS = {"STB_LOCAL": elf.STB_LOCAL, "STB_GLOBAL": elf.STB_GLOBAL, "STB_WEAK": elf.STB_WEAK}
_VISIBILITIES = {
    name: number for number, name in enumerate(("STV_DEFAULT", "STV_INTERNAL", "STV_HIDDEN", "STV_PROTECTED"))
}


def _number(value: int | str, names: dict[str, int]) -> int:
    if isinstance(value, int):
        return value
    if value not in names:
        raise LinkError(f"{value} is not supported")
    return names[value]
