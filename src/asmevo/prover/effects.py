"""Whether two stretches do the same to memory, as far as other waves and later code can tell.

Effects are compared one by one, as `stores` lists them: equal lists of terms are equal contents of memory behind them,
in one wave's eyes. What remains is when other waves see what.

* Ordered effects (atomics, fences, coherent accesses) are never exchanged with anything: nothing to show.
* **Stores of one space that changed their order.** Hardware may show two plain stores to different bytes in either
  order, as long as nothing makes the first one finish before the second one is issued: that is why a release needs a
  wait. So the version after may exchange two stores, or make them at once in a wider one, unless a wait of the version
  before let the first one finish (`State.settled`, from the rules of the wait counters): there the second one may be a
  signal that the first one's bytes are there. LDS keeps the order of a wave's accesses even without a wait; plain
  stores to LDS without a wait between them are taken for data, not for signals. Scratch is seen by nobody else.
* **A store that fell apart.** One access may be seen by others as one; its pieces may not come from several accesses of
  the version after. A widened one is seen in no state that the version before does not pass through.
* **Hints** of a widened store (streaming, last use) are those of all its parts.
* **Loads.** What the version after reads, the one before reads, too, and behind all effects on the memory that it reads
  that it comes behind now. A load may pass a store on its way forward in time, to other bytes and not the other way
  round: a store may be the one that lets another wave go on, and what was read before it was read in time. Effects that
  leave that memory as it is (on another address space, quiet fences: see `lifting`) do not count, so stores to LDS and
  to scratch are no signals for global memory; fences and coherent accesses that may be signals change all spaces. LDS
  out of range reads as 0, so loads from LDS may be added.
* **Alignment.** An access to LDS of 8 bytes wants an address that is a multiple of 8, one of 12 or 16 bytes a multiple
  of 16, where the unaligned mode is off or broken (gfx101x in WGP mode). The version after may make one only where
  the address certainly is one, or where the version before makes one as wide there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from operator import itemgetter

from msgspec import Struct, field

from asmevo.analysis.memory import GLOBAL, LDS, SCRATCH, SPACES
from asmevo.program.instruction import Instruction
from asmevo.prover.solver import Equality
from asmevo.prover.state import Effect, LoadPiece, State
from asmevo.prover.version import UndecidedError

_OF_ITS_OWN = frozenset({GLOBAL, SCRATCH})
"""What a piece's space says is all that it reads; others may lie anywhere."""
_PLACING = frozenset({"offset", "offset0", "offset1"})


class MisalignedError(UndecidedError):
    """An address could not be shown to be a multiple of what an access needs."""


class MemoryComparison(Struct):
    """One comparison of what two stretches did since they started together."""

    equality: Equality
    before: State
    after: State
    latest: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """By space, in the order of the version after: an effect's turn there, and the last turn of the version before
    among all effects on the space up to it."""

    def compare(self) -> None:
        """Raises UndecidedError, with the instructions, where they could not be shown to do the same."""
        pairs = self._pairs()
        self._compare_order(pairs)
        self._compare_loads()
        self._compare_alignment()

    # --- effects --------------------------------------------------------------------------------------------

    def _pairs(self) -> list[tuple[Effect, Effect]]:
        mine, theirs = self._happening(self.before.effects), self._happening(self.after.effects)
        for place, effect in enumerate(mine):
            other = theirs[place] if place < len(theirs) else None
            if other is None:
                words = f"the memory effect of `{effect.instruction}` (#{effect.instruction.id}) is missing"
                raise UndecidedError(words, effect.instruction)
            if self.equality.same(effect.term, other.term) is not True:
                raise _not_equal(effect, other)
        if len(theirs) > len(mine):
            extra = theirs[len(mine)].instruction
            words = f"`{extra}` (#{extra.id}) is a memory effect that the version before does not have"
            raise UndecidedError(words, extra)
        return list(zip(mine, theirs, strict=True))

    def _happening(self, effects: list[Effect]) -> list[Effect]:
        """The effects without those that no lane makes on this path."""
        if self.equality.path is self.equality.build.true:
            return effects
        return [effect for effect in effects if not self.equality.never_happens(effect.term)]

    def _compare_order(self, pairs: Sequence[tuple[Effect, Effect]]) -> None:
        """When other waves see the effects."""
        for mine, theirs in sorted(pairs, key=lambda pair: pair[1].turn):
            for space in theirs.spaces:
                known = self.latest.setdefault(space, [])
                known.append((theirs.turn, max(mine.turn, known[-1][1] if known else 0)))
        self._one_access_each(pairs)
        by_space: dict[str, list[tuple[Effect, Effect]]] = defaultdict(list)
        for pair in pairs:
            for space in pair[0].spaces:
                by_space[space].append(pair)
        for space, group in by_space.items():
            if space != SCRATCH:
                _compare_order_in(group)

    def _one_access_each(self, pairs: Sequence[tuple[Effect, Effect]]) -> None:
        """No access falls apart, and no hint of a widened one is new to one of its parts."""
        made: dict[int, Effect] = {}
        parts: dict[int, Effect] = {}
        for mine, theirs in pairs:
            if mine.spaces == (SCRATCH,):
                continue
            whole = made.setdefault(mine.turn, theirs)
            if whole.turn != theirs.turn:
                one, other = mine.instruction, theirs.instruction
                words = f"what `{one}` (#{one.id}) stores at once, `{other}` (#{other.id}) stores a part of"
                raise UndecidedError(words, one, other)
            part = parts.setdefault(theirs.turn, mine)
            if part.turn != mine.turn and _hints(mine.instruction) != _hints(theirs.instruction):
                one, other = mine.instruction, theirs.instruction
                words = f"`{other}` (#{other.id}) has other cache bits than `{one}` (#{one.id})"
                raise UndecidedError(words, one, other)

    # --- loads ----------------------------------------------------------------------------------------------

    def _compare_loads(self) -> None:
        known: dict[tuple[str, int], list[LoadPiece]] = {}
        exact: dict[tuple[str, int, int, int], int] = {}
        for piece in self.before.loads:
            known.setdefault((piece.space, piece.size), []).append(piece)
            key = (piece.space, piece.size, piece.address.id, piece.condition.id)
            exact[key] = max(piece.turn, exact.get(key, 0))
        for piece in self.after.loads:
            needed = self._needed(piece)
            key = (piece.space, piece.size, piece.address.id, piece.condition.id)
            if exact.get(key, -1) >= needed or piece.space == LDS:
                continue
            if self.equality.same(piece.condition, self.equality.build.false) is True:
                continue
            if not any(self._covers(mine, piece, needed) for mine in known.get((piece.space, piece.size), [])):
                where = piece.instruction
                words = f"`{where}` (#{where.id}) reads memory that the version before does not read there"
                raise UndecidedError(words, where)

    def _needed(self, piece: LoadPiece) -> int:
        """The turn of the version before behind which all effects lie that the load comes behind now."""
        spaces = (piece.space,) if piece.space in _OF_ITS_OWN else SPACES
        return max(_last_up_to(self.latest.get(space, []), piece.turn) for space in spaces)

    def _covers(self, mine: LoadPiece, theirs: LoadPiece, needed: int) -> bool:
        if mine.turn < needed:
            return False
        if mine.condition is not theirs.condition:
            both = self.equality.build.both(mine.condition, theirs.condition)
            if self.equality.same(both, theirs.condition) is not True:
                return False
        return self.equality.same(mine.address, theirs.address, theirs.condition) is True

    # --- alignment ------------------------------------------------------------------------------------------

    def _compare_alignment(self) -> None:
        build = self.equality.build
        for theirs in self.after.wide:
            low = theirs.alignment - 1
            if build.zeros(theirs.address) & low == low:
                continue
            likes = [mine for mine in self.before.wide if mine.size >= theirs.size]
            if any(mine.address is theirs.address for mine in likes):
                continue
            if not any(self.equality.same(mine.address, theirs.address) is True for mine in likes):
                where = theirs.instruction
                words = f"the address of `{where}` (#{where.id}) is not certainly a multiple of {theirs.alignment}"
                raise MisalignedError(words, where)


def _last_up_to(known: list[tuple[int, int]], turn: int) -> int:
    """The last turn of the version before among the effects up to a turn of the version after."""
    place = bisect_right(known, turn, key=itemgetter(0))
    return known[place - 1][1] if place else 0


def _compare_order_in(pairs: Sequence[tuple[Effect, Effect]]) -> None:
    """Whether what had finished before another effect of one space was issued still comes before it."""
    ordered = sorted(pairs, key=lambda pair: pair[0].turn)
    finished, latest = 0, (0, ordered[0][0])
    for mine, theirs in ordered:
        while ordered[finished][0].turn <= min(mine.settled, mine.turn - 1):
            latest = max(latest, (ordered[finished][1].turn, ordered[finished][0]), key=lambda each: each[0])
            finished += 1
        if latest[0] >= theirs.turn:
            one, other = latest[1].instruction, mine.instruction
            words = f"`{one}` (#{one.id}) had finished when `{other}` (#{other.id}) was issued, and does not now"
            raise UndecidedError(words, one, other)


def _not_equal(mine: Effect, theirs: Effect) -> UndecidedError:
    one, other = mine.instruction, theirs.instruction
    words = f"the memory effect of `{one}` (#{one.id}) could not be shown equal to that of `{other}` (#{other.id})"
    return UndecidedError(words, one, other)


def _hints(instruction: Instruction) -> frozenset[object]:
    return frozenset(each for each in instruction.decoded.modifiers if each.name not in _PLACING)
