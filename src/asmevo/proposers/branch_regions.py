"""Short stretches of code that a branch or a narrowed EXEC makes conditional.

    masked    s_and_saveexec D, M; [s_cbranch_execz L;] body; L: s_or exec, exec, D (or s_mov exec, D)
    uniform   s_cbranch_scc0 L (or scc1, vccz, vccnz); body; L:
    skip      s_cbranch_execz L; body; L:       (what narrowed EXEC, and where it comes back, does not matter)

The body is straight: it has no other way in or out. Marks (waits, no-ops, hints) are none of it: they do nothing that a
value could tell. What each body may hold, so that it can run for lanes or waves that would have passed it by:

    selectable   vector arithmetic that is a function of a lane's own values, and of nothing that EXEC says of others;
                 scalar arithmetic that touches neither EXEC nor memory
    skippable    also what does nothing when no lane is on: vector memory. Not matrix products and v_writelane, which do
                 not ask EXEC, and nothing that writes EXEC

A body's scalar results that are live behind it are the wave's own: under `masked` and `skip` they decide against it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from asmevo.analysis.events import union
from asmevo.analysis.liveness import ignores_exec, reads_across_lanes
from asmevo.program.instruction import Decoded, Instruction
from asmevo.program.kernel import Kernel
from asmevo.program.registers import EXEC_MASK, SCC_MASK, VECTOR_MASK, RegisterSpan
from asmevo.proposers.placement import is_mark
from asmevo.proposers.proposer import Facts

_SAVES = re.compile(r"s_and_saveexec_b(?:32|64)")
_RESTORES = re.compile(r"s_(?:or|mov)_b(?:32|64)")
_MEMORY = re.compile(r"(?:global|flat|scratch|buffer)_(?:load|store|atomic)_|ds_(?:read|write|load|store)")
_UNIFORM = re.compile(r"s_cbranch_(?:scc[01]|vccn?z)")
_OTHER_LANES = re.compile(r"v_(?:writelane|readlane|readfirstlane|permlane|swaprel|movrel)")
_STRANGE = frozenset({"unknown", "indexed_def", "indexed_use", "unlisted_def", "side_effects", "terminator", "branch"})

Placed = tuple[int, Instruction]
"""An instruction with its block's index."""


class Region(Struct, frozen=True):
    """Conditional code: `head` is the block in front of it, `join` the one with what comes behind.

    `live` are the units that are live behind it in any lane. A masked one has an instruction that narrows EXEC, and one
    that gives it back; `branch` is what passes the body by, if anything does.
    """

    head: int
    join: int
    branch: Instruction | None
    body: tuple[Placed, ...]
    live: int
    narrows: Instruction | None = None
    restores: Instruction | None = None

    @property
    def blocks(self) -> frozenset[int]:
        """All blocks that it touches."""
        return frozenset(range(self.head, self.join + 1))

    @property
    def writes(self) -> int:
        """Units that its body writes."""
        return union(each.decoded.writes for _, each in self.body)

    @property
    def saved(self) -> RegisterSpan | None:
        """Where a masked region keeps EXEC."""
        return self.narrows.decoded.operands[0].registers if self.narrows is not None else None

    @property
    def mask(self) -> RegisterSpan | None:
        """What a masked region narrows EXEC to."""
        return self.narrows.decoded.operands[1].registers if self.narrows is not None else None


def masked_regions(facts: Facts) -> Iterator[Region]:
    """Those with a selectable body, in the hot blocks, hottest first."""
    for number in facts.hot_blocks:
        for place, each in enumerate(facts.kernel.blocks[number].instructions):
            if _SAVES.match(each.mnemonic):
                region = _masked(facts, number, place)
                if region is not None and _is_selectable(region):
                    yield region


def uniform_regions(facts: Facts) -> Iterator[Region]:
    """Those with a selectable body."""
    for number, last in _branches(facts, _UNIFORM):
        region = _passed_by(facts, number, last)
        if region is not None and all(_selectable(each.decoded) for _, each in region.body):
            yield region


def skips(facts: Facts) -> Iterator[Region]:
    """Those with a skippable body."""
    for number, last in _branches(facts, re.compile("s_cbranch_execz")):
        region = _passed_by(facts, number, last)
        if region is None or not all(_skippable(each.decoded) for _, each in region.body):
            continue
        if not region.writes & ~VECTOR_MASK & region.live:
            yield region


def _branches(facts: Facts, pattern: re.Pattern[str]) -> Iterator[Placed]:
    for number in facts.hot_blocks:
        code = facts.kernel.blocks[number].instructions
        if code and pattern.fullmatch(code[-1].mnemonic):
            yield number, code[-1]


def _passed_by(facts: Facts, head: int, branch: Instruction) -> Region | None:
    """The straight code between a branch and its goal."""
    kernel = facts.kernel
    join = kernel.block_of_label.get(branch.target or "", -1)
    if join < head + 2 or any(not _is_straight(facts, number) for number in range(head + 1, join)):
        return None
    body = tuple(_without_marks(kernel, range(head + 1, join)))
    live = facts.liveness.state_in(join).any_lane
    return Region(head, join, branch, body, live) if body else None


def _is_straight(facts: Facts, number: int) -> bool:
    """Whether control comes to a block only from the one in front of it, and goes on to the next one."""
    return facts.flow.predecessors[number] == (number - 1,) and facts.flow.successors[number] == (number + 1,)


def _without_marks(kernel: Kernel, numbers: range) -> Iterator[Placed]:
    for number in numbers:
        for each in kernel.blocks[number].instructions:
            if not is_mark(each, kernel.target):
                yield number, each


def _masked(facts: Facts, head: int, place: int) -> Region | None:
    """The region that begins where EXEC is narrowed, up to where it comes back."""
    kernel = facts.kernel
    narrows = kernel.blocks[head].instructions[place]
    saved, branch = narrows.decoded.operands[0].registers, None
    body: list[Placed] = []
    for number in range(head, len(kernel.blocks)):
        if number > head and not _comes_from(facts, number, head):
            return None
        code = kernel.blocks[number].instructions
        for at in range(place + 1 if number == head else 0, len(code)):
            each = code[at]
            if is_mark(each, kernel.target):
                continue
            if _gives_back(each.decoded, saved):
                if branch is not None and not _leads_to(kernel, branch, number, body):
                    return None
                live = facts.liveness.states(number)[at + 1].any_lane
                return Region(head, number, branch, tuple(body), live, narrows, each) if body else None
            if at == len(code) - 1 and branch is None and number == head and each.mnemonic == "s_cbranch_execz":
                branch = each
            elif "terminator" in each.flags or "branch" in each.flags:
                return None
            else:
                body.append((number, each))
    return None


def _comes_from(facts: Facts, number: int, head: int) -> bool:
    """Whether control comes to a block only from the one in front of it, or from the region's branch."""
    return set(facts.flow.predecessors[number]) <= {number - 1, head}


def _leads_to(kernel: Kernel, branch: Instruction, number: int, body: list[Placed]) -> bool:
    """Whether a branch goes to a block, and none of the body is there."""
    goal = kernel.block_of_label.get(branch.target or "")
    return goal == number and all(block != number for block, _ in body)


def _gives_back(decoded: Decoded, saved: RegisterSpan | None) -> bool:
    into = decoded.operands[0].registers if decoded.operands else None
    if not _RESTORES.fullmatch(decoded.mnemonic) or into is None or into.mask & ~EXEC_MASK:
        return False
    sources = [operand.registers for operand in decoded.operands[1:]]
    return saved in sources and all(each in (saved, into) for each in sources)


def _is_selectable(region: Region) -> bool:
    saved, mask, body = region.saved, region.mask, [each.decoded for _, each in region.body]
    if saved is None or mask is None or mask.mask & EXEC_MASK or region.live & (saved.mask | SCC_MASK):
        return False
    if any((each.reads | each.writes) & saved.mask for each in body):
        return False
    if not all(_selectable(each) for each in body) or _reads_early(body, SCC_MASK):
        return False
    return not _scalar_results(region, body) & region.live and not _looks_at_masks(body)


def _scalar_results(region: Region, body: list[Decoded]) -> int:
    """What scalar units a body writes that could not be written without its condition."""
    if region.branch is None:  # scalar instructions run in any case
        body = [each for each in body if "valu" in each.flags]
    return union(each.writes for each in body) & ~VECTOR_MASK


def _looks_at_masks(body: list[Decoded]) -> bool:
    """Whether scalar code reads what a vector instruction made of the lanes that are on."""
    made = 0
    for decoded in body:
        if "valu" in decoded.flags:
            made |= decoded.writes & ~VECTOR_MASK
        elif decoded.reads & made:
            return True
    return False


def _reads_early(body: list[Decoded], units: int) -> bool:
    """Whether a body reads some units that it has not written."""
    for decoded in body:
        if decoded.reads & units:
            return True
        units &= ~decoded.writes
    return False


def reads_early(region: Region, units: int) -> bool:
    """Whether the body of a region reads some units before it has written them."""
    return _reads_early([each.decoded for _, each in region.body], units)


def _selectable(decoded: Decoded) -> bool:
    flags = decoded.flags
    if flags & _STRANGE or decoded.info.is_matrix or decoded.writes & EXEC_MASK:
        return False
    if "valu" in flags:
        return not (reads_across_lanes(decoded) or ignores_exec(decoded) or _OTHER_LANES.match(decoded.mnemonic))
    return flags == {"salu"} and not decoded.reads & EXEC_MASK


def _skippable(decoded: Decoded) -> bool:
    flags = decoded.flags
    if decoded.writes & EXEC_MASK or "unknown" in flags or decoded.info.is_matrix or ignores_exec(decoded):
        return False
    if "valu" in flags:
        return not (flags & _STRANGE or decoded.mnemonic.startswith("v_writelane"))
    return flags == {"salu"} or bool(_MEMORY.match(decoded.mnemonic))
