"""The linker against lld where it is installed, against a stored layout, and what it refuses."""

from __future__ import annotations

import io
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile
from toolchain_data import DATA

from asmevo.toolchain import LinkError, Processor, linker
from asmevo.toolchain.external import ExternalToolchain
from asmevo.toolchain.library import LibraryToolchain

GFX942 = Processor("gfx942")
SOURCES = {path.stem: path.read_text() for path in sorted(DATA.glob("*.s"))} | {"empty": ""}


def described(content: bytes) -> dict[str, Any]:
    """A code object without the bytes of .comment, which name the linker, and what follows from them."""
    file = ELFFile(io.BytesIO(content))
    result: dict[str, Any] = {"identity": content[:16]}
    result |= {key: file.header[key] for key in ("e_type", "e_flags", "e_entry", "e_phnum", "e_shstrndx")}
    result["segments"] = [dict(segment.header) for segment in file.iter_segments()]
    result["order"] = [section.name for section in file.iter_sections()]
    for section in file.iter_sections():
        header = dict(section.header)
        if not header["sh_flags"] & 2:
            del header["sh_offset"]
        if section.name != ".comment":
            data = b"" if header["sh_type"] == "SHT_NOBITS" else section.data()
            result[section.name] = (header, data)
    return result


@pytest.mark.parametrize("name", SOURCES)
def test_links_as_lld_does(name: str, library: LibraryToolchain, external: ExternalToolchain) -> None:
    relocatable = library.assemble(SOURCES[name], GFX942)
    assert described(linker.link(relocatable)) == described(external.link(relocatable))


@pytest.mark.parametrize("name", SOURCES)
def test_assembled_and_linked_as_llvms_own_tools_do(
    name: str, library: LibraryToolchain, external: ExternalToolchain
) -> None:
    def image(content: bytes) -> list[Any]:
        sections = ELFFile(io.BytesIO(content)).iter_sections()
        return [(s.name, s.data()) for s in sections if s.name in (".text", ".rodata", ".data", ".note")]

    ours = [entry for entry in image(library.assemble(SOURCES[name], GFX942)) if entry[1]]
    assert ours == [entry for entry in image(external.assemble(SOURCES[name], GFX942)) if entry[1]]


def test_stored_layout_of_every_kind_of_section(library: LibraryToolchain) -> None:
    file = ELFFile(io.BytesIO(linker.link(library.assemble(SOURCES["every_relocation"], GFX942))))
    names = [section.name for section in file.iter_sections() if section["sh_flags"] & 2]
    assert names == [
        ".dynsym", ".gnu.hash", ".hash", ".dynstr", ".rela.dyn", ".rodata", ".mine", ".text", ".data.rel.ro",
        ".init_array", ".dynamic", ".got", ".relro_padding", ".data", ".bss",
    ]  # fmt: skip
    flags = [segment["p_flags"] for segment in file.iter_segments("PT_LOAD")]
    assert flags == [4, 5, 6, 6]
    kinds = [entry["r_info_type"] for entry in file.get_section_by_name(".rela.dyn").iter_relocations()]
    assert kinds == [13] * 6 + [3] * 4
    got = file.get_section_by_name(".got").data()
    assert (0x1234).to_bytes(8, "little") in got


def test_words_reach_their_targets(library: LibraryToolchain) -> None:
    file = ELFFile(io.BytesIO(linker.link(library.assemble(SOURCES["every_relocation"], GFX942))))
    text = file.get_section_by_name(".text")
    symbols = file.get_section_by_name(".symtab")
    low, high = int.from_bytes(text.data()[8:12], "little"), int.from_bytes(text.data()[16:20], "little")
    table = symbols.get_symbol_by_name("table")[0]["st_value"]
    assert (text["sh_addr"] + 4 + (high << 32 | low)) % (1 << 64) == table


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("s_getpc_b64 s[0:1]\ns_add_u32 s0, s0, f@rel32@lo+4\n.globl f\nf: s_endpgm\n", "'f'.*protected"),
        ("s_getpc_b64 s[0:1]\ns_add_u32 s0, s0, g@rel32@lo+4\n", "R_AMDGPU_REL32_LO.*'g'.*no definition"),
        (".hidden h\n.data\n.quad h\n", "'h'.*hidden"),
        (".section .rodata\n.quad f\n.text\nf: s_endpgm\n", "R_AMDGPU_ABS64.*read-only"),
        ("s_mov_b32 s0, f@abs32@lo\nf: s_endpgm\n", "R_AMDGPU_ABS32_LO"),
    ],
)
def test_refuses_and_names_the_culprit(source: str, words: str, library: LibraryToolchain) -> None:
    with pytest.raises(LinkError, match=words):
        linker.link(library.assemble(source, GFX942))


def test_absolute_symbols_fill_absolute_words(library: LibraryToolchain) -> None:
    source = ".globl n\n.hidden n\ns_mov_b32 s0, n@abs32@lo\ns_mov_b32 s1, n@abs32@hi\nn = 0x100000002\n"
    text = ELFFile(io.BytesIO(linker.link(library.assemble(source, GFX942)))).get_section_by_name(".text").data()
    assert (text[4:8], text[12:16]) == (b"\2\0\0\0", b"\1\0\0\0")


@pytest.mark.parametrize("content", [b"", b"\x7fELF\x02\x01\x01" + bytes(80), b"hello"])
def test_refuses_what_is_no_object(content: bytes) -> None:
    with pytest.raises(LinkError):
        linker.link(content)


def test_refuses_what_is_linked_and_what_is_cut(library: LibraryToolchain) -> None:
    relocatable = library.assemble(SOURCES["lookup_table"], GFX942)
    with pytest.raises(LinkError, match="relocatable"):
        linker.link(linker.link(relocatable))
    for size in range(0, len(relocatable) - 1, 97):
        with pytest.raises(LinkError):
            linker.link(relocatable[:size])
