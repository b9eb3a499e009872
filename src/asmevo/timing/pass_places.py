"""How long an instruction of several passes keeps others of its kind from issuing when the vector queue is nearly full.

A transcendental or a wide instruction of n passes takes one place of the vector queue in the end. On the way its passes
follow each other a cycle apart, and the first few need a place each until the last has come; so it needs more places
than it keeps. The last place of the queue is not for them. A pass that finds no place waits for the next to be freed,
those behind it with it. Meanwhile no other instruction of several passes and no matrix operation can issue (they share
this way), while one-pass instructions still take places; one that comes between the passes has to be settled too before
the way is free (if no pass waits, the second one that comes). The wave that issued the instruction can follow with
another later than other waves, a cycle for each pass that waited but one. Transcendentals and the others differ in
details.

Worked out from custom_handwritten on gfx1201: the rule from the 8 waves of object 09f1026f7e, where the model now has
the order of the waves as silicon has it nearly throughout; the details from the 2 waves of 97aab6e67d. The third
object, 77e2606e29, took no part. Time is in cycles.
"""

from __future__ import annotations

from collections.abc import Sequence

from asmevo.timing.clock import LONG_AGO
from asmevo.timing.costs import Cause


class PassPlaces:
    """The latest instruction of several passes of one SIMD.

    `depth`: places of the queue; `places`: most places that passes need at a time; `entry`: cycles from issue until
    the first pass needs its place. `holder` is the wave that issued it and may not follow before `holder_free` (-1:
    none; where it was `alone` on the vector port not even with a one-pass instruction), `open_until` the cycle before
    which one-pass instructions come between the passes.
    """

    __slots__ = ("_depth", "_entry", "_places", "_settled", "_spare", "alone", "holder", "holder_free", "open_until")

    def __init__(self, depth: int, places: int, entry: int) -> None:
        self._depth, self._places, self._entry = depth, places, entry
        self.holder, self._spare, self.alone = -1, False, False
        self.holder_free = self.open_until = self._settled = LONG_AGO

    def issue(
        self, time: int, passes: int, wave: int, alone: bool, queue: Sequence[tuple[int, Cause | None, int]]
    ) -> int:
        """An instruction issues; `queue` ends with its own entry. Returns from when on another one may.

        `alone`: it holds the vector port as well, as all but transcendentals do. The first item of an entry is the
        cycle from which its place is free again.
        """
        self.holder, self.open_until, self.alone = -1, LONG_AGO, alone
        depth, places = self._depth, min(passes, self._places)
        free = time + passes
        if len(queue) < depth:
            return free
        first, last = queue[-depth][0], queue[places - depth - 1][0]
        if first > time + self._entry:
            behind = max(queue[passes - depth - 2][0], first + 1)
            if not alone and behind <= free + 1:
                return free
            free = behind
            if passes > places:
                third_waits = not alone and queue[1 - depth][0] > first + 1
                self.holder, self.holder_free = wave, free + 1 + third_waits
            return free
        self._spare = last < time + self._entry + places
        if not self._spare:
            free = last + passes - places
            if places > 2 and queue[places - depth - 2][0] > time + places:
                self.holder, self.holder_free = wave, free + 1
        self._settled = queue[places - depth][0]
        self.open_until = max(free, last - 1)
        return free

    def issue_at_once(self, time: int, queue: Sequence[tuple[int, Cause | None, int]]) -> int:
        """A matrix operation issues, whose passes come from the queue; otherwise as `issue`.

        One that takes the last place just when another is about to be freed holds others up until a cycle after that.
        """
        if len(queue) < self._depth:
            return time
        first = queue[-self._depth][0]
        return first + 1 if first == time + self._entry else time

    def pass_by(self) -> int:
        """A one-pass instruction comes between the passes; returns from when on another of several may issue."""
        if self._spare:
            self._spare = False
            return LONG_AGO
        return self._settled
