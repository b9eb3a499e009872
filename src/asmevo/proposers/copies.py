"""Removal of copies: `v_mov` and `s_mov` from one register to another whose two values can live in one register.

A copy ties the web that it begins or joins to the web that it reads. Two ways make one register of both:

    coalesced   their moments do not meet: one of them moves, with its bundle, to where the other is
    propagated  they meet, but where they do both hold the same: the copy is the only write of its web, and nothing
                writes the other one while the copy's value lives. The copy's readers read the original.

Then the copy writes a register with itself and is deleted. All copies of a kernel that can go are proposed together;
if that is refused, one by one. Registers that come from the launch stay where they are.

Constants are values, too: a web that is begun by several equal `v_mov r, constant` stays as it is; what matters here is
registers. (`compaction` shortens what they occupy.)
"""

from __future__ import annotations

from collections.abc import Generator

from msgspec import Struct
from msgspec.structs import replace

from asmevo.analysis.live_ranges import LiveRange
from asmevo.program.copying import copies, is_copy
from asmevo.program.dual_halves import halves_of
from asmevo.program.edit import EditScript, script_between
from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Block, Kernel
from asmevo.program.registers import RegisterFile
from asmevo.proposers.compaction_layout import Board, Bundle, Layout, with_marks
from asmevo.proposers.pairing import single_instructions
from asmevo.proposers.proposer import Facts

_ONE_BY_ONE = 24


class _Copy(Struct, frozen=True):
    """An instruction (by id) that copies; `into` and `source` are the ranges of its first register."""

    id: int
    into: LiveRange
    source: LiveRange


class CopyRemoval:
    """See the module."""

    name = "copies"

    def propose(self, facts: Facts) -> Generator[EditScript, bool | None, None]:
        """See Proposer.propose."""
        for file in (RegisterFile.VGPR, RegisterFile.SGPR):
            gone, script = _without(facts, file, None)
            accepted = (yield script) if script is not None else False
            if accepted is False and (script is None or len(gone) > 1):
                for id_ in gone[:_ONE_BY_ONE]:
                    _, script = _without(facts, file, {id_})
                    if script is not None:
                        yield script


def _without(facts: Facts, file: RegisterFile, wanted: set[int] | None) -> tuple[list[int], EditScript | None]:
    """The ids of copies that can go, of those that are wanted (None: of all), and the edits that take them out.

    Dual instructions are taken apart in which a half goes, and only those.
    """
    apart, pair_of = _taken_apart(facts.kernel, None)
    first = _Removal(facts, apart, file)
    gone = [each for each in _copies(first.layout) if wanted is None or each in wanted]
    gone = [each for each in gone if first.remove(each)]
    pairs = {pair_of[each] for each in gone if each in pair_of}
    second = _Removal(facts, _taken_apart(facts.kernel, pairs)[0], file)
    gone = [each for each in gone if second.remove(each)]
    return gone, second.script()


def _taken_apart(kernel: Kernel, chosen: set[int] | None) -> tuple[Kernel, dict[int, int]]:
    """The kernel with dual instructions taken apart that copy (of those chosen), and whose half an id is.

    A half has the same id whichever others are taken apart.
    """
    next_id = 1 + max(instruction.id for instruction in kernel.instructions)
    pair_of: dict[int, int] = {}
    blocks = []
    for block in kernel.blocks:
        instructions: list[Instruction] = []
        for instruction in block.instructions:
            halves = [instruction]
            if _has_copying_half(instruction):
                if chosen is None or instruction.id in chosen:
                    halves = single_instructions([instruction], kernel, next_id)
                next_id += 1
            if len(halves) > 1:
                pair_of.update({half.id: instruction.id for half in halves})
            instructions += halves
        same = len(instructions) == len(block.instructions)
        blocks.append(block if same else replace(block, instructions=tuple(instructions)))
    return kernel.with_blocks(tuple(blocks)), pair_of


def _copies(layout: Layout) -> list[int]:
    """Ids of what copies within the layout's file."""
    found = []
    for instruction in layout.kernel.instructions:
        spans = [operand.registers for operand in instruction.decoded.operands]
        if is_copy(instruction.decoded) and all(span is not None and span.file is layout.file for span in spans):
            found.append(instruction.id)
    return found


def _has_copying_half(instruction: Instruction) -> bool:
    halves = halves_of(instruction.decoded) if "vopd" in instruction.flags else ()
    return any(copies(half.mnemonic, half.operands) for half in halves)


class _Removal:
    """Copies of one file taken out of a kernel, one after the other. The kernel may be `facts.kernel` taken apart."""

    def __init__(self, facts: Facts, kernel: Kernel, file: RegisterFile) -> None:
        self.facts = facts
        self.layout = Layout(kernel, file)
        self.board: Board = dict(self.layout.fixed)
        self.bases: dict[int, int] = {}
        self.gone: set[int] = set()
        self._settled: set[int] = set()
        self._place = {each.id: (block.index, place) for block, place, each in kernel.positions()}
        for bundle in self.layout.bundles:
            bundle.take(self.board, bundle.base)

    def remove(self, id_: int) -> bool:
        """Takes one copy out if both values can have one register. Whether they can."""
        copy = self._copy(id_)
        for mover, goal in ((copy.into, copy.source), (copy.source, copy.into)):
            bundle = self.layout.bundle_of.get(id(mover))
            other = self.layout.bundle_of.get(id(goal))
            if bundle is None or bundle is other or id(bundle) in self._settled:
                continue
            base = bundle.base + self._unit(goal) - mover.unit
            if not self._fits(bundle, base):
                continue
            saved = dict(self.board)
            bundle.leave(self.board, bundle.base)
            if bundle.is_free(self.board, base) or (mover is copy.into and self._same(copy, bundle, base)):
                bundle.take(self.board, base)
                if self._encodes(bundle, base):
                    self.bases[id(bundle)] = base
                    self._settled |= {id(bundle), id(other)}
                    self.gone.add(id_)
                    return True
            self.board = saved
        return False

    def _copy(self, id_: int) -> _Copy:
        index, place = self._place[id_]
        block = self.layout.webs.blocks[index]
        return _Copy(id_, block.of_write[place, 0][0], block.of_read[place, 1][0])

    def _unit(self, each: LiveRange) -> int:
        bundle = self.layout.bundle_of.get(id(each))
        return each.unit if bundle is None else each.unit + self.bases.get(id(bundle), bundle.base) - bundle.base

    def _fits(self, bundle: Bundle, base: int) -> bool:
        known = max((*self.board, 0))
        return 0 <= base <= known + 1 - bundle.width and (base - bundle.base) % bundle.modulus == 0

    def _same(self, copy: _Copy, bundle: Bundle, base: int) -> bool:
        """Whether the copy's value may share the original's register although both live at once."""
        if bundle.width > 1 or bundle.modulus > 1:
            return False
        writes = [a for each in bundle.members for a in each.accesses if a.written]
        if len(writes) != 1:
            return False
        original = self._moments_of_web(copy.source)
        written = self._writes_of_web(copy.source)
        ((_, mine),) = bundle.taken
        strangers = self.board.get(base, 0) & ~original
        return not mine & strangers and not mine & written

    def _web(self, each: LiveRange) -> list[LiveRange]:
        webs = self.layout.webs
        return webs.members[webs.number[id(each)]]

    def _moments_of_web(self, each: LiveRange) -> int:
        moments = 0
        for member in self._web(each):
            moments |= self.layout.moments(member)
        return moments

    def _writes_of_web(self, each: LiveRange) -> int:
        """The moments in which a web is written; a load's result may come in at any time behind its place."""
        moments = 0
        for member in self._web(each):
            for access in member.accesses:
                if access.written:
                    moments |= self.layout.moment(member.block, access.place)
        return moments

    def _encodes(self, bundle: Bundle, base: int) -> bool:
        return self.layout.renamed({id(bundle): base}) is not None

    def script(self) -> EditScript | None:
        """The edits, with waits placed anew; None if nothing went or no placement was found."""
        blocks = self.layout.renamed(self.bases) if self.gone else None
        blocks = with_marks(self.facts, self._without_copies(blocks)) if blocks is not None else None
        if blocks is None:
            return None
        words = f"{CopyRemoval.name}: {len(self.gone)} fewer"
        return script_between(self.facts.kernel, blocks, words)

    def _without_copies(self, blocks: tuple[Block, ...]) -> tuple[Block, ...]:
        result = []
        for block in blocks:
            kept = [each for each in block.instructions if each.id not in self.gone]
            same = len(kept) == len(block.instructions)
            result.append(block if same else replace(block, instructions=tuple(kept)))
        return tuple(result)
