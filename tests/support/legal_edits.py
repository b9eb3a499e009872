"""Edits that change nothing, by construction: what the gates must let pass.

An operator gives edit scripts for a kernel, in an order that chance gives. Orders respect the dependence graph and are
put together again by the proposers' `Placement` (waits, no-ops and hints follow the order). A renaming exchanges
registers that carry nothing into or out of its region (a block, or all the code), everywhere in it at once; places
keep their remainder by four, on which banks, pairs and alignment depend.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace
from mutations import encoded, operand_places, with_code

from asmevo.analysis.dependence import clause_length
from asmevo.analysis.liveness import Liveness
from asmevo.analysis.wait_needs import wait_requirements
from asmevo.program.edit import EditScript, script_between
from asmevo.program.encoding import instruction_addresses
from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Block, Kernel
from asmevo.program.registers import RegisterFile, RegisterSpan
from asmevo.proposers.block_region import BlockRegion
from asmevo.proposers.local_search import orders_of
from asmevo.proposers.placement import Placement, wait_texts
from asmevo.proposers.proposer import Facts

_SMALLEST_BODY = 6
_MANY_MOVES = 8
_ALIGNMENT = 4


class LegalEdit(Struct, frozen=True):
    """One script, and in words what it does."""

    kind: str
    script: EditScript
    words: str


Operator = Callable[[Kernel, random.Random], Iterator[LegalEdit]]


def _reordered(kernel: Kernel, chance: random.Random, kind: str, moves: int) -> Iterator[LegalEdit]:
    facts = Facts(kernel, rng=chance)
    blocks = list(facts.hot_blocks)
    chance.shuffle(blocks)
    for index in blocks:
        placement = Placement(facts, index)
        if len(placement.body) < _SMALLEST_BODY:
            continue
        problem = BlockRegion(placement)
        orders = orders_of(problem)
        if not orders.movable:
            continue
        order = orders.neighbour(orders.start, moves, chance)
        changed = problem.rebuild(order) if order != orders.start else None
        if changed is not None:
            yield LegalEdit(kind, script_between(kernel, changed, kind), f"block {index}")


def block_reordered(kernel: Kernel, chance: random.Random) -> Iterator[LegalEdit]:
    """Many instructions of a block stand elsewhere between what they need and what needs them."""
    return _reordered(kernel, chance, "reordered", _MANY_MOVES)


def instruction_moved(kernel: Kernel, chance: random.Random) -> Iterator[LegalEdit]:
    """One does."""
    return _reordered(kernel, chance, "moved", 1)


# --- renamings ------------------------------------------------------------------------------------------------


def renamed_in_block(kernel: Kernel, chance: random.Random) -> Iterator[LegalEdit]:
    """Two groups of registers that live in one block only change their places there."""
    live = Liveness(kernel)
    blocks = list(kernel.blocks)
    chance.shuffle(blocks)
    for block in blocks:
        outside = live.live_in(block.index) | live.live_out(block.index)
        yield from _renamed(kernel, chance, [block], outside, "renamed in a block")


def renamed_everywhere(kernel: Kernel, chance: random.Random) -> Iterator[LegalEdit]:
    """Two groups of registers that the launch does not set change their places in all the code."""
    live = Liveness(kernel)
    yield from _renamed(kernel, chance, list(kernel.blocks), live.live_in(0), "renamed across blocks")


def _renamed(
    kernel: Kernel, chance: random.Random, region: list[Block], outside: int, kind: str
) -> Iterator[LegalEdit]:
    if any(each.flags & {"call", "indexed_def", "indexed_use"} for each in kernel.instructions):
        return
    code = [each for block in region for each in block.instructions]
    groups = [group for group in _groups(code) if not group.mask & outside]
    pairs = [
        (a, b)
        for place, a in enumerate(groups)
        for b in groups[place + 1 :]
        if a.count == b.count and (a.first - b.first) % _ALIGNMENT == 0
    ]
    for a, b in chance.sample(pairs, min(2, len(pairs))):
        changed = kernel
        for block in region:
            instead = [_exchanged(each, a, b, kernel) for each in block.instructions]
            if None in instead:
                break
            changed = with_code(changed, block, [each for each in instead if each is not None])
        else:
            yield LegalEdit(kind, script_between(kernel, changed.blocks, kind), f"{a} and {b}")
            return


def _groups(code: list[Instruction]) -> list[RegisterSpan]:
    """VGPRs that some operand names together, as spans; spans that overlap are one group."""
    spans = {o.registers for each in code for o in each.decoded.operands if o.registers is not None}
    groups: list[RegisterSpan] = []
    for each in sorted((s for s in spans if s.file is RegisterFile.VGPR), key=lambda span: span.first):
        if groups and each.first < groups[-1].first + groups[-1].count:
            last = groups.pop()
            end = max(last.first + last.count, each.first + each.count)
            groups.append(replace(last, count=end - last.first))
        else:
            groups.append(each)
    return groups


def _exchanged(each: Instruction, a: RegisterSpan, b: RegisterSpan, kernel: Kernel) -> Instruction | None:
    """The instruction with the two groups exchanged; None where LLVM has no such encoding."""
    if not (each.reads | each.writes) & (a.mask | b.mask):
        return each
    text = each.decoded.text
    for operand, start in reversed(operand_places(each.decoded)):
        span = operand.registers
        if span is None or not span.mask & (a.mask | b.mask):
            continue
        shift = b.first - a.first if span.mask & a.mask else a.first - b.first
        other = replace(span, first=span.first + shift)
        spelled = operand.text.replace(str(span), str(other), 1)
        text = text[:start] + spelled + text[start + len(operand.text) :]
    decoded = encoded(text, kernel)
    return None if decoded is None or each.reference is not None else replace(each, decoded=decoded)


# --- waits and no-ops -----------------------------------------------------------------------------------------


def redundant_wait_removed(kernel: Kernel, chance: random.Random) -> Iterator[LegalEdit]:
    """A wait of which nothing is needed is gone."""
    facts = Facts(kernel, rng=chance)
    needed = {need.instruction for need in wait_requirements(facts.waits) if not need.is_redundant}
    waits = [each for each in {need.instruction for need in wait_requirements(facts.waits)} if each not in needed]
    for id_ in sorted(waits):
        block = next(block for block in kernel.blocks if any(each.id == id_ for each in block.instructions))
        code = [each for each in block.instructions if each.id != id_]
        if code:
            script = script_between(kernel, with_code(kernel, block, code).blocks, "redundant wait removed")
            yield LegalEdit("redundant wait removed", script, f"#{id_} `{kernel.by_id[id_]}`")


def _inserted(kernel: Kernel, chance: random.Random, kind: str, texts: list[str]) -> Iterator[LegalEdit]:
    """Behind the last entry: one that stands at a fixed distance from the start must not move."""
    next_id = Facts(kernel).next_id()
    start = max(kernel.descriptor.entry_offsets) if kernel.descriptor is not None else 0
    offsets = instruction_addresses(kernel, 0)
    places = [
        (block, at) for block, at, each in kernel.positions() if offsets[each.id] >= start and not _in_clause(block, at)
    ]
    chance.shuffle(places)
    for block, at in places:
        text = chance.choice(texts)
        decoded = encoded(text, kernel)
        assert decoded is not None, text
        code = (*block.instructions[:at], Instruction(next_id, decoded), *block.instructions[at:])
        script = script_between(kernel, with_code(kernel, block, code).blocks, kind)
        yield LegalEdit(kind, script, f"`{text}` in front of #{block.instructions[at].id} `{block.instructions[at]}`")


def _in_clause(block: Block, place: int) -> bool:
    """Whether an instruction put here would stand behind an `s_clause` among its members."""
    return any(
        each.mnemonic == "s_clause" and at < place <= at + clause_length(each)
        for at, each in enumerate(block.instructions)
    )


def wait_added(kernel: Kernel, chance: random.Random) -> Iterator[LegalEdit]:
    """Everything of one counter is waited for at some place."""
    counters = sorted({need.counter for need in wait_requirements(Facts(kernel).waits)})
    texts = [text for counter in counters for text in wait_texts({counter: 0}, kernel.target)]
    if texts:
        yield from _inserted(kernel, chance, "wait added", texts)


def no_op_added(kernel: Kernel, chance: random.Random) -> Iterator[LegalEdit]:
    """Time passes at some place."""
    return _inserted(kernel, chance, "no-op added", ["s_nop 0", "s_nop 1", "s_nop 3"])


OPERATORS: dict[str, Operator] = {
    "reordered": block_reordered,
    "moved": instruction_moved,
    "renamed in a block": renamed_in_block,
    "renamed across blocks": renamed_everywhere,
    "redundant wait removed": redundant_wait_removed,
    "wait added": wait_added,
    "no-op added": no_op_added,
}
"""Every kind of legal edit with its operator."""


def legal_edits(kernel: Kernel, each: int, seed: int = 1) -> Iterator[LegalEdit]:
    """Up to `each` of every kind, drawn with the seed."""
    for kind, operator in OPERATORS.items():
        yield from islice(operator(kernel, random.Random(f"{seed} {kind} {kernel.hash}")), each)
