"""Edited kernels go back into their files: only what was edited changes, and it comes back as meant."""

from __future__ import annotations

import os
import random
import stat
import struct
from collections.abc import Iterable
from pathlib import Path

import pytest
from compiled_programs import all_files, names
from msgspec.structs import replace
from test_opening import _bundle

from asmevo.program import (
    Block,
    Instruction,
    Kernel,
    KernelNotFoundError,
    Program,
    ProgramError,
    WriteError,
    encode_kernel,
    read_program,
    write_file_atomically,
    write_program,
)
from asmevo.program.codeobject import CodeObject
from asmevo.program.decode import decode_one
from asmevo.program.edit import Delete, Edit, EditScript, Insert, Move, Replace, apply_script
from asmevo.toolchain import Processor, toolchain

_S_NOP = "000080bf"


def _open(name: str) -> Program:
    return read_program(all_files()[name], name)


def _read(text: str, gpu: str = "gfx942") -> Program:
    return read_program(text.encode(), "k.s", gpu)


def _edited(kernel: Kernel, *edits: Edit) -> Kernel:
    return apply_script(kernel, EditScript(base=kernel.hash, kernel=kernel.name, edits=edits))


def _write(program: Program, *edits: Edit) -> bytes:
    kernel = program.kernels[0]
    return write_program(program, {kernel.name: _edited(kernel, *edits)})


def _texts(kernel: Kernel) -> list[str]:
    return [each.decoded.text for each in kernel.instructions]


def _code(image: CodeObject, kernel: Kernel) -> bytes:
    section = image.section_at(kernel.address)
    assert section is not None
    return section.data[kernel.address - section.address :][: kernel.size]


@pytest.mark.parametrize("name", names(".hsaco", 17) + names(".co", 5))
def test_an_unedited_kernel_encodes_to_its_own_bytes(name: str) -> None:
    program = _open(name)
    symbols = {symbol.name: symbol.value for symbol in program.image.code_symbols}
    for kernel in program.kernels:
        assert encode_kernel(kernel, kernel.address, symbols) == _code(program.image, kernel)


@pytest.mark.parametrize("name", names(".hsaco", 37) + names(".s", 37) + names(".co", 9))
def test_an_unedited_program_is_the_same_file(name: str) -> None:
    try:
        program = _open(name)
    except ProgramError:
        pytest.skip("LLVM refuses the text")
    assert write_program(program, {kernel.name: kernel for kernel in program.kernels}) == program.data


def test_an_unknown_kernel_is_refused() -> None:
    program = _open("gfx942/saxpy.hsaco")
    with pytest.raises(KernelNotFoundError, match="other"):
        write_program(program, {"other": program.kernels[0]})


def _free(block: Block) -> list[Instruction]:
    """Instructions that nothing ties to their place in the encoding."""
    fixed = {"branch", "terminator", "call"}
    return [
        each
        for each in block.instructions
        if not each.flags & fixed and each.reference is None and each.mnemonic != "s_getpc_b64"
    ]


def _random_edits(kernel: Kernel, rng: random.Random, lines_used: dict[int | None, int], grow: bool) -> list[Edit]:
    edits: list[Edit] = []
    fresh = max(kernel.by_id) + 1
    for block in kernel.blocks:
        body = [each for each in _free(block) if lines_used.get(each.line, 1) == 1]
        if len(body) < 4 or rng.random() < 0.4:
            continue
        first, second, third, fourth = rng.sample(body, 4)
        edits.append(Move(id=first.id, after=second.id) if rng.random() < 0.5 else Move(id=first.id, before=second.id))
        edits.append(Delete(id=third.id, text=third.text))
        if grow:
            edits += [Insert(id=fresh + n, code=_S_NOP, text="s_nop 0", before=fourth.id) for n in range(4)]
            fresh += 4
        else:
            edits.append(Replace(id=fourth.id, code=(_S_NOP * 3)[: 2 * fourth.size][:8], text="s_nop 0"))
    return edits


def _uses(program: Program) -> dict[int | None, int]:
    counts: dict[int | None, int] = {}
    for kernel in program.kernels:
        for each in kernel.instructions:
            if each.line is not None:
                counts[each.line] = counts.get(each.line, 0) + 1
    return counts


def _check_random_edits(some: Iterable[str], grow: bool) -> tuple[int, int]:
    """(programs written, programs whose size stayed); what is written is read again here."""
    rng, written, same_size = random.Random(3), 0, 0
    for name in some:
        try:
            program = _open(name)
        except ProgramError:
            continue
        for kernel in program.kernels:
            edits = _random_edits(kernel, rng, _uses(program), grow)
            if not edits:
                continue
            meant = _edited(kernel, *edits)
            data = write_program(program, {kernel.name: meant})
            again = read_program(data, name).kernel(kernel.name)
            found = toolchain().disassemble(
                b"".join(each.decoded.code for each in again.instructions), kernel.context.processor
            )
            assert [word.text for word in found] == _texts(again)
            assert [each.mnemonic for each in meant.instructions] == [
                each.mnemonic for each in again.instructions[: len(meant.instructions)]
            ]
            written += 1
            same_size += len(data) == len(program.data)
    return written, same_size


def test_random_edits_of_objects_that_do_not_grow_stay_in_place() -> None:
    written, same_size = _check_random_edits(names(".hsaco", 16), grow=False)
    assert written > 15
    assert same_size == written


def test_random_edits_of_objects_that_grow() -> None:
    written, _ = _check_random_edits(names(".hsaco", 30), grow=True)
    assert written > 8


def test_random_edits_of_texts() -> None:
    written, _ = _check_random_edits(names(".s", 23), grow=True)
    assert written > 10


_LOOP = """\
	.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
k:                      ; entry
	v_mov_b32_e32 v0, 0     ; zero
	v_mov_b32_e32 v1, 1
loop:	v_add_u32_e32 v0, v0, v1
	s_nop 1 // settle
.Ltmp3:
	v_mov_b32_e32 v2, 2
	s_sub_u32 s0, s0, 1
	s_cbranch_scc0 loop
	s_endpgm
	.section .debug_info,"",@progbits
	.long .Ltmp3-k
"""


def test_an_edited_text_differs_in_the_edited_lines_only() -> None:
    program = _read(_LOOP)
    # 0 v0=0, 1 v1=1 | 2 add, 3 nop, 4 v2=2, 5 sub, 6 branch | 7 end
    moved = _write(program, Move(id=4, before=2)).decode().split("\n")
    expected = _LOOP.split("\n")
    del expected[7]
    expected[4:5] = ["loop:", "\tv_mov_b32_e32 v2, 2", "\tv_add_u32_e32 v0, v0, v1"]
    assert moved == expected
    deleted = _write(program, Delete(id=3, text="s_nop 1")).decode()
    assert deleted == _LOOP.replace("\ts_nop 1 // settle\n", "")
    code = decode_one(bytes.fromhex("8202067e"), program.kernels[0].context)  # v_mov_b32_e32 v3, 2
    replaced = _write(program, Replace(id=1, code=code.code.hex(), text=code.text)).decode()
    assert replaced == _LOOP.replace("v_mov_b32_e32 v1, 1", code.text)
    inserted = _write(program, Insert(id=99, code=_S_NOP, text="s_nop 0", after=0)).decode()
    assert inserted == _LOOP.replace("; zero\n", "; zero\n\ts_nop 0\n")


def test_a_moved_line_takes_its_comment_along() -> None:
    moved = _write(_read(_LOOP), Move(id=0, after=1)).decode()
    assert "\tv_mov_b32_e32 v1, 1\n\tv_mov_b32_e32 v0, 0     ; zero\nloop:" in moved


def test_a_line_with_a_label_leaves_the_label() -> None:
    assert "\nloop:\n\ts_nop 1 // settle\n" in _write(_read(_LOOP), Delete(id=2, text="add")).decode()


_MACRO = """\
	.macro two
	v_mov_b32_e32 v3, 0
	v_mov_b32_e32 v4, 0
	.endm
	s_nop 0
	two
	.rept 2
	s_nop 2
	.endr
	s_endpgm
"""


@pytest.mark.parametrize(("id_", "line"), [(1, 6), (2, 6), (3, 7)])
def test_what_a_macro_made_cannot_be_edited_but_other_lines_can(id_: int, line: int) -> None:
    program = _read(_MACRO)
    with pytest.raises(WriteError, match=f"k.s:{line}: .*macro or repetition"):
        _write(program, Delete(id=id_, text=""))
    with pytest.raises(WriteError, match="macro or repetition"):
        _write(program, Move(id=id_, before=0))
    assert _write(program, Delete(id=0, text="s_nop 0")).decode() == _MACRO.replace("\ts_nop 0\n", "")


def test_alignment_is_written_out_where_an_edit_would_change_it() -> None:
    text = "s_nop 3\ns_nop 4\ns_nop 5\n\t.p2align 4\nloop:\ns_nop 6\ns_cbranch_scc0 loop\ns_endpgm\n"
    program = _read(text)
    kernel = program.kernels[0]
    assert len(kernel.instructions) == 7
    assert _write(program, Move(id=0, after=1)).decode().count(".p2align") == 1
    written = _write(program, Delete(id=0, text="s_nop 3")).decode()
    assert ".p2align" not in written
    assert _texts(_read(written).kernels[0])[:4] == ["s_nop 4", "s_nop 5", "s_nop 0", "s_nop 6"]


def test_references_follow_their_getpc() -> None:
    program = _open("gfx942/function_calls.s")
    kernel = next(each for each in program.kernels if any(i.reference for i in each.instructions))
    low = next(each for each in kernel.instructions if each.reference is not None and not each.reference.high)
    edited = _edited(kernel, Insert(id=9999, code=_S_NOP, text="s_nop 0", before=low.id))
    again = read_program(write_program(program, {kernel.name: edited}), "k.s").kernel(kernel.name)
    found = next(each for each in again.instructions if each.reference is not None)
    assert found.reference is not None
    assert found.reference.symbol == low.reference.symbol  # type: ignore[union-attr]


def test_shrunk_code_is_padded_and_its_symbols_are_shortened() -> None:
    for name, filler in (("gfx906/saxpy.hsaco", 0xBF800000), ("gfx1100/saxpy.hsaco", 0xBF9F0000)):
        program = _open(name)
        kernel = program.kernels[0]
        victim = _free(kernel.blocks[0])[3]
        data = _write(program, Delete(id=victim.id, text=victim.text))
        image = CodeObject(data, name)
        assert len(data) == len(program.data)
        assert {s.size for s in image.symbols if s.name == "saxpy"} == {kernel.size - victim.size}
        tail = _code(image, kernel)[-victim.size :]
        assert tail == filler.to_bytes(4, "little") * (victim.size // 4)


def test_grown_code_keeps_what_else_is_in_the_object() -> None:
    program = _open("gfx803/lookup_table.hsaco")
    kernel = program.kernels[0]
    first = kernel.instructions[0].id
    many = [Insert(id=9000 + n, code=_S_NOP, text="s_nop 0", before=first) for n in range(100)]
    again = read_program(_write(program, *many), "k")
    old, new = ({s.name: s for s in each.image.sections} for each in (program, again))
    assert new[".text"].size > old[".text"].size
    tables = {s.name for s in program.image.symbols if s.type == "OBJECT"}
    assert {s.name for s in again.image.symbols if s.type == "OBJECT"} == tables
    assert again.image.metadata_bytes == program.image.metadata_bytes
    assert again.kernels[0].address % 256 == 0
    descriptor = next(s for s in again.image.symbols if s.name == "lookup_table.kd")
    assert again.kernels[0].descriptor is not None
    assert descriptor.value + again.kernels[0].descriptor.entry_offset == again.kernels[0].address
    referred = [[i.reference.symbol for i in k.instructions if i.reference] for k in (kernel, again.kernels[0])]
    assert referred[0] == referred[1] != []


@pytest.mark.parametrize(
    "name", ["gfx942/softmax.hsaco", "gfx942/softmax.s", "gfx1100/softmax.hsaco", "gfx1100/conv1d.s"]
)
def test_a_changed_descriptor_takes_the_metadata_along(name: str) -> None:
    program = _open(name)
    kernel = program.kernels[0]
    assert kernel.descriptor is not None
    assert kernel.metadata is not None
    granules = kernel.descriptor.field("granulated_vgpr_count")
    more = replace(kernel, descriptor=kernel.descriptor.with_field("granulated_vgpr_count", granules + 2))
    again = read_program(write_program(program, {kernel.name: more}), name).kernels[0]
    assert again.descriptor is not None
    assert again.metadata is not None
    assert again.descriptor.field("granulated_vgpr_count") == granules + 2
    granule = 8 if kernel.target.name in ("gfx942", "gfx1100") else 4
    assert again.metadata[".vgpr_count"] == (granules + 3) * granule
    del again.metadata[".vgpr_count"]
    assert again.metadata == {key: value for key, value in kernel.metadata.items() if key != ".vgpr_count"}


_TWO_KERNELS = """\
one:
s_endpgm
.p2align 8
two:
s_endpgm
.rodata
.p2align 6
.amdhsa_kernel one
.amdhsa_next_free_vgpr 8
.amdhsa_next_free_sgpr 8
.end_amdhsa_kernel
.amdhsa_kernel two
  .amdhsa_next_free_vgpr 8 ; why eight
  .amdhsa_next_free_sgpr 8
.end_amdhsa_kernel
.amdgpu_metadata
  amdhsa.version: [1, 2]
  amdhsa.kernels:
    - .name: one
      .symbol: one.kd
      .args:
        - .name: two
          .size: 8
          .offset: 0
          .value_kind: by_value
      .vgpr_count: 8
      .sgpr_count: 8
      .kernarg_segment_size: 8
      .kernarg_segment_align: 8
      .group_segment_fixed_size: 0
      .private_segment_fixed_size: 0
      .wavefront_size: 32
      .max_flat_workgroup_size: 64
    - .symbol: two.kd
      .vgpr_count: 8
      .sgpr_count: 8
      .kernarg_segment_size: 8
      .kernarg_segment_align: 8
      .group_segment_fixed_size: 0
      .private_segment_fixed_size: 0
      .wavefront_size: 32
      .max_flat_workgroup_size: 64
      .name: two
.end_amdgpu_metadata
"""


def test_descriptor_and_metadata_of_the_right_kernel_are_changed() -> None:
    program = _read(_TWO_KERNELS, "gfx1030")
    two = program.kernel("two")
    assert two.descriptor is not None
    more = replace(two, descriptor=two.descriptor.with_field("granulated_vgpr_count", 2))
    expected = _TWO_KERNELS.replace("vgpr 8 ; why eight", "vgpr 24")
    head, tail = expected.split("- .symbol: two.kd")
    expected = head + "- .symbol: two.kd" + tail.replace(".vgpr_count: 8", ".vgpr_count: 24")
    assert write_program(program, {"two": more}).decode() == expected


def test_the_prefetch_size_follows_the_code() -> None:
    """One cache line is 128 bytes; the field starts at bit 4 of the descriptor's third word."""
    program = _open("gfx1200/saxpy.hsaco")
    kernel = program.kernels[0]
    assert kernel.descriptor is not None
    assert kernel.descriptor.rsrc3 >> 4 & 0xFF == -(-kernel.size // 128)
    first = kernel.instructions[0].id
    many = [Insert(id=9000 + n, code=_S_NOP, text="s_nop 0", before=first) for n in range(64)]
    again = read_program(_write(program, *many), "k").kernels[0]
    assert again.descriptor is not None
    assert again.descriptor.rsrc3 >> 4 & 0xFF == -(-(kernel.size + 256) // 128)


@pytest.mark.parametrize(("count", "reaches"), [(0x7FFF, True), (0x8000, False)])
def test_a_branch_reaches_sixteen_bits_of_dwords(count: int, reaches: bool) -> None:
    """Backwards by `count` instructions and the branch itself, 32768 dwords at most."""
    kernel = _read("l:\ns_nop 0\ns_cbranch_scc0 l\ns_endpgm\n").kernels[0]
    nop, branch = kernel.instructions[:2]
    body = (*(Instruction(n, nop.decoded) for n in range(count)), replace(branch, id=count))
    long = kernel.with_blocks((Block(0, kernel.blocks[0].labels, body),))
    if reaches:
        assert encode_kernel(long, 0)[-4:] == bytes.fromhex("008084bf")
    else:
        with pytest.raises(WriteError, match="farther than a branch reaches"):
            encode_kernel(long, 0)


def test_a_branch_whose_goal_is_unknown_forbids_edits() -> None:
    program = _read("s_nop 1\ns_nop 2\n.long 0xbf850050\ns_endpgm\n")
    data = toolchain().link(
        toolchain().assemble("s_nop 1\ns_nop 2\n.long 0xbf850050\ns_endpgm\n", program.source.processor)
    )  # type: ignore[union-attr]
    image = read_program(data, "k.hsaco")
    with pytest.raises(WriteError, match="counts from its own place"):
        _write(image, Move(id=0, after=1))


def test_a_program_counter_that_is_used_in_an_unknown_way_forbids_edits() -> None:
    text = "s_nop 1\ns_nop 2\ns_getpc_b64 s[0:1]\ns_mul_i32 s0, s0, 3\ns_setpc_b64 s[0:1]\n"
    program = read_program(toolchain().link(toolchain().assemble(text, Processor("gfx942"))), "k.hsaco")
    with pytest.raises(WriteError, match=r"`s_getpc_b64 s\[0:1\]` in .* counts from its own place"):
        _write(program, Move(id=0, after=1))
    same_place = _write(program, Replace(id=0, code="030080bf", text="s_nop 3"))
    assert _texts(read_program(same_place, "k").kernels[0])[:2] == ["s_nop 3", "s_nop 2"]


def test_relocatable_objects_keep_their_relocations() -> None:
    source = _open("gfx942/function_calls.s")
    assert source.source is not None
    data = toolchain().assemble(source.source.assembled, source.source.processor)
    program = read_program(data, "k.o")
    kernel = next(each for each in program.kernels if any(i.reference for i in each.instructions))
    getpc = next(each for each in kernel.instructions if each.mnemonic == "s_getpc_b64")
    at = kernel.instructions.index(getpc)
    if at < 2:
        pytest.skip("nothing stands before the address")
    victim = kernel.instructions[at - 1]
    edited = _edited(kernel, Delete(id=victim.id, text=""))
    linked = read_program(toolchain().link(write_program(program, {kernel.name: edited})), "k")
    found = [i.reference.symbol for i in linked.kernel(kernel.name).instructions if i.reference]
    reference = read_program(toolchain().link(data), "k").kernel(kernel.name)
    assert found == [i.reference.symbol for i in reference.instructions if i.reference]


def test_a_bundle_is_written_as_a_bundle() -> None:
    inner = all_files()["gfx942/saxpy.hsaco"]
    program = read_program(_bundle(("host-x86_64--", b""), ("hipv4-amdgcn-amd-amdhsa--gfx942", inner)), "fat")
    first = program.kernels[0].instructions[0].id
    for count in (1, 400):
        many = [Insert(id=9000 + n, code=_S_NOP, text="", before=first) for n in range(count)]
        again = read_program(_write(program, *many), "fat")
        assert len(again.kernels[0].instructions) == len(program.kernels[0].instructions) + count
    (offset,) = struct.unpack_from("<Q", again.data, 32 + 24 + len("host-x86_64--"))
    assert offset % 4096 == 0


def test_files_are_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "k.s"
    write_file_atomically(path, b"one")
    path.chmod(0o640)
    write_file_atomically(path, b"two")
    assert path.read_bytes() == b"two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(FileNotFoundError):
        write_file_atomically(tmp_path / "missing" / "k.s", b"x")


def test_what_is_no_regular_file_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    link = tmp_path / "link.s"
    link.symlink_to("k.s")
    (tmp_path / "k.s").write_bytes(b"one")
    write_file_atomically(link, b"two")
    assert link.is_symlink()
    assert (tmp_path / "k.s").read_bytes() == b"two"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with os.fdopen(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:
        write_file_atomically(pipe, b"three")
        assert reader.read() == b"three"
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    with pytest.raises(IsADirectoryError):
        write_file_atomically(tmp_path, b"x")


def test_a_place_that_is_not_there_is_named_as_it_was_given(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        write_file_atomically(tmp_path / "missing" / "k.s", b"x")
    assert caught.value.filename == str(tmp_path / "missing" / "k.s")


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_byte_order_mark_stays(mark: str) -> None:
    text = f"{mark}v_mov_b32 v0, 0 // \u00e9\r\ns_endpgm"
    written = _write(_read(text), Insert(id=99, code=_S_NOP, text="s_nop 0", after=0)).decode()
    assert written == text.replace("\r\n", "\r\ns_nop 0\r\n")
