"""Races: two accesses to one byte from different waves, one of them a write, that nothing orders.

Order is what barriers and atomics make, and it is kept in vector clocks. Each wave has a time of its own that grows
when it releases something, and a clock: for every wave of the launch, the latest of its times whose past is known to
have happened. An access has the time at which its wave had *proved* it done with a wait (`in_flight`), or NEVER as
long as it has not. It is ordered before what a wave does now if that wave's clock is beyond its time. So a missing
wait in front of a barrier is a race, and the interleaving that happened to run decides nothing.

    signal of a barrier         releases to the barrier's phase; passing it acquires what all waves released
    atomic, coherent access     a release to the address when it is issued, an acquire from it when it is proved done
                                and gave a value back

Every atomic counts as release and acquire in the widest scope, and so does every load and store that a cache policy
(glc, sc0, sc1, dlc, scope) makes coherent, since that is what compilers write for atomic loads and stores. Machine
code does not show how an atomic was meant. This is the sound side for kernels that synchronise by atomics: no order
that they rely on is missing. Silent are therefore races that an unrelated atomic to one address happens to order.

A load may race with an atomic if its wave goes on to do an atomic on the same bytes itself: such a load is the guess
that a compare-and-swap checks. So a race of a load with an atomic is kept until the load's wave has done that, or ends.

For each byte the last write and the last reads of two different waves are remembered; a third reader's race with a
later write may go unseen in a launch, but each pair has its chance in another interleaving. Two atomic (or coherent)
accesses never race, and neither do two stores of the same bytes: which came first cannot be seen (compilers let
several waves store what all of them have). Within one wave accesses that take the same way (vector memory, LDS,
scalar memory) stay in order; between ways the earlier one must be proved done: a store and a scalar load of the same
bytes, a load into LDS and an LDS read.

Caches are not modelled: that a wave on another compute unit sees a store takes more than order (write-back,
invalidation). Scratch is no wave's business but its own. Kernels that leave a group's memory to another kernel
(dispatch order) are outside of one launch.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from asmevo.emulator.code import Step
from asmevo.emulator.in_flight import named
from asmevo.emulator.manifest import Triple
from asmevo.emulator.memory import Arena

Numbers = NDArray[np.int64]

NEVER = np.iinfo(np.int64).max
"""The time of an access that is not proved done."""

PRIVATE = 0
"""The number of accesses that are not followed."""

VECTOR, LOCAL, SCALAR = 1, 2, 4
"""Ways to memory, as bits; FLAT takes two."""

_FIRST_TIME = 1  # a clock that knows nothing of a wave has 0
_ROOM = 1024  # accesses the log begins with


class Clock(Struct, eq=False):
    """A wave's place in the order of things. `number` counts the waves of the launch; `known` is by wave."""

    number: int
    known: Numbers

    @property
    def time(self) -> int:
        """The wave's own time."""
        return int(self.known[self.number])

    def tick(self) -> None:
        """After a release."""
        self.known[self.number] += 1


class Touch(Struct, frozen=True):
    """Bytes that an access touches: `index` into an arena, and `content` where it is known what will be there.

    `shared` is false for scratch, which is no other wave's business.
    """

    arena: Arena
    index: NDArray[np.int64]
    write: bool
    way: int
    atomic: bool
    content: NDArray[np.uint8] | None = None
    shared: bool = True


class Race(Struct, frozen=True):
    """Two accesses without an order. `in_between`: the other wave released something after the first was issued."""

    space: str
    address: int
    first: Step
    first_group: Triple
    first_wave: int
    first_writes: bool
    second: Step
    second_group: Triple
    second_wave: int
    second_writes: bool
    in_between: bool

    def __str__(self) -> str:
        first = f"{named(self.first)} ({_place(self.first_group, self.first_wave)}) {_verb(self.first_writes)}"
        second = f"{named(self.second)} ({_place(self.second_group, self.second_wave)}) {_verb(self.second_writes)}"
        head = f"{self.first.kernel.name}: race on {self.space} {self.address:#x}: {first} it, {second} it"
        if (self.first_group, self.first_wave) == (self.second_group, self.second_wave):
            return f"{head}, and the first is still under way; wait for it in between"
        if self.in_between:
            return f"{head}; the first was still under way at the barrier or atomic in between: wait for it before"
        return f"{head}, and no barrier or atomic orders them"


def _place(group: Triple, wave: int) -> str:
    return f"workgroup {list(group)}, wave {wave}"


def _verb(writes: bool) -> str:
    return "writes" if writes else "reads"


class _Shadow:
    """For each byte of an arena the number of the access that last wrote it, and of two that last read it.

    `content` is one more than what the write puts there, 0 where that is not known.
    """

    def __init__(self, arena: Arena) -> None:
        self.writer = np.zeros(arena.size, np.int32)
        self.reader = np.zeros(arena.size, np.int32)
        self.other_reader = np.zeros(arena.size, np.int32)
        self.content = np.zeros(arena.size, np.int16)
        self.clocks: dict[int, Numbers] = {}
        """What was released to a byte."""


class _Log(Struct):
    """All accesses by number, from 1 on."""

    owner: Numbers = field(default_factory=lambda: np.zeros(_ROOM, np.int64))
    done: Numbers = field(default_factory=lambda: np.full(_ROOM, NEVER, np.int64))
    issued: Numbers = field(default_factory=lambda: np.zeros(_ROOM, np.int64))
    way: Numbers = field(default_factory=lambda: np.zeros(_ROOM, np.int64))
    atomic: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(_ROOM, bool))
    steps: list[Any] = field(default_factory=lambda: [None])

    def add(self, step: Step, clock: Clock, touch: Touch) -> int:
        """Gives the access's number."""
        number = len(self.steps)
        if number == self.owner.size:
            for name in ("owner", "done", "issued", "way", "atomic"):
                setattr(self, name, np.concatenate([getattr(self, name)] * 2))
            self.done[number:] = NEVER
        self.steps.append(step)
        self.owner[number] = clock.number
        self.issued[number] = clock.time
        self.way[number] = touch.way
        self.atomic[number] = touch.atomic
        return number


class Races:
    """The order of one launch's accesses; `waves` is how many waves it has in all."""

    def __init__(self, waves: int) -> None:
        self.waves = waves
        self._log = _Log()
        self._waves: dict[int, tuple[Triple, int]] = {}
        self._guesses: dict[int, dict[tuple[int, int], Race]] = {}
        self._shadows: WeakKeyDictionary[Arena, _Shadow] = WeakKeyDictionary()

    def clock(self, number: int, group: Triple, wave: int) -> Clock:
        """The clock of a wave that starts."""
        self._waves[number] = (group, wave)
        self._guesses[number] = {}
        clock = Clock(number, np.zeros(self.waves, np.int64))
        clock.known[number] = _FIRST_TIME
        return clock

    def access(self, step: Step, clock: Clock, touch: Touch) -> tuple[int, Race | None]:
        """Takes an access at its issue. Gives its number and the race it is in, if any."""
        number = self._log.add(step, clock, touch)
        shadow = self._shadow(touch.arena)
        index = touch.index
        guesses = self._guesses[clock.number]
        if touch.atomic and guesses:
            for place in index.tolist():
                guesses.pop((id(touch.arena), place), None)
        content = None if touch.content is None else touch.content.astype(np.int16) + np.int16(1)
        different = None if content is None else shadow.content[index] != content
        race = self._against(shadow.writer, touch, number, clock, True, different)
        if touch.write:
            race = race or self._against(shadow.reader, touch, number, clock, False)
            race = race or self._against(shadow.other_reader, touch, number, clock, False)
            shadow.writer[index] = number
            shadow.content[index] = 0 if content is None else content
            shadow.reader[index] = 0
            shadow.other_reader[index] = 0
        else:
            before = shadow.reader[index]
            foreign = index[(before != 0) & (self._log.owner[before] != clock.number)]
            shadow.other_reader[foreign] = shadow.reader[foreign]
            shadow.reader[index] = number
        return number, race

    def _against(
        self,
        row: NDArray[np.int32],
        touch: Touch,
        number: int,
        clock: Clock,
        first_writes: bool,
        different: NDArray[np.bool_] | None = None,
    ) -> Race | None:
        """The first byte where an earlier access is not in order, among those that are `different`."""
        earlier = row[touch.index]
        if not earlier.any():
            return None
        log = self._log
        owner, done = log.owner[earlier], log.done[earlier]
        unordered = np.where(
            owner == clock.number, (done == NEVER) & (log.way[earlier] & touch.way == 0), clock.known[owner] <= done
        )
        unordered &= earlier != 0
        if different is not None:
            unordered &= different
        if touch.atomic:
            unordered &= ~log.atomic[earlier]
        if not touch.write:
            self._guess(clock.number, earlier, unordered & log.atomic[earlier], touch, number, first_writes, clock)
            unordered &= ~log.atomic[earlier]
        elif touch.atomic and not first_writes:
            for reader in np.unique(owner[unordered]):
                mine = unordered & (owner == reader)
                if int(reader) in self._guesses:
                    self._guess(int(reader), earlier, mine, touch, number, first_writes, clock)
                    unordered &= ~mine
        if not unordered.any():
            return None
        return self._race(earlier, int(np.flatnonzero(unordered)[0]), touch, number, first_writes, clock)

    def _guess(
        self,
        reader: int,
        earlier: NDArray[np.int32],
        which: NDArray[np.bool_],
        touch: Touch,
        number: int,
        first_writes: bool,
        clock: Clock,
    ) -> None:
        """Remembers loads that race with an atomic, until their wave has done an atomic on the bytes or ends."""
        places = np.flatnonzero(which)
        if places.size:
            race = self._race(earlier, int(places[0]), touch, number, first_writes, clock)
            waiting = self._guesses[reader]
            for place in touch.index[places].tolist():
                waiting.setdefault((id(touch.arena), place), race)

    def _race(
        self,
        earlier: NDArray[np.int32],
        place: int,
        touch: Touch,
        number: int,
        first_writes: bool,
        clock: Clock,
    ) -> Race:
        log = self._log
        other = int(earlier[place])
        whose = int(log.owner[other])
        in_between = bool(clock.known[whose] > log.issued[other])
        address = touch.arena.base + int(touch.index[place])
        return Race(
            touch.arena.name, address, log.steps[other], *self._waves[whose], first_writes,
            log.steps[number], *self._waves[clock.number], touch.write, in_between,
        )  # fmt: skip

    def ended(self, clock: Clock) -> Race | None:
        """A wave has ended. Gives a load of its that raced with an atomic and was no guess."""
        return next(iter(self._guesses.pop(clock.number).values()), None)

    def done(self, number: int, clock: Clock) -> None:
        """The wave has proved an access done."""
        if number != PRIVATE:
            self._log.done[number] = clock.time

    def _shadow(self, arena: Arena) -> _Shadow:
        shadow = self._shadows.get(arena)
        if shadow is None:
            shadow = self._shadows[arena] = _Shadow(arena)
        return shadow

    # --- what makes order

    def release(self, clock: Clock, arena: Arena, places: list[int]) -> None:
        """An atomic: what the wave has done is known to who looks at these bytes."""
        clock.tick()
        clocks = self._shadow(arena).clocks
        for place in places:
            before = clocks.get(place)
            clocks[place] = clock.known.copy() if before is None else np.maximum(before, clock.known)

    def acquire(self, clock: Clock, arena: Arena, places: list[int]) -> None:
        """The other half."""
        clocks = self._shadow(arena).clocks
        for place in places:
            if place in clocks:
                np.maximum(clock.known, clocks[place], out=clock.known)


class Barrier:
    """What the waves of a workgroup released to each phase of its barrier."""

    def __init__(self) -> None:
        self._phases: dict[int, Numbers] = {}

    def signal(self, clock: Clock, phase: int) -> None:
        """A wave arrives for the `phase`th time."""
        clock.tick()
        before = self._phases.get(phase)
        self._phases[phase] = clock.known.copy() if before is None else np.maximum(before, clock.known)

    def passed(self, clock: Clock, phase: int) -> None:
        """A wave goes on behind it; the phase before is over for all."""
        self._phases.pop(phase - 1, None)
        np.maximum(clock.known, self._phases[phase], out=clock.known)
