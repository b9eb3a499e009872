"""From LLVM's text of one instruction to its encoding on a target: how proposers make new instructions."""

from __future__ import annotations

import functools

from asmevo.program.codeobject import CodeObject
from asmevo.program.decode import DecodingContext, decode_code
from asmevo.program.errors import EditError
from asmevo.program.instruction import Decoded
from asmevo.program.source import respell_depctr
from asmevo.toolchain import AssemblyError, toolchain

# No instruction is longer (bytes); LLVM pads code behind it, which need not be decoded.
_LONGEST = 24


@functools.lru_cache(maxsize=1 << 14)
def encode_text(text: str, context: DecodingContext) -> Decoded:
    """The encoding that LLVM gives a text. Raises EditError with LLVM's words when it refuses."""
    try:
        data = toolchain().assemble(f"{respell_depctr(text, context.target)}\n", context.processor, text)
    except AssemblyError as error:
        raise EditError(f"LLVM refuses `{text}`: {error.diagnostics[0].message}") from error
    code = next((section.data for section in CodeObject(data, text).sections if section.name == ".text"), b"")
    found = decode_code(code[:_LONGEST], context)
    if not found:
        raise EditError(f"`{text}` is no instruction")
    return found[0]


def assembles_back(decoded: Decoded, context: DecodingContext) -> bool:
    """Whether LLVM makes the same bytes of an instruction's text."""
    try:
        return encode_text(decoded.text, context).code == decoded.code
    except EditError:
        return False
