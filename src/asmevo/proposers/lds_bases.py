"""LDS addresses of a block that share one register: the encoding adds an offset, so not each needs an addition.

Compilers make each LDS address that is a base and a number by an addition of its own, as the number may not fit into
the offset. But what has to fit is only the distance to another such address. In each hot block the accesses whose
addresses are additions of numbers to the same value are gathered and dealt out to as few registers as their offsets
allow: the base itself where it is still there, then the lowest address that is left, and so on. The first addition of
a group makes the common address, the others go, and the accesses stay where they are.

The common address lives from the first addition of its group to the last access. It takes the register of one of the
additions if that is free for so long, else another one below the occupancy step.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from asmevo.analysis.events import union
from asmevo.analysis.liveness import Liveness
from asmevo.program.edit import EditScript, script_between
from asmevo.program.errors import EditError
from asmevo.program.instruction import Decoded, Instruction
from asmevo.program.instruction_text import encode_all
from asmevo.program.kernel import Block, Kernel
from asmevo.program.registers import EXEC_MASK, RegisterFile, RegisterSpan, units_of
from asmevo.program.renaming import renamed_text
from asmevo.proposers.placement import Placement, is_mark
from asmevo.proposers.proposer import Facts
from asmevo.proposers.register_room import roomier_descriptor, vgpr_room
from asmevo.proposers.templates.block_index import BlockIndex, base_mnemonic
from asmevo.proposers.templates.known_bits import KnownBits
from asmevo.semantics.lds_memory import offset_unit

_ADDITIONS = frozenset({"v_add_u32", "v_add_nc_u32"})
_ADDRESS = {"read": 1, "load": 1, "write": 0, "store": 0}
"""The place of the address among the operands, by what an instruction does."""
_ACCESS = re.compile(r"ds_(read|load|write|store)(?:2|_2addr)?(?:st64|_stride64)?_[bui]\d+")
_OFFSETS = ("offset", "offset0", "offset1")
_OFFSET_TEXT = re.compile(r" offset[01]?:\w+")
_ONE_OFFSET, _EACH_OF_TWO = 1 << 16, 1 << 8

_Source = tuple[int, int, tuple[int, ...]]
"""A register unit, its writer, and the writers of EXEC: what two additions have in common that add to one value."""


class _Access(Struct, frozen=True):
    """An access at a place whose address is `number` more than a base, by an addition at another place."""

    place: int
    operand: int
    addition: int
    number: int
    unit: int
    offsets: tuple[int, ...]

    def offsets_from(self, base: int) -> tuple[int, ...] | None:
        """The offsets that lead to the same bytes from another number; None where the encoding has none."""
        steps, rest = divmod(self.number - base, self.unit)
        found = tuple(offset + steps for offset in self.offsets)
        most = _ONE_OFFSET if len(found) == 1 else _EACH_OF_TWO
        return found if not rest and all(0 <= each < most for each in found) else None


class _Group(Struct):
    """Accesses that share an address: `number` more than the base, in a register or, where that is 0, the base."""

    number: int
    accesses: list[_Access]

    @property
    def first(self) -> int:
        """Where the common address is made."""
        return min(each.addition for each in self.accesses)

    @property
    def last(self) -> int:
        """Where it is read last."""
        return max(each.place for each in self.accesses)


class LdsBases:
    """See the module."""

    name = "lds-bases"

    def propose(self, facts: Facts) -> Generator[EditScript, bool | None, None]:
        """See Proposer.propose."""
        kernel, liveness = facts.kernel, facts.liveness
        known_bits, blocks, next_id, changed = KnownBits(kernel, liveness), list(kernel.blocks), facts.next_id(), 0
        for number in facts.hot_blocks:
            if facts.out_of_time():
                return
            shared = _Shared(facts, BlockIndex(kernel, kernel.blocks[number], liveness, known_bits))
            code = shared.code()
            for made in _placed(facts, number, code, next_id) if code is not None else ():
                words = f"{self.name}: {shared.fewer} fewer additions in block {number}"
                if (yield _script(kernel, made, words)):
                    blocks[number], changed = made[number], changed + 1
                    next_id = max(next_id, 1 + max(each.id for each in made[number].instructions))
                    break
        if changed > 1:
            yield _script(kernel, tuple(blocks), f"{self.name}: {changed} blocks together")


def _script(kernel: Kernel, blocks: tuple[Block, ...], words: str) -> EditScript:
    return script_between(kernel, blocks, words, roomier_descriptor(kernel, blocks) or kernel.descriptor)


def _placed(facts: Facts, block: int, code: Sequence[Instruction], next_id: int) -> Iterator[tuple[Block, ...]]:
    """The kernel's blocks with new code in one: with the old waits, and with waits placed anew."""
    bare = [each for each in code if not is_mark(each, facts.kernel.target)]
    for made in (
        Placement(facts, block, next_id).settle(code),
        Placement(facts, block, next_id).rebuild(bare),
    ):
        if made is not None:
            yield made


class _Shared:
    """Accesses of one block with common addresses."""

    def __init__(self, facts: Facts, index: BlockIndex) -> None:
        self._kernel, self._index = facts.kernel, index
        by_source: dict[_Source, list[_Access]] = {}
        for source, access in self._accesses():
            by_source.setdefault(source, []).append(access)
        self._groups = [(source, group) for source, own in by_source.items() for group in self._dealt(source, own)]
        self._gone = self._unread()

    @property
    def fewer(self) -> int:
        """How many additions go."""
        return len(self._gone) - sum(group.number != 0 for _, group in self._groups)

    def _accesses(self) -> Iterator[tuple[_Source, _Access]]:
        for place, instruction in enumerate(self._index.code):
            decoded = instruction.decoded
            found = _ACCESS.fullmatch(decoded.mnemonic)
            if found is None or any(each.name not in _OFFSETS for each in decoded.modifiers):
                continue
            operand = _ADDRESS[found[1]]
            span = decoded.operands[operand].registers
            addition = self._index.reaching(place, span.base_unit) if span is not None else -1
            added = _addition(self._index.code[addition].decoded) if addition >= 0 else None
            if added is None or self._exec(place) != self._exec(addition):
                continue
            base, number = added
            source = (base, self._index.reaching(addition, base), self._exec(addition))
            unit = offset_unit(decoded.mnemonic)
            names = _OFFSETS[1:] if unit > 1 else _OFFSETS[:1]
            offsets = tuple(int(decoded.modifier(name) or "0", 0) for name in names)
            yield source, _Access(place, operand, addition, number, unit, offsets)

    def _exec(self, place: int) -> tuple[int, ...]:
        return tuple(self._index.reaching(place, unit) for unit in units_of(EXEC_MASK))

    def _dealt(self, source: _Source, accesses: list[_Access]) -> Iterator[_Group]:
        """As few groups as a walk from low to high addresses finds; single ones stay as they are."""
        base, writer, _ = source
        left = sorted(accesses, key=lambda each: (each.number, each.place))
        there = [each for each in left if self._index.reaching(each.place, base) == writer]
        near = [each for each in there if each.offsets_from(0) is not None]
        if near:
            yield _Group(0, near)
        left = [each for each in left if each.number and each not in near]
        while left:
            number = left[0].number
            near = [each for each in left if each.offsets_from(number) is not None]
            if len({each.addition for each in near}) > 1:
                yield _Group(number, near)
            left = [each for each in left if each not in near]

    def _unread(self) -> set[int]:
        """Additions of which nobody reads the result any more; groups that save none are dropped."""
        while True:
            moved = {each.place for _, group in self._groups for each in group.accesses}
            gone = {
                each.addition
                for _, group in self._groups
                for each in group.accesses
                if self._is_unread(each.addition, moved)
            }
            useful = [
                (source, group)
                for source, group in self._groups
                if len({each.addition for each in group.accesses} & gone) > (group.number != 0)
            ]
            if len(useful) == len(self._groups):
                return gone
            self._groups = useful

    def _is_unread(self, addition: int, moved: set[int]) -> bool:
        (unit,) = units_of(self._index.code[addition].writes)
        return not self._index.survives(addition, unit) and moved.issuperset(self._index.uses(addition, unit))

    def code(self) -> list[Instruction] | None:
        """The block's code; None where nothing is to be shared."""
        registers = self._registers()
        if not registers:
            return None
        texts: dict[int, str] = {}
        try:
            for (source, group), register in zip(self._groups, registers, strict=True):
                if group.number:
                    name = base_mnemonic(self._index.code[group.first].mnemonic)
                    texts[group.first] = f"{name} v{register}, {group.number:#x}, v{source[0]}"
                texts |= {each.place: self._text(each, group.number, register) for each in group.accesses}
        except EditError:
            return None
        encoded = dict(zip(texts, encode_all(texts.values(), self._kernel.context), strict=True))
        new = {place: decoded for place, decoded in encoded.items() if decoded is not None}
        if len(new) < len(texts):
            return None
        return [
            replace(each, decoded=new[place]) if place in new else each
            for place, each in enumerate(self._index.code)
            if place in new or place not in self._gone
        ]

    def _text(self, access: _Access, number: int, register: int) -> str:
        decoded = self._index.code[access.place].decoded
        text = renamed_text(decoded, {access.operand: RegisterSpan(RegisterFile.VGPR, register)})
        offsets = access.offsets_from(number)
        assert offsets is not None
        names = _OFFSETS[:1] if len(offsets) == 1 else _OFFSETS[1:]
        return _OFFSET_TEXT.sub("", text) + "".join(
            f" {name}:{offset}" for name, offset in zip(names, offsets, strict=True)
        )

    def _registers(self) -> list[int]:
        """A register for the address of each group, one that is free as long as it is needed; groups without go."""
        while True:
            found = self._free_registers()
            if None not in found:
                return [each for each in found if each is not None]
            at = found.index(None)
            del self._groups[at]
            self._gone = self._unread()

    def _free_registers(self) -> list[int | None]:
        taken = [set(units_of(units)) for units in self._held()]
        found: list[int | None] = []
        for source, group in self._groups:
            if not group.number:
                found.append(source[0])
                continue
            held: set[int] = set().union(*taken[group.first : group.last + 1])
            own = [unit for each in group.accesses for unit in units_of(self._index.code[each.addition].writes)]
            free = next((unit for unit in (*own, *range(vgpr_room(self._kernel))) if unit not in held), None)
            if free is not None:
                for place in range(group.first, group.last + 1):
                    taken[place].add(free)
            found.append(free)
        return found

    def _held(self) -> list[int]:
        """By place the units that hold something there or are written, when nobody needs the additions any more.

        Of the common addresses only those count that are there already.
        """
        reading = {each.place: (source[0], group, each) for source, group in self._groups for each in group.accesses}
        bare = []
        for place, instruction in enumerate(self._index.code):
            decoded = instruction.decoded
            if place in self._gone:
                decoded = replace(decoded, writes=0)
            elif place in reading:
                base, group, access = reading[place]
                decoded = replace(decoded, reads=_without(decoded, access.operand) | (0 if group.number else 1 << base))
            bare.append(replace(instruction, decoded=decoded))
        block = replace(self._index.block, instructions=tuple(bare))
        blocks = (block if old.index == block.index else old for old in self._kernel.blocks)
        states = Liveness(self._kernel.with_blocks(tuple(blocks))).states(block.index)
        return [states[place].any_lane | states[place + 1].any_lane | each.writes for place, each in enumerate(bare)]


def _without(decoded: Decoded, left_out: int) -> int:
    """What an instruction reads without one of its operands."""
    others = (each for number, each in enumerate(decoded.operands) if number != left_out and each.read)
    named = union(each.registers.mask for each in others if each.registers is not None)
    printed = union(each.registers.mask for each in decoded.operands if each.registers is not None)
    return named | decoded.reads & ~printed


def _addition(decoded: Decoded) -> tuple[int, int] | None:
    """(register unit, number) of an addition of a number to a vector register."""
    if base_mnemonic(decoded.mnemonic) not in _ADDITIONS or len(decoded.operands) != 3 or decoded.modifiers:
        return None
    one, other = decoded.operands[1:]
    number, register = (one, other) if one.is_literal else (other, one)
    span = register.registers
    if not number.is_literal or span is None or span.file is not RegisterFile.VGPR or span.count != 1:
        return None
    try:
        value = int(number.text, 0)
    except ValueError:
        return None
    return (span.base_unit, value) if value >= 0 else None
