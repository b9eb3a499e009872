"""Where the sections of a code object go: order, addresses, file offsets and segments, as lld has them.

Sections of equal access stand together, read-only first, then code, then what the loader relocates and
seals (RELRO), then writable data. Each such group is one PT_LOAD. A group starts one page further on in
memory than it does in the file, so that no page has two kinds of access and the file needs no filling.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from asmevo.toolchain import elf_records as elf
from asmevo.toolchain.errors import LinkError
from asmevo.toolchain.link_input import InputSection

_RELRO_NAMES = {
    ".data.rel.ro",
    ".bss.rel.ro",
    ".got",
    ".dynamic",
    ".relro_padding",
    ".init_array",
    ".fini_array",
}
_RELRO_NAMES |= {".preinit_array", ".ctors", ".dtors", ".jcr", ".eh_frame"}
_RELRO_KINDS = {elf.SHT_INIT_ARRAY, elf.SHT_FINI_ARRAY, elf.SHT_PREINIT_ARRAY}
RELRO_PADDING = ".relro_padding"


class OutputSection(Struct, eq=False):
    """A section of the code object; `inputs` says where in it each section of the object lies."""

    name: str
    kind: int
    flags: int
    alignment: int = 1
    entry_size: int = 0
    content: bytearray = field(default_factory=bytearray)
    size: int = 0
    link: str = ""
    info: int = 0
    inputs: list[tuple[InputSection, int]] = field(default_factory=list)
    address: int = 0
    offset: int = 0

    @property
    def allocated(self) -> bool:
        """Whether the section is part of the loaded image."""
        return bool(self.flags & elf.SHF_ALLOC)

    @property
    def in_file(self) -> bool:
        """Whether the section has bytes in the file."""
        return self.kind != elf.SHT_NOBITS

    @property
    def relro(self) -> bool:
        """Whether the loader seals the section once it is relocated."""
        if not self.allocated or not self.flags & elf.SHF_WRITE:
            return False
        return self.name in _RELRO_NAMES or self.kind in _RELRO_KINDS

    @property
    def access(self) -> int:
        """The segment flags that the section needs."""
        return elf.PF_R | (elf.PF_W if self.flags & elf.SHF_WRITE else 0) | (elf.PF_X if self.executable else 0)

    @property
    def executable(self) -> bool:
        """Whether the section holds code."""
        return bool(self.flags & elf.SHF_EXECINSTR)

    def set_content(self, content: bytes | bytearray) -> None:
        """Gives the section its bytes, and with them its size."""
        self.content = bytearray(content)
        self.size = len(content)

    def append(self, section: InputSection) -> None:
        """Adds a section of the object at the next aligned place."""
        at = elf.align(self.size, section.alignment)
        if self.in_file:
            self.content += bytes(at - self.size)
            self.content += section.content if section.kind != elf.SHT_NOBITS else bytes(section.size)
        self.inputs.append((section, at))
        self.size = at + section.size
        self.alignment = max(self.alignment, section.alignment)


class Segment(Struct, eq=False):
    """A program header, made of neighbouring sections."""

    kind: int
    flags: int
    alignment: int
    sections: list[OutputSection]
    with_headers: bool = False

    @property
    def superfluous(self) -> bool:
        """Whether the segment would load nothing."""
        return self.kind == elf.PT_LOAD and not self.with_headers and not any(s.size for s in self.sections)

    def pack(self, headers_size: int) -> bytes:
        """The program header. The first PT_LOAD and PT_PHDR also cover the file's headers."""
        if self.kind == elf.PT_PHDR:
            size = headers_size - elf.HEADER_SIZE
            at = elf.HEADER_SIZE
            return elf.pack_program_header(self.kind, self.flags, at, at, size, size, self.alignment)
        offset = address = file_end = memory_end = 0
        if self.with_headers:
            file_end = memory_end = headers_size
        elif self.sections:
            offset, address = self.sections[0].offset, self.sections[0].address
        if self.sections:
            last = self.sections[-1]
            file_end = last.offset + (last.size if last.in_file else 0)
            memory_end = last.address + last.size
        return elf.pack_program_header(
            self.kind, self.flags, offset, address, file_end - offset, memory_end - address, self.alignment
        )


def _rank(section: OutputSection) -> tuple[int, ...]:
    if not section.allocated:
        return (9,)
    no_bits = int(not section.in_file)
    if section.executable:
        return (2 if not section.flags & elf.SHF_WRITE else 3, 0, no_bits)
    if section.flags & elf.SHF_WRITE:
        return (4, int(not section.relro), no_bits)
    place = 0 if section.kind == elf.SHT_NOTE else 1 if section.kind != elf.SHT_PROGBITS else 2
    return (1, place, no_bits)


def in_order(sections: list[OutputSection]) -> list[OutputSection]:
    """The sections in the order of the file; those of equal rank keep their order."""
    return sorted(sections, key=_rank)


def make_segments(sections: list[OutputSection]) -> list[Segment]:
    """The program headers for sections in file order."""
    loaded = [section for section in sections if section.allocated]
    current = Segment(elf.PT_LOAD, elf.PF_R, elf.PAGE, [], with_headers=True)
    segments = [Segment(elf.PT_PHDR, elf.PF_R, 8, []), current]
    previous: OutputSection | None = None
    for section in loaded:
        seal_ends = previous is not None and previous.relro and not section.relro
        file_resumes = previous is not None and section.in_file and not previous.in_file
        if current.flags != section.access or seal_ends or file_resumes:
            current = Segment(elf.PT_LOAD, section.access, elf.PAGE, [])
            segments.append(current)
        current.sections.append(section)
        current.alignment = max(current.alignment, section.alignment)
        previous = section
    dynamic = [section for section in loaded if section.kind == elf.SHT_DYNAMIC]
    segments.append(Segment(elf.PT_DYNAMIC, dynamic[0].access, 8, dynamic))
    segments.append(Segment(elf.PT_GNU_RELRO, elf.PF_R, 1, [section for section in loaded if section.relro]))
    segments.append(Segment(elf.PT_GNU_STACK, elf.PF_R | elf.PF_W, 0, []))
    return segments + _note_segments(loaded)


def _note_segments(loaded: list[OutputSection]) -> list[Segment]:
    segments: list[Segment] = []
    previous: OutputSection | None = None
    for section in loaded:
        if section.kind == elf.SHT_NOTE:
            joins = previous is not None and previous.kind == elf.SHT_NOTE and previous.alignment == section.alignment
            if joins:
                segments[-1].sections.append(section)
            else:
                segments.append(Segment(elf.PT_NOTE, elf.PF_R, section.alignment, [section]))
        previous = section
    return segments


def place(sections: list[OutputSection], segments: list[Segment], pins: Mapping[str, int]) -> int:
    """Gives every section its address and file offset; the answer is where the section headers go."""
    _check_pins(sections, pins)
    headers_size = elf.HEADER_SIZE + elf.PROGRAM_HEADER_SIZE * len(segments)
    loads = [segment for segment in segments if segment.kind == elf.PT_LOAD]
    _place_in_memory(loads, headers_size, pins)
    return _place_in_file(sections, loads, headers_size)


def _check_pins(sections: list[OutputSection], pins: Mapping[str, int]) -> None:
    allocated = {section.name: section for section in sections if section.allocated}
    for name, address in pins.items():
        if name not in allocated:
            raise LinkError(f"cannot pin {name}: the object has no such loaded section")
        if address < 0 or address + allocated[name].size >= 1 << 47:
            raise LinkError(f"cannot pin {name} at {address:#x}: outside the address space")
        if address % allocated[name].alignment:
            raise LinkError(f"cannot pin {name} at {address:#x}: its alignment is {allocated[name].alignment:#x}")


def _place_in_memory(loads: list[Segment], headers_size: int, pins: Mapping[str, int]) -> None:
    at, before = headers_size, "the file's headers"
    for load in loads:
        for section in load.sections:
            address = at
            if section is load.sections[0] and not load.with_headers:
                address = elf.align(at, elf.PAGE) + at % elf.PAGE
            section.address = pins.get(section.name, elf.align(address, section.alignment))
            if section.address < at:
                raise LinkError(
                    f"cannot pin {section.name} at {section.address:#x}: {before} before it ends at {at:#x}"
                )
            if section.name == RELRO_PADDING:
                section.size = elf.align(section.address, elf.PAGE) - section.address
            else:  # the padding fills up the page, and what follows starts on the next page anyway
                at, before = section.address + section.size, section.name


def _place_in_file(sections: list[OutputSection], loads: list[Segment], headers_size: int) -> int:
    at = headers_size
    for load in loads:
        for section in load.sections:
            first = load.sections[0]
            if load.with_headers:
                section.offset = section.address
            elif section is first:
                section.offset = at + (section.address - at) % load.alignment
            elif section.in_file:
                section.offset = first.offset + section.address - first.address
            else:
                section.offset = at
            at = section.offset + (section.size if section.in_file else 0)
    for section in sections:
        if not section.allocated:
            section.offset = elf.align(at, section.alignment)
            at = section.offset + (section.size if section.in_file else 0)
    return elf.align(at, 8)
