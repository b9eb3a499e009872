"""Short branches turned into selections, and branches over short code taken out.

Three kinds of conditional code (`branch_regions`), each with what it becomes:

    masked    EXEC is narrowed for a few vector instructions, which may be passed by where no lane is left. They run in
              all lanes instead, and `v_cndmask` takes their results by the mask that EXEC was narrowed to; EXEC stays
              as it is, and the branch goes
    uniform   a scalar branch passes a few instructions by. They run in any case, and `s_cselect` takes scalar results
              by SCC, `v_cndmask` vector results by a mask that `s_cselect mask, -1, 0` makes of it
    skip      only the branch over code that does nothing without lanes goes

How bodies are written anew is in `speculation`. SCC has to outlive a body that writes it: a comparison that stands
right in front of the branch moves behind the body; otherwise the mask, or a free register, holds it.

Whether it pays, the cycle model says, for waves that run the body: there the branch and the changes of EXEC are saved.
A wave that passed the body by has to run it now. So the code that a branch passes by may not take longer than a branch
that is taken: what such a wave pays is about what it saves.

First everything that pays is proposed at once, if that is better than any of it, then one by one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Generator, Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from asmevo.program.edit import EditScript, script_between
from asmevo.program.errors import EditError
from asmevo.program.instruction import Instruction
from asmevo.program.instruction_text import encode_text
from asmevo.program.kernel import Block, Kernel
from asmevo.program.registers import NAMED_SPANS, SCC_MASK, SGPR_MASK, VGPR_MASK, RegisterFile, RegisterSpan
from asmevo.proposers.branch_regions import Region, masked_regions, reads_early, skips, uniform_regions
from asmevo.proposers.placement import UNNAMED, Placement
from asmevo.proposers.proposer import Facts
from asmevo.proposers.register_room import roomier_descriptor
from asmevo.proposers.renaming_block import joined_blocks
from asmevo.proposers.speculation import FreeRegisters, Speculated, Speculation
from asmevo.proposers.wait_spreading import mended
from asmevo.timing.straight_walk import StraightWalk

_MOST = 24
_LOGIC = re.compile(r"s_(?:and|or|xor|nand|nor|xnor|andn2|orn2|and_not1|or_not1)_b(?:32|64)")
"""They set SCC where their result is not 0 (ISA documents, SOP2)."""
_COMPARES = ("s_cmp_", "s_bitcmp")
_WORD = 32


class _Texts(Struct):
    """What becomes of instructions: by id, a text (None: it goes), and texts in front of it or behind it."""

    own: dict[int, str | None] = {}
    before: dict[int, list[str]] = {}
    behind: dict[int, list[str]] = {}

    def __iter__(self) -> Iterator[str]:
        yield from (text for text in self.own.values() if text is not None)
        for texts in (*self.before.values(), *self.behind.values()):
            yield from texts

    def add(self, other: _Texts) -> None:
        """Takes in what is about other instructions."""
        self.own |= other.own
        self.before |= other.before
        self.behind |= other.behind


class _Change(Struct):
    """What becomes of one region, in words and texts."""

    region: Region
    words: str
    texts: _Texts


class Branches:
    """See the module."""

    name = "branches"

    def propose(self, facts: Facts) -> Generator[EditScript, bool | None, None]:
        """See Proposer.propose."""
        paying = _paying(facts)
        found = _apart(change for _, change in paying)
        if len(found) > 1 and _cost(facts, found) < paying[0][0]:
            script = _script(facts, found)
            if script is not None and (yield script):
                return
        accepted = []
        for _, change in paying:
            script = _script(facts, [change])
            if script is not None and (yield script):
                accepted.append(change)
        accepted = _apart(accepted)
        if 1 < len(accepted) < len(found):
            script = _script(facts, accepted)
            if script is not None:
                yield script


def _paying(facts: Facts) -> list[tuple[float, _Change]]:
    """What the model likes, with the cost, the best first."""
    now, ranked = facts.cost(facts.kernel), []
    for change in _changes(facts):
        if facts.out_of_time():
            break
        cost = _cost(facts, [change])
        if cost < now:
            ranked.append((cost, change))
    return sorted(ranked, key=lambda each: each[0])


def _cost(facts: Facts, changes: list[_Change]) -> float:
    blocks = _blocks(facts, changes)
    return math.inf if blocks is None else facts.cost(facts.kernel.with_blocks(blocks))


def _apart(changes: Iterable[_Change]) -> list[_Change]:
    """Those of which none is about code of another one, the first ones first."""
    taken: set[int] = set()
    found = []
    for change in changes:
        own = change.texts.own.keys() | {each.id for _, each in change.region.body}
        if taken.isdisjoint(own):
            taken |= own
            found.append(change)
    return found


def _changes(facts: Facts) -> Iterator[_Change]:
    ways: tuple[tuple[Callable[[Facts], Iterator[Region]], Callable[[Facts, Region, bool], _Change]], ...] = (
        (masked_regions, _unmasked),
        (uniform_regions, _without_uniform_branch),
        (skips, _without_skip),
    )
    for regions, change in ways:
        for number, region in enumerate(regions(facts)):
            if number >= _MOST:
                break
            if region.branch is not None and not _is_short(facts, region):
                continue
            for folds in (True, False):
                try:
                    made = change(facts, region, folds)
                    for text in made.texts:
                        encode_text(text, facts.kernel.context)
                except EditError:
                    continue
                yield made
                break


def _is_short(facts: Facts, region: Region) -> bool:
    """Whether the code that a branch passes by takes no longer than the branch does when it is taken."""
    code = [each for number in region.inside for each in facts.kernel.blocks[number].instructions]
    code = [each for each in code if "terminator" not in each.flags]
    cycles = StraightWalk(facts.machine, code, [False] * len(code), {}).cycles
    return cycles <= facts.machine.latency("branch_taken", "branch").cycles


# --- the three kinds --------------------------------------------------------------------------------------------


def _without_skip(facts: Facts, region: Region, folds: bool) -> _Change:
    assert region.branch is not None
    return _Change(region, "no branch over code that no lane would run", _Texts({region.branch.id: None}))


def _unmasked(facts: Facts, region: Region, folds: bool) -> _Change:
    narrows, mask, saved = region.narrows, region.mask, region.saved
    assert narrows is not None
    assert saved is not None
    gone = (narrows, region.restores, region.keeps, region.branch)
    texts = _Texts({each.id: None for each in gone if each is not None})
    free = FreeRegisters(facts, region)
    body = Speculation(region, free, folds=folds)
    if region.compares:
        mask, texts.own[narrows.id] = _compared(narrows, mask, _vcc(facts.kernel), saved, free)
    assert mask is not None
    if body.selected and region.writes & mask.mask:
        if saved == mask or region.compares:
            raise EditError("the body writes its own mask")
        texts.own[narrows.id] = f"s_mov_b{facts.kernel.wave_size} {saved}, {mask}"
        mask = saved
    _put(region, texts, body.made(str(mask)))
    return _Change(region, "selections instead of a narrowed EXEC", texts)


def _compared(
    narrows: Instruction, mask: RegisterSpan | None, vcc: RegisterSpan, saved: RegisterSpan, free: FreeRegisters
) -> tuple[RegisterSpan, str]:
    """The comparison that writes a mask and leaves EXEC alone: its own, else VCC, else where EXEC was kept."""
    name, _, operands = narrows.decoded.text.partition(" ")
    name = name.replace("v_cmpx", "v_cmp")
    if mask is not None:
        return mask, f"{name} {operands}"
    if name.endswith("_e32") and free.are_free(vcc):
        return vcc, f"{name} {vcc}, {operands}"
    return saved, f"{name.removesuffix('_e32').removesuffix('_e64')}_e64 {saved}, {operands}"


def _vcc(kernel: Kernel) -> RegisterSpan:
    """VCC as far as the wave has lanes."""
    return NAMED_SPANS["vcc" if kernel.wave_size > _WORD else "vcc_lo"]


def _without_uniform_branch(facts: Facts, region: Region, folds: bool) -> _Change:
    branch, free = region.branch, FreeRegisters(facts, region)
    assert branch is not None
    if region.live & SCC_MASK or reads_early(region, SCC_MASK):
        raise EditError("SCC is read in the body or behind it")
    lanes, body = facts.kernel.wave_size, Speculation(region, free, folds=folds)
    texts = _Texts({branch.id: None})
    lead, tail = list[str](), list[str]()
    by_vcc, swapped = "vcc" in branch.mnemonic, branch.mnemonic.endswith(("scc1", "vccnz"))
    if by_vcc and not _scc_tells_of(_vcc(facts.kernel), facts.kernel.blocks[region.head]):
        lead.append(f"s_cmp_lg_u{lanes} {_vcc(facts.kernel)}, 0")
    # Ones where the body is meant.
    holder = free.take(RegisterSpan(RegisterFile.SGPR, 0, lanes // _WORD)) if body.selected & VGPR_MASK else None
    asked_again = bool(body.selected & SGPR_MASK and region.writes & SCC_MASK)
    compare = _moving_compare(facts.kernel, region, body.selected) if not (by_vcc or holder) and asked_again else None
    if compare is not None:
        free.keep(compare.reads)
        texts.own[compare.id] = None
        tail.append(compare.decoded.text)
    elif asked_again:
        holder = holder or free.take(RegisterSpan(RegisterFile.SGPR, 0))
        tail.append(f"s_cmp_lg_u{holder.bits} {holder}, 0")
    if holder is not None:
        lead.append(f"s_cselect_b{holder.bits} {holder}, {'0, -1' if swapped else '-1, 0'}")
    texts.behind[branch.id] = lead
    made = body.made(str(holder), swapped=swapped and (compare is not None or not asked_again))
    made.selections[:0] = tail
    _put(region, texts, made)
    return _Change(region, "selections instead of a branch", texts)


def _scc_tells_of(vcc: RegisterSpan, block: Block) -> bool:
    """Whether SCC says behind a block that VCC is not 0, as the instruction left it that wrote VCC."""
    for each in reversed(block.instructions):
        if each.decoded.writes & (SCC_MASK | vcc.mask):
            into = each.decoded.operands[0].registers
            return into == vcc and _LOGIC.fullmatch(each.mnemonic) is not None
    return False


def _moving_compare(kernel: Kernel, region: Region, selected: int) -> Instruction | None:
    """The comparison that the branch asks, if it may as well stand behind the body."""
    later = region.writes & ~selected
    for each in reversed(kernel.blocks[region.head].instructions[:-1]):
        if each.decoded.writes & SCC_MASK:
            moves = each.mnemonic.startswith(_COMPARES) and not each.reads & later
            return each if moves else None
        if each.decoded.reads & SCC_MASK:
            return None
        later |= each.decoded.writes
    return None


# --- new blocks -------------------------------------------------------------------------------------------------


def _put(region: Region, texts: _Texts, made: Speculated) -> None:
    """The body in its new form, the selections behind its last instruction."""
    last, behind = region.body[-1][1].id, made.selections
    texts.add(_Texts(made.texts, made.copies))
    if behind and texts.own.get(last, "") is None:
        texts.own[last], behind = behind[0], behind[1:]
    texts.behind[last] = behind


def _blocks(facts: Facts, changes: Iterable[_Change]) -> tuple[Block, ...] | None:
    """The kernel's blocks with changes that lie apart; None where no placement of waits was found."""
    kernel, changed, whole = facts.kernel, dict[int, Block](), _Texts()
    for change in changes:
        whole.add(change.texts)
        for number in change.region.blocks:
            block = kernel.blocks[number]
            code = tuple(_written(kernel, block, whole))
            if code != block.instructions:
                changed[number] = replace(block, instructions=code)
    if any(not block.instructions for block in changed.values()):
        return None
    draft = kernel.with_blocks(joined_blocks(kernel, changed))
    waiting = mended(facts, draft)
    return None if waiting is None else _settled(facts, waiting)


def _written(kernel: Kernel, block: Block, texts: _Texts) -> Iterator[Instruction]:
    for each in block.instructions:
        for text in texts.before.get(each.id, ()):
            yield Instruction(UNNAMED, encode_text(text, kernel.context))
        new = texts.own.get(each.id, each.decoded.text)
        if new is not None:
            yield each if new == each.decoded.text else replace(each, decoded=encode_text(new, kernel.context))
        for text in texts.behind.get(each.id, ()):
            yield Instruction(UNNAMED, encode_text(text, kernel.context))


def _settled(facts: Facts, blocks: tuple[Block, ...]) -> tuple[Block, ...] | None:
    """What hazards ask for added, and hints placed anew, in all blocks that changed."""
    kernel, changed = facts.kernel, dict[int, Block]()
    fresh = replace(facts, kernel=kernel.with_blocks(blocks))
    for old, new in zip(kernel.blocks, blocks, strict=True):
        if old is not new:
            made = Placement(fresh, old.index).settle(new.instructions)
            if made is None:
                return None
            changed[old.index] = made[old.index]
    return joined_blocks(kernel, changed)


def _script(facts: Facts, changes: list[_Change]) -> EditScript | None:
    blocks = _blocks(facts, changes)
    if blocks is None:
        return None
    kernel, words = facts.kernel, "; ".join(dict.fromkeys(change.words for change in changes))
    where = ", ".join(str(change.region.head) for change in changes)
    descriptor = roomier_descriptor(kernel, blocks) or kernel.descriptor
    return script_between(kernel, blocks, f"{Branches.name}: {words} (block {where})", descriptor)
