"""Waits over the whole kernel: one is taken out, and whatever then lacks a wait gets one of its own, where it is used.

That moves a wait from the end of a block into its successors, to the first use on each path; it splits a wait for
zero into counted ones, as many as there are users; and where a wait stood too early, it sinks.

The other direction is `hoisted`: what a loop waits for and was begun in front of it is waited for in front of it, once.
The wait in the loop goes, and comes back weaker if it has other work.

How what lacks is found: the wait-counter analysis of the changed kernel gives the state in front of each block; a block
is walked, and in front of an instruction that is not safe the largest sufficient wait is put (as `placement` does).
Then the analysis runs again, since a wait in one block helps those behind it. That ends, as waits are only added.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from asmevo.analysis.control_flow import Loop
from asmevo.analysis.events import effect_of
from asmevo.analysis.wait_counters import WaitAnalysis
from asmevo.program.instruction import Instruction
from asmevo.program.instruction_text import encode_text
from asmevo.program.kernel import Block, Kernel
from asmevo.proposers.placement import UNNAMED, clause_heads, needed_in_front, wait_texts
from asmevo.proposers.proposer import Facts

_MOST_ROUNDS = 24

Changed = tuple[tuple[Block, ...], str]
"""New blocks of the kernel, and what was done in words."""


def spread(facts: Facts, waits: Sequence[Instruction]) -> Iterator[Changed]:
    """Each of the waits taken out and put where it is needed, if that is somewhere else."""
    for wait in waits:
        blocks = mended(facts, _without(facts.kernel, wait.id))
        if blocks is not None and not _same_code(blocks, facts.kernel):
            yield blocks, f"spread `{wait}` to where it is needed"


def hoisted(facts: Facts, waits: Sequence[Instruction]) -> Iterator[Changed]:
    """Each wait of a loop put in front of the loop, as far as what it waits for was begun there."""
    kernel, flow = facts.kernel, facts.flow
    block_of = {instruction.id: block.index for block, _, instruction in kernel.positions()}
    for wait in waits:
        loop = flow.innermost_loop(block_of[wait.id])
        outside = _in_front_of(facts, loop) if loop is not None else None
        if outside is None:
            continue
        early = Instruction(facts.next_id(), wait.decoded)
        blocks = [list(block.instructions) for block in kernel.blocks]
        end = len(blocks[outside]) - ("terminator" in blocks[outside][-1].flags if blocks[outside] else 0)
        blocks[outside].insert(end, early)
        blocks[block_of[wait.id]] = [each for each in blocks[block_of[wait.id]] if each.id != wait.id]
        enough = mended(facts, _with(kernel, blocks))
        if enough is not None:
            yield enough, f"wait for `{wait}` in front of the loop"


def _in_front_of(facts: Facts, loop: Loop) -> int | None:
    """The one block from which a loop is entered, if there is only one."""
    outside = [block for block in facts.flow.predecessors[loop.header] if block not in loop.blocks]
    return outside[0] if len(outside) == 1 else None


def mended(facts: Facts, kernel: Kernel) -> tuple[Block, ...] | None:
    """The blocks of a kernel with all waits that it lacks; None if that does not end."""
    next_id = max(facts.next_id(), max(instruction.id for instruction in kernel.instructions) + 1)
    for _ in range(_MOST_ROUNDS):
        analysis = WaitAnalysis(kernel, facts.waits)
        reached = (block for block in analysis.flow.reverse_postorder if analysis.entries[block] is not None)
        block, lacking = next(((b, lacks) for b in reached if (lacks := _lacking(facts, analysis, b))), (-1, {}))
        if not lacking:
            return kernel.blocks
        blocks = [list(each.instructions) for each in kernel.blocks]
        blocks[block] = []
        for instruction in kernel.blocks[block].instructions:
            for text in lacking.get(instruction.id, ()):
                blocks[block].append(Instruction(next_id, encode_text(text, kernel.context)))
                next_id += 1
            blocks[block].append(instruction)
        kernel = _with(kernel, blocks)
    return None


def _lacking(facts: Facts, analysis: WaitAnalysis, block: int) -> dict[int, list[str]]:
    """Waits that a block lacks, by the id of the instruction that they go in front of (of a clause, its head)."""
    target, context = analysis.target, analysis.kernel.context
    code = analysis.kernel.blocks[block].instructions
    id_of, heads = {id(each): each.id for each in code}, clause_heads(code)
    walk = analysis.walk(block)
    found: dict[int, list[str]] = {}
    for instruction in code:
        needed = needed_in_front(walk, instruction, facts.may_be_under_way, target)
        for text in wait_texts(needed, target) if needed else ():
            found.setdefault(id_of[heads.get(id(instruction), id(instruction))], []).append(text)
            wait = Instruction(UNNAMED, encode_text(text, context))
            walk.step(wait, effect_of(wait.decoded, target))
        walk.step(instruction, effect_of(instruction.decoded, target))
    return found


def _without(kernel: Kernel, wait: int) -> Kernel:
    return _with(kernel, [[each for each in block.instructions if each.id != wait] for block in kernel.blocks])


def _with(kernel: Kernel, code: Sequence[Sequence[Instruction]]) -> Kernel:
    """The kernel with other code; blocks that stay the same stay the same objects."""
    blocks = (
        block if tuple(new) == block.instructions else replace(block, instructions=tuple(new))
        for block, new in zip(kernel.blocks, code, strict=True)
    )
    return kernel.with_blocks(tuple(blocks))


def _same_code(blocks: Sequence[Block], kernel: Kernel) -> bool:
    return all(
        [each.decoded for each in new.instructions] == [each.decoded for each in old.instructions]
        for new, old in zip(blocks, kernel.blocks, strict=True)
    )
