"""What newer versions of LLVM print otherwise."""

from __future__ import annotations

from asmevo.program.syntax import parse_operand, parse_statements


def test_forced_literals_are_numbers() -> None:
    """LLVM 22.1 prints a literal that an inline constant could have been as `lit(...)`."""
    assert parse_operand("lit(0xffffffff)").text == "0xffffffff"
    assert parse_operand("lit64(0x10)").text == "0x10"
    (statement,) = parse_statements("s_addc_u32 s1, s1, lit(0xffffffff)")
    assert [operand.text for operand in statement.operands] == ["s1", "s1", "0xffffffff"]
