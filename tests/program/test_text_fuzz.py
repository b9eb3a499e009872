"""Any text at all: parsers end, and only with the errors they promise."""

from __future__ import annotations

import random
from collections.abc import Callable

from compiled_programs import all_files, names
from hypothesis import given, settings
from hypothesis import strategies as st

from asmevo.program import ProgramError, assemble_text, read_program
from asmevo.program.codeobject import CodeObject
from asmevo.program.descriptor import KernelDescriptor
from asmevo.program.directives import data_lines, descriptor_fields
from asmevo.program.source import refuse_foreign_text, source_variants
from asmevo.program.statements import mask_comments, scan_lines
from asmevo.program.syntax import parse_statements
from asmevo.target import load_target
from asmevo.toolchain import Processor, toolchain

# fmt: off
_SHARDS = st.sampled_from([
    "v_add_f32", "v0", "v[0:3]", "v[9:1]", "s[", "]", "[", "(", ")", "|", "-|", "neg(", "abs(-v1)", ",",
    "::", ":", "offset:16", "glc", "dpp8:[1,2", "exp", "mrt0", "s_waitcnt", "0x", "-1.5", ".l", "v1.h",
    ";", "//", "/*", "*/", "\"", "\\", ".macro", ".endm", ".rept", "2", ".endr", ".long", "label:",
    ".amdhsa_kernel", ".p2align", "#", "instprefsize(", "s_wait_alu", "depctr_va_vdst(99)",
    "hwreg(HW_REG_WAVE_SCHED_MODE", ".amdgcn_target", "\"gfx942\"", ".set", "x,1", "@rel32@lo+4", "é",
    "\n\t",
])
# fmt: on
_TEXTS = st.lists(st.one_of(_SHARDS, st.text(max_size=3)), max_size=12).map(" ".join)


@given(_TEXTS)
@settings(max_examples=400, deadline=None)
def test_statements_of_any_text(text: str) -> None:
    for statement in parse_statements(text):
        assert isinstance(statement.mnemonic, str)
        for operand in statement.operands:
            assert all(span.count > 0 for span in operand.spans)


@given(_TEXTS)
@settings(max_examples=300, deadline=None)
def test_lines_of_any_text(text: str) -> None:
    masked = mask_comments(text)
    assert len(masked) == len(text)
    assert masked.count("\n") == text.count("\n")
    lines = text.split("\n")
    scanned = scan_lines(text)
    assert len(scanned) == len(lines)
    for line, found in zip(lines, scanned, strict=True):
        assert 0 <= found.start <= len(line)
        assert line[found.start :].startswith(found.token) or not found.token


@given(_TEXTS)
@settings(max_examples=40, deadline=None)
def test_programs_of_any_text(text: str) -> None:
    assert _is_read_or_refused(lambda: refuse_foreign_text(text, "f"))
    assert _is_read_or_refused(lambda: read_program(text.encode(), "f", "gfx942"))


@given(_TEXTS)
@settings(max_examples=150, deadline=None)
def test_respelled_texts_keep_their_lines(text: str) -> None:
    text = '.amdgcn_target "gfx1100"\n' + text.replace(".amdgcn_target", "")
    variants, _ = source_variants(text, "f", None)
    assert all(variant.assembled.count("\n") == text.count("\n") for variant in variants)


def _is_read_or_refused(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except ProgramError as error:
        return "\n" not in str(error)
    return True


def test_compiled_texts_with_pieces_missing_give_a_sentence_or_a_program() -> None:
    rng = random.Random(2)
    for name in names(".s", 41):
        lines = all_files()[name].decode().split("\n")
        for _ in range(3):
            some = [line for line in lines if rng.random() > 0.02]
            cut = rng.randrange(len(some))
            some[cut] = some[cut][: rng.randrange(len(some[cut]) + 1)]
            text = "\n".join(some[: rng.randrange(len(some)) + 1])
            assert _is_read_or_refused(lambda text=text, name=name: read_program(text.encode(), name))
            assert _is_read_or_refused(lambda text=text, name=name: assemble_text(text, name))


@given(st.binary(max_size=200))
@settings(max_examples=30, deadline=None)
def test_data_lines_say_exactly_the_bytes(data: bytes) -> None:
    text = '.section .d,"a",@progbits\n' + "\n".join(data_lines(data + bytes(60) + data)) + "\n"
    image = CodeObject(toolchain().assemble(text, Processor("gfx942")), "d")
    assert next(section for section in image.sections if section.name == ".d").data == data + bytes(60) + data


@given(
    st.binary(min_size=64, max_size=64),
    st.sampled_from(["gfx803", "gfx906", "gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1200"]),
)
def test_descriptors_of_any_bytes(raw: bytes, gpu: str) -> None:
    descriptor = KernelDescriptor.from_bytes(raw)
    assert all(value >= -2 for _, value in descriptor_fields(descriptor, load_target(gpu)))
    for name in ("granulated_vgpr_count", "user_sgpr_count"):
        changed = descriptor.with_field(name, 3)
        assert changed.field(name) == 3
        assert changed.with_field(name, descriptor.field(name)).raw == raw
