"""How many of the instructions that compilers really write have a test of their own against independent expectations.

Counted are operations (mnemonics without what marks the encoding) of all compiled programs. An operation has a test
when it is in a table of hand-written oracles, or is written out as an instruction in a test whose expectations come
from numpy, Python's integers, worked examples of AMD's guides or LLVM. The share may only grow; what has no test is in
`WITHOUT`, so a new program or a removed test shows.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

from compiled_programs import all_files, names
from instruction_oracles import ROWS
from memory_oracles import MOVES

from asmevo.program.codeobject import CodeObject
from asmevo.program.reading import read_kernels
from asmevo.semantics.naming import stem

WORKED = (
    "test_meaning.py",
    "test_meaning_properties.py",
    "test_memory.py",
    "test_scalar_memory.py",
    "test_buffer_memory.py",
    "test_flat_memory.py",
    "test_lds_memory.py",
    "test_memory_atomics.py",
    "test_operands.py",
    "test_lanes.py",
    "test_control.py",
    "test_matrix.py",
    "test_mfma.py",
    "test_wmma.py",
    "test_float_mode.py",
    "test_buffer_resource.py",
    "test_division.py",
    "test_worked_examples.py",
)
"""Files whose instructions are held against worked examples, in text."""

WITHOUT: frozenset[str] = frozenset()
"""Operations in compiled programs that no test of the above kind executes."""


@cache
def used() -> Counter[str]:
    """Operations of all compiled programs, with how many instructions of each."""
    found: Counter[str] = Counter()
    for name in names(".hsaco"):
        for kernel in read_kernels(CodeObject(all_files()[name], name)):
            for instruction in kernel.instructions:
                decoded = instruction.decoded
                halves = decoded.info.mnemonic.split(" :: ") if "::" in decoded.text else [decoded.mnemonic]
                found.update(map(stem, halves))
    return found


def covered() -> set[str]:
    tables = {row.mnemonic for row in ROWS} | {move.mnemonic for move in MOVES}
    for name in WORKED:
        text = Path(__file__).with_name(name).read_text(encoding="utf-8")
        tables.update(re.findall(r"\b(?:v|s|ds|global|buffer|flat|scratch)_[a-z0-9_]+", text))
    return {stem(name) for name in tables}


def test_what_compilers_write_has_tests_of_its_own() -> None:
    operations = used()
    without = set(operations) - covered()
    assert without == WITHOUT
