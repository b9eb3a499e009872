"""Takes back what LLVM's compiler back end adds to a text that was assembled through it.

The library assembles a text as the inline assembly of an empty module (see library.py). At the end of
every module the AMDGPU back end writes, for a compiled program: padding behind the code (s_code_end or
s_nop, for instruction prefetch), and a metadata note that lists the module's kernels - none. Neither is
in the text, and a second note could be taken for the first by a loader. A label that `mark` puts at the
end of the text tells where the text's own code ended, so that `restore` can take exactly the rest away.

The room of what is taken away stays in the file unused; the alignment of .text stays at the cache line.
"""

from __future__ import annotations

import struct

from asmevo.toolchain import elf_records as elf

_LABEL = "asmevo.end.of.text"
_NOTE_HEADER = struct.Struct("<III")
_METADATA_NOTE = 32
_NOTE_OWNER = b"AMDGPU\0\0"
# MessagePack: a map of three whose first entry is "amdhsa.kernels" with an empty list.
_NO_KERNELS = b"\x83\xaeamdhsa.kernels\x90"


def mark(source: str) -> str:
    """The text with a label at the end of its code. Lines and columns of the text do not change."""
    return f"{source}\n.text\n{_LABEL}:\n"


def restore(content: bytes) -> bytes:
    """The object as the text alone would have made it."""
    image = bytearray(content)
    headers_at, count, names_index = _header_fields(image)
    headers = [
        elf.SECTION_HEADER.unpack_from(image, headers_at + index * elf.SECTION_HEADER_SIZE) for index in range(count)
    ]
    names_at = headers[names_index][4]

    def update(index: int, **fields: int) -> None:
        values = dict(zip(_FIELDS, elf.SECTION_HEADER.unpack_from(image, headers_at + index * 64), strict=True))
        elf.SECTION_HEADER.pack_into(image, headers_at + index * 64, *{**values, **fields}.values())

    for index, header in enumerate(headers):
        name_at, kind, _, _, offset, size, link, info, _, _ = header
        if kind == elf.SHT_SYMTAB:
            found = _find_label(image, offset, size, headers[link][4])
            if found is None:
                continue
            entry, section, end = found
            update(section, size=end)
            del image[offset + entry * elf.SYMBOL_SIZE : offset + (entry + 1) * elf.SYMBOL_SIZE]
            image[offset + size - elf.SYMBOL_SIZE : offset + size - elf.SYMBOL_SIZE] = bytes(elf.SYMBOL_SIZE)
            update(index, size=size - elf.SYMBOL_SIZE, info=info - 1)
            _renumber(image, headers, entry)
        elif kind == elf.SHT_NOTE and image.startswith(b".note\0", names_at + name_at):
            kept = _without_empty_metadata(image[offset : offset + size])
            update(index, size=kept, kind=kind if kept else elf.SHT_NULL)
    return bytes(image)


_FIELDS = ("name", "kind", "flags", "address", "offset", "size", "link", "info", "alignment", "entry_size")


def _header_fields(image: bytearray) -> tuple[int, int, int]:
    fields = elf.HEADER.unpack_from(image)
    return fields[6], fields[12], fields[13]


def _find_label(image: bytearray, offset: int, size: int, names_at: int) -> tuple[int, int, int] | None:
    """The label's place in the symbol table, its section and its value."""
    wanted = _LABEL.encode() + b"\0"
    entries = elf.SYMBOL.iter_unpack(image[offset : offset + size])
    for index, (name_at, _, _, section, value, _) in enumerate(entries):
        if image.startswith(wanted, names_at + name_at):
            return index, section, value
    return None


def _renumber(image: bytearray, headers: list[tuple[int, ...]], removed: int) -> None:
    """Relocations name symbols by number, and those behind the removed one have moved up."""
    for header in headers:
        kind, offset, size = header[1], header[4], header[5]
        if kind != elf.SHT_RELA:
            continue
        for at in range(offset, offset + size, elf.RELA_SIZE):
            place, info, addend = elf.RELA.unpack_from(image, at)
            if info >> 32 > removed:
                elf.RELA.pack_into(image, at, place, info - (1 << 32), addend)


def _without_empty_metadata(notes: bytearray) -> int:
    """The size of the notes without a last one that lists no kernels."""
    at = last = 0
    while at + _NOTE_HEADER.size <= len(notes):
        last = at
        owner_size, size, _ = _NOTE_HEADER.unpack_from(notes, at)
        at += _NOTE_HEADER.size + elf.align(owner_size, 4) + elf.align(size, 4)
    if at != len(notes) or _NOTE_HEADER.unpack_from(notes, last)[2] != _METADATA_NOTE:
        return len(notes)
    description = last + _NOTE_HEADER.size + len(_NOTE_OWNER)
    is_empty = notes.startswith(_NOTE_OWNER, last + _NOTE_HEADER.size) and notes.startswith(_NO_KERNELS, description)
    return last if is_empty else len(notes)
