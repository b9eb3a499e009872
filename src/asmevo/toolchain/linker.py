"""Makes one relocatable AMDGPU object into a loadable code object, as `ld.lld -shared` does.

One object is all that an AMD kernel file is, so there is no search for libraries, no archive, no merging
of files. What lld does besides and is not needed to load and run is left out: strings are not
deduplicated and linker-defined symbols such as `__start_NAME` do not exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from asmevo.toolchain import elf_records as elf
from asmevo.toolchain import relocations
from asmevo.toolchain.errors import LinkError
from asmevo.toolchain.link_input import InputSection, ObjectFile, Symbol, read_object
from asmevo.toolchain.link_layout import RELRO_PADDING, OutputSection, Segment, in_order, make_segments, place
from asmevo.toolchain.link_tables import (
    StringTable,
    gnu_bucket_count,
    gnu_hash_of,
    gnu_hash_table,
    sysv_hash_table,
)

_DROPPED_KINDS = {elf.SHT_NULL, elf.SHT_SYMTAB, elf.SHT_STRTAB, elf.SHT_RELA, elf.SHT_REL, elf.SHT_GROUP}
_DROPPED_KINDS |= {elf.SHT_SYMTAB_SHNDX}
_DROPPED_NAMES = {".note.GNU-stack"}
_JOINED_NAMES = (
    ".text",
    ".data.rel.ro",
    ".data",
    ".rodata",
    ".bss.rel.ro",
    ".bss",
    ".init_array",
    ".fini_array",
)
_DROPPED_FLAGS = elf.SHF_INFO_LINK | elf.SHF_GROUP
_WRITABLE = elf.SHF_ALLOC | elf.SHF_WRITE
_TEXTS = elf.SHF_MERGE | elf.SHF_STRINGS
_SIGNATURE = b"Linker: asmevo\0"
_WORD_MASK = (1 << 64) - 1
_ARRAY_TAGS = {
    elf.SHT_INIT_ARRAY: (elf.DT_INIT_ARRAY, elf.DT_INIT_ARRAYSZ),
    elf.SHT_FINI_ARRAY: (elf.DT_FINI_ARRAY, elf.DT_FINI_ARRAYSZ),
}
_GOT_SLOT = 8


def link(relocatable: bytes, *, addresses: Mapping[str, int] | None = None) -> bytes:
    """The code object of one relocatable object.

    `addresses` pins sections of the result, by name, to virtual addresses (the order of the sections
    stays). Raises LinkError, naming the symbol and relocation or the section that cannot be had.
    """
    source = read_object(relocatable)
    sections = _collect(source)
    return _Linker(source, sections).link(addresses or {})


def _is_kept(section: InputSection) -> bool:
    if section.kind in _DROPPED_KINDS or elf.SHT_LLVM_FIRST <= section.kind <= elf.SHT_LLVM_LAST:
        return False
    return section.name not in _DROPPED_NAMES and not section.flags & elf.SHF_EXCLUDE


def _joined_name(name: str) -> str:
    """`.text.foo` goes into `.text`, and so on; other names stay."""
    return next((known for known in _JOINED_NAMES if name == known or name.startswith(known + ".")), name)


def _collect(source: ObjectFile) -> list[OutputSection]:
    """The sections of the result that come from the object, in the object's order."""
    found: dict[str, OutputSection] = {}
    for section in filter(_is_kept, source.sections):
        name = _joined_name(section.name)
        flags = section.flags & ~_DROPPED_FLAGS
        home = found.setdefault(name, OutputSection(name, section.kind, flags, entry_size=section.entry_size))
        if home.allocated != section.allocated:
            raise LinkError(f"section {section.name} cannot be both loaded and not loaded")
        if home.kind != section.kind:
            if not home.in_file:
                home.set_content(bytes(home.size))
            home.kind = elf.SHT_PROGBITS
        if home.entry_size != section.entry_size:
            home.entry_size = 0
        home.flags |= flags
        home.append(section)
    comment = found.setdefault(".comment", OutputSection(".comment", elf.SHT_PROGBITS, _TEXTS, entry_size=1))
    comment.set_content(comment.content + _SIGNATURE)
    return list(found.values())


class _Linker:
    """One link: tables are made with their final sizes, everything is placed, then the words are filled."""

    def __init__(self, source: ObjectFile, sections: list[OutputSection]) -> None:
        self.source = source
        self.homes = {piece.index: (home, at) for home in sections for piece, at in home.inputs}
        self.local_symbols = [symbol for symbol in source.symbols if symbol.local and self._is_listed(symbol)]
        self.global_symbols = [symbol for symbol in source.symbols if not symbol.local]
        wanted_slots, self.for_loader = relocations.scan(sections)
        in_slot_order = [symbol for symbol in source.symbols if symbol.binding != elf.STB_LOCAL]
        in_slot_order += [symbol for symbol in source.symbols if symbol.binding == elf.STB_LOCAL]
        self.slots = {s: at for at, s in enumerate(s for s in in_slot_order if s in wanted_slots)}
        self._make_dynamic_tables()
        self.sections = in_order([*sections, *self._tables()])

    def _is_listed(self, symbol: Symbol) -> bool:
        """Whether a local symbol is worth an entry in .symtab."""
        if symbol.kind == elf.STT_SECTION or symbol.undefined:
            return False
        if symbol.section is None:
            return True
        merged_label = symbol.name.startswith(".L") and symbol.section.flags & elf.SHF_MERGE
        return symbol.section.index in self.homes and not merged_label

    # Tables: contents that depend on addresses are filled in later, their sizes are known now.

    def _make_dynamic_tables(self) -> None:
        names = StringTable()
        name_at = {symbol: names.add(symbol.name) for symbol in self.global_symbols}
        imported = [symbol for symbol in self.global_symbols if symbol.undefined]
        exported = [symbol for symbol in self.global_symbols if not symbol.undefined]
        buckets = gnu_bucket_count(len(exported))
        exported.sort(key=lambda symbol: gnu_hash_of(symbol.name) % buckets)
        self.dynamic_symbols = imported + exported
        self.dynamic_index = {symbol: index for index, symbol in enumerate(self.dynamic_symbols, 1)}
        self.dynamic_names, self.dynamic_name_at = names, name_at
        gnu_hash = gnu_hash_table([symbol.name for symbol in exported], len(imported) + 1)
        hash_table = sysv_hash_table([symbol.name for symbol in self.dynamic_symbols])
        alloc = elf.SHF_ALLOC
        self.dynsym = OutputSection(".dynsym", elf.SHT_DYNSYM, alloc, 8, elf.SYMBOL_SIZE, link=".dynstr", info=1)
        self.dynsym.size = elf.SYMBOL_SIZE * (1 + len(self.dynamic_symbols))
        self.gnu_hash = _section(".gnu.hash", elf.SHT_GNU_HASH, alloc, 8, gnu_hash, link=".dynsym")
        self.hash = _section(".hash", elf.SHT_HASH, alloc, 4, hash_table, link=".dynsym", entry_size=4)
        self.dynstr = _section(".dynstr", elf.SHT_STRTAB, alloc, 1, names.content)
        self.rela = OutputSection(".rela.dyn", elf.SHT_RELA, alloc, 8, elf.RELA_SIZE, link=".dynsym")
        self.got = OutputSection(".got", elf.SHT_PROGBITS, _WRITABLE, 8)
        self.got.set_content(bytes(_GOT_SLOT * len(self.slots)))
        self.for_loader += [
            relocations.LoaderRelocation(self.got, _GOT_SLOT * at, symbol, 0)
            for symbol, at in self.slots.items()
            if symbol.preemptible or symbol.section is not None
        ]
        self.rela.size = elf.RELA_SIZE * len(self.for_loader)
        self.dynamic = OutputSection(".dynamic", elf.SHT_DYNAMIC, _WRITABLE, 8, elf.DYNAMIC_SIZE, link=".dynstr")

    def _tables(self) -> list[OutputSection]:
        tables = [self.dynsym, self.gnu_hash, self.hash, self.dynamic, self.dynstr]
        tables += [table for table in (self.rela, self.got) if table.size]
        self.symtab = OutputSection(".symtab", elf.SHT_SYMTAB, 0, 8, elf.SYMBOL_SIZE, link=".strtab")
        self.shstrtab = OutputSection(".shstrtab", elf.SHT_STRTAB, 0)
        self.strtab = OutputSection(".strtab", elf.SHT_STRTAB, 0)
        padding = OutputSection(RELRO_PADDING, elf.SHT_NOBITS, _WRITABLE)
        return [*tables, padding, self.symtab, self.shstrtab, self.strtab]

    def link(self, addresses: Mapping[str, int]) -> bytes:
        self.dynamic.size = elf.DYNAMIC_SIZE * len(self._dynamic_entries())
        self._fill_symtab()  # for the sizes; the values come with the second call
        section_names = StringTable()
        name_at = {section.name: section_names.add(section.name) for section in self.sections}
        self.shstrtab.set_content(section_names.content)
        segments = make_segments(self.sections)
        headers_at = place(self.sections, segments, addresses)
        self._fill_symtab()
        self._fill_dynamic_tables()
        content = [section for section in self.sections if section.inputs]
        relocations.apply(content, self._address_of, self._slot_address)
        return self._write(segments, headers_at, name_at)

    # Addresses

    def _address_of(self, symbol: Symbol) -> int:
        if symbol.section is None:
            return symbol.value
        if symbol.section.index not in self.homes:  # a label in a section that is not kept
            return 0
        home, at = self.homes[symbol.section.index]
        return home.address + at + symbol.value

    def _slot_address(self, symbol: Symbol) -> int:
        return self.got.address + _GOT_SLOT * self.slots[symbol]

    # Filling

    def _fill_dynamic_tables(self) -> None:
        symbols = [bytes(elf.SYMBOL_SIZE)]
        symbols += [self._pack_symbol(symbol, self.dynamic_name_at[symbol]) for symbol in self.dynamic_symbols]
        self.dynsym.set_content(b"".join(symbols))
        for symbol, at in self.slots.items():
            if not symbol.preemptible and symbol.section is None:
                word = (symbol.value & _WORD_MASK).to_bytes(_GOT_SLOT, "little")
                self.got.content[_GOT_SLOT * at : _GOT_SLOT * (at + 1)] = word
        self.rela.set_content(b"".join(self._pack_loader_relocations()))
        entries = [elf.pack_dynamic(tag, value) for tag, value in self._dynamic_entries()]
        self.dynamic.set_content(b"".join(entries))

    def _pack_loader_relocations(self) -> Iterable[bytes]:
        relative = [entry for entry in self.for_loader if entry.relative]
        for entry in sorted(relative, key=lambda entry: entry.section.address + entry.offset):
            value = self._address_of(entry.symbol) + entry.addend
            yield elf.pack_rela(entry.section.address + entry.offset, 0, relocations.RELATIVE64, value)
        named = [entry for entry in self.for_loader if not entry.relative]
        for entry in sorted(
            named, key=lambda entry: (self.dynamic_index[entry.symbol], entry.section.address + entry.offset)
        ):
            index = self.dynamic_index[entry.symbol]
            yield elf.pack_rela(entry.section.address + entry.offset, index, relocations.ABS64, entry.addend)

    def _dynamic_entries(self) -> list[tuple[int, int]]:
        entries = []
        if self.rela.size:
            entries += [(elf.DT_RELA, self.rela.address), (elf.DT_RELASZ, self.rela.size)]
            entries += [(elf.DT_RELAENT, elf.RELA_SIZE)]
            relative = sum(entry.relative for entry in self.for_loader)
            entries += [(elf.DT_RELACOUNT, relative)] if relative else []
        entries += [(elf.DT_SYMTAB, self.dynsym.address), (elf.DT_SYMENT, elf.SYMBOL_SIZE)]
        entries += [(elf.DT_STRTAB, self.dynstr.address), (elf.DT_STRSZ, self.dynstr.size)]
        entries += [(elf.DT_GNU_HASH, self.gnu_hash.address), (elf.DT_HASH, self.hash.address)]
        for section in self.sections:
            if section.kind in _ARRAY_TAGS:
                address_tag, size_tag = _ARRAY_TAGS[section.kind]
                entries += [(address_tag, section.address), (size_tag, section.size)]
        return [*entries, (elf.DT_NULL, 0)]

    def _fill_symtab(self) -> None:
        names = StringTable()
        listed = {*self.local_symbols, *self.global_symbols}
        name_at = {symbol: names.add(symbol.name) for symbol in self.source.symbols if symbol in listed}
        entries = [self._pack_symbol(symbol, name_at[symbol]) for symbol in self.local_symbols]
        place_of_dynamic = (self._index_of(self.dynamic), self.dynamic.address)
        entries.append(
            elf.pack_symbol(names.add("_DYNAMIC"), elf.STT_NOTYPE, elf.STB_LOCAL, elf.STV_HIDDEN, *place_of_dynamic, 0)
        )
        entries += [self._pack_symbol(symbol, name_at[symbol]) for symbol in self.global_symbols]
        self.symtab.set_content(bytes(elf.SYMBOL_SIZE) + b"".join(entries))
        self.symtab.info = len(self.local_symbols) + 2
        self.strtab.set_content(names.content)

    def _pack_symbol(self, symbol: Symbol, name_at: int) -> bytes:
        index = symbol.section_index
        if symbol.section is not None:
            index = self._index_of(self.homes[symbol.section.index][0]) if symbol.section.index in self.homes else 0
        binding = elf.STB_LOCAL if symbol.local else symbol.binding
        value = self._address_of(symbol)
        return elf.pack_symbol(name_at, symbol.kind, binding, symbol.visibility, index, value, symbol.size)

    def _index_of(self, section: OutputSection) -> int:
        return self.sections.index(section) + 1

    def _write(self, segments: list[Segment], headers_at: int, name_at: Mapping[str, int]) -> bytes:
        count = len(self.sections) + 1
        image = bytearray(headers_at + elf.SECTION_HEADER_SIZE * count)

        def put(at: int, content: bytes | bytearray) -> None:
            image[at : at + len(content)] = content

        headers_size = elf.HEADER_SIZE + elf.PROGRAM_HEADER_SIZE * len(segments)
        segments = [segment for segment in segments if not segment.superfluous]  # their room stays, as with lld
        names_index = self._index_of(self.shstrtab)
        identity, flags = self.source.identity, self.source.flags
        put(0, elf.pack_header(identity, flags, headers_at, len(segments), count, names_index))
        put(elf.HEADER_SIZE, b"".join(segment.pack(headers_size) for segment in segments))
        index_of = {section.name: index for index, section in enumerate(self.sections, 1)}
        for index, section in enumerate(self.sections, 1):
            if section.in_file:
                put(section.offset, section.content)
            header = elf.pack_section_header(
                name_at[section.name], section.kind, section.flags,
                section.address, section.offset, section.size,
                index_of.get(section.link, 0), section.info, section.alignment, section.entry_size,
            )  # fmt: skip
            put(headers_at + elf.SECTION_HEADER_SIZE * index, header)
        return bytes(image)


def _section(
    name: str,
    kind: int,
    flags: int,
    alignment: int,
    content: bytes | bytearray,
    link: str = "",
    entry_size: int = 0,
) -> OutputSection:
    section = OutputSection(name, kind, flags, alignment, entry_size, link=link)
    section.set_content(content)
    return section
