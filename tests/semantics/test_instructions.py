"""Every instruction of `instruction_oracles` on edge values and random bits, drawn by hypothesis."""

from __future__ import annotations

import re

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from instruction_oracles import ROWS, Number, Row
from one_lane import decoded, execute

EDGES = {
    16: [0, 1, 0x3FF, 0x400, 0x3C00, 0x7BFF, 0x7C00, 0x7E00, 0x7FFF, 0x8000, 0xBC01, 0xFC00, 0xFFFF],
    32: [0, 1, 15, 31, 32, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFF, 0x800000, 0x3F800000, 0x4F000000, 0x4F800000, 0x7F7FFFFF,
         0x7F800000, 0x7FC00000, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xBF800000, 0xCF000000, 0xFF800000, 0xFFFFFFFF],
    64: [0, 1, 63, 1 << 31, 1 << 32, (1 << 52) - 1, 1 << 52, 0x3FF << 52, 0x41DFFFFFFFC00000, 0x41F0000000000000,
         0x7FEFFFFFFFFFFFFF, 0x7FF << 52, 0x7FF8 << 48, (1 << 63) - 1, 1 << 63, 0xBFF8 << 48, (1 << 64) - 1],
}  # fmt: skip
"""Ends of ranges, of formats, and where conversions and shifts change their behaviour."""


def contents(bits: int) -> st.SearchStrategy[int]:
    """Register contents of a width; halves of a dword are edges too."""
    whole = st.integers(0, (1 << bits) - 1)
    kinds = [whole]
    if bits in EDGES:
        kinds.append(st.sampled_from(EDGES[bits]))
    if bits in (32, 64):
        half = st.sampled_from(EDGES[bits // 2])
        kinds.append(st.tuples(half, half).map(lambda pair: pair[0] | pair[1] << bits // 2))
    return st.one_of(*kinds)


def keeps_upper_half(row: Row) -> bool:
    """From gfx10 on a vector result of 16 bits leaves the other half of the register alone; before, it clears it.

    On gfx9 the forms with op_sel keep it too (their "legacy" forms are the ones that clear).
    """
    sixteen = re.fullmatch(r"v_(?!cmp|cvt|pk)\w+_[fiub]16(_e32|_e64)?", row.mnemonic)
    return sixteen is not None and (row.gpu.startswith("gfx1") or row.mnemonic == "v_fma_f16")


def registers_read(row: Row) -> dict[int, int]:
    """Bits of the sources in registers, by printed place; a mask that is a carry has one bit."""
    instruction, _ = decoded(row.text, row.gpu)
    defs = instruction.info.defs
    read = {index: operand.registers.bits for index, operand in enumerate(instruction.operands)
            if operand.registers is not None and index >= defs}  # fmt: skip
    if re.match(r"v_(addc|subb|subbrev)_|v_\w+_co_ci_", row.mnemonic):
        read[max(read)] = 1
    return read


def check(row: Row, sources: dict[int, int], old: int, implicit: dict[str, int]) -> None:
    """Runs the instruction and compares everything it writes."""
    instruction, _ = decoded(row.text, row.gpu)
    operands = dict(sources)
    if instruction.info.defs and not row.mnemonic.startswith("v_cmp"):  # of a mask only this lane's bit is looked at
        operands[0] = old
    arguments = [*sources.values(), *([old] if row.reads_destination else []), *implicit.values()]
    outcome = execute(row.text, row.gpu, operands, implicit)
    expected = row.oracle(*arguments)
    assert_written(row, expected if isinstance(expected, dict) else {0: expected}, outcome, old, arguments)


def assert_written(row: Row, expected: dict, outcome: dict, old: int, arguments: list[int]) -> None:
    said = (row.text, [hex(each) for each in arguments], {key: hex(value) for key, value in outcome.items()}, expected)
    if all(isinstance(key, tuple) for key in expected):  # (printed operand, lowest bit): elements of a packed result
        for (index, low), value in expected.items():
            assert value.agrees(outcome[index] >> low & value.ones), said
        return
    assert expected.keys() == outcome.keys(), said
    registers = decoded(row.text, row.gpu)[0].operands[0].registers
    width = 16 if keeps_upper_half(row) else registers.bits if registers else 32
    for key, wanted in expected.items():
        found = outcome[key]
        if key == 0 and width == 16:
            assert found >> 16 == old >> 16, said
            found &= 0xFFFF
        if isinstance(wanted, Number):
            assert wanted.agrees(found), said
        else:
            assert (wanted & ((1 << width) - 1) if key == 0 else wanted) == found, said


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.gpu}-{row.text.replace(' ', '_')}")
@settings(max_examples=10, derandomize=True, deadline=None, database=None, phases=[Phase.generate])
@given(data=st.data())
def test_instruction(row: Row, data: st.DataObject) -> None:
    sources = {index: data.draw(contents(bits)) for index, bits in registers_read(row).items()}
    implicit = {name: data.draw(contents(bits)) for name, bits in row.implicit.items()}
    check(row, sources, data.draw(contents(32)), implicit)
