"""From LLVM's text of one instruction to its encoding on a target: how proposers make new instructions.

Starting LLVM costs more than one instruction does, so `encode_all` asks for many at once; what LLVM said of a text is
remembered either way.
"""

from __future__ import annotations

from collections.abc import Iterable

from asmevo.program.codeobject import CodeObject
from asmevo.program.decode import DecodingContext, decode_code
from asmevo.program.errors import EditError
from asmevo.program.instruction import Decoded
from asmevo.program.source import respell_depctr
from asmevo.toolchain import AssemblyError, toolchain

# No instruction is longer (bytes); LLVM pads code behind it, which need not be decoded.
_LONGEST = 24
_MOST_REMEMBERED = 1 << 15

_ENCODED: dict[tuple[str, DecodingContext], Decoded | EditError] = {}


def encode_text(text: str, context: DecodingContext) -> Decoded:
    """The encoding that LLVM gives a text. Raises EditError with LLVM's words when it refuses."""
    found = _ENCODED.get((text, context))
    if found is None:
        found = _remember(text, context, _encode(text, context))
    if isinstance(found, EditError):
        raise EditError(str(found))
    return found


def encode_all(texts: Iterable[str], context: DecodingContext) -> list[Decoded | None]:
    """The encoding of each text, None for those that LLVM refuses; much quicker than one at a time."""
    wanted = list(texts)
    fresh = [text for text in dict.fromkeys(wanted) if (text, context) not in _ENCODED]
    for text, found in zip(fresh, _encode_together(fresh, context), strict=True):
        _remember(text, context, found)
    answers = (_ENCODED.get((text, context)) or _encode(text, context) for text in wanted)
    return [None if isinstance(answer, EditError) else answer for answer in answers]


def assembles_back(decoded: Decoded, context: DecodingContext) -> bool:
    """Whether LLVM makes the same bytes of an instruction's text."""
    try:
        return encode_text(decoded.text, context).code == decoded.code
    except EditError:
        return False


def all_assemble_back(encodings: Iterable[Decoded], context: DecodingContext) -> list[bool]:
    """The same of many at once."""
    known = list(encodings)
    found = encode_all([each.text for each in known], context)
    return [new is not None and new.code == old.code for new, old in zip(found, known, strict=True)]


def _remember(text: str, context: DecodingContext, found: Decoded | EditError) -> Decoded | EditError:
    if len(_ENCODED) >= _MOST_REMEMBERED:
        _ENCODED.clear()
    _ENCODED[text, context] = found
    return found


def _encode(text: str, context: DecodingContext) -> Decoded | EditError:
    try:
        code = _code_of(text, context)
    except AssemblyError as error:
        return EditError(f"LLVM refuses `{text}`: {error.diagnostics[0].message}")
    found = decode_code(code[:_LONGEST], context)
    return found[0] if found else EditError(f"`{text}` is no instruction")


def _encode_together(texts: list[str], context: DecodingContext) -> list[Decoded | EditError]:
    """All texts in one piece of code; where LLVM complains of lines, the others once more without them."""
    if len(texts) < 2 or any("\n" in text for text in texts):
        return [_encode(text, context) for text in texts]
    refused: dict[int, EditError] = {}
    try:
        code = _code_of("\n".join(texts), context)
    except AssemblyError as error:
        for each in error.diagnostics:
            if 0 < each.line <= len(texts):
                words = f"LLVM refuses `{texts[each.line - 1]}`: {each.message}"
                refused.setdefault(each.line - 1, EditError(words))
        if not refused:
            return [_encode(text, context) for text in texts]
        rest = iter(_encode_together([text for n, text in enumerate(texts) if n not in refused], context))
        return [refused[n] if n in refused else next(rest) for n in range(len(texts))]
    found = decode_code(code, context)[: len(texts)]
    astray = any(not each.mnemonic.startswith(text.split()[0]) for each, text in zip(found, texts, strict=False))
    if len(found) < len(texts) or astray:
        return [_encode(text, context) for text in texts]
    return list(found)


def _code_of(text: str, context: DecodingContext) -> bytes:
    data = toolchain().assemble(f"{respell_depctr(text, context.target)}\n", context.processor, text[:80])
    return next((section.data for section in CodeObject(data, text[:80]).sections if section.name == ".text"), b"")
