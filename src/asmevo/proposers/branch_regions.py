"""Short stretches of code that a branch or a narrowed EXEC makes conditional.

    masked    s_and_saveexec D, M; [s_cbranch_execz L;] body; L: s_or exec, exec, D (or s_mov exec, D);
              for the first one also s_mov D, exec and later v_cmpx, or s_and exec, exec, M
    uniform   s_cbranch_scc0 L (or scc1, vccz, vccnz); body; L:
    skip      s_cbranch_execz L; body; L:       (what narrowed EXEC, and where it comes back, does not matter)

The body is straight: it has no other way in or out, and either falls to what comes behind it or jumps there. Marks
(waits, no-ops, hints) are none of it: they do nothing that a value could tell. What each body may hold, so that it can
run for lanes or waves that would have passed it by:

    selectable   vector arithmetic that is a function of a lane's own values, and of nothing that EXEC says of others;
                 scalar arithmetic that touches neither EXEC nor memory
    skippable    also what does nothing when no lane is on: vector memory. Not matrix products and v_writelane, which do
                 not ask EXEC, and nothing that writes EXEC

A body's scalar results that are live behind it are the wave's own: under `masked` and `skip` they decide against it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from asmevo.analysis.events import union
from asmevo.analysis.liveness import ignores_exec, reads_across_lanes
from asmevo.program.instruction import Decoded, Instruction
from asmevo.program.kernel import Kernel
from asmevo.program.registers import EXEC_MASK, SCC_MASK, VECTOR_MASK, RegisterSpan
from asmevo.proposers.placement import is_mark
from asmevo.proposers.proposer import Facts

_SAVES = re.compile(r"s_and_saveexec_b(?:32|64)")
_NARROWS = re.compile(r"v_cmpx_\w+_e(?:32|64)|s_and_b(?:32|64)")
_COPIES = re.compile(r"s_mov_b(?:32|64)")
_RESTORES = re.compile(r"s_(?:or|mov)_b(?:32|64)")
_MEMORY = re.compile(r"(?:global|flat|scratch|buffer)_(?:load|store|atomic)_|ds_(?:read|write|load|store)")
_UNIFORM = re.compile(r"s_cbranch_(?:scc[01]|vccn?z)")
_OTHER_LANES = re.compile(r"v_(?:writelane|readlane|readfirstlane|permlane|swaprel|movrel)")
_STRANGE = frozenset({"unknown", "indexed_def", "indexed_use", "unlisted_def", "side_effects", "terminator", "branch"})

Placed = tuple[int, Instruction]
"""An instruction with its block's index."""


class Region(Struct, frozen=True):
    """Conditional code: `head` is the block in front of it, `join` the one with what comes behind (by index).

    Between them are the blocks `inside`. `live` are the units that are live behind it in any lane. A masked one has an
    instruction that narrows EXEC, and one that gives it back; `keeps` is what copies EXEC before, if it is another one.
    `branch` is what passes the body by, if anything does.
    """

    head: int
    inside: tuple[int, ...]
    join: int
    branch: Instruction | None
    body: tuple[Placed, ...]
    live: int
    narrows: Instruction | None = None
    restores: Instruction | None = None
    keeps: Instruction | None = None

    @property
    def blocks(self) -> frozenset[int]:
        """All blocks that it touches."""
        return frozenset((self.head, *self.inside, self.join))

    @property
    def writes(self) -> int:
        """Units that its body writes."""
        return union(each.decoded.writes for _, each in self.body)

    @property
    def saved(self) -> RegisterSpan | None:
        """Where a masked region keeps EXEC."""
        keeps = self.keeps or self.narrows
        return keeps.decoded.operands[0].registers if keeps is not None else None

    @property
    def mask(self) -> RegisterSpan | None:
        """What a masked region narrows EXEC to; None where a comparison writes nothing but EXEC."""
        if self.narrows is None:
            return None
        spans = [operand.registers for operand in self.narrows.decoded.operands]
        if self.compares:
            return spans[0] if self.narrows.decoded.operands[0].written and not _is_exec(spans[0]) else None
        return next((each for each in spans[1:] if each != self.saved and not _is_exec(each)), self.saved)

    @property
    def compares(self) -> bool:
        """Whether a comparison narrows EXEC."""
        return self.narrows is not None and self.narrows.mnemonic.startswith("v_cmpx")


def masked_regions(facts: Facts) -> Iterator[Region]:
    """Those with a selectable body, in the hot blocks, hottest first."""
    for number in facts.hot_blocks:
        code = facts.kernel.blocks[number].instructions
        for place, each in enumerate(code):
            keeps = None if _SAVES.match(each.mnemonic) else _kept_for(code, place)
            if keeps is not None or _SAVES.match(each.mnemonic):
                region = _masked(facts, number, place, keeps)
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
    """The straight code between a branch and its goal, wherever that lies."""
    kernel = facts.kernel
    join = kernel.block_of_label.get(branch.target or "")
    inside = _inside(facts, head, join) if join is not None else ()
    body = tuple(_without_marks(kernel, inside))
    if join is None or not body:
        return None
    return Region(head, inside, join, branch, body, facts.liveness.state_in(join).any_lane)


def _inside(facts: Facts, head: int, join: int) -> tuple[int, ...]:
    """The blocks behind a branch, one after the other, from which control can only go on to `join`; else none."""
    successors, predecessors = facts.flow.successors, facts.flow.predecessors
    for number in range(head + 1, len(successors)):
        if number == join or predecessors[number] != (number - 1,):
            break
        if successors[number] == (join,):
            return tuple(range(head + 1, number + 1))
        if successors[number] != (number + 1,):
            break
    return ()


def _without_marks(kernel: Kernel, numbers: Iterable[int]) -> Iterator[Placed]:
    """What is in blocks but for marks and the jump at the end."""
    for number in numbers:
        for each in kernel.blocks[number].instructions:
            if not is_mark(each, kernel.target) and each.mnemonic != "s_branch":
                yield number, each


def _is_exec(span: RegisterSpan | None) -> bool:
    return span is not None and bool(span.mask & EXEC_MASK)


def _kept_for(code: Sequence[Instruction], place: int) -> Instruction | None:
    """What copies the EXEC that an instruction narrows, if nothing in between reads the copy."""
    narrows = code[place].decoded
    if not _NARROWS.fullmatch(narrows.mnemonic) or not narrows.writes & EXEC_MASK:
        return None
    if narrows.mnemonic.startswith("s_and") and not any(_is_exec(each.registers) for each in narrows.sources):
        return None
    seen = 0
    for each in reversed(code[:place]):
        decoded = each.decoded
        if decoded.writes & EXEC_MASK or decoded.flags & _STRANGE - {"side_effects"}:
            return None
        if _COPIES.fullmatch(decoded.mnemonic) and _is_exec(decoded.operands[1].registers):
            return None if decoded.writes & (seen | narrows.reads) else each
        seen |= decoded.reads | decoded.writes
    return None


def _masked(facts: Facts, head: int, place: int, keeps: Instruction | None) -> Region | None:
    """The region that begins where EXEC is narrowed, up to where it comes back."""
    kernel, flow = facts.kernel, facts.flow
    narrows = kernel.blocks[head].instructions[place]
    saved = (keeps or narrows).decoded.operands[0].registers
    body: list[Placed] = []
    for number in range(head, len(kernel.blocks)):
        code = kernel.blocks[number].instructions
        for at in range(place + 1 if number == head else 0, len(code)):
            each = code[at]
            if _gives_back(each.decoded, saved):
                live = facts.liveness.states(number)[at + 1].any_lane
                inside = tuple(range(head + 1, number))
                return Region(head, inside, number, None, tuple(body), live, narrows, each, keeps) if body else None
            if each.mnemonic == "s_cbranch_execz" and number == head:
                made = _passed_by(facts, head, each)
                return None if made is None else _masked_with_branch(facts, made, body, narrows, keeps)
            if "terminator" in each.flags or "branch" in each.flags:
                return None
            if not is_mark(each, kernel.target):
                body.append((number, each))
        if flow.successors[number] != (number + 1,) or flow.predecessors[number + 1] != (number,):
            return None
    return None


def _masked_with_branch(
    facts: Facts, passed: Region, begun: list[Placed], narrows: Instruction, keeps: Instruction | None
) -> Region | None:
    """A region whose body is passed by where no lane is left; it is `begun` in front of the branch."""
    saved = (keeps or narrows).decoded.operands[0].registers
    ways = facts.flow.reachable.intersection(facts.flow.predecessors[passed.join])
    if not ways <= {passed.head, passed.inside[-1]}:
        return None
    code = facts.kernel.blocks[passed.join].instructions
    place = next((at for at, each in enumerate(code) if not is_mark(each, facts.kernel.target)), 0)
    if not code or not _gives_back(code[place].decoded, saved):
        return None
    live, body = facts.liveness.states(passed.join)[place + 1].any_lane, (*begun, *passed.body)
    return replace(passed, body=body, live=live, narrows=narrows, restores=code[place], keeps=keeps)


def _gives_back(decoded: Decoded, saved: RegisterSpan | None) -> bool:
    into = decoded.operands[0].registers if decoded.operands else None
    if not _RESTORES.fullmatch(decoded.mnemonic) or into is None or into.mask & ~EXEC_MASK:
        return False
    sources = [operand.registers for operand in decoded.operands[1:]]
    return saved in sources and all(each in (saved, into) for each in sources)


def _is_selectable(region: Region) -> bool:
    saved, mask, body = region.saved, region.mask, [each.decoded for _, each in region.body]
    if saved is None or _is_exec(mask) or region.live & (saved.mask | SCC_MASK):
        return False
    if mask is None and not region.compares:
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
