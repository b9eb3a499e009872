"""Instructions as text that assembles to exactly their bytes.

LLVM's text does not show every bit: unused fields, a literal where an inline constant would do, encodings
that newer compilers write and this LLVM refuses. Which ones, only the assembler can tell, so it is asked:
all texts that have not been tried yet go through it at once, each behind a label of its own, the refused
ones are taken out by LLVM's own complaints, and bytes are compared. What does not come back is spelled as
`.long` words with the text as a comment. The answers depend on text and processor only and are kept.
"""

from __future__ import annotations

from collections.abc import Iterable

from asmevo.program.codeobject import CodeObject
from asmevo.program.instruction import Decoded
from asmevo.program.source import respell_depctr
from asmevo.target import Target
from asmevo.toolchain import AssemblyError, Processor, toolchain

_PROBE = "asmevo.probe."
_MOST_ATTEMPTS = 8

_FAITHFUL: dict[Processor, dict[tuple[str, bytes], bool]] = {}


def learn(decoded: Iterable[Decoded], target: Target, processor: Processor) -> None:
    """Finds out for all of these at once whether their text is faithful."""
    known = _FAITHFUL.setdefault(processor, {})
    fresh = {(each.text, each.code) for each in decoded} - known.keys()
    questions = sorted(each for each in fresh if not each[0].startswith("."))
    known.update(dict.fromkeys(fresh, False))
    texts = [respell_depctr(text, target) for text, _ in questions]
    asked = list(range(len(questions)))
    for _ in range(_MOST_ATTEMPTS):
        if not asked:
            return
        lines = [f"{_PROBE}{number}: {texts[number]}" for number in asked]
        try:
            data = toolchain().assemble("\n".join(lines), processor, "<probe>")
        except AssemblyError as error:
            refused = {diagnostic.line - 1 for diagnostic in error.diagnostics}
            asked = [number for place, number in enumerate(asked) if place not in refused]
            continue
        answers = _bytes_by_probe(CodeObject(data, "<probe>"))
        known.update({questions[number]: answers.get(number) == questions[number][1] for number in asked})
        return


def _bytes_by_probe(image: CodeObject) -> dict[int, bytes]:
    code = next(section for section in image.sections if section.name == ".text")
    starts = sorted(
        (symbol.value, int(symbol.name.removeprefix(_PROBE)))
        for symbol in image.symbols
        if symbol.name.startswith(_PROBE)
    )
    ends = [start for start, _ in starts[1:]] + [code.size]
    return {number: code.data[start:end] for (start, number), end in zip(starts, ends, strict=True)}


def is_faithful(decoded: Decoded, target: Target, processor: Processor) -> bool:
    """Whether the instruction's text assembles to its bytes."""
    key = (decoded.text, decoded.code)
    if key not in _FAITHFUL.get(processor, {}):
        learn([decoded], target, processor)
    return _FAITHFUL[processor][key]


def spell(decoded: Decoded, target: Target, processor: Processor) -> str:
    """One line that assembles to exactly the instruction's bytes."""
    if is_faithful(decoded, target, processor):
        return decoded.text
    return f"{data_words(decoded.code)}{'' if decoded.text.startswith('.') else f' ; {decoded.text}'}"


def data_words(code: bytes) -> str:
    """Bytes as one data directive: dwords where the length allows it."""
    if len(code) % 4:
        return ".byte " + ", ".join(f"{byte:#04x}" for byte in code)
    words = (int.from_bytes(code[place : place + 4], "little") for place in range(0, len(code), 4))
    return ".long " + ", ".join(f"{word:#010x}" for word in words)
