"""Program to text and back: the same bytes at the same addresses, whatever text cannot say included."""

from __future__ import annotations

import re

import msgpack
import pytest
from compiled_programs import all_files, names

from asmevo.program import Program, UnreadableProgramError, assemble_text, disassemble, read_program
from asmevo.program.codeobject import CodeObject


def _content(image: CodeObject) -> dict[str, tuple[int, bytes]]:
    made = (".dynsym", ".hash", ".gnu.hash", ".dynstr", ".dynamic", ".relro_padding", ".note")
    return {s.name: (s.address, s.data) for s in image.sections if s.allocated and s.name not in made}


def _round_trip(name: str) -> tuple[Program, str, CodeObject]:
    program = read_program(all_files()[name], name)
    text = disassemble(program)
    return program, text, CodeObject(assemble_text(text, name), name)


def _check_same(name: str) -> None:
    program, _, again = _round_trip(name)
    assert _content(again) == _content(program.image)
    assert again.metadata_bytes == program.image.metadata_bytes
    assert again.descriptors == program.image.descriptors
    assert (again.flags, again.data[8]) == (program.image.flags, program.image.data[8])
    named = {s.name: s.value for s in program.image.symbols if s.section is not None and s.name != "_DYNAMIC"}
    assert {s.name: s.value for s in again.symbols if s.name in named} == named


@pytest.mark.parametrize("name", names(".hsaco", 11))
def test_compiled_objects_come_back(name: str) -> None:
    _check_same(name)


def test_every_compiled_object_comes_back() -> None:
    assert len(names(".hsaco")) == 413
    for name in names(".hsaco"):
        _check_same(name)


@pytest.mark.parametrize("name", names(".co", 2))
def test_traced_objects_come_back(name: str) -> None:
    """Objects without a symbol table have code where our ELF header is, so it moves; all else stays."""
    if b"amdhsa" in all_files()[name]:
        _check_same(name)
        return
    program, _, again = _round_trip(name)
    assert _content(again)[".text"][1] == _content(program.image)[".text"][1]
    (old,), (new,) = program.image.descriptors.values(), again.descriptors.values()
    assert (old.rsrc1, old.rsrc2, old.rsrc3, old.properties) == (
        new.rsrc1,
        new.rsrc2,
        new.rsrc3,
        new.properties,
    )
    (kernel,) = read_program(again.data, name).kernels
    assert kernel.hash == program.kernels[0].hash


def test_the_text_is_readable() -> None:
    _, text, _ = _round_trip("gfx942/function_calls.hsaco")
    assert re.search(r"\ts_add_u32 s\d+, s\d+, \w+@rel32@lo\+4\n", text)
    assert re.search(r"\ts_addc_u32 s\d+, s\d+, \w+@rel32@hi\+12\n", text)
    assert "\t.amdhsa_kernel function_calls\n" in text
    assert "\t.amdgpu_metadata\n" in text
    assert "; asmevo: section .text address 0x" in text
    assert text.count(".long") < 4
    assert re.search(r"\ts_cbranch_\w+ \.LBB", _round_trip("gfx1100/lds_reduce.hsaco")[1])


def test_tables_are_data_that_code_refers_to_by_name() -> None:
    program, text, _ = _round_trip("gfx803/lookup_table.hsaco")
    tables = [s.name for s in program.image.symbols if s.type == "OBJECT" and not s.name.endswith(".kd")]
    referred = re.findall(r"(\S+)@rel32@lo", text)
    assert referred
    assert all(name in tables or name.startswith(".Lasmevo_") for name in referred)


def test_what_text_cannot_say_is_data_with_the_text_beside_it() -> None:
    """gfx1200/softmax has dual instructions that LLVM 22 decodes and does not assemble."""
    _, text, _ = _round_trip("gfx1200/softmax.hsaco")
    assert re.search(r"\t\.long 0x[0-9a-f]{8}, 0x[0-9a-f]{8} ; v_dual_sub_f32 v3, v3, v6 :: v_dual_sub_f32", text)


@pytest.mark.parametrize(
    "words",
    [
        (0xBF870091, 0xBF810000),  # s_delay_alu, s_endpgm
        (0x7E0002FF, 0x00000001, 0xBF810000),  # v_mov_b32 v0, 1 with 1 as a literal
        (0x80FF0102, 0xFFFFFFFF),  # a literal that is an inline constant, too
        (0xFFFFFFFF, 0xBF800000, 0xBF8CFFFF),  # no instruction; a wait with bits that mean nothing
        (0xBF850005, 0xBF84FFF0),  # branches to nowhere
        (0xBE801C00, 0x8000FF00, 0xFFFFFFF0, 0x8201FF01, 0xFFFFFFFF),  # an address before the code
    ],
)
@pytest.mark.parametrize("gpu", ["gfx906", "gfx942"])
def test_any_words_come_back(words: tuple[int, ...], gpu: str) -> None:
    program = read_program(f".long {', '.join(map(hex, words))}\n".encode(), "words.s", gpu)
    again = CodeObject(assemble_text(disassemble(program), "words.s"), "words.s")
    code = next(s for s in again.sections if s.name == ".text").data
    assert code == b"".join(word.to_bytes(4, "little") for word in words)


def test_debug_information_comes_back() -> None:
    text = 's_endpgm\n.section .debug_info,"",@progbits\n.long 1, 2\n.byte 3\n'
    again = assemble_text(disassemble(read_program(text.encode(), "k.s", "gfx942")), "k.s")
    found = next(s for s in CodeObject(again, "k.s").sections if s.name == ".debug_info")
    assert found.data == bytes((1, 0, 0, 0, 2, 0, 0, 0, 3))
    assert not found.allocated


def test_metadata_that_yaml_cannot_say_is_a_note_of_bytes() -> None:
    """LLVM's YAML reader takes "1" for a number even in quotes."""
    content = msgpack.packb({"amdhsa.target": "amdgcn-amd-amdhsa--gfx942", "amdhsa.version": [1, 2], "x": "1"})
    note = ", ".join(map(str, content + bytes(-len(content) % 4)))
    head = f'.section .note,"a",@note\n.p2align 2\n.long 7, {len(content)}, 32\n.asciz "AMDGPU"\n.byte 0\n'
    program = read_program(f"s_endpgm\n{head}.byte {note}\n".encode(), "k.s", "gfx942")
    assert program.image.metadata_bytes == content
    text = disassemble(program)
    assert ".amdgpu_metadata" not in text
    assert CodeObject(assemble_text(text, "k.s"), "k.s").metadata_bytes == content


def test_descriptors_that_directives_cannot_say_are_data_with_their_fields() -> None:
    """Bits 28 to 31 of the second program resource word are reserved; no directive sets them."""
    program = read_program(all_files()["gfx942/saxpy.hsaco"], "k")
    section = next(s for s in program.image.sections if s.name == ".rodata")
    data = bytearray(program.data)
    data[section.offset + 55] |= 0x80  # compute_pgm_rsrc2 is bytes 52 to 55
    odd = read_program(bytes(data), "k")
    text = disassemble(odd)
    assert ".amdhsa_kernel" not in text
    assert "; next_free_vgpr " in text
    again = CodeObject(assemble_text(text, "k"), "k")
    assert again.descriptors == odd.image.descriptors != program.image.descriptors


def test_a_text_that_cannot_be_had_is_refused_with_its_line() -> None:
    _, text, _ = _round_trip("gfx942/saxpy.hsaco")
    broken = text.replace("\ts_endpgm", "\ts_endpgm now", 1)
    line = broken[: broken.index("s_endpgm now")].count("\n") + 1
    with pytest.raises(UnreadableProgramError, match=f"x.s:{line}: "):
        assemble_text(broken, "x.s")
    moved = re.sub(r"section \.text address 0x[0-9a-f]+", "section .text address 0x10", text)
    with pytest.raises(UnreadableProgramError, match=r"cannot be linked.*\.text"):
        assemble_text(moved, "x.s")
