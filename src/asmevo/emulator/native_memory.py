"""Memory accesses of several lanes in compiled code: where the bytes are, whether they may be touched, and moving them.

The check is the sandbox's own (see `memory`): inside the arena, and every byte's shadow has the needed bits. Shadow
and data are gathered and scattered as 32-bit words; a size that is no multiple of four ends in bytes. An access
that fails goes to a report function in Python, which finds out what is wrong and says whether to go on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from msgspec import Struct

from asmevo.emulator.memory import READABLE, WRITABLE, WRITTEN
from asmevo.emulator.native_state import I8, I16, I32, Slot
from asmevo.semantics.expression import Space
from asmevo.semantics.lane_code import LaneCode, broadcast

_EVERY_BYTE = 0x01010101
_PIECES = {4: I32, 2: I16, 1: I8}


class Places(Struct, frozen=True):
    """For each lane: host addresses of data and shadow, and whether the access lies inside its arena."""

    data: Any
    shadow: Any
    inside: Any


class Requester(Struct, frozen=True):
    """Who asks: `lane` numbers (i64), `active` lanes (i1), and `report(bad)` for when a check fails.

    `report` is called with the builder in a cold block and gives an i1: whether to go on.
    """

    lane: Any
    active: Any
    report: Callable[[Any, Any], Any]


class MemoryCode(LaneCode):
    """Accesses of `lanes` lanes (None: of one) at the builder's place; `slots` are the context's words."""

    def __init__(self, builder: Any, lanes: int | None, slots: dict[Slot, Any], abort: Any, notice_unwritten: bool):
        super().__init__(builder, lanes)
        self.slots = slots
        self.abort = abort
        self.needed_to_load = READABLE | (WRITTEN if notice_unwritten else 0)

    def wide(self, slot: Slot) -> Any:
        """A context word in every lane."""
        value = self.slots[slot]
        if self.lanes is None:
            return value
        return broadcast(self.builder, value, self.lanes)

    # --- where

    def places(self, space: Space, address: Any, size: int, lane: Any) -> Places:
        """`address` as the space's accesses have it (guest addresses or offsets)."""
        address = self.resized(address, 64)
        if space is Space.LDS:
            return self._lds(address, size)
        if space is Space.SCRATCH:
            return self._scratch(address, size, lane)
        plain = self._global(address, size)
        return self._flat(address, size, lane, plain) if space is Space.FLAT else plain

    def _fits(self, offset: Any, size: int, limit: Any) -> Any:
        """offset + size <= limit, without wrapping."""
        b = self.builder
        end = b.add(offset, self.constant(64, size))
        return b.and_(b.icmp_unsigned("<=", offset, limit), b.icmp_unsigned("<=", end, limit))

    def _global(self, address: Any, size: int) -> Places:
        offset = self.builder.sub(address, self.wide(Slot.MEMORY_BASE))
        inside = self._fits(offset, size, self.wide(Slot.MEMORY_SIZE))
        return self._at(Slot.MEMORY_DATA, Slot.MEMORY_SHADOW, offset, inside)

    def _lds(self, address: Any, size: int) -> Places:
        offset = self.builder.and_(address, self.constant(64, 0xFFFFFFFF))
        return self._at(Slot.LDS_DATA, Slot.LDS_SHADOW, offset, self._fits(offset, size, self.wide(Slot.LDS_SIZE)))

    def _scratch(self, address: Any, size: int, lane: Any) -> Places:
        own = self.builder.and_(address, self.constant(64, 0xFFFFFFFF))
        share = self.wide(Slot.SCRATCH_LANE)
        offset = self.builder.add(self.builder.mul(lane, share), own)
        return self._at(Slot.SCRATCH_DATA, Slot.SCRATCH_SHADOW, offset, self._fits(own, size, share))

    def _at(self, data: Slot, shadow: Slot, offset: Any, inside: Any) -> Places:
        add = self.builder.add
        return Places(add(self.wide(data), offset), add(self.wide(shadow), offset), inside)

    def _flat(self, address: Any, size: int, lane: Any, plain: Places) -> Places:
        """Each lane's address says by its upper half whether it means LDS, scratch or global memory."""
        b = self.builder
        upper = b.and_(address, self.constant(64, 0xFFFFFFFF_00000000))
        chosen = plain
        for slot, other in (
            (Slot.SHARED_BASE, self._lds(address, size)),
            (Slot.PRIVATE_BASE, self._scratch(address, size, lane)),
        ):
            here = b.icmp_unsigned("==", upper, self.wide(slot))
            chosen = Places(
                b.select(here, other.data, chosen.data),
                b.select(here, other.shadow, chosen.shadow),
                b.select(here, other.inside, chosen.inside),
            )
        return chosen

    # --- moving

    def gather(self, address: Any, bytes_: int, active: Any) -> Any:
        """`bytes_` (1, 2 or 4) at each active lane's address; 0 for the others."""
        kind = _PIECES[bytes_]
        if self.lanes is None:
            pointer = self.builder.inttoptr(address, kind.as_pointer())
            return self.builder.load(pointer, align=1)
        pointers = self.builder.inttoptr(address, ir.VectorType(kind.as_pointer(), self.lanes))
        vector = ir.VectorType(kind, self.lanes)
        name = f"llvm.masked.gather.v{self.lanes}i{kind.width}.v{self.lanes}p0"
        signature = ir.FunctionType(vector, [pointers.type, I32, active.type, vector])
        function = self._declared(name, signature)
        return self.builder.call(function, [pointers, ir.Constant(I32, 1), active, ir.Constant(vector, None)])

    def scatter(self, address: Any, value: Any, active: Any) -> None:
        """Stores integers of 8, 16 or 32 bits; of lanes that name one place the highest wins."""
        if self.lanes is None:
            self.builder.store(value, self.builder.inttoptr(address, value.type.as_pointer()), align=1)
            return
        kind = value.type.element
        pointers = self.builder.inttoptr(address, ir.VectorType(kind.as_pointer(), self.lanes))
        name = f"llvm.masked.scatter.v{self.lanes}i{kind.width}.v{self.lanes}p0"
        signature = ir.FunctionType(ir.VoidType(), [value.type, pointers.type, I32, active.type])
        self.builder.call(self._declared(name, signature), [value, pointers, ir.Constant(I32, 1), active])

    def _declared(self, name: str, signature: Any) -> Any:
        module = self.builder.module
        return module.globals.get(name) or ir.Function(module, signature, name=name)

    # --- checked accesses

    def load(self, places: Places, size: int, who: Requester) -> list[Any]:
        """The access as 32-bit words, the last one filled up with zeros."""
        self._check(places, size, who, self.needed_to_load)
        words = []
        for start in range(0, size, 4):
            word = self._guarded(lambda at: self.gather(at, 4, who.active), self._plus(places.data, start), who)
            if size - start < 4:
                word = self.builder.and_(word, self.constant(32, (1 << 8 * (size - start)) - 1))
            words.append(word)
        return words

    def store(self, places: Places, size: int, words: list[Any], who: Requester) -> None:
        """Stores the lowest `size` bytes of the words."""
        shadows = self._check(places, size, who, WRITABLE)
        for start, width in _pieces(size):
            value = words[start // 4]
            if start % 4:
                value = self.builder.lshr(value, self.constant(32, 8 * (start % 4)))
            self.scatter(self._plus(places.data, start), self.resized(value, 8 * width), who.active)
        self._mark_written(places, size, shadows, who)

    def _plus(self, address: Any, start: int) -> Any:
        return self.builder.add(address, self.constant(64, start)) if start else address

    def _guarded(self, load: Callable[[Any], Any], address: Any, who: Requester) -> Any:
        """A single lane that is switched off must not load: it reads the context instead and gets 0."""
        if self.lanes is not None:
            return load(address)
        safe = self.builder.select(who.active, address, self.slots[Slot.VECTORS])
        value = load(safe)
        return self.builder.select(who.active, value, ir.Constant(value.type, 0))

    def _check(self, places: Places, size: int, who: Requester, need: int) -> list[Any]:
        """Branches to the report when a lane may not; gives the gathered shadow words."""
        b = self.builder
        allowed = b.and_(places.inside, who.active)
        together, shadows = None, []
        for start in range(0, size, 4):
            shadow = self._guarded(
                lambda at: self.gather(at, 4, allowed), self._plus(places.shadow, start), _only(who, allowed)
            )
            beyond = ~((1 << 8 * min(4, size - start)) - 1)
            word = shadow if size - start >= 4 else b.or_(shadow, self.constant(32, beyond))
            shadows.append(shadow)
            together = word if together is None else b.and_(together, word)
        wanted = self.constant(32, need * _EVERY_BYTE)
        good = b.icmp_unsigned("==", b.and_(together, wanted), wanted)
        bad = b.and_(who.active, b.not_(b.and_(good, places.inside)))
        any_bad = (
            bad if self.lanes is None else b.icmp_unsigned("!=", self._bits(bad), ir.Constant(self._bits_type(), 0))
        )
        cold, go_on = b.function.append_basic_block("report"), b.function.append_basic_block("allowed")
        b.cbranch(any_bad, cold, go_on)
        b.position_at_end(cold)
        b.cbranch(who.report(b, bad), go_on, self.abort)
        b.position_at_end(go_on)
        return shadows

    def _bits_type(self) -> Any:
        return ir.IntType(self.lanes or 1)

    def _bits(self, mask: Any) -> Any:
        return mask if self.lanes is None else self.builder.bitcast(mask, self._bits_type())

    def _mark_written(self, places: Places, size: int, shadows: list[Any], who: Requester) -> None:
        """Sets WRITTEN where it is not yet; most stores find it set."""
        b = self.builder
        mark = WRITTEN * _EVERY_BYTE
        missing = None
        for word, start in zip(shadows, range(0, size, 4), strict=True):
            ours = mark & ((1 << 8 * min(4, size - start)) - 1)
            lacks = b.icmp_unsigned("!=", b.and_(word, self.constant(32, ours)), self.constant(32, ours))
            missing = lacks if missing is None else b.or_(missing, lacks)
        missing = b.and_(missing, who.active)
        any_missing = b.icmp_unsigned("!=", self._bits(missing), ir.Constant(self._bits_type(), 0))
        fresh, done = b.function.append_basic_block("mark"), b.function.append_basic_block("marked")
        b.cbranch(any_missing, fresh, done)
        b.position_at_end(fresh)
        for start, width in _pieces(size):
            word = b.or_(shadows[start // 4], self.constant(32, mark))
            if start % 4:
                word = b.lshr(word, self.constant(32, 8 * (start % 4)))
            self.scatter(self._plus(places.shadow, start), self.resized(word, 8 * width), who.active)
        b.branch(done)
        b.position_at_end(done)


def _only(who: Requester, active: Any) -> Requester:
    return Requester(who.lane, active, who.report)


def _pieces(size: int) -> list[tuple[int, int]]:
    """(start, bytes) of the stores that move `size` bytes: words, then a half word, then a byte."""
    found, start = [], 0
    for width in (4, 2, 1):
        while size - start >= width:
            found.append((start, width))
            start += width
    return found
