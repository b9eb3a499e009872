"""Compaction: a whole kernel's vector registers closer together, so that more waves fit on a SIMD.

What a wave is given follows from the highest register that the code names, and compilers leave holes: a kernel with
122 VGPRs of which never more than 118 are in use at once may run with 120. Webs (`live_ranges`) are whole values with
all their reads and writes, so each may be anywhere where nothing else is while it lives. For the next occupancy step
within reach, from near to far:

1. webs that lie wholly below the new limit stay where they are, those that reach over it look for a hole, the widest
   and longest first;
2. if one finds none, all webs that may move are dealt out again, in that order.

The descriptor is resized to what the step allows. Webs that come from the launch stay where they are. A kernel whose
code names fewer registers than its descriptor gives is only resized.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from asmevo.analysis.live_ranges import LiveRange, Webs
from asmevo.analysis.occupancy import occupancy
from asmevo.analysis.pressure import pressure_profile, register_use
from asmevo.program.edit import EditScript, script_between
from asmevo.program.errors import EditError
from asmevo.program.instruction_text import encode_all
from asmevo.program.kernel import Block, Kernel
from asmevo.program.register_counts import RegisterCounts, register_counts, with_register_counts
from asmevo.program.registers import RegisterFile, RegisterSpan
from asmevo.program.renaming import register_operands, renamed_text
from asmevo.proposers.placement import Placement, is_mark
from asmevo.proposers.proposer import Facts
from asmevo.proposers.renaming_block import joined_blocks

_ALIGNMENT = 2
_PLAIN = frozenset({"valu", "salu"})


@dataclass(slots=True, eq=False)
class _Bundle:
    """Webs that keep their distances. `taken`: (distance, moments of the whole kernel) of each register."""

    base: int
    width: int
    taken: list[tuple[int, int]]
    modulus: int
    members: list[LiveRange]

    @property
    def size(self) -> tuple[int, int]:
        """What is placed first: the widest, then the longest."""
        return self.width, sum(moments.bit_count() for _, moments in self.taken)


class Compaction:
    """Proposes the kernel with as many VGPRs as one, two, ... waves a SIMD more allow."""

    name = "compaction"

    def propose(self, facts: Facts) -> Generator[EditScript, bool | None, None]:
        """See Proposer.propose."""
        kernel = facts.kernel
        if kernel.descriptor is None:
            return
        waves = occupancy(kernel).waves
        layout = _Layout(kernel)
        for limit in _steps(kernel):
            blocks = layout.within(limit) if layout.highest > limit else kernel.blocks
            blocks = _with_waits(facts, blocks) if blocks is not None else None
            if blocks is None:
                return
            smaller = _resized(kernel, limit)
            gained = occupancy(smaller.with_blocks(blocks)).waves
            if gained > waves:
                words = f"{self.name}: {limit} VGPRs, {gained} waves a SIMD instead of {waves}"
                yield script_between(kernel, blocks, words, smaller.descriptor)
                waves = gained


def _steps(kernel: Kernel) -> Iterator[int]:
    """Limits on VGPRs with which a SIMD holds one wave more, then two, ... as far as pressure allows."""
    target, size = kernel.target, kernel.wave_size
    use = register_use(kernel)
    assert kernel.descriptor is not None
    given = register_counts(kernel.descriptor, target, size)
    top = pressure_profile(kernel).maximum(RegisterFile.VGPR)
    least = top.vgprs if top is not None else 0

    def waves(vgprs: int) -> int:
        return target.waves_for_vgprs(replace(use, vgprs=vgprs).total_vgprs(target), size)

    now = target.waves_for_vgprs(replace(use, vgprs=given.vgprs, agprs=_agprs(given, kernel)).total_vgprs(target), size)
    for limit in range(given.vgprs, max(least, 1) - 1, -1):
        if waves(limit) > now:
            yield limit
            now = waves(limit)


def _agprs(given: RegisterCounts, kernel: Kernel) -> int:
    return given.agprs if kernel.target.vgpr.agprs.value == "unified" else register_use(kernel).agprs


def _resized(kernel: Kernel, vgprs: int) -> Kernel:
    assert kernel.descriptor is not None
    given = register_counts(kernel.descriptor, kernel.target, kernel.wave_size)
    wanted = replace(given, vgprs=vgprs, agprs=register_use(kernel).agprs)
    return replace(
        kernel, descriptor=with_register_counts(kernel.descriptor, wanted, kernel.target, kernel.wave_size)
    )


def _with_waits(facts: Facts, blocks: tuple[Block, ...]) -> tuple[Block, ...] | None:
    """Waits, no-ops and hints anew in all blocks that changed."""
    kernel = facts.kernel
    changed = {}
    for old, new in zip(kernel.blocks, blocks, strict=True):
        if old is not new:
            order = [each for each in new.instructions if not is_mark(each, kernel.target)]
            made = Placement(facts, old.index).rebuild(order)
            if made is None:
                return None
            changed[old.index] = made[old.index]
    return joined_blocks(kernel, changed)


class _Layout:
    """Where every web of a kernel's VGPRs is, and where it might be."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.webs = Webs(kernel)
        self._starts = self._block_starts()
        self.highest = register_use(kernel).vgprs
        self.fixed: dict[int, int] = {}
        self.bundles: list[_Bundle] = []
        self._collect()

    def _block_starts(self) -> list[int]:
        starts, moment = [], 0
        for block in self.kernel.blocks:
            starts.append(moment)
            moment += 2 * len(block.instructions) + 2
        return starts

    def _collect(self) -> None:
        """Bundles of webs; what is pinned goes on the board at once."""
        groups: dict[int, set[int]] = {}
        wide: set[int] = set()
        for block in self.webs.blocks:
            for touched in (*block.of_read.values(), *block.of_write.values()):
                if touched[0].unit < self.kernel.target.vgpr.max_addressable.value:
                    numbers = {self.webs.number[id(each)] for each in touched}
                    joined = set().union(numbers, *(groups.get(number, set()) for number in numbers))
                    groups.update(dict.fromkeys(joined, joined))
                    if len(touched) > 1:
                        wide |= numbers
        for number, ranges in self.webs.members.items():
            if ranges[0].unit < self.kernel.target.vgpr.max_addressable.value:
                groups.setdefault(number, {number})
        for numbers in {id(group): group for group in groups.values()}.values():
            members = [each for number in numbers for each in self.webs.members[number]]
            if numbers & self.webs.pinned:
                for each in members:
                    self.fixed[each.unit] = self.fixed.get(each.unit, 0) | self._moments(each)
            else:
                self.bundles.append(self._bundle(members, bool(numbers & wide)))

    def _bundle(self, members: list[LiveRange], wide: bool) -> _Bundle:
        base = min(each.unit for each in members)
        taken: dict[int, int] = {}
        for each in members:
            taken[each.unit - base] = taken.get(each.unit - base, 0) | self._moments(each)
        width = max(taken) + 1
        return _Bundle(base, width, sorted(taken.items()), _ALIGNMENT if wide else 1, members)

    def _moments(self, each: LiveRange) -> int:
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
        """The kernel's blocks with no VGPR from `limit` on; None where no place was found for all."""
        if any(unit >= limit for unit in self.fixed):
            return None
        over = [each for each in self.bundles if each.base + each.width > limit]
        staying = [each for each in self.bundles if each.base + each.width <= limit]
        bases = self._placed(staying, over, limit) or self._placed([], self.bundles, limit)
        return self._renamed(bases) if bases is not None else None

    def _placed(self, staying: Iterable[_Bundle], moving: Iterable[_Bundle], limit: int) -> dict[int, int] | None:
        board = dict(self.fixed)
        for bundle in staying:
            _take(board, bundle, bundle.base)
        bases: dict[int, int] = {}
        for bundle in sorted(moving, key=lambda each: each.size, reverse=True):
            choices = range(bundle.base % bundle.modulus, limit - bundle.width + 1, bundle.modulus)
            base = next((at for at in choices if _is_free(board, bundle, at)), None)
            if base is None:
                return None
            _take(board, bundle, base)
            bases.update({id(each): base + each.unit - bundle.base for each in bundle.members})
        return bases

    def _renamed(self, units: Mapping[int, int]) -> tuple[Block, ...] | None:
        """The blocks with ranges (by id) at new units."""
        places, texts = [], []
        for block in self.webs.blocks:
            for place, instruction in enumerate(block.instructions):
                spans = {}
                for number in register_operands(instruction.decoded):
                    touched = block.of_read.get((place, number)) or block.of_write.get((place, number))
                    span = instruction.decoded.operands[number].registers
                    moved = units.get(id(touched[0])) if touched else None
                    if moved is not None and span is not None and moved != span.first:
                        spans[number] = RegisterSpan(RegisterFile.VGPR, moved, span.count)
                if spans:
                    places.append((block.index, place))
                    try:
                        texts.append(renamed_text(instruction.decoded, spans))
                    except EditError:
                        return None
        encoded = encode_all(texts, self.kernel.context)
        changed = {index: list(self.kernel.blocks[index].instructions) for index, _ in places}
        for (index, place), decoded in zip(places, encoded, strict=True):
            if decoded is None:
                return None
            changed[index][place] = replace(changed[index][place], decoded=decoded)
        return tuple(
            replace(block, instructions=tuple(changed[block.index])) if block.index in changed else block
            for block in self.kernel.blocks
        )


def _is_free(board: Mapping[int, int], bundle: _Bundle, base: int) -> bool:
    return all(not board.get(base + distance, 0) & moments for distance, moments in bundle.taken)


def _take(board: dict[int, int], bundle: _Bundle, base: int) -> None:
    for distance, moments in bundle.taken:
        board[base + distance] = board.get(base + distance, 0) | moments
