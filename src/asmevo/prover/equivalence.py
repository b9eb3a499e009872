"""Equivalence of two versions of a kernel that have the same blocks.

Idea. Both kernels have the same control flow graph. For each block, both versions are run on the same
initial symbols (`symbolic`). If every register that may be read later holds the same value, memory is
in the same state and the branch decides on the same value, then, by induction over the path taken, any
run of one kernel is matched by a run of the other: the same bytes are written in the same order and both
end. Blocks that hold the same encodings in the same order need no run.

"May be read later" is liveness of the parent; since all blocks agree on live values, the candidate reads
nothing else (a candidate block that read a further register would have an input the parent's block does not have, and
its value would differ).

The answer is `equivalent`, or `different` with the first thing that differs, or `undecided` with the
instruction that has no meaning here. The theorem assumes that each value is ready when it is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from asmevo.analysis.liveness import Liveness
from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Block, Kernel
from asmevo.program.registers import UNIT_COUNT, register_names, units_of
from asmevo.prover.symbolic import Outcome, Values, leaves_block, run_block


_EVERYTHING = (1 << UNIT_COUNT) - 1


class Answer(Enum):
    """What the prover can say."""

    EQUIVALENT = "equivalent"
    DIFFERENT = "different"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Proof:
    """The answer, in one sentence why, the blocks that had to be run, and the instructions to blame."""

    answer: Answer
    reason: str
    blocks: tuple[int, ...] = ()
    instructions: tuple[int, ...] = ()


def prove_equivalent(parent: Kernel, candidate: Kernel, liveness: Liveness | None = None) -> Proof:
    """Compares two kernels block by block. `liveness` of the parent may be handed in to save time."""
    refusal = _same_structure(parent, candidate)
    if refusal is not None:
        return refusal
    changed = [
        index
        for index, (old, new) in enumerate(zip(parent.blocks, candidate.blocks, strict=True))
        if old is not new and not _same_code(old, new)
    ]
    refusal = _positions_matter(parent, candidate) or _entries(parent, candidate) if changed else None
    if refusal is not None:
        return refusal
    live = liveness if liveness is not None else Liveness(parent)
    for index in changed:
        answer = _compare(parent.blocks[index], candidate.blocks[index], _live_at_exit(parent.blocks[index], live))
        if answer is not None:
            return answer
    return Proof(Answer.EQUIVALENT, _sentence(changed), tuple(changed))


def _live_at_exit(block: Block, liveness: Liveness) -> int:
    """Units that may be read after the block; a callee may read anything that is there when it is called."""
    calls = block.instructions and "call" in block.instructions[-1].flags
    return _EVERYTHING if calls else liveness.live_out(block.index)


def _sentence(changed: list[int]) -> str:
    if not changed:
        return "the code is the same"
    listed = ", ".join(map(str, changed))
    word = "block" if len(changed) == 1 else "blocks"
    return f"{word} {listed}: equal values in every live register, equal memory effects in equal order"


def _same_code(old: Block, new: Block) -> bool:
    if len(old.instructions) != len(new.instructions):
        return False
    return all(
        a is b or (a.decoded is b.decoded and a.target == b.target and a.reference == b.reference and a.id == b.id)
        for a, b in zip(old.instructions, new.instructions, strict=True)
    )


def _same_structure(parent: Kernel, candidate: Kernel) -> Proof | None:
    if len(parent.blocks) != len(candidate.blocks):
        return Proof(Answer.UNDECIDED, "the candidate has another number of blocks")
    for old, new in zip(parent.blocks, candidate.blocks, strict=True):
        if old is new:
            continue
        if old.labels != new.labels:
            return Proof(Answer.UNDECIDED, f"block {old.index} has other labels")
        misplaced = _misplaced_exit(old, new)
        if misplaced is not None:
            return misplaced
    return None


def _misplaced_exit(old: Block, new: Block) -> Proof | None:
    """Control may leave a block only at its end, in both versions through the same instruction."""
    exits = [i for i in new.instructions if leaves_block(i)]
    if exits and (len(exits) > 1 or exits[0] is not new.instructions[-1]):
        words = f"block {old.index}: `{exits[0]}` is not at the end"
        return Proof(Answer.DIFFERENT, words, (old.index,), (exits[0].id,))
    before = [i for i in old.instructions if leaves_block(i)]
    if [(i.id, i.target) for i in before] != [(i.id, i.target) for i in exits]:
        blamed = tuple(i.id for i in before or exits)
        return Proof(Answer.DIFFERENT, f"block {old.index} ends with another branch", (old.index,), blamed)
    return None


def _positions_matter(parent: Kernel, candidate: Kernel) -> Proof | None:
    """A program counter that is read but not part of a known reference must not see another layout."""
    linked = {i.reference.getpc for i in parent.instructions if i.reference is not None}
    for instruction in parent.instructions:
        if instruction.mnemonic != "s_getpc_b64" or instruction.id in linked:
            continue
        if _offset(parent, instruction.id) != _offset(candidate, instruction.id):
            return Proof(
                Answer.UNDECIDED,
                f"`{instruction}` (#{instruction.id}) would read another program counter; its use is not understood",
                (),
                (instruction.id,),
            )
    return None


def _entries(parent: Kernel, candidate: Kernel) -> Proof | None:
    """Launches with preloaded arguments enter inside the code: the same block must start there."""
    for offset in parent.descriptor.entry_offsets[1:] if parent.descriptor is not None else ():
        before, after = _block_at(parent, offset), _block_at(candidate, offset)
        if before is None and _code_reaches(parent, offset):
            return Proof(Answer.UNDECIDED, f"launches enter {offset} bytes behind the start, where no block begins")
        if before != after:
            words = f"block {before} must start {offset} bytes behind the kernel, where launches enter"
            return Proof(Answer.DIFFERENT, words, () if before is None else (before,))
    return None


def _block_at(kernel: Kernel, offset: int) -> int | None:
    place = 0
    for block in kernel.blocks:
        if place == offset:
            return block.index
        place += sum(instruction.size for instruction in block.instructions)
    return None


def _code_reaches(kernel: Kernel, offset: int) -> bool:
    return kernel.code_size() > offset


def _offset(kernel: Kernel, id_: int) -> int | None:
    offset = 0
    for instruction in kernel.instructions:
        if instruction.id == id_:
            return offset
        offset += instruction.size
    return None


def _compare(old: Block, new: Block, live_out: int) -> Proof | None:
    values = Values()
    before, after = run_block(old.instructions, values), run_block(new.instructions, values)
    for outcome in (before, after):
        if outcome.unknown is not None:
            return Proof(
                Answer.UNDECIDED,
                f"`{outcome.unknown}` (#{outcome.unknown.id}) has no known meaning",
                (old.index,),
                (outcome.unknown.id,),
            )
    return _memory_difference(old, before, after) or _register_difference(old, new, before, after, live_out)


def _memory_difference(old: Block, before: Outcome, after: Outcome) -> Proof | None:
    if before.memory == after.memory:
        return None
    for place, (was, instruction) in enumerate(before.effects):
        now = after.effects[place] if place < len(after.effects) else None
        if now is None or now[0] != was:
            culprit = f"; the candidate has `{now[1]}` (#{now[1].id})" if now is not None else " any more"
            words = f"block {old.index}: the memory effect of `{instruction}` (#{instruction.id}) is not the same"
            return Proof(Answer.DIFFERENT, words + culprit, (old.index,), (instruction.id,))
    extra = after.effects[len(before.effects)][1]
    words = f"block {old.index}: `{extra}` (#{extra.id}) is a memory effect that the parent does not have"
    return Proof(Answer.DIFFERENT, words, (old.index,), (extra.id,))


def _register_difference(old: Block, new: Block, before: Outcome, after: Outcome, live_out: int) -> Proof | None:
    if before.controls != after.controls:
        return Proof(Answer.DIFFERENT, f"block {old.index}: its control instructions changed", (old.index,))
    if before.branch != after.branch:
        last = old.instructions[-1]
        words = f"block {old.index}: `{last}` (#{last.id}) decides on another value"
        return Proof(Answer.DIFFERENT, words, (old.index,), (last.id,))
    touched = before.registers.keys() | after.registers.keys()
    wrong = 0
    for unit in touched:
        if before.register(unit) != after.register(unit) and live_out >> unit & 1:
            wrong |= 1 << unit
    if not wrong:
        return None
    unit = next(units_of(wrong))
    blamed = [i for i in (_last_writer(old, unit), _last_writer(new, unit)) if i is not None]
    who = " against ".join(f"`{i}` (#{i.id})" for i in blamed)
    words = f"block {old.index}: {register_names(wrong)} differs at the end ({who})"
    return Proof(Answer.DIFFERENT, words, (old.index,), tuple(i.id for i in blamed))


def _last_writer(block: Block, unit: int) -> Instruction | None:
    return next((i for i in reversed(block.instructions) if i.writes >> unit & 1), None)
