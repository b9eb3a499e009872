"""Takes back what LLVM's compiler back end adds to a text that was assembled through it.

The library assembles a text as the inline assembly of an empty module (see library.py). At the end of
every module the AMDGPU back end writes what a compiled program needs: padding behind the code (s_code_end
or s_nop, for instruction prefetch), a metadata note that lists the module's kernels - none -, symbols
with the module's largest register counts - zero, in place of the text's -, and its own default code
object version. None of that is in the text; a second note could be taken for the first by a loader, and
zeroed register counts would reach the descriptors of kernels that make indirect calls.

So `prepare` puts a label behind the text's code and gives the text's register counts another name, and
`restore` takes away what the back end added and gives the names back. The room of what is taken away
stays in the file unused; the alignment of .text stays that of a cache line.
"""

from __future__ import annotations

import bisect
import re
import struct

from asmevo.toolchain import elf_records as elf

_LABEL = "asmevo.end.of.text"
_COUNTS, _COUNTS_ALIAS = "amdgpu.max_num_", "asmevo.max_num_"  # of one length, so that columns stay
_ADDED_SECTIONS = (".AMDGPU.gpr_maximums", ".note.GNU-stack")
_NOTE_HEADER = struct.Struct("<III")
_METADATA_NOTE = 32
_NOTE_OWNER = b"AMDGPU\0\0"
_VERSION = re.compile(r"^[ \t]*\.amdhsa_code_object_version[ \t]+(\d+)", re.M)
_ABI_VERSIONS = {"4": 2, "5": 3, "6": 4}
_ABI_VERSION_AT = 8
# MessagePack: a map of three whose first entry is "amdhsa.kernels" with an empty list.
_NO_KERNELS = b"\x83\xaeamdhsa.kernels\x90"


def prepare(source: str) -> str:
    """The text as the library must be given it. Lines and columns do not change."""
    return f"{source.replace(_COUNTS, _COUNTS_ALIAS)}\n.text\n{_LABEL}:\n"


def plain(message: str) -> str:
    """A complaint about the prepared text, in the names of the text itself."""
    return message.replace(_COUNTS_ALIAS, _COUNTS)


def restore(content: bytes, source: str) -> bytes:
    """The object as the text alone would have made it."""
    image = bytearray(content)
    versions = _VERSION.findall(source)
    if versions and versions[-1] in _ABI_VERSIONS:
        image[_ABI_VERSION_AT] = _ABI_VERSIONS[versions[-1]]
    headers_at, count, names_index = _header_fields(image)
    headers = [
        elf.SECTION_HEADER.unpack_from(image, headers_at + index * elf.SECTION_HEADER_SIZE) for index in range(count)
    ]
    names_at = headers[names_index][4]

    def update(index: int, **fields: int) -> None:
        at = headers_at + index * elf.SECTION_HEADER_SIZE
        values = dict(zip(_FIELDS, elf.SECTION_HEADER.unpack_from(image, at), strict=True))
        elf.SECTION_HEADER.pack_into(image, at, *{**values, **fields}.values())

    for index, (name_at, kind, _, _, offset, size, link, info, _, _) in enumerate(headers):
        name = _text(image, names_at + name_at)
        if kind == elf.SHT_SYMTAB:
            symbol_names_at = headers[link][4]
            removed = _added_symbols(image, offset, size, symbol_names_at)
            for added in removed:
                _, _, _, section, value, _ = elf.SYMBOL.unpack_from(image, offset + added * elf.SYMBOL_SIZE)
                if section < elf.SHN_LORESERVE:  # the label at the end of the code
                    update(section, size=value)
            _remove_symbols(image, offset, size, removed)
            _renumber(image, headers, removed)
            room = elf.SYMBOL_SIZE * len(removed)
            update(index, size=size - room, info=info - len(removed))
            names = slice(symbol_names_at, symbol_names_at + headers[link][5])
            image[names] = image[names].replace(_COUNTS_ALIAS.encode(), _COUNTS.encode())
        elif name == ".note":
            kept = _without_empty_metadata(image[offset : offset + size])
            update(index, size=kept, kind=kind if kept else elf.SHT_NULL)
        elif name in _ADDED_SECTIONS and not size and name not in source:
            update(index, kind=elf.SHT_NULL)
    return bytes(image)


_FIELDS = ("name", "kind", "flags", "address", "offset", "size", "link", "info", "alignment", "entry_size")


def _header_fields(image: bytearray) -> tuple[int, int, int]:
    fields = elf.HEADER.unpack_from(image)
    return fields[6], fields[12], fields[13]


def _text(image: bytearray, at: int) -> str:
    return image[at : image.index(0, at)].decode()


def _added_symbols(image: bytearray, offset: int, size: int, names_at: int) -> list[int]:
    """The places in the symbol table of what the text did not define."""
    entries = elf.SYMBOL.iter_unpack(image[offset : offset + size])
    names = (_text(image, names_at + entry[0]) for entry in entries)
    return [index for index, name in enumerate(names) if name == _LABEL or name.startswith(_COUNTS)]


def _remove_symbols(image: bytearray, offset: int, size: int, removed: list[int]) -> None:
    gone = {offset + index * elf.SYMBOL_SIZE for index in removed}
    kept = (at for at in range(offset, offset + size, elf.SYMBOL_SIZE) if at not in gone)
    entries = [image[at : at + elf.SYMBOL_SIZE] for at in kept]
    image[offset : offset + size] = b"".join(entries).ljust(size, b"\0")


def _renumber(image: bytearray, headers: list[tuple[int, ...]], removed: list[int]) -> None:
    """Relocations name symbols by number, and those behind a removed one have moved up."""
    for header in headers:
        kind, offset, size = header[1], header[4], header[5]
        if kind != elf.SHT_RELA:
            continue
        for at in range(offset, offset + size, elf.RELA_SIZE):
            place, info, addend = elf.RELA.unpack_from(image, at)
            info -= bisect.bisect_left(removed, info >> 32) << 32
            elf.RELA.pack_into(image, at, place, info, addend)


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
