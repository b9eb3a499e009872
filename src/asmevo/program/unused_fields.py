"""Source fields that an instruction does not have, as the compiler that wrote the text encodes them.

A VOP3 encoding has room for three sources. In the fields that an instruction does not use, LLVM up to 22 writes 0
and newer ones the inline constant 0 (0x80); the hardware looks at neither. A text says by the spelling of its target
which compiler wrote it, and the object should be that compiler's to the byte. Whether a field is unused is not looked
up but asked: if the changed word still decodes to the same text, and only by the rule for newer words, the field is.
"""

from __future__ import annotations

import functools
import re

from asmevo.program.codeobject import CodeObject
from asmevo.program.source import SourceText
from asmevo.toolchain import Processor, toolchain

_NEWER_TARGET = re.compile(r'^\s*\.amdgcn_target\s+"amdgpu\d+\.\d+-', re.M)
_VOP3_FAMILIES = ("gfx10", "gfx11", "gfx12")
_VOP3 = 0b110101  # bits 31:26 of the first dword on gfx10 and later
_CONSTANT_ZERO = 0x80
_SOURCE_MASK = 0x1FF
_SOURCE1, _SOURCE2 = 9, 18  # lowest bits of the fields in the second dword
_DWORDS = 8  # bytes of a VOP3 encoding without its literal


def with_unused_fields(data: bytes, source: SourceText, file: str) -> bytes:
    """A relocatable object with unused source fields as the text's compiler writes them; the same size."""
    if _NEWER_TARGET.search(source.text) is None or not source.processor.cpu.startswith(_VOP3_FAMILIES):
        return data
    changed = bytearray(data)
    for section in CodeObject(data, file).sections:
        if not section.executable:
            continue
        for word in toolchain().disassemble(section.data, source.processor):
            code = section.data[word.offset : word.offset + word.size]
            if word.text is not None and word.exact and len(code) >= _DWORDS and code[3] >> 2 == _VOP3:
                start = section.offset + word.offset
                changed[start : start + word.size] = _newer(code, word.text, source.processor)
    return bytes(changed)


@functools.lru_cache(maxsize=1 << 14)
def _newer(code: bytes, text: str, processor: Processor) -> bytes:
    second = int.from_bytes(code[4:8], "little")
    for positions in ((_SOURCE1, _SOURCE2), (_SOURCE2,)):
        if any(second >> position & _SOURCE_MASK for position in positions):
            continue
        fields = sum(_CONSTANT_ZERO << position for position in positions)
        other = code[:4] + (second | fields).to_bytes(4, "little") + code[8:]
        (found, *more) = toolchain().disassemble(other, processor)
        if not more and found.text == text and not found.exact:
            return other
    return code
