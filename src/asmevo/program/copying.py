"""Instructions that do nothing but copy registers: what they write is bit for bit what they read."""

from __future__ import annotations

import re
from collections.abc import Sequence

from asmevo.program.instruction import Decoded, Operand
from asmevo.program.registers import NAMED_SPANS, RegisterFile

_COPY = re.compile(r"(?:v_mov_b(?:32|64)|s_mov_b(?:32|64))(?:_e32|_e64)?")


def is_copy(decoded: Decoded) -> bool:
    """Whether an instruction copies registers, in the lanes that it writes. Lane movements (DPP) do not count."""
    return not decoded.modifiers and copies(decoded.mnemonic, decoded.operands)


def copies(mnemonic: str, operands: Sequence[Operand]) -> bool:
    """The same of a mnemonic and its operands, for halves of dual instructions."""
    if _COPY.fullmatch(mnemonic) is None or len(operands) != 2:
        return False
    into, source = operands
    if into.registers is None or source.registers is None or source.negated or source.absolute or into.half:
        return False
    is_itself = source.registers.file is not RegisterFile.NAMED or NAMED_SPANS.get(source.text) == source.registers
    return is_itself and not source.text.startswith("src_") and into.registers.count == source.registers.count
