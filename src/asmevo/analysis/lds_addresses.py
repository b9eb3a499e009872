"""Whether two LDS accesses of different waves can touch the same byte.

Addresses are functions of the work-item (`item_flow`). Where two have the same rest, their bytes are compared work-item
by work-item: they meet if some byte is touched by work-items of two waves that may be on. Where the rests differ by
multiples of one atom, as in `lds[i] += lds[i + s]` for i < s, the accesses are apart if no number of the atom within
the bounds of both makes them meet; sums with the atom are taken not to wrap round.

An argument of a function counts as the same for all where work-items add a place of their own to it.
"""

from __future__ import annotations

from functools import cached_property

from msgspec import Struct

from asmevo.analysis.control_flow import ControlFlow
from asmevo.analysis.events import union
from asmevo.analysis.item_flow import ItemFlow, ItemMask
from asmevo.analysis.lds_access import Meeting, Places, address_of
from asmevo.analysis.work_item_values import Atom, AtomKind, ItemValue, Lanes, total
from asmevo.program.kernel import Kernel
from asmevo.semantics.lds_memory import accessed_bytes

_WHOLE = 1 << 32
_Waves = tuple[int, int]
"""The first and the last of some waves."""


class _Access(Struct, frozen=True, eq=False):
    """The address without offsets, the work-items that may be on, (offset, size) in bytes of each piece."""

    address: ItemValue
    mask: ItemMask
    pieces: tuple[tuple[int, int], ...]


class LdsAddresses(Struct, frozen=True, dict=True):
    """LDS accesses of one kernel or function, by the ids of their instructions; `asked` are those to be compared."""

    kernel: Kernel
    flow: ControlFlow
    asked: frozenset[int]

    @cached_property
    def _items(self) -> ItemFlow:
        return ItemFlow(self.kernel, self.flow, union(address_of(self.kernel.by_id[id_].decoded) for id_ in self.asked))

    @cached_property
    def _accesses(self) -> dict[int, _Access]:
        found = {}
        for block in self._items.entries:
            instructions = self.kernel.blocks[block].instructions
            if not any(each.id in self.asked for each in instructions):
                continue
            state = self._items.entered(block)
            for instruction in instructions:
                is_asked = instruction.id in self.asked and "ds" in instruction.flags
                pieces = accessed_bytes(instruction.decoded) if is_asked else None
                address = state.values.get(address_of(instruction.decoded).bit_length() - 1) if pieces else None
                if pieces and isinstance(address, ItemValue):
                    found[instruction.id] = _Access(address, state.execution, pieces)
                self._items.step(block, state, instruction)
        return found

    def rounds(self, id_: int) -> frozenset[int]:
        """Headers of the loops whose counters an access depends on."""
        access = self._accesses.get(id_)
        if access is None:
            return frozenset()
        atoms = (*access.address.rest, *(bound.atom for bound in access.mask.bounds))
        return frozenset(atom.place for atom in atoms if atom.kind is AtomKind.ROUND)

    def meeting(self, first: int, second: int) -> Meeting:
        """Of two accesses (ids) in the same round of all loops."""
        one, two = self._accesses.get(first), self._accesses.get(second)
        if one is None or two is None or not (_is_comparable(one.address) and _is_comparable(two.address)):
            return Meeting.UNKNOWN
        apart = total(two.address, one.address, -1).rest
        if not apart:
            return Meeting.MEET if self._share_bytes(one, two) else Meeting.APART
        if len(apart) > 1:
            return Meeting.UNKNOWN
        ((atom, factor),) = apart.items()
        return Meeting.UNKNOWN if self._may_meet(one, two, atom, factor) else Meeting.APART

    def _share_bytes(self, first: _Access, second: _Access) -> bool:
        one, two = self._touched(first), self._touched(second)
        return any(not one[byte][0] == one[byte][1] == two[byte][0] == two[byte][1] for byte in one.keys() & two.keys())

    def _touched(self, access: _Access) -> dict[int, _Waves]:
        """The bytes that an access touches, each with the first and the last wave that does."""
        steps = [step for offset, size in access.pieces for step in range(offset, offset + size)]
        touched: dict[int, _Waves] = {}
        for item, start in enumerate(self._lanes(access.address.lanes)):  # waves come in ascending order
            if access.mask.lanes >> item & 1:
                wave = item // self.kernel.wave_size
                for step in steps:
                    byte = (start + step) % _WHOLE
                    touched[byte] = (touched[byte][0] if byte in touched else wave, wave)
        return touched

    def _lanes(self, lanes: Lanes) -> tuple[int, ...]:
        return (lanes,) * self._items.size if isinstance(lanes, int) else lanes

    def _may_meet(self, first: _Access, second: _Access, atom: Atom, factor: int) -> bool:
        """Whether some number of the atom brings two pieces together; the second starts `factor` * atom further on."""
        from asmevo.analysis.lds_distance import may_meet  # numpy behind it is a third of a start

        one, two = self._pieces(first, atom), self._pieces(second, atom)
        return may_meet(one, two, _signed(factor), self.kernel.wave_size)

    def _pieces(self, access: _Access, atom: Atom) -> Places:
        """Where the pieces are in each work-item that may be on."""
        least = [0] * self._items.size
        for bound in access.mask.bounds:
            if bound.atom == atom:
                least = [
                    max(some, lane - bound.more + 1) for some, lane in zip(least, self._lanes(bound.lanes), strict=True)
                ]
        starts = self._lanes(access.address.lanes)
        on = [item for item in range(self._items.size) if access.mask.lanes >> item & 1]
        return Places(on, [_signed(starts[item]) for item in on], [least[item] for item in on], access.pieces)


def _is_comparable(address: ItemValue) -> bool:
    kinds = {atom.kind for atom in address.rest}
    return AtomKind.OTHER_AXES not in kinds and (AtomKind.ARGUMENT not in kinds or not isinstance(address.lanes, int))


def _signed(factor: int) -> int:
    return factor - (1 << 32) if factor >> 31 else factor
