"""Clauses that are whole are left alone, broken ones are named."""

from __future__ import annotations

import pytest
from compiled_programs import all_files, names
from written_kernels import written

from asmevo.checks import check_clauses
from asmevo.program import read_program

LOAD = "global_load_b32 v{0}, v[10:11], off"


def of(*lines: str) -> list[str]:
    return [finding.message for finding in check_clauses(written("\n".join((*lines, "s_endpgm")), "gfx1100"))]


def test_whole_clauses_are_silent() -> None:
    assert not of("s_clause 0x1", LOAD.format(0), LOAD.format(1), "v_mov_b32 v2, 0")
    assert not of("s_clause 0x1", LOAD.format(0), "s_nop 0", LOAD.format(1))


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (("s_clause 0x1", LOAD.format(0), "v_mov_b32 v2, 0", LOAD.format(1)), "`v_mov_b32_e32 v2, 0`"),
        (("s_clause 0x1", LOAD.format(0), "ds_load_b32 v2, v3"), "`ds_load_b32 v2, v3`"),
        (("s_clause 0x1", LOAD.format(0), "global_store_b32 v[10:11], v1, off"), "global_store_b32"),
        (("s_clause 0x2", LOAD.format(0), LOAD.format(1)), "1 more"),
    ],
)
def test_broken_clauses_are_named(lines: tuple[str, ...], words: str) -> None:
    (message,) = of(*lines)
    assert words in message


def test_compilers_keep_to_it() -> None:
    clauses = 0
    for name in (n for n in names(".hsaco") if "gfx1" in n):
        for kernel in read_program(all_files()[name], name).kernels:
            clauses += sum(i.mnemonic == "s_clause" for i in kernel.instructions)
            assert not check_clauses(kernel), (name, kernel.name)
    assert clauses >= 400
