"""Clauses that are whole are left alone, broken ones are named."""

from __future__ import annotations

import pytest
from compiled_programs import all_files, names
from written_kernels import written

from asmevo.checks import check_clauses
from asmevo.program import read_program

LOAD = "global_load_b32 v{0}, v[10:11], off"


def of(*lines: str, gpu: str = "gfx1100") -> list[str]:
    return [finding.message for finding in check_clauses(written("\n".join((*lines, "s_endpgm")), gpu))]


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


@pytest.mark.parametrize(
    ("gpu", "mixed"), [("gfx1030", True), ("gfx1100", False), ("gfx1201", False), ("gfx1250", True)]
)
def test_loads_and_stores_in_one_clause(gpu: str, mixed: bool) -> None:
    """LLVM's SIInsertHardClauses: one kind on gfx10 and gfx1250 (clang-22 writes such clauses), two on the others."""
    names = ("global_load_dword", "global_store_dword") if gpu == "gfx1030" else ("global_load_b32", "global_store_b32")
    found = of("s_clause 0x1", f"{names[0]} v0, v[10:11], off", f"{names[1]} v[10:11], v1, off", gpu=gpu)
    assert bool(found) != mixed


def test_vgpr_banks_are_members() -> None:
    """clang-22 -O2 for gfx1250 counts `s_set_vgpr_msb` in the clause's length."""
    lines = ("s_clause 0x2", LOAD.format(0), "s_set_vgpr_msb 0x40", LOAD.format(1))
    assert not of(*lines, "s_set_vgpr_msb 0", gpu="gfx1250")
    (message,) = of(*lines[:3], "v_mov_b32 v2, 0", gpu="gfx1250")
    assert "covers 1 more" in message


def test_compilers_keep_to_it() -> None:
    clauses = 0
    for name in (n for n in names(".hsaco") if "gfx1" in n):
        for kernel in read_program(all_files()[name], name).kernels:
            clauses += sum(i.mnemonic == "s_clause" for i in kernel.instructions)
            assert not check_clauses(kernel), (name, kernel.name)
    assert clauses >= 400
