"""One suite for both toolchains, and their agreement."""

from __future__ import annotations

import io
import time

import pytest
from elftools.elf.elffile import ELFFile
from hypothesis import given, settings
from hypothesis import strategies as st
from toolchain_data import DATA

from asmevo.toolchain import (
    AssemblyError,
    CompilationError,
    LinkError,
    Processor,
    Toolchain,
    ToolchainMissingError,
)
from asmevo.toolchain.library import LibraryToolchain

GFX942 = Processor("gfx942")
INTEGER_COMPARISONS = ("f", "lt", "eq", "le", "gt", "ne", "ge", "t")
FLOAT_COMPARISONS = ("f", "lt", "eq", "le", "gt", "lg", "ge", "o", "u", "nge", "nlg", "ngt", "nle", "neq", "nlt", "tru")
SOURCES = sorted(path.name for path in DATA.glob("*.s"))


def text_of(content: bytes) -> bytes:
    return bytes(ELFFile(io.BytesIO(content)).get_section_by_name(".text").data())


def test_assembles_only_what_the_text_says(toolchain: Toolchain) -> None:
    content = toolchain.assemble("s_nop 0\ns_endpgm\n", GFX942)
    assert text_of(content) == bytes.fromhex("000080bf000081bf")
    notes = [section for section in ELFFile(io.BytesIO(content)).iter_sections() if section["sh_type"] == "SHT_NOTE"]
    assert notes == []


def test_says_line_column_and_words_of_every_error(toolchain: Toolchain) -> None:
    with pytest.raises(AssemblyError) as caught:
        toolchain.assemble("s_nop 0\n  v_nonsense v0\ns_endpgm\nv_add_f32 v0, v1\n", GFX942, "a.s")
    first, second = caught.value.diagnostics
    assert (first.file, first.line, first.column) == ("a.s", 2, 3)
    assert "invalid instruction" in first.message
    assert (second.line, second.message) == (4, "too few operands for instruction")


@pytest.mark.parametrize(
    ("source", "line", "column", "words"),
    [
        ("s_nop 0\n.rept 1000000000\ns_nop 0\n.endr\n", 2, 1, ".rept"),
        (".set n, 1000000000\n.rept n\ns_nop 0\n.endr\n", 2, 1, ".rept"),
        (".rept 10000\n.rept 10000\ns_nop 0\n.endr\n.endr\n", 2, 1, ".rept"),
        ("x: .fill 1<<30, 8, 0\n", 1, 4, ".fill"),
        (".zero 0x40000000\n", 1, 1, ".zero"),
        (".org 4000000000\n", 1, 1, ".org"),
        (".p2align 31\n", 1, 1, "alignment"),
        ('.incbin "/etc/hostname"\n', 1, 1, "may not read other files"),
        ('  .INCLUDE "x.s"\n', 1, 3, "may not read other files"),
        ('s_nop 0\ns_mov"b32 s6\n.ident "a (1)"\n', 2, 6, "must end on its line"),
        ('.macro m d\n.\\d "x"\n.endm\nm incbin\n', 2, 1, "a macro makes up"),
    ],
)
def test_refuses_texts_that_read_files_or_swamp(
    toolchain: Toolchain, source: str, line: int, column: int, words: str
) -> None:
    with pytest.raises(AssemblyError) as caught:
        toolchain.assemble(source, GFX942)
    found = caught.value.diagnostics[0]
    assert (found.line, found.column) == (line, column)
    assert words in found.message


def test_survives_llvms_fatal_errors(toolchain: Toolchain) -> None:
    for _ in range(3):
        with pytest.raises(AssemblyError, match=r"absolute|evaluated"):
            toolchain.assemble("k:\n.size k, x-y\n", GFX942)
    assert len(text_of(toolchain.assemble("s_nop 0\n", GFX942))) == 4


def test_takes_harmless_repeats_and_comments(toolchain: Toolchain) -> None:
    source = '; .incbin "x"\n/* .include */\n.rept 3\ns_nop 0\n.endr\n'
    source += ".fill 2, 4, 0xbf800000\n// .rept 99999999999\n"
    assert len(text_of(toolchain.assemble(source, GFX942))) == 20


def test_keeps_the_code_object_version_and_register_counts(toolchain: Toolchain) -> None:
    source = ".amdhsa_code_object_version 5\n.set a, max(3, amdgpu.max_num_vgpr)\n.data\n.long a\n"
    content = toolchain.assemble(f"{source}.set amdgpu.max_num_vgpr, 26\n", GFX942)
    assert content[8] == 3
    file = ELFFile(io.BytesIO(content))
    assert file.get_section_by_name(".data").data() == b"\x1a\0\0\0"
    assert file.get_section_by_name(".symtab").get_symbol_by_name("amdgpu.max_num_vgpr")[0]["st_value"] == 26


def test_disassembles(toolchain: Toolchain) -> None:
    code = bytes.fromhex("000080bf") + b"\xff\xff\xff\xff" + bytes.fromhex("ff0080be78563412000081bf")
    words = toolchain.disassemble(code, GFX942)
    assert [(word.offset, word.size) for word in words] == [(0, 4), (4, 4), (8, 8), (16, 4)]
    assert [word.text for word in words] == ["s_nop 0", None, "s_mov_b32 s0, 0x12345678", "s_endpgm"]


@pytest.mark.parametrize("tail", ["ff0080be", "8000", "490c2ae3"])
def test_disassembles_truncated_code(toolchain: Toolchain, tail: str) -> None:
    code = bytes.fromhex("000080bf" + tail)
    words = toolchain.disassemble(code, GFX942)
    assert words[0].text == "s_nop 0"
    assert sum(word.size for word in words) == len(code)
    assert words[-1].text is None


@pytest.mark.parametrize(
    ("cpu", "code"),
    [
        ("gfx900", "f93a665c21132760"),  # SDWA, reserved selector
        ("gfx1010", "f9629e1e17c3f7d4"),
        ("gfx900", "49c2a2e3784900ff"),  # buffer access with a literal
        ("gfx942", "33d1ccd1ff744292"),  # VOP3 with a literal
    ],
)
def test_deadly_words_are_no_instruction(toolchain: Toolchain, cpu: str, code: str) -> None:
    assert toolchain.disassemble(bytes.fromhex(code), Processor(cpu))[0].text is None


def test_reads_the_words_of_a_newer_llvm(toolchain: Toolchain) -> None:
    processor = Processor("gfx1200", "+real-true16")
    plain = text_of(toolchain.assemble("v_mul_lo_u32 v0, v1, v2\ns_nop 0\n", processor))
    second = int.from_bytes(plain[4:8], "little") | 0x80 << 18
    newer = plain[:4] + second.to_bytes(4, "little") + plain[8:12]
    words = toolchain.disassemble(newer, processor)
    assert words[0][:2] == (0, 8)
    assert words[0].text is not None
    assert words[0].text.startswith("v_mul_lo_u32")
    assert [word.exact for word in words] == [False, True]


@pytest.mark.parametrize("cpu", ["gfx803", "gfx906", "gfx90a", "gfx942"])
def test_reads_comparisons_that_write_exec_and_name_their_result(toolchain: Toolchain, cpu: str) -> None:
    texts = [f"v_cmpx_{how}_{kind}_e64 s[6:7], s2, v4" for kind in ("f16", "f32") for how in FLOAT_COMPARISONS]
    texts += [f"v_cmpx_{how}_f64_e64 vcc, s[2:3], v[4:5]" for how in FLOAT_COMPARISONS]
    texts += [f"v_cmpx_{how}_{kind}_e64 s[6:7], s2, v4" for kind in ("i16", "u32") for how in INTEGER_COMPARISONS]
    texts += [f"v_cmpx_{how}_{kind}_e64 vcc, 0, v[4:5]" for kind in ("i64", "u64") for how in INTEGER_COMPARISONS]
    texts += [f"v_cmpx_class_{kind}_e64 s[6:7], v0, v2" for kind in ("f16", "f32")]
    texts += ["v_cmpx_lt_f32_e64 s[6:7], -v0, |v1| clamp", "v_cmpx_class_f64_e64 vcc, v[0:1], v2"]
    code = text_of(toolchain.assemble("\n".join(texts) + "\n", Processor(cpu)))
    words = toolchain.disassemble(code, Processor(cpu))
    assert [word.text for word in words] == texts
    assert all(word.exact for word in words)


@pytest.mark.parametrize("name", SOURCES)
def test_links(toolchain: Toolchain, name: str) -> None:
    linked = toolchain.link(toolchain.assemble((DATA / name).read_text(), GFX942))
    file = ELFFile(io.BytesIO(linked))
    assert file.header["e_type"] == "ET_DYN"
    for segment in file.iter_segments("PT_LOAD"):
        assert (segment["p_vaddr"] - segment["p_offset"]) % 0x1000 == 0


def test_pins_sections(toolchain: Toolchain) -> None:
    relocatable = toolchain.assemble((DATA / "lookup_table.s").read_text(), GFX942)
    linked = ELFFile(io.BytesIO(toolchain.link(relocatable, addresses={".rodata": 0x1000, ".text": 0x3900})))
    assert linked.get_section_by_name(".rodata")["sh_addr"] == 0x1000
    assert linked.get_section_by_name(".text")["sh_addr"] == 0x3900


@pytest.mark.parametrize("pins", [{".text": 0x40}, {".text": 0x1901}, {".nowhere": 0x1000}, {".text": -0x100}])
def test_refuses_impossible_pins(toolchain: Toolchain, pins: dict[str, int]) -> None:
    relocatable = toolchain.assemble((DATA / "lookup_table.s").read_text(), GFX942)
    with pytest.raises(LinkError, match=next(iter(pins))):
        toolchain.link(relocatable, addresses=pins)


def test_compiles_ir(toolchain: Toolchain) -> None:
    ir = "define amdgpu_kernel void @k(ptr addrspace(1) %p) {\nstore i32 7, ptr addrspace(1) %p\nret void\n}\n"
    linked = toolchain.link(toolchain.compile_ir(ir, GFX942))
    assert ELFFile(io.BytesIO(linked)).get_section_by_name(".dynsym").get_symbol_by_name("k.kd")
    with pytest.raises(CompilationError, match="expected"):
        toolchain.compile_ir("define nonsense", GFX942)


def test_compiles_opencl(toolchain: Toolchain) -> None:
    try:
        content = toolchain.compile_opencl("kernel void k(global int *p) { *p = 7; }", GFX942)
    except ToolchainMissingError:
        pytest.skip("no clang is installed")
    assert ELFFile(io.BytesIO(toolchain.link(content))).get_section_by_name(".dynsym").get_symbol_by_name("k")
    with pytest.raises(CompilationError, match="error"):
        toolchain.compile_opencl("kernel void k( {", GFX942)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=120), st.sampled_from(["gfx803", "gfx900", "gfx942", "gfx1030", "gfx1100", "gfx1200"]))
def test_disassembly_covers_every_byte_once(code: bytes, cpu: str) -> None:
    words = LibraryToolchain().disassemble(code, Processor(cpu))
    at = 0
    for word in words:
        assert word.offset == at
        assert word.size > 0
        at += word.size
    assert at == len(code)


def test_a_text_of_many_labels_costs_as_much_a_label() -> None:
    """Each label is a symbol that is looked at when the object is put in order: no copy of the rest for each."""

    def seconds(labels: int) -> float:
        text = "".join(f"l{number}: s_nop 0\n" for number in range(labels))
        start = time.process_time()
        LibraryToolchain().assemble(text, Processor("gfx942"))
        return time.process_time() - start

    seconds(1_000)
    assert seconds(80_000) < 9 * seconds(20_000)
