"""AMDGPU code objects as ELF files: sections, symbols, descriptors, the metadata note.

Parsing is pyelftools'; this module turns what it finds into the few things the project needs and every
kind of wrong file into one sentence. Addresses are virtual addresses of the image; in a relocatable
object, where sections have none yet, they are offsets in the section.
"""

from __future__ import annotations

import io
from functools import cached_property
from typing import Any

import msgpack
from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection
from msgspec import Struct

from asmevo.program.descriptor import SIZE as DESCRIPTOR_SIZE
from asmevo.program.descriptor import KernelDescriptor
from asmevo.program.errors import NotAProgramError, UnreadableProgramError
from asmevo.target import TargetId, UnknownTargetError, parse_target_id, target_from_elf_flags

_MACHINE_AMDGPU = 224  # EM_AMDGPU, ELF gABI registry
_NOTE_METADATA = 32  # NT_AMDGPU_METADATA, AMDGPU backend user guide
_NOTE_OWNER = b"AMDGPU\0"
_DESCRIPTOR_SUFFIX = ".kd"
_FUNCTION_TYPES = ("FUNC", "AMDGPU_HSA_KERNEL", "LOOS")
_CODE_ALIGNMENT = 256  # bytes; kernel descriptor, KERNEL_CODE_ENTRY_BYTE_OFFSET, user guide
_NAMELESS = "kernel"

_FOREIGN = (
    (
        b"__CLANG_OFFLOAD_BUNDLE__",
        "an offload bundle; unpack the code object first (clang-offload-bundler --unbundle)",
    ),
    (b"CCOB", "a compressed offload bundle; unpack the code object first (clang-offload-bundler --unbundle)"),
    (b"MZ", "a Windows executable"),
    (b"!<arch>", "an archive; extract the object first"),
    (b"\x03\x02\x23\x07", "SPIR-V, not AMDGPU machine code"),
    (b"BC\xc0\xde", "LLVM bitcode, not AMDGPU machine code"),
)


class Section(Struct, frozen=True):
    """One section; `offset` is its place in the file (bytes)."""

    index: int
    name: str
    type: str
    flags: int
    address: int
    offset: int
    size: int
    align: int
    data: bytes

    @property
    def allocated(self) -> bool:
        """Whether it is loaded into memory."""
        return bool(self.flags & 2)

    @property
    def executable(self) -> bool:
        """Whether it holds code."""
        return bool(self.flags & 4)


class Symbol(Struct, frozen=True):
    """One symbol; `section` is None for undefined and absolute ones, `absolute` tells which."""

    name: str
    value: int
    size: int
    type: str
    bind: str
    visibility: str
    section: int | None
    absolute: bool


class Relocation(Struct, frozen=True):
    """One open reference of a relocatable object: at `offset` in `section`, to `symbol` plus `addend`."""

    section: int
    offset: int
    type: int
    symbol: str
    addend: int


class CodeObject:
    """A code object or relocatable object. Making one raises NotAProgramError or UnreadableProgramError."""

    def __init__(self, data: bytes, file: str) -> None:
        self.data = data
        self.file = file
        self._refuse_foreign()
        try:
            self._read()
        except (
            ELFError,
            ValueError,
            KeyError,
            IndexError,
            UnicodeDecodeError,
            AttributeError,
            TypeError,
        ) as error:
            words = f"a damaged or cut-off ELF file ({error})"
            raise UnreadableProgramError(file, words) from error
        except (OverflowError, MemoryError, AssertionError) as error:
            raise UnreadableProgramError(file, "a damaged ELF file: a table lies outside the file") from error

    def _refuse_foreign(self) -> None:
        if not self.data:
            raise NotAProgramError(self.file, "the file is empty")
        for magic, words in _FOREIGN:
            if self.data.startswith(magic):
                raise NotAProgramError(self.file, words)
        if not self.data.startswith(b"\x7fELF"):
            raise NotAProgramError(self.file, "neither an ELF code object nor assembly text")
        if self.data[4:6] != b"\x02\x01":
            raise NotAProgramError(
                self.file, "an ELF file, but not a 64-bit little-endian one, so no AMDGPU code object"
            )

    def _read(self) -> None:
        elf = ELFFile(io.BytesIO(self.data))
        if elf.header["e_machine"] not in ("EM_AMDGPU", _MACHINE_AMDGPU):
            machine = str(elf.header["e_machine"]).removeprefix("EM_")
            raise NotAProgramError(self.file, f"an ELF file for {machine}, not for an AMD GPU")
        self.flags = int(elf.header["e_flags"])
        self.relocatable = elf.header["e_type"] == "ET_REL"
        self.sections = [self._section(index, section) for index, section in enumerate(elf.iter_sections())]
        self.symbols = self._symbols(elf) or self._inferred_symbols()
        self.relocations = self._relocations(elf) if self.relocatable else []
        try:
            self.target_id = self._target_id()
        except UnknownTargetError as error:
            raise NotAProgramError(self.file, str(error)) from error

    def _section(self, index: int, section: Any) -> Section:
        header = section.header
        size, offset = int(header["sh_size"]), int(header["sh_offset"])
        occupied = header["sh_type"] not in ("SHT_NOBITS", "SHT_NULL")
        if occupied and offset + size > len(self.data):
            raise UnreadableProgramError(self.file, f"the file is cut off inside section {section.name or index}")
        return Section(
            index=index,
            name=section.name,
            type=str(header["sh_type"]),
            flags=int(header["sh_flags"]),
            address=int(header["sh_addr"]),
            offset=offset,
            size=size,
            align=int(header["sh_addralign"]),
            data=self.data[offset : offset + size] if occupied else b"",
        )

    def _symbols(self, elf: ELFFile) -> list[Symbol]:
        tables = [section for section in elf.iter_sections() if isinstance(section, SymbolTableSection)]
        chosen = next((t for t in tables if t.header["sh_type"] == "SHT_SYMTAB"), tables[0] if tables else None)
        if chosen is None:
            return []
        return [self._symbol(symbol) for symbol in chosen.iter_symbols()]

    def _inferred_symbols(self) -> list[Symbol]:
        """Files without any symbol table: one kernel that fills the code section, and its descriptor.

        The kernel is named by the metadata; the descriptor is known by its entry, which is the code's start
        (its low 8 bits do not count: code starts at multiples of 256).
        """
        code = [section for section in self.sections if section.executable and section.size]
        try:
            names = list(self.kernel_metadata) or [_NAMELESS]
        except UnreadableProgramError:
            names = [_NAMELESS]
        if len(code) != 1 or len(names) != 1:
            return []
        base = 0 if self.relocatable else code[0].address
        found = [Symbol(names[0], base, code[0].size, "FUNC", "GLOBAL", "PROTECTED", code[0].index, False)]
        for section in self.sections:
            for place in range(0, len(section.data) - DESCRIPTOR_SIZE + 1, DESCRIPTOR_SIZE):
                here = section.address + place
                entry = int.from_bytes(section.data[place + 16 : place + 24], "little", signed=True)
                starts_code = (here + entry) & ~(_CODE_ALIGNMENT - 1) == base
                if section.allocated and not section.executable and starts_code and len(found) == 1:
                    name = names[0] + _DESCRIPTOR_SUFFIX
                    size = DESCRIPTOR_SIZE
                    found.append(Symbol(name, here, size, "OBJECT", "GLOBAL", "PROTECTED", section.index, False))
        return found

    def _symbol(self, symbol: Any) -> Symbol:
        section = symbol.entry["st_shndx"]
        if isinstance(section, int) and section >= len(self.sections):
            raise UnreadableProgramError(self.file, f"the symbol {symbol.name} lies in no section of the file")
        return Symbol(
            name=symbol.name,
            value=int(symbol.entry["st_value"]),
            size=int(symbol.entry["st_size"]),
            type=str(symbol.entry["st_info"]["type"]).removeprefix("STT_"),
            bind=str(symbol.entry["st_info"]["bind"]).removeprefix("STB_"),
            visibility=str(symbol.entry["st_other"]["visibility"]).removeprefix("STV_"),
            section=section if isinstance(section, int) else None,
            absolute=section == "SHN_ABS",
        )

    def _relocations(self, elf: ELFFile) -> list[Relocation]:
        found = []
        for section in elf.iter_sections():
            if not isinstance(section, RelocationSection):
                continue
            for relocation in section.iter_relocations():
                symbol = self.symbols[relocation["r_info_sym"]]
                name = symbol.name
                if symbol.type == "SECTION" and symbol.section is not None:
                    name = self.sections[symbol.section].name
                found.append(
                    Relocation(
                        section=int(section.header["sh_info"]),
                        offset=int(relocation["r_offset"]),
                        type=int(relocation["r_info_type"]),
                        symbol=name,
                        addend=int(relocation["r_addend"]) if section.is_RELA() else 0,
                    )
                )
        return found

    def _target_id(self) -> TargetId:
        try:
            named = self.metadata.get("amdhsa.target")
        except UnreadableProgramError:
            named = None
        if isinstance(named, str):
            return parse_target_id(named)
        return target_from_elf_flags(self.flags)

    @cached_property
    def metadata(self) -> dict[str, Any]:
        """The metadata note as a map, empty without one. Raises UnreadableProgramError when it is damaged."""
        raw = self.metadata_bytes
        if raw is None:
            return {}
        try:
            value = msgpack.unpackb(raw, strict_map_key=False)
        except (ValueError, TypeError, msgpack.UnpackException) as error:
            raise UnreadableProgramError(self.file, "the metadata note is not valid MessagePack") from error
        if not isinstance(value, dict):
            raise UnreadableProgramError(self.file, "the metadata note holds no map")
        return value

    @cached_property
    def metadata_bytes(self) -> bytes | None:
        """The metadata note's content as it stands in the file (MessagePack), or None."""
        for section in self.sections:
            if section.type == "SHT_NOTE":
                for owner, kind, content in _notes(section.data):
                    if owner == _NOTE_OWNER and kind == _NOTE_METADATA:
                        return content
        return None

    def section_at(self, address: int) -> Section | None:
        """The loaded section that holds a virtual address (linked objects only)."""
        for section in self.sections:
            if section.allocated and section.address <= address < section.address + section.size:
                return section
        return None

    def section_of(self, symbol: Symbol) -> Section | None:
        """The section a symbol lies in."""
        return self.sections[symbol.section] if symbol.section is not None else None

    def offset_in_section(self, symbol: Symbol) -> int:
        """A symbol's offset in its section (bytes)."""
        section = self.section_of(symbol)
        return symbol.value - (0 if self.relocatable or section is None else section.address)

    @cached_property
    def code_symbols(self) -> list[Symbol]:
        """Functions and kernels in executable sections, by address; what a descriptor names is a kernel."""
        entries = {symbol.name for symbol in self.symbols}
        found = [
            symbol
            for symbol in self.symbols
            if (symbol.type in _FUNCTION_TYPES or symbol.name + _DESCRIPTOR_SUFFIX in entries)
            and (section := self.section_of(symbol)) is not None
            and section.executable
        ]
        return sorted(found, key=lambda symbol: (symbol.section or 0, symbol.value))

    @cached_property
    def descriptors(self) -> dict[str, KernelDescriptor]:
        """Kernel descriptors by kernel name."""
        found = {}
        for symbol in self.symbols:
            section = self.section_of(symbol)
            if section is None or not symbol.name.endswith(_DESCRIPTOR_SUFFIX) or section.executable:
                continue
            start = self.offset_in_section(symbol)
            raw = section.data[start : start + DESCRIPTOR_SIZE]
            if len(raw) != DESCRIPTOR_SIZE:
                raise UnreadableProgramError(self.file, f"the descriptor {symbol.name} is cut off")
            found[symbol.name.removesuffix(_DESCRIPTOR_SUFFIX)] = KernelDescriptor.from_bytes(raw)
        return found

    @cached_property
    def kernel_metadata(self) -> dict[str, dict[str, Any]]:
        """The metadata's map of each kernel, by kernel name."""
        kernels = self.metadata.get("amdhsa.kernels", [])
        if not isinstance(kernels, list):
            return {}
        return {str(kernel.get(".name", "")): kernel for kernel in kernels if isinstance(kernel, dict)}


def _notes(data: bytes) -> list[tuple[bytes, int, bytes]]:
    """(owner, type, content) of an ELF note section; a cut-off entry ends the list."""
    found, place = [], 0
    while place + 12 <= len(data):
        owner_size, size, kind = (int.from_bytes(data[place + i : place + i + 4], "little") for i in (0, 4, 8))
        place += 12
        owner = data[place : place + owner_size]
        place += (owner_size + 3) & ~3
        content = data[place : place + size]
        place += (size + 3) & ~3
        if len(content) == size:
            found.append((owner, kind, content))
    return found
