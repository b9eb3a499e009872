"""Assembly text becomes the program that its compiler made of it, each instruction tied to its line."""

from __future__ import annotations

import pytest
from compiled_programs import all_files, names

from asmevo.program import NotAProgramError, Program, UnreadableProgramError, read_program


def _read(text: str, gpu: str | None = None) -> Program:
    return read_program(text.encode(), "k.s", gpu)


def _lines(program: Program) -> list[tuple[int | None, str]]:
    return [(each.line, each.text) for each in program.kernels[0].instructions]


@pytest.mark.parametrize(
    ("directive", "target"),
    [
        ("amdgcn-amd-amdhsa--gfx942", "gfx942"),
        ("amdgpu12.01-amd-amdhsa-unknown-gfx1201", "gfx1201"),
        ("amdgpu9.42-amd-amdhsa-unknown-gfx942", "gfx942"),
        ("amdgcn-amd-amdhsa-unknown-gfx90a:sramecc+:xnack-", "gfx90a"),
        ("gfx908+sram-ecc", "gfx908"),
        ("amdgcn-amd-amdhsa--gfx908+xnack+sram-ecc", "gfx908"),
        ("amdgcn-amd-amdhsa--gfx941", "gfx942"),
    ],
)
def test_spellings_of_the_target(directive: str, target: str) -> None:
    program = _read(f'.amdgcn_target "{directive}"\nv_mov_b32_e32 v0, 0\ns_endpgm\n')
    assert program.target.name == target
    assert _lines(program) == [(2, "v_mov_b32_e32 v0, 0"), (3, "s_endpgm")]
    assert bool(program.notes) == ("gfx941" in directive)


def test_line_ends_and_byte_order_marks_of_other_systems() -> None:
    text = '\ufeff.amdgcn_target "amdgcn-amd-amdhsa--gfx942"\r\n\tv_mov_b32_e32 v0, 0 // a\r\ns_endpgm\r\n'
    assert _lines(_read(text)) == [(2, "v_mov_b32_e32 v0, 0"), (3, "s_endpgm")]


def test_pinned_features_reach_the_object() -> None:
    text = '.amdgcn_target "amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-"\ns_endpgm\n'
    assert str(_read(text).image.target_id) == "gfx90a:sramecc+:xnack-"


def test_a_text_without_target_needs_one() -> None:
    with pytest.raises(UnreadableProgramError, match="--gpu gfx942"):
        _read("s_endpgm\n")
    assert _read("s_endpgm\n", "gfx1100").target.name == "gfx1100"
    named = "s_endpgm\n.amdgpu_metadata\n---\namdhsa.target: amdgcn-amd-amdhsa--gfx942\namdhsa.version: [1, 2]\n"
    assert _read(named + "amdhsa.kernels: []\n...\n.end_amdgpu_metadata\n").target.name == "gfx942"


def test_contradicting_and_unknown_targets_are_refused() -> None:
    text = '.amdgcn_target "amdgcn-amd-amdhsa--gfx942"\ns_endpgm\n'
    with pytest.raises(UnreadableProgramError, match=r"k.s:1: .*gfx942.*gfx950"):
        _read(text, "gfx950")
    with pytest.raises(NotAProgramError, match=r"k.s:1: .*gfx9999"):
        _read(text.replace("gfx942", "gfx9999"))


_PREFETCH = """\
k:
s_endpgm
.fill {count}, 4, 0xbf9f0000
.Lend:
.rodata
.p2align 6
.amdhsa_kernel k ; not instprefsize(this
.amdhsa_next_free_vgpr 8
.amdhsa_next_free_sgpr 8
.amdhsa_inst_pref_size ((instprefsize({argument})<<4)&{mask})>>4
.end_amdhsa_kernel
"""


@pytest.mark.parametrize(
    ("count", "gpu", "lines"),
    [(31, "gfx1100", 1), (32, "gfx1100", 2), (9999, "gfx1100", 63), (9999, "gfx1200", 255), (99, "gfx1200", 4)],
)
def test_the_prefetch_size_is_computed_as_newer_compilers_do(count: int, gpu: str, lines: int) -> None:
    text = _PREFETCH.format(count=count, argument=".Lend-k", mask=0xFF0)
    descriptor = _read(text, gpu).kernels[0].descriptor
    assert descriptor is not None
    assert descriptor.rsrc3 >> 4 & 0xFF == lines


@pytest.mark.parametrize("argument", ["", "1, 2", "(", "a b"])
def test_a_prefetch_size_of_nothing_is_refused_with_its_line(argument: str) -> None:
    with pytest.raises(UnreadableProgramError, match=r"k.s:10: .*instprefsize"):
        _read(_PREFETCH.format(count=1, argument=argument, mask=0xFF0), "gfx1200")


def test_a_refused_line_is_named_with_llvms_words() -> None:
    with pytest.raises(UnreadableProgramError) as caught:
        _read("s_nop 0\n\n\tv_nonsense v0\n", "gfx942")
    assert caught.value.line == 3
    assert "v_nonsense v0" in caught.value.words


def test_halves_of_registers_are_asked_for_when_written() -> None:
    program = _read("v_add_f16_e32 v1.l, v2.l, v3.h\ns_endpgm\n", "gfx1200")
    assert program.kernels[0].instructions[0].text == "v_add_f16_e32 v1.l, v2.l, v3.h"
    assert len(_read("v_add_f16_e32 v1, v2, v3\ns_endpgm\n", "gfx1100").kernels) == 1


def test_wave_size_is_what_the_text_says_or_needs() -> None:
    block = ".rodata\n.amdhsa_kernel k\n.amdhsa_next_free_vgpr 4\n.amdhsa_next_free_sgpr 4\n"
    kernel = f"k:\nv_cmp_eq_u32_e32 vcc, v0, v1\ns_endpgm\n{block}.amdhsa_wavefront_size32 0\n.end_amdhsa_kernel\n"
    assert _read(kernel.replace(".rodata", ".section .rodata"), "gfx1100").kernels[0].wave_size == 64
    assert _read("v_cmp_eq_u32_e32 vcc, v0, v1\n", "gfx1100").kernels[0].wave_size == 64
    assert _read("v_cmp_eq_u32_e32 vcc_lo, v0, v1\n", "gfx1100").kernels[0].wave_size == 32


def test_unnamed_depctr_fields_do_not_depend_on_what_was_assembled_before() -> None:
    _read("s_waitcnt_depctr depctr_vm_vsrc(0)\n", "gfx1010")
    code = [_read("s_waitcnt_depctr depctr_va_vdst(0)\n", gpu).kernels[0].instructions[0].decoded.code.hex()
            for gpu in ("gfx1010", "gfx1030", "gfx1100")]  # fmt: skip
    assert code == ["1f0fa3bf", "9f0fa3bf", "9f0f88bf"]  # llvm-mc 22.1.8, one process each


_MANY_SHAPES = """\
	.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
	.set vAddr, 4
	.macro twice reg
	v_mov_b32_e32 v\\reg, 0
	v_mov_b32_e32 v\\reg, 1
	.endm
	.text
	.globl k
	.p2align 8
	.type k,@function
k:                                      ; the entry
/* a comment
   s_nop 7 */ s_nop 1
	twice 3
	.rept 2
	s_nop 2
	.endr
start: v_mov_b32_e32 v[vAddr], v0       // with a label
	.long 0x7e0a0280, 0xbf800003
	.if 1
	s_nop 4
	.else
	s_nop 5
	.endif
	.file 1 "a.py"
	.loc 1 5 0
.Ltmp0:
	s_cbranch_scc0 start
	s_endpgm
.Lend:
	.size k, .Lend-k
	.section .debug_line,"",@progbits
	.long .Lend-.Ltmp0
"""


def test_lines_of_many_shapes() -> None:
    program = _read(_MANY_SHAPES)
    assert _lines(program) == [
        (13, "s_nop 1"),
        (14, "v_mov_b32_e32 v3, 0"),
        (14, "v_mov_b32_e32 v3, 1"),
        (15, "s_nop 2"),
        (15, "s_nop 2"),
        (18, "v_mov_b32_e32 v4, v0"),
        (19, "v_mov_b32_e32 v5, 0"),
        (19, "s_nop 3"),
        (21, "s_nop 4"),
        (28, "s_cbranch_scc0 .LBB0_0"),
        (29, "s_endpgm"),
    ]


def test_a_kernel_without_type_is_found_by_its_descriptor() -> None:
    text = "s_nop 0\n.p2align 8\nk:\ns_endpgm\n.section .rodata\n.amdhsa_kernel k\n.amdhsa_next_free_vgpr 1\n"
    (kernel,) = _read(text + ".amdhsa_next_free_sgpr 1\n.end_amdhsa_kernel\n", "gfx906").kernels
    assert (kernel.name, kernel.is_entry, [each.line for each in kernel.instructions]) == ("k", True, [4])


def _differs_from_its_compilers_object(name: str) -> bool:
    """Whether a text does not give the `.text`, data, descriptors and note of its compiler's own object."""
    theirs = read_program(all_files()[name.removesuffix(".s") + ".hsaco"], name)
    ours = read_program(all_files()[name], name)
    mine = {s.name: (s.address, s.data) for s in ours.image.sections if s.name in (".text", ".rodata")}
    other = {s.name: (s.address, s.data) for s in theirs.image.sections if s.name in (".text", ".rodata")}
    assert ours.image.metadata_bytes == theirs.image.metadata_bytes
    assert ours.image.descriptors == theirs.image.descriptors
    assert all(each.line for kernel in ours.kernels for each in kernel.instructions)
    return mine != other


@pytest.mark.parametrize("target", sorted({name.split("/")[0] for name in names(".s")}))
def test_every_text_gives_its_compilers_bytes(target: str) -> None:
    texts = [name for name in names(".s") if name.startswith(f"{target}/")]
    assert len(texts) >= 15
    assert [name for name in texts if _differs_from_its_compilers_object(name)] == []


_SHARED_SOURCE = "v_dual_sub_f32 v3, v3, v6 :: v_dual_sub_f32 v4, v4, v6"


def test_dual_instructions_of_newer_compilers() -> None:
    """gfx12 may read one register twice; llvm-mc 22.1.8 decodes this word so, and refuses the text."""
    program = _read(f"{_SHARED_SOURCE} // both read v6\ns_endpgm\n", "gfx1200")
    assert _lines(program) == [(1, _SHARED_SOURCE), (2, "s_endpgm")]
    assert program.kernels[0].instructions[0].decoded.code.hex() == "030d4ac9040d0403"
    twice = "v_dual_mul_f32 v10, v0, v10 :: v_dual_mul_f32 v11, v0, v11"
    assert _lines(_read(f"{twice}\n", "gfx1201")) == [(1, twice)]


@pytest.mark.parametrize(
    ("statement", "gpu"),
    [
        (_SHARED_SOURCE, "gfx1100"),
        ("v_dual_sub_f32 v3, v3, v6 :: v_dual_sub_f32 v4, v4, v10", "gfx1200"),
        ("v_dual_sub_f32 v3, v3, v6 :: v_dual_sub_f32 v5, v4, v6", "gfx1200"),
    ],
)
def test_dual_instructions_that_the_chip_cannot_do_are_refused(statement: str, gpu: str) -> None:
    with pytest.raises(UnreadableProgramError, match=r"k.s:2: LLVM refuses `v_dual_.*; a newer compiler's text"):
        _read(f"s_nop 0\n{statement}\n", gpu)
