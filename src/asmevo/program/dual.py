"""Dual instructions that newer compilers write and LLVM's assembler here refuses.

From gfx12 on both halves of a dual instruction may read one and the same register in the same operand place;
older assemblers still demand different register banks. LLVM decodes such a word, so the statement can be had
in three steps: assemble it with other registers in the second half's sources, put the right numbers into
those fields, and accept the result only if LLVM decodes it to the very statement.

Fields of the second dword (RDNA4 instruction set architecture, VOPD): SRC0Y bits 0 to 8, where a VGPR is 256
plus its number, and VSRC1Y bits 9 to 16.
"""

from __future__ import annotations

import re

from asmevo.program.codeobject import CodeObject
from asmevo.toolchain import AssemblyError, Processor, toolchain

_BANKS = "must use different VGPR banks"
_GPUS = ("gfx12",)
_HALF = r"(v_dual_\w+\s+v\d+\s*,\s*)(\S+)(\s*,\s*)v(\d+)"
_HALVES = re.compile(rf"^{_HALF}\s*::\s*{_HALF}$")
_VGPR = re.compile(r"^v(\d+)$")
_FIRST_VGPR = 256
_SRC0Y_MASK, _VSRC1Y_SHIFT, _VSRC1Y_MASK = 0x1FF, 9, 0xFF << 9
_BANKS_COUNT = 4


def dual_code(statement: str, complaint: str, processor: Processor) -> bytes | None:
    """The code of a refused dual instruction; None when it was refused for another reason than its banks."""
    if _BANKS not in complaint or not processor.cpu.startswith(_GPUS):
        return None
    return _encode(statement, processor)


def _encode(statement: str, processor: Processor) -> bytes | None:
    found = _HALVES.match(statement)
    if found is None:
        return None
    first, source_x, comma_x, one_x, second, source_y, comma_y, one_y = found.groups()
    vgpr_y = _VGPR.match(source_y)
    shared = source_x == source_y if vgpr_y else False
    if not shared and one_x != one_y:
        return None
    stand_in_0 = f"v{_other_bank(source_x)}" if shared else source_y
    stand_in_1 = f"v{_other_bank(f'v{one_x}')}" if one_x == one_y else f"v{one_y}"
    stood_in = f"{first}{source_x}{comma_x}v{one_x} :: {second}{stand_in_0}{comma_y}{stand_in_1}"
    try:
        code = code_of(stood_in, processor)
    except AssemblyError:
        return None
    word = int.from_bytes(code[4:8], "little")
    word = word & ~_VSRC1Y_MASK | int(one_y) << _VSRC1Y_SHIFT
    if shared and vgpr_y is not None:
        word = word & ~_SRC0Y_MASK | _FIRST_VGPR + int(vgpr_y[1])
    code = code[:4] + word.to_bytes(4, "little") + code[8:]
    (decoded,) = toolchain().disassemble(code, processor)
    return code if decoded.text is not None and _same(decoded.text, statement) else None


def _other_bank(register: str) -> int:
    return (int(register[1:]) + 1) % _BANKS_COUNT


def code_of(statement: str, processor: Processor) -> bytes:
    """The code of one statement. Raises AssemblyError."""
    image = CodeObject(toolchain().assemble(statement, processor), "<statement>")
    return next(section.data for section in image.sections if section.name == ".text")


def _same(text: str, other: str) -> bool:
    return re.sub(r"\s+", "", text) == re.sub(r"\s+", "", other)
