"""Runs the workgroups of a launch: waves take turns, meet at barriers, and end, or are stopped with a reason.

Waves of a workgroup run one after the other, each until it has to wait, ends, or has had its turn of
instructions (so that a wave that waits for another one's store does not stop the show). A barrier is a phase:
`s_barrier` signals and waits; the split forms do one of the two. A phase is over when all waves that still run
have signalled; a wave that ends no longer counts, as on the hardware. When every wave waits and none can go on,
the barrier will never be completed, and the report names where each wave stands.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Literal, Protocol

from msgspec import Struct, field

from asmevo.emulator.code import Code, Step
from asmevo.emulator.errors import DeadlockError, LimitError, MemoryFaultError, PoisonError
from asmevo.emulator.launch import SCRATCH, Launch
from asmevo.emulator.manifest import Triple
from asmevo.emulator.memory import WRITTEN, Arena, Fault, lds_arena, scratch_arena
from asmevo.emulator.wave import FaultFound, Reach, Wave, new_wave

Poison = Literal["ignore", "collect", "error"]

_TURN = 20_000  # instructions a wave runs before another one gets its turn
_SHORTEST_TURN, _LONGEST_TURN = 1, 64  # the same where waves interleave at random
_MOST_NOTES = 20


class Limits(Struct, frozen=True):
    """When a run is given up: wave-instructions in all, and seconds of this process's own processor time.

    Not of the clock: a busy machine takes longer and answers as a quiet one does.
    """

    instructions: int = 200_000_000
    seconds: float = 120.0


class Meter(Struct):
    """What a run has used up of its limits; shared by the machines that work on it."""

    limits: Limits
    spent: int = 0
    started: float = field(default_factory=time.process_time)

    def exceeded(self) -> str | None:
        """Words about the limit that was passed, if one was."""
        if self.spent > self.limits.instructions:
            return f"more than {self.limits.instructions} instructions"
        if time.process_time() - self.started > self.limits.seconds:
            return f"more than {self.limits.seconds:g} seconds"
        return None


class Stop(Enum):
    """Why a wave gave the turn back."""

    TURN = "turn"
    END = "end"
    SIGNAL = "signal"
    WAIT = "wait"
    BARRIER = "barrier"


class Engine(Protocol):
    """Runs one wave."""

    def advance(self, wave: Wave, turn: int) -> Stop:
        """Runs until the wave stops or has had `turn` instructions; `wave.place` is then the next instruction.

        Raises FaultFound with `wave.place` at the instruction, and other EmulationErrors.
        """

    def finish(self) -> None:
        """Called once at the end of a run, whatever the end was: completes the tally."""


class Tally(Struct):
    """What a run adds up: `executed` by place, `notes` about poison, each once."""

    executed: list[int]
    notes: dict[str, None] = field(default_factory=dict)

    def note(self, words: str) -> None:
        if len(self.notes) < _MOST_NOTES:
            self.notes[words] = None

    def add(self, other: Tally) -> None:
        """Takes another machine's counts in."""
        self.executed = [mine + more for mine, more in zip(self.executed, other.executed, strict=True)]
        for words in other.notes:
            self.note(words)

    @property
    def instructions(self) -> int:
        """Wave-instructions in all."""
        return sum(self.executed)


class _Member(Struct):
    """A wave in its workgroup; `awaits` is the phase its last signal was for."""

    wave: Wave
    awaits: int | None = None
    waiting: bool = False
    ended: bool = False


def describe(step: Step, wave: Wave, group: Triple) -> str:
    """Where something happened, for messages."""
    line = f", line {step.instruction.line}" if step.instruction.line is not None else ""
    return (
        f"{step.kernel.name}: instruction {step.instruction.id} `{step.instruction.text}`{line} "
        f"(workgroup {list(group)}, wave {wave.number})"
    )


class Machine:
    """One launch on its way. `memory` is changed by `run`.

    With seed 0 waves take long turns in order; any other seed draws short turns in random order, the same for the
    same seed. `first_slot` is where this machine's share of scratch memory begins.
    """

    def __init__(
        self,
        launch: Launch,
        code: Code,
        engine: Engine,
        tally: Tally,
        poison: Poison = "collect",
        meter: Meter | None = None,
        seed: int = 0,
        first_slot: int = 0,
    ) -> None:
        self.launch = launch
        self.code = code
        self.engine = engine
        self.tally = tally
        self.poison = poison
        self.meter = meter or Meter(Limits())
        self.first_slot = first_slot
        self.random = random.Random(seed) if seed else None

    def groups(self) -> Iterator[Triple]:
        """Workgroups in the order of their dispatch, x fastest."""
        x, y, z = self.launch.shape.groups
        for place in itertools.product(range(z), range(y), range(x)):
            yield (place[2], place[1], place[0])

    def run_group(self, group: Triple) -> None:
        """Runs one workgroup to its end."""
        for _ in self.turns(group):
            pass

    def turns(self, group: Triple) -> Iterator[None]:
        """Runs one workgroup to its end; comes back after each turn of a wave."""
        members = self._members(group)
        try:
            yield from self._turns_of(members, group)
        finally:
            for member in members:  # these point back at wave and machine: cycles would keep all memory alive
                member.wave.reach.on_unwritten = _nobody_hears
                member.wave.under_way = None

    def _turns_of(self, members: list[_Member], group: Triple) -> Iterator[None]:
        phase = 0
        while not all(member.ended for member in members):
            progress = False
            for member in self._order(members):
                if member.ended or (member.waiting and member.awaits is not None and member.awaits > phase):
                    continue
                member.waiting = False
                progress = True
                self._take_turn(member, phase, group)
                phase = _completed_phase(members, phase)
                yield
            if not progress:
                raise DeadlockError(self._deadlock(members, group))

    def _order(self, members: list[_Member]) -> list[_Member]:
        return members if self.random is None else self.random.sample(members, len(members))

    def _turn(self) -> int:
        return _TURN if self.random is None else self.random.randint(_SHORTEST_TURN, _LONGEST_TURN)

    def _members(self, group: Triple) -> list[_Member]:
        launch, lanes = self.launch, self.launch.kernel.wave_size
        lds = lds_arena(launch.lds_bytes)
        self._forget_scratch()
        entry = self.code.place_at(self.code.load_base + launch.entry)
        members = []
        for number in range(launch.wave_count(group)):
            scratch = scratch_arena(launch.scratch_bytes, lanes)
            wave = new_wave(
                number,
                lanes,
                launch.start(group, number, self.first_slot + number),
                self._reach(lds, scratch),
                entry,
                track_writes=self.poison != "ignore",
            )
            wave.group = group
            members.append(_Member(wave))
            wave.reach.on_unwritten = self._unwritten(wave, group)
        return members

    def _reach(self, lds: Arena, scratch: Arena) -> Reach:
        launch = self.launch
        return Reach(launch.memory.arena, lds, scratch, launch.scratch_bytes, launch.apertures, lambda fault: None)

    def _forget_scratch(self) -> None:
        """A workgroup finds no values of the one before in its scratch memory."""
        region = self.launch.memory.regions[SCRATCH]
        arena = self.launch.memory.arena
        share = self.launch.scratch_slots * self.launch.scratch_bytes * self.launch.kernel.wave_size
        start = region.address - arena.base + (share if self.first_slot else 0)
        arena.shadow[start : start + share] &= ~WRITTEN & 0xFF

    def _unwritten(self, wave: Wave, group: Triple) -> Callable[[Fault], None]:
        def report(fault: Fault) -> None:
            words = f"{describe(self.code.steps[wave.place], wave, group)}: {fault}"
            if self.poison == "error":
                raise PoisonError(words)
            if self.poison == "collect":
                self.tally.note(words)

        return report

    def _take_turn(self, member: _Member, phase: int, group: Triple) -> None:
        wave = member.wave
        before = wave.steps
        try:
            stop = self.engine.advance(wave, self._turn())
        except FaultFound as found:
            step = self.code.steps[wave.place]
            raise MemoryFaultError(f"{describe(step, wave, group)}: {found.fault}") from None
        self.meter.spent += wave.steps - before
        self._check_limits(wave, group)
        match stop:
            case Stop.END:
                member.ended = True
            case Stop.SIGNAL:
                member.awaits = phase + 1
            case Stop.WAIT:
                member.waiting = True
                if member.awaits is None:
                    step = self.code.steps[wave.place - 1]
                    raise DeadlockError(f"{describe(step, wave, group)}: waits at a barrier without having signalled")
            case Stop.BARRIER:
                member.awaits = phase + 1
                member.waiting = True
            case Stop.TURN:
                pass

    def _check_limits(self, wave: Wave, group: Triple) -> None:
        words = self.meter.exceeded()
        if words is None:
            return
        step = self.code.steps[min(wave.place, len(self.code.steps) - 1)]
        raise LimitError(f"{describe(step, wave, group)}: the run takes {words}; it was given up here")

    def _deadlock(self, members: list[_Member], group: Triple) -> str:
        places = "; ".join(
            f"wave {member.wave.number} behind `{self.code.steps[member.wave.place - 1].instruction.text}`"
            for member in members
            if not member.ended
        )
        return f"workgroup {list(group)}: a barrier is never completed: {places}"


def _nobody_hears(fault: Fault) -> None:
    """For waves that have ended."""


def _completed_phase(members: list[_Member], phase: int) -> int:
    """The next phase when every wave that still runs has signalled, else the same."""
    running = [member for member in members if not member.ended]
    if running and all(member.awaits is not None and member.awaits > phase for member in running):
        return phase + 1
    return phase
