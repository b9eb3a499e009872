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

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace

from asmevo.analysis.live_ranges import LiveRange
from asmevo.program.copying import is_copy
from asmevo.program.edit import EditScript, script_between
from asmevo.program.kernel import Block, Kernel
from asmevo.program.registers import RegisterFile
from asmevo.proposers.compaction_layout import Board, Bundle, Layout, with_marks
from asmevo.proposers.proposer import Facts

_ONE_BY_ONE = 24


@dataclass(frozen=True, slots=True)
class _Copy:
    """An instruction that copies; `into` and `source` are the ranges of its first register."""

    block: int
    place: int
    into: LiveRange
    source: LiveRange


class CopyRemoval:
    """See the module."""

    name = "copies"

    def propose(self, facts: Facts) -> Generator[EditScript, bool | None, None]:
        """See Proposer.propose."""
        for file in (RegisterFile.VGPR, RegisterFile.SGPR):
            copies = list(_copies(Layout(facts.kernel, file)))
            together = _Removal(facts, file)
            gone = [copy for copy in copies if together.remove(copy)]
            script = together.script()
            accepted = (yield script) if script is not None else False
            if accepted is False and (script is None or len(gone) > 1):
                for copy in gone[:_ONE_BY_ONE]:
                    alone = _Removal(facts, file)
                    alone.remove(copy)
                    script = alone.script()
                    if script is not None:
                        yield script


def _copies(layout: Layout) -> Iterator[_Copy]:
    for block in layout.webs.blocks:
        for place, instruction in enumerate(block.instructions):
            decoded = instruction.decoded
            files = {operand.registers.file for operand in decoded.operands if operand.registers is not None}
            if is_copy(decoded) and files == {layout.file}:
                yield _Copy(block.index, place, block.of_write[place, 0][0], block.of_read[place, 1][0])


class _Removal:
    """Copies of one file taken out, one after the other."""

    def __init__(self, facts: Facts, file: RegisterFile) -> None:
        self.facts = facts
        self.kernel: Kernel = facts.kernel
        self.layout = Layout(facts.kernel, file)
        self.board: Board = dict(self.layout.fixed)
        self.bases: dict[int, int] = {}
        self.gone: set[tuple[int, int]] = set()
        self._settled: set[int] = set()
        for bundle in self.layout.bundles:
            bundle.take(self.board, bundle.base)

    def remove(self, wanted: _Copy) -> bool:
        """Takes one copy out if both values can have one register. Whether they can."""
        copy = self._own(wanted)
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
                    self.gone.add((copy.block, copy.place))
                    return True
            self.board = saved
        return False

    def _own(self, copy: _Copy) -> _Copy:
        """The copy in terms of this removal's own ranges."""
        block = self.layout.webs.blocks[copy.block]
        return replace(copy, into=block.of_write[copy.place, 0][0], source=block.of_read[copy.place, 1][0])

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
        return script_between(self.kernel, blocks, words)

    def _without_copies(self, blocks: tuple[Block, ...]) -> tuple[Block, ...]:
        result = []
        for block in blocks:
            kept = [each for place, each in enumerate(block.instructions) if (block.index, place) not in self.gone]
            same = len(kept) == len(block.instructions)
            result.append(block if same else replace(block, instructions=tuple(kept)))
        return tuple(result)
