"""The words of a proposer outside of the process: JSON documents, one a line. See docs/proposers.md.

    task      to it    the kernel with ids, facts, limits; the first line
    script    from it  edits for that kernel
    verdict   to it    what the gates said about the script; the answer to each
    done      from it  it has no more ideas

What comes in is data from a stranger: it is validated against the schema, must name the kernel of the task, and its
`origin` is cut and put behind the proposer's name, so that it cannot pass for another. What an edit's
`text` claims is never believed; the ledger shows the text of the code that was decoded.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from asmevo.analysis.pressure import register_use
from asmevo.gates.gate import Verdict
from asmevo.program.edit import Edit, EditScript
from asmevo.proposers.proposer import Facts, ProposerError

SCHEMA: Literal["asmevo.proposer/1"] = "asmevo.proposer/1"
_ORIGIN_CHARACTERS = 200
_EDITS_AN_INSTRUCTION, _EDITS_BESIDES = 2, 64


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class InstructionText(_Message):
    """One instruction: `id` is what edits name, `code` its machine code in hexadecimal."""

    id: int
    text: str
    code: str


class BlockText(_Message):
    """A basic block and its labels; `loop_depth` 0 is outside of every loop."""

    index: int
    labels: tuple[str, ...]
    successors: tuple[int, ...]
    loop_depth: int
    instructions: tuple[InstructionText, ...]


class KernelText(_Message):
    """The kernel; `hash` is the `base` of every script for it."""

    name: str
    hash: str
    target: str
    wave_size: int
    blocks: tuple[BlockText, ...]


class TaskFacts(_Message):
    """`cost` is the kernel's cycles as a share of the original's, `registers` the highest use by file,
    `hot_blocks` block indices worth work first, `next_id` the first id free for an insertion."""

    cost: float
    memory: str
    registers: dict[str, int]
    hot_blocks: tuple[int, ...]
    next_id: int


class TaskLimits(_Message):
    """`seconds` for the whole conversation, `message_bytes` for one line, `scripts` in all."""

    seconds: float
    message_bytes: int
    scripts: int


class Task(_Message):
    """The first line."""

    schema_: Literal["asmevo.proposer/1"] = Field(default=SCHEMA, alias="schema")
    type: Literal["task"] = "task"
    kernel: KernelText
    facts: TaskFacts
    limits: TaskLimits


class Feedback(_Message):
    """What the gates said: the gate that decided, its reason, the ids that it names."""

    type: Literal["verdict"] = "verdict"
    accepted: bool
    gate: str
    kind: str
    reason: str
    instructions: tuple[int, ...]


class Script(_Message):
    """A proposal. `base` and `kernel` are those of the task."""

    type: Literal["script"]
    base: str
    kernel: str
    edits: tuple[Edit, ...]
    origin: str = ""


class Done(_Message):
    """Nothing more."""

    type: Literal["done"]


Answer = Annotated[Script | Done, Field(discriminator="type")]
_ANSWER: TypeAdapter[Script | Done] = TypeAdapter(Answer)


def task_line(facts: Facts, limits: TaskLimits) -> bytes:
    """The task as it is sent."""
    kernel, flow = facts.kernel, facts.flow
    blocks = tuple(
        BlockText(
            index=block.index,
            labels=block.labels,
            successors=flow.successors[block.index],
            loop_depth=flow.loop_depth[block.index],
            instructions=tuple(
                InstructionText(id=each.id, text=each.text, code=each.decoded.code.hex()) for each in block.instructions
            ),
        )
        for block in kernel.blocks
    )
    use = register_use(kernel)
    known = TaskFacts(
        cost=facts.cost(kernel),
        memory=facts.memory,
        registers={"vgpr": use.vgprs, "agpr": use.agprs, "sgpr": use.sgprs},
        hot_blocks=facts.hot_blocks,
        next_id=facts.next_id(),
    )
    text = KernelText(
        name=kernel.name, hash=kernel.hash, target=kernel.target.name, wave_size=kernel.wave_size, blocks=blocks
    )
    return _line(Task(kernel=text, facts=known, limits=limits))


def feedback_line(accepted: bool, verdict: Verdict | None) -> bytes:
    """The answer to a script."""
    gate, kind, reason = (verdict.gate, verdict.kind.value, verdict.reason) if verdict else ("", "", "")
    ids = verdict.instructions if verdict else ()
    return _line(Feedback(accepted=accepted, gate=gate, kind=kind, reason=reason, instructions=ids))


def read_answer(line: bytes, proposer: str, facts: Facts) -> EditScript | None:
    """The script in a line, None for `done`. Raises ProposerError for anything else."""
    try:
        answer = _ANSWER.validate_json(line)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])[:_ORIGIN_CHARACTERS]
        what = f"{place or 'document'}: {first['msg'][:_ORIGIN_CHARACTERS]}"
        raise ProposerError(f"sent a line that is not of schema {SCHEMA}: {what}") from error
    if isinstance(answer, Done):
        return None
    if (answer.base, answer.kernel) != (facts.kernel.hash, facts.kernel.name):
        raise ProposerError(f"sent a script for another kernel ({answer.kernel[:60]}, base {answer.base[:12]})")
    most = _EDITS_AN_INSTRUCTION * len(facts.kernel.instructions) + _EDITS_BESIDES
    if len(answer.edits) > most:
        raise ProposerError(f"sent a script of {len(answer.edits)} edits, at most {most} are taken for this kernel")
    origin = f"{proposer}: {answer.origin[:_ORIGIN_CHARACTERS]}".rstrip(": ")
    return EditScript(base=answer.base, kernel=answer.kernel, edits=answer.edits, origin=origin)


def message_schema() -> dict[str, Any]:
    """JSON schemas of the four messages by name, for the documentation."""
    kinds: tuple[type[BaseModel], ...] = (Task, Feedback, Script, Done)
    return {kind.__name__.lower(): kind.model_json_schema() for kind in kinds}


def _line(message: BaseModel) -> bytes:
    return message.model_dump_json(by_alias=True).encode() + b"\n"
