"""What a language model may say: ideas, each a few edits in terms of instruction ids and instruction text.

Three edits, no more: move an instruction, replace one by a text, insert a copy of one. The texts are encoded here by
the toolchain, so a model never hands in machine code, and `one_instruction` lets nothing through to the assembler that
could be a directive, a label or a second statement. Where an answer stands in a code fence, behind a model's thoughts
or between words, the outermost braces are taken.
"""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from asmevo.program.edit import EditScript, Insert, Move, Replace
from asmevo.program.errors import EditError
from asmevo.program.instruction_text import encode_text
from asmevo.program.kernel import Kernel

LONGEST_ANSWER = 1 << 18
"""Characters."""
_MOST_EDITS = 256
_LONGEST_TEXT = 200
_SHOWN_CHARACTERS = 160
# A mnemonic, then operands and modifiers. No quotes, `=`, `;`, `#`, `/`, `!` or line breaks, and a period only behind
# a letter or digit (`v1.l`, `0.5`), so that no label can be followed by a directive.
_INSTRUCTION = re.compile(r"[a-z][a-z0-9_]*(?: (?:[A-Za-z0-9_\[\]:,|()+& -]|(?<=[A-Za-z0-9])\.)*)?")


class AnswerError(Exception):
    """An answer is not of the schema; the sentence is fit to be sent back."""


class _Said(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class MoveIdea(_Said):
    """Put instruction `id` before or after instruction `anchor`."""

    kind: Literal["move"]
    id: int
    place: Literal["before", "after"]
    anchor: int


class ReplaceIdea(_Said):
    """Give instruction `id` another text."""

    kind: Literal["replace"]
    id: int
    text: str


class CopyIdea(_Said):
    """Insert a copy of instruction `id` before or after instruction `anchor`."""

    kind: Literal["copy"]
    id: int
    place: Literal["before", "after"]
    anchor: int


class Idea(_Said):
    """Edits that belong together, and why they should pay."""

    why: str
    edits: tuple[MoveIdea | ReplaceIdea | CopyIdea, ...]


class Answer(_Said):
    """One turn of a model; no ideas means that it has no more."""

    ideas: tuple[Idea, ...]


def answer_schema() -> dict[str, Any]:
    """The JSON schema that backends are asked to force: every field required, nothing else allowed."""
    return Answer.model_json_schema()


def read_answer(text: str) -> Answer:
    """The ideas in a model's text. Raises AnswerError."""
    if len(text) > LONGEST_ANSWER:
        raise AnswerError(f"the answer has more than {LONGEST_ANSWER} characters")
    said = text.rpartition("</think>")[2]
    begin, end = said.find("{"), said.rfind("}")
    if begin < 0 or end < begin:
        raise AnswerError("the answer is not JSON")
    try:
        return Answer.model_validate_json(said[begin : end + 1])
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])[:_SHOWN_CHARACTERS] or "its root"
        words = first["msg"][:_SHOWN_CHARACTERS]
        raise AnswerError(f"the answer breaks the schema at {place}: {words}") from None


def script_of(idea: Idea, kernel: Kernel, allowed: frozenset[int], next_id: int, origin: str) -> EditScript:
    """The script for an idea; copies get ids from `next_id` on, in order.

    Raises EditError for ids that are not `allowed` and texts that are no instruction.
    """
    if not idea.edits:
        raise EditError("the idea has no edits")
    if len(idea.edits) > _MOST_EDITS:
        raise EditError(f"the idea has more than {_MOST_EDITS} edits")
    edits: list[Move | Replace | Insert] = []
    known = set(allowed)
    for each in idea.edits:
        named = (each.id,) if isinstance(each, ReplaceIdea) else (each.id, each.anchor)
        for id_ in named:
            if id_ not in known:
                raise EditError(f"the window has no instruction {id_}")
        if isinstance(each, ReplaceIdea):
            old = kernel.by_id.get(each.id)
            if old is not None and old.target is not None:
                raise EditError(f"`{old}` is a branch and cannot be replaced")
            code = encode_text(one_instruction(each.text), kernel.context)
            edits.append(Replace(id=each.id, code=code.code.hex(), text=code.text))
            continue
        before, after = (each.anchor, None) if each.place == "before" else (None, each.anchor)
        if isinstance(each, MoveIdea):
            edits.append(Move(id=each.id, before=before, after=after))
            continue
        edits.append(_copy(kernel, each.id, next_id, before, after))
        known.add(next_id)
        next_id += 1
    return EditScript(base=kernel.hash, kernel=kernel.name, edits=tuple(edits), origin=origin)


def _copy(kernel: Kernel, source: int, new: int, before: int | None, after: int | None) -> Insert:
    original = kernel.by_id.get(source)
    if original is None:
        raise EditError(f"a copy can be made of the kernel's own instructions only, {source} is none")
    if original.reference is not None or original.target is not None:
        raise EditError(f"`{original}` depends on its place and cannot be copied")
    return Insert(id=new, code=original.decoded.code.hex(), text=original.text, before=before, after=after)


def one_instruction(text: str) -> str:
    """The text, if it can be nothing but one instruction. Raises EditError."""
    stripped = text.strip(" ")
    if len(stripped) > _LONGEST_TEXT or not _INSTRUCTION.fullmatch(stripped):
        shown = stripped[:_SHOWN_CHARACTERS].encode("unicode_escape").decode()
        raise EditError(f"`{shown}` is not the text of one instruction")
    return stripped
