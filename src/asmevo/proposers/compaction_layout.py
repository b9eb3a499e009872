"""Where the values of a whole kernel are in a register file, and where they might be.

Webs (`live_ranges`) that share operands are bundles: they keep their distances. Each register of a bundle is taken for
a set of moments, one bit each, two for every instruction of the kernel (reading and writing) and two for the end of
every block; a result of a plain ALU instruction begins at the moment of writing, so that it may take over the register
of a source that ends there. Two bundles may share a register if their moments there do not meet. A wide result that
replaces a source where it is (a sum) is in one bundle with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from asmevo.analysis.live_ranges import BlockRanges, LiveRange, Webs
from asmevo.program.errors import EditError
from asmevo.program.instruction import Instruction
from asmevo.program.instruction_text import all_assemble_back, encode_all
from asmevo.program.kernel import Block, Kernel
from asmevo.program.registers import RegisterFile, RegisterSpan, file_mask
from asmevo.program.renaming import register_operands, renamed_text
from asmevo.proposers.pairing_rules import standing_rules
from asmevo.proposers.placement import Placement, is_mark
from asmevo.proposers.proposer import Facts
from asmevo.proposers.renaming_block import Apart, joined_blocks

_ALIGNMENTS = {RegisterFile.VGPR: (1, 2), RegisterFile.AGPR: (1, 2), RegisterFile.SGPR: (1, 2, 4)}
"""Registers of an operand of several keep their place modulo one of these; the last serves all wider ones."""
_PLAIN = frozenset({"valu", "salu"})

Board = dict[int, int]
"""The moments in which each unit is taken."""


class Bundle(Struct, eq=False):
    """Webs that keep their distances. `taken`: (distance, moments) of each register; units count from the file's 0."""

    base: int
    width: int
    taken: list[tuple[int, int]]
    modulus: int
    members: list[LiveRange]

    @property
    def by_size(self) -> tuple[int, int]:
        """The widest first, then the longest."""
        return -self.width, -sum(moments.bit_count() for _, moments in self.taken)

    @property
    def by_begin(self) -> tuple[int, int]:
        """What begins first, then the widest: it leaves no gaps where all have one width."""
        return min((moments & -moments).bit_length() for _, moments in self.taken), -self.width

    @property
    def by_width(self) -> tuple[int, int]:
        """The widest first, then what begins first."""
        return -self.width, self.by_begin[0]

    def is_free(self, board: Mapping[int, int], base: int) -> bool:
        """Whether there is room for it at a base."""
        return all(not board.get(base + distance, 0) & moments for distance, moments in self.taken)

    def take(self, board: Board, base: int) -> None:
        """Puts it there."""
        for distance, moments in self.taken:
            board[base + distance] = board.get(base + distance, 0) | moments

    def leave(self, board: Board, base: int) -> None:
        """Takes it away again."""
        for distance, moments in self.taken:
            board[base + distance] &= ~moments


_ORDERS: tuple[Callable[[Bundle], tuple[int, int]], ...] = (
    lambda each: each.by_begin,
    lambda each: each.by_width,
    lambda each: each.by_size,
)
"""In which order all bundles are dealt out anew, the first that finds a place for each."""


class _Block(Struct, frozen=True):
    """A block as `standing_rules` asks for it."""

    kernel: Kernel
    body: Sequence[Instruction]
    ranges: BlockRanges
    bundle_of: Mapping[int, Bundle]


class Layout:
    """Where every web of a kernel's registers of one file is, and where it might be.

    `fixed` are the moments of what may not move, `bundles` what may.
    """

    def __init__(self, kernel: Kernel, file: RegisterFile) -> None:
        self.kernel = kernel
        self.file = file
        self.webs = Webs(kernel)
        self.fixed: Board = {}
        self.bundles: list[Bundle] = []
        self.bundle_of: dict[int, Bundle] = {}
        self._units = file_mask(file)
        self.first = RegisterSpan(file, 0).base_unit
        self._starts = self._block_starts()
        self._collect()

    def _block_starts(self) -> list[int]:
        starts, moment = [], 0
        for block in self.kernel.blocks:
            starts.append(moment)
            moment += 2 * len(block.instructions) + 2
        return starts

    def _collect(self) -> None:
        """Bundles of webs; what is pinned goes on the board at once."""
        pinned = self.webs.pinned | self._without_text()
        groups: dict[int, set[int]] = {}
        widths: dict[int, int] = {}
        for block in self.webs.blocks:
            for touched in (*block.of_read.values(), *block.of_write.values(), *block.in_place()):
                if self._units >> touched[0].unit & 1:
                    numbers = {self.webs.number[id(each)] for each in touched}
                    joined = set().union(numbers, *(groups.get(number, set()) for number in numbers))
                    groups.update(dict.fromkeys(joined, joined))
                    for number in numbers if isinstance(touched, list) else ():
                        widths[number] = max(len(touched), widths.get(number, 1))
        for number, ranges in self.webs.members.items():
            if self._units >> ranges[0].unit & 1:
                groups.setdefault(number, {number})
        for numbers in {id(group): group for group in groups.values()}.values():
            members = [each for number in numbers for each in self.webs.members[number]]
            if numbers & pinned:
                for each in members:
                    unit = each.unit - self.first
                    self.fixed[unit] = self.fixed.get(unit, 0) | self.moments(each)
            else:
                widest = max(widths.get(number, 1) for number in numbers)
                bundle = self._bundle(members, self._modulus(widest))
                self.bundles.append(bundle)
                self.bundle_of.update({id(each): bundle for each in members})

    def _without_text(self) -> set[int]:
        """Webs in encodings that LLVM's assembler does not make of their text."""
        written = all_assemble_back([each.decoded for each in self.kernel.instructions], self.kernel.context)
        answers = iter(written)
        stuck = {
            (block.index, place)
            for block in self.kernel.blocks
            for place, _ in enumerate(block.instructions)
            if not next(answers)
        }
        return {
            self.webs.number[id(each)]
            for block in self.webs.blocks
            for table in (block.of_read, block.of_write)
            for (place, _), touched in table.items()
            if (block.index, place) in stuck
            for each in touched
        }

    def _modulus(self, widest: int) -> int:
        steps = _ALIGNMENTS[self.file]
        return next((step for step in steps if step >= widest), steps[-1])

    def _bundle(self, members: list[LiveRange], modulus: int) -> Bundle:
        base = min(each.unit for each in members) - self.first
        taken: dict[int, int] = {}
        for each in members:
            distance = each.unit - self.first - base
            taken[distance] = taken.get(distance, 0) | self.moments(each)
        return Bundle(base, max(taken) + 1, sorted(taken.items()), modulus, members)

    def moment(self, block: int, place: int) -> int:
        """The moment in which an instruction writes, as a set."""
        return 1 << self._starts[block] + 2 * place + 1

    def moments(self, each: LiveRange) -> int:
        """The moments (two an instruction, reading and writing, and two at the end of a block) of a range."""
        start = self._starts[each.block]
        block = self.kernel.blocks[each.block].instructions
        first, last = start, start + 2 * len(block) + 1
        if not each.enters:
            begin = each.accesses[0]
            decoded = block[begin.place].decoded
            span = decoded.operands[begin.operand].registers
            early = _PLAIN.isdisjoint(decoded.flags) or span is None or span.count > 1
            first = start + 2 * begin.place + (0 if early else 1)
        if not each.leaves:
            last = max((start + 2 * a.place + (1 if a.written else 0) for a in each.accesses), default=first)
        return (1 << (last + 1)) - (1 << first)

    def within(self, limit: int) -> tuple[Block, ...] | None:
        """The kernel's blocks with no register from `limit` on; None where no place was found for all."""
        if any(unit >= limit for unit in self.fixed):
            return None
        over = [each for each in self.bundles if each.base + each.width > limit]
        staying = [each for each in self.bundles if each.base + each.width <= limit]
        bases = self._placed(staying, sorted(over, key=lambda each: each.by_size), limit)
        for key in _ORDERS if bases is None else ():
            bases = self._placed([], sorted(self.bundles, key=key), limit)
            if bases is not None:
                break
        return self.renamed(bases) if bases is not None else None

    @cached_property
    def _rules(self) -> dict[int, list[Apart]]:
        """By the id of a bundle what its registers must keep for the sake of dual instructions."""
        found: dict[int, list[Apart]] = {}
        for block in self.webs.blocks:
            for rule in standing_rules(_Block(self.kernel, block.instructions, block, self.bundle_of)):
                for bundle in {id(self.bundle_of.get(id(each))) for each in (rule.first, rule.second)}:
                    found.setdefault(bundle, []).append(rule)
        return found

    def _keeps_rules(self, bundle: Bundle, base: int, bases: Mapping[int, int]) -> bool:
        """Whether a bundle may be at a base beside those that have theirs."""
        for rule in self._rules.get(id(bundle), ()):
            one, other = (self._unit(each, bundle, base, bases) for each in (rule.first, rule.second))
            if one is not None and other is not None and not (one ^ other) & rule.mask:
                return False
        return True

    def _unit(self, each: LiveRange, moving: Bundle, base: int, bases: Mapping[int, int]) -> int | None:
        """Where a range is; None for one that has no place yet."""
        bundle = self.bundle_of.get(id(each))
        if bundle is None:
            return each.unit
        at = base if bundle is moving else bases.get(id(bundle))
        return None if at is None else each.unit + at - bundle.base

    def _placed(self, staying: Sequence[Bundle], moving: Sequence[Bundle], limit: int) -> dict[int, int] | None:
        """New bases by the id of a bundle; those that move find theirs one after the other."""
        board = dict(self.fixed)
        for bundle in staying:
            bundle.take(board, bundle.base)
        bases = {id(bundle): bundle.base for bundle in staying}
        for bundle in moving:
            choices = range(bundle.base % bundle.modulus, limit - bundle.width + 1, bundle.modulus)
            free = (at for at in choices if bundle.is_free(board, at))
            base = next((at for at in free if self._keeps_rules(bundle, at, bases)), None)
            if base is None:
                return None
            bundle.take(board, base)
            bases[id(bundle)] = base
        return bases

    def renamed(self, bases: Mapping[int, int]) -> tuple[Block, ...] | None:
        """The blocks with bundles (by id) at new bases; None where LLVM refuses an instruction."""
        try:
            texts = {key: renamed_text(decoded.decoded, spans) for key, decoded, spans in self._changes(bases)}
        except EditError:
            return None
        encoded = encode_all(texts.values(), self.kernel.context)
        changed = {index: list(self.kernel.blocks[index].instructions) for index, _ in texts}
        for (index, place), decoded in zip(texts, encoded, strict=True):
            if decoded is None:
                return None
            changed[index][place] = replace(changed[index][place], decoded=decoded)
        return tuple(
            replace(block, instructions=tuple(changed[block.index])) if block.index in changed else block
            for block in self.kernel.blocks
        )

    def _changes(
        self, bases: Mapping[int, int]
    ) -> Iterator[tuple[tuple[int, int], Instruction, dict[int, RegisterSpan]]]:
        """((block, place), instruction, new spans by operand) wherever a register changes."""
        for block in self.webs.blocks:
            for place, instruction in enumerate(block.instructions):
                spans = {}
                for number in register_operands(instruction.decoded):
                    touched = block.of_read.get((place, number)) or block.of_write.get((place, number))
                    bundle = self.bundle_of.get(id(touched[0])) if touched else None
                    span = instruction.decoded.operands[number].registers
                    if span is not None and bundle is not None and bases.get(id(bundle), bundle.base) != bundle.base:
                        spans[number] = replace(span, first=span.first + bases[id(bundle)] - bundle.base)
                if spans:
                    yield (block.index, place), instruction, spans


def with_marks(facts: Facts, blocks: tuple[Block, ...]) -> tuple[Block, ...] | None:
    """Waits, no-ops and hints anew in all blocks that changed.

    What is under way where a block begins has other names now. The old marks still stand for what the old order needed,
    so the walk through a block begins with what they leave under way in the new code.
    """
    kernel = facts.kernel
    renamed = replace(facts, kernel=kernel.with_blocks(blocks))
    changed = {}
    for old, new in zip(kernel.blocks, blocks, strict=True):
        if old is not new:
            order = [each for each in new.instructions if not is_mark(each, kernel.target)]
            made = Placement(renamed, old.index).rebuild(order)
            if made is None:
                return None
            changed[old.index] = made[old.index]
    return joined_blocks(kernel, changed)
