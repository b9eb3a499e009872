"""Whether two LDS accesses of different waves can touch the same byte.

Addresses are functions of the work-item (`item_flow`). Where two have the same rest, their bytes are compared work-item
by work-item: they meet if some byte is touched by work-items of two waves that may be on. Where the rests differ by
multiples of one atom, as in `lds[i] += lds[i + s]` for i < s, the accesses are apart if no number of the atom within
the bounds of both makes them meet; sums with the atom are taken not to wrap round.

An argument of a function counts as the same for all where work-items add a place of their own to it.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from asmevo.analysis.control_flow import ControlFlow
from asmevo.analysis.events import union
from asmevo.analysis.item_flow import Bound, ItemFlow, ItemMask
from asmevo.analysis.lds_access import Meeting, address_of
from asmevo.analysis.work_item_values import Atom, AtomKind, ItemValue, total
from asmevo.program.kernel import Kernel
from asmevo.semantics.lds_memory import accessed_bytes

_Pieces = tuple[tuple[int, int], ...]
_Bytes = tuple[NDArray[np.uint32], NDArray[np.int64], NDArray[np.int64]]


class _Access(Struct, frozen=True, eq=False):
    """The address without offsets, the work-items that may be on, (offset, size) in bytes of each piece."""

    address: ItemValue
    mask: ItemMask
    pieces: _Pieces


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
        _, at, there = np.intersect1d(one[0], two[0], assume_unique=True, return_indices=True)
        lowest = np.minimum(one[1][at], two[1][there])
        highest = np.maximum(one[2][at], two[2][there])
        return bool(np.any(lowest != highest))

    def _touched(self, access: _Access) -> _Bytes:
        """The bytes that an access touches, each with the first and the last wave that does."""
        starts, waves = self._lanes(access)[access.mask.lanes], self._items.waves[access.mask.lanes]
        steps = np.concatenate([np.arange(offset, offset + size) for offset, size in access.pieces]).astype(np.uint32)
        touched, place = np.unique((starts[:, None] + steps).ravel(), return_inverse=True)
        of_waves = np.repeat(waves, len(steps))
        first, last = np.full(len(touched), self._items.size), np.full(len(touched), -1)
        np.minimum.at(first, place.ravel(), of_waves)
        np.maximum.at(last, place.ravel(), of_waves)
        return touched, first, last

    def _lanes(self, access: _Access) -> NDArray[np.uint32]:
        return np.broadcast_to(access.address.lanes, (self._items.size,))

    def _may_meet(self, first: _Access, second: _Access, atom: Atom, factor: int) -> bool:
        """Whether some number of the atom brings two pieces together; the second starts `factor` * atom further on."""
        factor = _signed(factor)
        pairs = (self._items.waves[:, None] != self._items.waves) & first.mask.lanes[:, None] & second.mask.lanes
        starts = [self._lanes(each).view(np.int32).astype(np.int64) for each in (first, second)]
        between = starts[1] - starts[0][:, None]
        least = np.maximum(self._least(first, atom)[:, None], self._least(second, atom))
        for here, size in first.pieces:
            for there, other in second.pieces:
                for shared in range(1 - other, size):
                    needed = shared - (between + there - here)
                    if np.any(pairs & (needed % factor == 0) & (needed // factor >= least)):
                        return True
        return False

    def _least(self, access: _Access, atom: Atom) -> NDArray[np.int64]:
        """For each work-item the least number of the atom with which it can be on."""
        bounds = [_least_number(bound) for bound in access.mask.bounds if bound.atom == atom]
        return np.asarray(np.maximum.reduce([np.zeros(self._items.size, dtype=np.int64), *bounds]))


def _least_number(bound: Bound) -> NDArray[np.int64]:
    return bound.lanes.astype(np.int64) - bound.more + 1


def _is_comparable(address: ItemValue) -> bool:
    kinds = {atom.kind for atom in address.rest}
    return AtomKind.OTHER_AXES not in kinds and (AtomKind.ARGUMENT not in kinds or address.lanes.ndim > 0)


def _signed(factor: int) -> int:
    return factor - (1 << 32) if factor >> 31 else factor
