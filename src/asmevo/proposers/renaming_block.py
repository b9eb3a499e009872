"""A block whose local values have no registers yet, and finding registers for them in a new order.

After register allocation most of a block's order is bound by registers that are used again, not by values. Here
every value that lives and dies in the block (`live_ranges`) is taken off its register and gets a virtual one of its
own, so that a dependence graph shows what the values ask for. A proposer chooses an order; then registers are
dealt out again: what is not local stays where it is, and each bundle of local ranges gets, in the order in which
they begin, a place that is free from begin to end and keeps the rules that the proposer asks for (banks of dual
instructions). The result is text for every instruction whose registers changed, which LLVM encodes.

Time. A slot is what issues together, one instruction or the halves of a dual one. Each slot has two moments, reading
and writing. A range that a plain ALU instruction begins starts at the moment of writing, so that it may take
the register of a source that ends there; results of wider or slower instructions start at the moment of reading, as
hardware may write part of them before the last source is read. One that replaces a source of the same registers (a sum)
stays in one bundle with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy

from msgspec import Struct, field
from msgspec.structs import replace

from asmevo.analysis.live_ranges import BlockRanges, LiveRange
from asmevo.analysis.liveness import LiveState
from asmevo.program.instruction import Decoded, Instruction
from asmevo.program.instruction_text import all_assemble_back, encode_all
from asmevo.program.kernel import Block, Kernel
from asmevo.program.registers import UNIT_COUNT, VGPR_MASK, RegisterFile, RegisterSpan, units_of
from asmevo.program.renaming import register_operands, renamed_text
from asmevo.proposers.register_room import vgpr_room

_PLAIN = frozenset({"valu", "salu"})
_ALIGNMENT = 2
"""Registers of an operand of several keep their place modulo this, as targets that align operands ask for it."""
_HALVES_REACH = 128
"""VGPRs whose 16-bit halves the short encodings can name."""
_TRIES = 6

Slot = tuple[int, ...]
"""Places of the instructions that issue together."""


class Bundle(Struct, eq=False):
    """Local ranges that keep their distances: unit of a member = `base` + its distance. `below` bounds the units."""

    base: int
    width: int
    members: list[LiveRange]
    modulus: int
    below: int

    def shift(self, member: LiveRange) -> int:
        """Distance of a member from the base."""
        return member.unit - self.base


class Apart(Struct, frozen=True):
    """Two ranges whose registers must differ in the bits of `mask`.

    `pair` are the halves for which; one place twice is an instruction that is dual already and stays so.
    """

    first: LiveRange
    second: LiveRange
    mask: int
    pair: Slot


class Dealt(Struct):
    """Registers found: the new base of each bundle by id; pairs given up for them; or what stood in the way."""

    bases: dict[int, int] = field(default_factory=dict)
    given_up: set[Slot] = field(default_factory=set)
    failed: Bundle | None = None


def joined_blocks(kernel: Kernel, changed: Mapping[int, Block]) -> tuple[Block, ...]:
    """The kernel's blocks with several changed apart from each other; new instructions get ids of their own."""
    next_id = 1 + max(instruction.id for instruction in kernel.instructions)
    blocks = []
    for block in kernel.blocks:
        instructions = []
        for instruction in changed.get(block.index, block).instructions:
            if instruction.id not in kernel.by_id:
                instruction = replace(instruction, id=next_id)
                next_id += 1
            instructions.append(instruction)
        blocks.append(replace(block, instructions=tuple(instructions)) if block.index in changed else block)
    return tuple(blocks)


class RenamedBlock:
    """The body of a block (instructions without marks) with its ranges; made once, used for many orders."""

    def __init__(self, index: int, body: Sequence[Instruction], states: Sequence[LiveState], kernel: Kernel) -> None:
        self.body = tuple(body)
        self.kernel = kernel
        self.room = vgpr_room(kernel)
        self.ranges = BlockRanges(index, self.body, states)
        self._pin_what_has_no_text()
        self.bundle_of: dict[int, Bundle] = {}
        self.bundles = self._bundles()
        touched = passing = 0
        for each in self.ranges.ranges:
            touched |= 1 << each.unit
            passing |= 1 << each.unit if each.enters and each.leaves else 0
        untouched = (states[0].any_lane | states[-1].any_lane) & ~touched
        self.always = (untouched | passing) & VGPR_MASK
        self._virtual = self._virtual_units()
        self.virtual_mask = sum(1 << unit for unit in set(self._virtual.values()))
        self.virtual = tuple(self._detached(place) for place in range(len(self.body)))

    def _pin_what_has_no_text(self) -> None:
        """Encodings that LLVM's assembler does not make of their text keep their registers."""
        written = all_assemble_back([each.decoded for each in self.body], self.kernel.context)
        for table in (self.ranges.of_read, self.ranges.of_write):
            for (place, _), touched in table.items():
                for each in touched:
                    each.pinned |= not written[place]
        self._pin_what_hides_a_stranger()

    def _pin_what_hides_a_stranger(self) -> None:
        """A wide result on top of a source that nobody may have written (half an address, say) keeps its registers.

        Elsewhere it would be right as well, but the read could no longer be told from a wrong one.
        """
        entering = {id(each) for each in self.ranges.entering.values()}
        for (place, _), results in self.ranges.of_write.items():
            if len(results) == 1:
                continue
            units = {each.unit for each in results}
            for number in register_operands(self.body[place].decoded):
                read = self.ranges.of_read.get((place, number), ())
                if any(id(each) in entering and each.unit in units for each in read):
                    for each in results:
                        each.pinned = True

    # --- bundles --------------------------------------------------------------------------------------------

    def _bundles(self) -> list[Bundle]:
        groups: dict[int, list[LiveRange]] = {id(each): [each] for each in self.ranges.ranges}
        wide: dict[int, int] = {}
        halves: set[int] = set()
        for (place, number), touched in (*self.ranges.of_read.items(), *self.ranges.of_write.items()):
            first = touched[0]
            for other in touched[1:]:
                _merge(groups, first, other)
            if len(touched) > 1:
                wide[id(first)] = len(touched)
            if self.body[place].decoded.operands[number].half:
                halves.add(id(first))
        for source, result in self.ranges.in_place():
            _merge(groups, source, result)
        found = []
        for members in {id(group): group for group in groups.values()}.values():
            if not all(each.is_local and 1 << each.unit & VGPR_MASK for each in members):
                continue
            base = min(each.unit for each in members)
            width = max(each.unit for each in members) - base + 1
            modulus = _ALIGNMENT if any(id(each) in wide for each in members) else 1
            reach = _HALVES_REACH if any(id(each) in halves for each in members) else self.room
            bundle = Bundle(base, width, members, modulus, min(reach, self.room))
            found.append(bundle)
            self.bundle_of.update({id(each): bundle for each in members})
        return found

    # --- virtual registers ----------------------------------------------------------------------------------

    def _virtual_units(self) -> dict[int, int]:
        """A unit beyond all real ones for each register of a bundle; its values there keep their order."""
        found: dict[int, int] = {}
        first = UNIT_COUNT
        for bundle in self.bundles:
            found.update({id(each): first + bundle.shift(each) for each in bundle.members})
            first += bundle.width
        return found

    def _detached(self, place: int) -> Instruction:
        """The instruction with virtual registers in what it reads and writes; its encoding is the old one."""
        instruction = self.body[place]
        decoded = instruction.decoded
        numbers = register_operands(decoded)
        if not any(self._is_free(touched) for number in numbers for touched in self._touching(place, number)):
            return instruction
        reads, writes = decoded.reads, decoded.writes
        for number in numbers:
            span = decoded.operands[number].registers
            assert span is not None
            if decoded.operands[number].read:
                reads &= ~span.mask
            if decoded.operands[number].written:
                writes &= ~span.mask
        for number in numbers:
            for each in self.ranges.of_read.get((place, number), ()):
                reads |= 1 << self._virtual.get(id(each), each.unit)
            for each in self.ranges.of_write.get((place, number), ()):
                writes |= 1 << self._virtual.get(id(each), each.unit)
        return replace(instruction, decoded=replace(decoded, reads=reads, writes=writes))

    def _touching(self, place: int, number: int) -> Iterable[list[LiveRange]]:
        for table in (self.ranges.of_read, self.ranges.of_write):
            if (place, number) in table:
                yield table[place, number]

    def _is_free(self, touched: list[LiveRange]) -> bool:
        return id(touched[0]) in self.bundle_of

    # --- dealing out ----------------------------------------------------------------------------------------

    def deal(self, order: Sequence[Slot], rules: Sequence[Apart] = ()) -> Dealt:
        """Registers for every bundle in an order of slots.

        `failed` names a bundle that found no place; before that, such a bundle is served first the next time. Where
        there is a place, but none that keeps its rules, the pairs that ask for them are given up.
        """
        ruled: dict[int, list[Apart]] = {}
        for rule in rules:
            for owner in {id(self.bundle_of.get(id(each))) for each in (rule.first, rule.second)}:
                ruled.setdefault(owner, []).append(rule)
        empty = _Board(self, order)
        urgent: list[Bundle] = []
        for _ in range(_TRIES):
            dealt = self._deal_once(empty.copy(), ruled, urgent)
            if dealt.failed is None or dealt.failed in urgent:
                break
            urgent.append(dealt.failed)
        return dealt

    def _deal_once(self, board: _Board, ruled: Mapping[int, list[Apart]], urgent: list[Bundle]) -> Dealt:
        dealt = Dealt()
        for bundle, masks in board.requests(urgent):
            mine = [rule for rule in ruled.get(id(bundle), ()) if rule.pair not in dealt.given_up]
            bases = board.free_bases(bundle, masks)
            broken = self._broken(mine, bundle, dealt)
            kept = [base for base in bases if not broken[base % len(broken)]]
            if not kept and bases:
                base = min(bases, key=lambda base: _price(broken[base % len(broken)]))
                dealt.given_up |= {rule.pair for rule in broken[base % len(broken)]}
                kept = [base]
            if not kept or any(_stands(pair) for pair in dealt.given_up):
                dealt.failed = bundle
                return dealt
            dealt.bases[id(bundle)] = board.take(bundle, kept, masks)
        return dealt

    def _broken(self, rules: Iterable[Apart], bundle: Bundle, dealt: Dealt) -> list[list[Apart]]:
        """Rules that a bundle breaks where its base has the last bits of the list's index, as many as rules look at.

        Only those whose other side has its place.
        """
        known = []
        for rule in rules:
            one, other = (self._side(each, bundle, dealt) for each in (rule.first, rule.second))
            if one is not None and other is not None:
                known.append((rule, one, other))
        bases = 1 << max((rule.mask.bit_length() for rule, _, _ in known), default=0)
        return [
            [
                rule
                for rule, (a, moves), (b, follows) in known
                if not (a + base * moves ^ b + base * follows) & rule.mask
            ]
            for base in range(bases)
        ]

    def _side(self, each: LiveRange, bundle: Bundle, dealt: Dealt) -> tuple[int, bool] | None:
        """Where a range is, and whether that counts from the bundle's base; None if it has no place yet."""
        owner = self.bundle_of.get(id(each))
        if owner is None:
            return each.unit, False
        if owner is bundle:
            return bundle.shift(each), True
        base = dealt.bases.get(id(owner))
        return None if base is None else (base + owner.shift(each), False)

    def unit(self, each: LiveRange, dealt: Dealt) -> int:
        """Where a range is after dealing."""
        owner = self.bundle_of.get(id(each))
        return each.unit if owner is None else dealt.bases[id(owner)] + owner.shift(each)

    def texts(self, dealt: Dealt) -> list[str]:
        """The text of every instruction with its new registers. Raises EditError where one cannot be renamed."""
        return [self._text(place, dealt) for place in range(len(self.body))]

    def _text(self, place: int, dealt: Dealt) -> str:
        decoded = self.body[place].decoded
        spans = {}
        for number in register_operands(decoded):
            present = decoded.operands[number].registers
            assert present is not None
            touched = next(iter(self._touching(place, number)))
            if id(touched[0]) in self.bundle_of:
                first = self.unit(touched[0], dealt)
                spans[number] = RegisterSpan(RegisterFile.VGPR, first, present.count)
        changed = {number: span for number, span in spans.items() if span != decoded.operands[number].registers}
        return renamed_text(decoded, changed) if changed else decoded.text

    def renamed(self, dealt: Dealt) -> list[Instruction] | None:
        """The body with new registers, in its old order; None where LLVM refuses an instruction."""
        texts = self.texts(dealt)
        changed = [n for n, (text, old) in enumerate(zip(texts, self.body, strict=True)) if text != old.decoded.text]
        encoded = encode_all([texts[n] for n in changed], self.kernel.context)
        body = list(self.body)
        for place, found in zip(changed, encoded, strict=True):
            if found is None or not _same_but_registers(found, body[place].decoded):
                return None
            body[place] = replace(body[place], decoded=found)
        return body


def _stands(pair: Slot) -> bool:
    """Whether a rule is one of an instruction that is dual already: it cannot be given up."""
    return pair[0] == pair[-1]


def _price(broken: Sequence[Apart]) -> tuple[int, int]:
    """What breaking rules costs: first of all those that cannot be given up."""
    return sum(_stands(rule.pair) for rule in broken), len(broken)


def _same_but_registers(new: Decoded, old: Decoded) -> bool:
    return new.shape == old.shape or new.mnemonic == old.mnemonic


def _merge(groups: dict[int, list[LiveRange]], one: LiveRange, other: LiveRange) -> None:
    first, second = groups[id(one)], groups[id(other)]
    if first is not second:
        first += second
        for each in second:
            groups[id(each)] = first


class _Board:
    """Which unit is taken when: a set of moments (bits, two a slot) for each unit."""

    def __init__(self, block: RenamedBlock, order: Sequence[Slot]) -> None:
        self.block = block
        self.time = {place: slot for slot, places in enumerate(order) for place in places}
        self.end = 2 * len(order)
        self.taken: dict[int, int] = dict.fromkeys(units_of(block.always), -1)
        for each in block.ranges.ranges:
            if id(each) not in block.bundle_of:
                self.taken[each.unit] = self.taken.get(each.unit, 0) | self.moments(each)
        self._requests = self._all_requests()

    def copy(self) -> _Board:
        """The same board, to be filled in another way."""
        other = copy(self)
        other.taken = dict(self.taken)
        return other

    def moments(self, each: LiveRange) -> int:
        """The moments in which a range needs its register."""
        times = [(self.time[access.place], access) for access in each.accesses]
        first = 0
        if not each.enters:
            slot, access = min(times, key=lambda pair: pair[0])
            first = 2 * slot + (0 if self._writes_early(access.place, access.operand) else 1)
        last = self.end
        if not each.leaves:
            last = max((2 * slot + (1 if access.written else 0) for slot, access in times), default=first)
        return (1 << (last + 1)) - (1 << first)

    def _writes_early(self, place: int, number: int) -> bool:
        decoded = self.block.body[place].decoded
        span = decoded.operands[number].registers
        return _PLAIN.isdisjoint(decoded.flags) or span is None or span.count > 1

    def _all_requests(self) -> list[tuple[Bundle, list[tuple[int, int]]]]:
        found: list[tuple[int, Bundle, list[tuple[int, int]]]] = []
        for bundle in self.block.bundles:
            masks = [(bundle.shift(each), self.moments(each)) for each in bundle.members]
            start = min((mask & -mask).bit_length() - 1 for _, mask in masks)
            found.append((start, bundle, masks))
        found.sort(key=lambda request: (request[0], -request[1].width, request[1].base))
        return [(bundle, masks) for _, bundle, masks in found]

    def requests(self, urgent: list[Bundle]) -> list[tuple[Bundle, list[tuple[int, int]]]]:
        """Bundles with (distance, moments) of each member: urgent ones, then in the order in which they begin."""
        return sorted(self._requests, key=lambda request: request[0] not in urgent)

    def free_bases(self, bundle: Bundle, masks: list[tuple[int, int]]) -> list[int]:
        """Where all members are free."""
        taken = self.taken.get
        bases: Iterable[int] = range(
            bundle.base % bundle.modulus, max(bundle.below - bundle.width + 1, 0), bundle.modulus
        )
        for distance, mask in masks:
            bases = [base for base in bases if not taken(base + distance, 0) & mask]
        return list(bases)

    def take(self, bundle: Bundle, bases: list[int], masks: list[tuple[int, int]]) -> int:
        """Takes one of some free bases: the old one, else where least room is lost."""
        base = bundle.base if bundle.base in bases else min(bases, key=lambda each: self._lost(each, masks))
        for distance, mask in masks:
            self.taken[base + distance] = self.taken.get(base + distance, 0) | mask
        return base

    def _lost(self, base: int, masks: list[tuple[int, int]]) -> int:
        """Free moments around the members, up to the next ones taken."""
        lost = 0
        for distance, mask in masks:
            taken = self.taken.get(base + distance, 0)
            first, last = (mask & -mask).bit_length() - 1, mask.bit_length()
            before = (taken & (1 << first) - 1).bit_length()
            behind = taken >> last
            until = (behind & -behind).bit_length() - 1 if behind else self.end - last
            lost += first - before + until
        return lost
