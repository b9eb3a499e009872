"""The asynchronous mode: a value is there when the wave has waited for it, and not before.

Instructions that load, store, send messages, wait, or meet at barriers are run here, one at a time; everything
between them is left to the compiled engine, whose blocks end where such an instruction stands. A block runs if
nothing that it touches is under way: one comparison of register sets, computed once for a block.

A memory instruction reads its registers at issue and goes to memory later (`late_access`), at a time that chance
draws within what hardware allows (`completion`), at the latest when a wait proves it done (`in_flight`). Touching a
register before that ends the run, and so do two accesses of different waves that nothing orders (`races`).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import lru_cache
from weakref import WeakValueDictionary

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from asmevo.analysis.events import Effect, effect_of, is_coherent, lanes_of
from asmevo.emulator.code import Code, Step
from asmevo.emulator.compiled import CompiledEngine
from asmevo.emulator.completion import Outstanding, requests_of
from asmevo.emulator.errors import InFlightError, RaceError
from asmevo.emulator.in_flight import Flight, Misuse, UnderWay, under_way
from asmevo.emulator.late_access import LateFunction, Request, compile_late
from asmevo.emulator.launch import SCRATCH, Launch
from asmevo.emulator.machine import Poison, Stop, Tally, describe
from asmevo.emulator.manifest import Triple
from asmevo.emulator.memory import Arena
from asmevo.emulator.races import LOCAL, PRIVATE, SCALAR, VECTOR, Barrier, Clock, Race, Races, Touch
from asmevo.emulator.reference import ReferenceEngine, Watch, float_mode
from asmevo.emulator.wave import MODE, Wave
from asmevo.program.instruction import Decoded
from asmevo.semantics.expression import AccessKind, Control, Exactness, Meaning, Space
from asmevo.semantics.float_mode import FloatMode

_SYNCHRONISING = (Control.BARRIER, Control.BARRIER_SIGNAL, Control.BARRIER_WAIT, Control.END)
_WAYS = {
    Space.GLOBAL: VECTOR,
    Space.SCRATCH: VECTOR,
    Space.FLAT: VECTOR | LOCAL,
    Space.LDS: LOCAL,
    Space.GDS: LOCAL,
    Space.SCALAR: SCALAR,
}


class World(Struct, eq=False):
    """What all machines of one asynchronous launch share: chance, the race detector, barriers by workgroup."""

    launch: Launch
    random: random.Random
    races: Races
    barriers: WeakValueDictionary[Triple, Barrier] = field(default_factory=WeakValueDictionary)

    def clock(self, wave: Wave) -> Clock:
        """Numbers a wave among all of the launch."""
        x, y, z = wave.group
        groups_x, groups_y, _ = self.launch.shape.groups
        group = x + groups_x * (y + groups_y * z)
        return self.races.clock(group * waves_of_group(self.launch) + wave.number, wave.group, wave.number)

    def barrier(self, wave: Wave) -> Barrier:
        """The barrier of a wave's workgroup."""
        found = self.barriers.get(wave.group)
        if found is None:
            found = self.barriers[wave.group] = Barrier()
        return found


def world(launch: Launch, seed: int) -> World:
    """A launch before it starts."""
    x, y, z = launch.shape.groups
    return World(launch, random.Random(seed), Races(x * y * z * waves_of_group(launch)))


def waves_of_group(launch: Launch) -> int:
    """Waves of a full workgroup."""
    return launch.wave_count((0, 0, 0))


class _Wave(Struct, eq=False):
    """A wave's asynchronous part. `phase` counts its barrier signals; `behind` is a barrier that it goes on behind."""

    flight: Flight
    outstanding: Outstanding
    clock: Clock
    barrier: Barrier
    phase: int = 0
    behind: int | None = None


class AsynchronousEngine:
    """Implements `machine.Engine`. With a `watch`, or if not `compiled`, the reference engine runs the rest."""

    def __init__(
        self, code: Code, tally: Tally, poison: Poison, world: World, compiled: bool = True, watch: Watch | None = None
    ) -> None:
        self.code = code
        self.tally = tally
        self.world = world
        self.watch = watch
        self.single = {step.place for step in code.steps if _is_single(step)}
        self.native = CompiledEngine(code, tally, poison, self.single) if compiled and watch is None else None
        self.reference = self.native.reference if self.native else ReferenceEngine(code, tally, poison, watch)
        self._demands: dict[int, tuple[int, int]] = {}
        self._functions: dict[tuple[int, int], LateFunction] = {}

    def finish(self) -> None:
        """Adds what native code executed to the tally."""
        if self.native is not None:
            self.native.finish()

    def advance(self, wave: Wave, turn: int) -> Stop:
        """Runs up to about `turn` instructions. Raises InFlightError and RaceError beside what engines raise."""
        state = self._state(wave)
        if state.behind is not None:
            state.barrier.passed(state.clock, state.behind)
            state.behind = None
        end = wave.steps + turn
        while wave.steps < end:
            stop = self._single(wave, state) if wave.place in self.single else self._plain(wave, state, end)
            if stop is not None:
                return stop
        return Stop.TURN

    def _state(self, wave: Wave) -> _Wave:
        if wave.under_way is None:
            lanes = lanes_of(self.code.steps[wave.place].kernel.target)
            wave.under_way = _Wave(
                Flight(lanes),
                Outstanding(wave, lanes, self.world.random),
                self.world.clock(wave),
                self.world.barrier(wave),
            )
        found: _Wave = wave.under_way
        return found

    # --- registers only

    def _plain(self, wave: Wave, state: _Wave, end: int) -> Stop | None:
        """A block; with nothing under way all blocks up to the next instruction that is run alone."""
        state.outstanding.some()
        busy = bool(state.flight.results | state.flight.sources)
        if self.native is None:
            if busy:
                self._check(wave, state, self._effect(self.code.steps[wave.place]))
            stop = self.reference.advance(wave, 1)
            return None if stop is Stop.TURN else stop
        if not busy:
            return self.native.go_on(wave, end - wave.steps)
        steps = self._block(wave)
        if state.flight.touches(*self._demand(wave.place, steps)):
            for step in steps:
                wave.place = step.place
                self._check(wave, state, self._effect(step))
            wave.place = steps[0].place
        return self.native.go_on(wave, 1)

    def _block(self, wave: Wave) -> list[Step]:
        """The steps that the compiled engine runs at once from here; it takes one where it knows no block."""
        assert self.native is not None
        block = self.native.block_of_place.get(wave.place)
        return list(block.steps) if block is not None else [self.code.steps[wave.place]]

    def _demand(self, place: int, steps: list[Step]) -> tuple[int, int]:
        """Units that steps touch, and units that they write."""
        found = self._demands.get(place)
        if found is None:
            touched = written = 0
            for step in steps:
                effect = self._effect(step)
                touched |= effect.touches
                written |= effect.writes
            found = self._demands[place] = (touched, written)
        return found

    def _effect(self, step: Step) -> Effect:
        return effect_of(step.instruction.decoded, step.kernel.target)

    def _check(self, wave: Wave, state: _Wave, effect: Effect) -> None:
        misuse = state.flight.misuse(effect)
        if misuse is not None:
            raise InFlightError(_sentence(self.code.steps[wave.place], wave, misuse))

    # --- one at a time

    def _single(self, wave: Wave, state: _Wave) -> Stop | None:
        if self.native is not None:
            self.native.reveal(wave)
        step = self.code.steps[wave.place]
        effect = self._effect(step)
        state.outstanding.some()
        if effect.limits and not effect.is_call:
            self._settle(state, state.flight.wait(effect.limits))
        self._check(wave, state, effect)
        if step.meaning.memory and step.meaning.exactness is not Exactness.UNSUPPORTED:
            self._issue(wave, state, step, effect)
            return None
        control = step.meaning.control
        if control is Control.END:
            state.outstanding.everything()
            self._report(self.world.races.ended(state.clock))
        if control in (Control.BARRIER, Control.BARRIER_SIGNAL):
            state.barrier.signal(state.clock, state.phase)
            state.phase += 1
        if control in (Control.BARRIER, Control.BARRIER_WAIT):
            state.behind = state.phase - 1
        if effect.issues:
            self._settle(state, state.flight.issue(under_way(step, effect, state.flight.lanes), effect))
        stop = self.reference.advance(wave, 1)
        return None if stop is Stop.TURN else stop

    def _issue(self, wave: Wave, state: _Wave, step: Step, effect: Effect) -> None:
        if self.watch is not None:
            self.watch(wave, step)
        if self.reference.poison != "ignore":
            self.reference.check_registers(wave, step)
        late = self._function(wave, step)(wave, step.behind)
        item = under_way(step, effect, state.flight.lanes)
        item.late = late
        item.touches = tuple(self._touches(wave, step, requests_of(late)))
        for touch in item.touches:
            if touch.atomic and touch.write:
                self.world.races.release(state.clock, touch.arena, _places(touch))
        item.accesses = tuple(self._access(step, state, touch) for touch in item.touches)
        state.outstanding.add(item)
        settled = state.flight.issue(item, effect) if effect.issues else [item]
        self._settle(state, settled)
        self.reference.note_writes(wave, step)
        self.tally.executed[wave.place] += 1
        wave.steps += 1
        wave.place += 1

    def _function(self, wave: Wave, step: Step) -> LateFunction:
        mode = int(wave.scalars[MODE])
        found = self._functions.get((step.place, mode))
        if found is None:
            decoded = step.instruction.decoded
            found = _late_function(decoded, step.meaning, float_mode(mode, step), wave.lanes)
            self._functions[step.place, mode] = found
        return found

    def _access(self, step: Step, state: _Wave, touch: Touch) -> int:
        if not touch.shared:
            return PRIVATE
        number, race = self.world.races.access(step, state.clock, touch)
        self._report(race)
        return number

    def _report(self, race: Race | None) -> None:
        if race is not None:
            raise RaceError(str(race))

    def _settle(self, state: _Wave, settled: list[UnderWay]) -> None:
        """What a wait proves done is done, and what was released to an atomic's bytes is known."""
        for item in settled:
            if item.late is not None:
                state.outstanding.complete(item)
            for number, touch in zip(item.accesses, item.touches, strict=True):
                if touch.atomic and item.results:
                    self.world.races.acquire(state.clock, touch.arena, _places(touch))
                self.world.races.done(number, state.clock)

    # --- what memory an instruction touches

    def _touches(self, wave: Wave, step: Step, requests: tuple[Request, ...]) -> Iterator[Touch]:
        coherent = is_coherent(step.instruction.decoded)
        for request in requests:
            atomic = request.kind is AccessKind.ATOMIC or (coherent and request.space is not Space.LDS)
            write = request.kind is not AccessKind.LOAD
            way = VECTOR if request.kind is AccessKind.LOAD_TO_LDS else _WAYS[request.space]
            for arena, places, lanes in wave.reach.split(request.space, request.address, request.active):
                index = (places.astype(np.int64)[:, None] + np.arange(request.size)).reshape(-1)
                content = request.content
                if content is not None:
                    content = np.broadcast_to(content, (request.active.size, request.size))[lanes].reshape(-1)
                inside = (index >= 0) & (index < arena.size)
                private = self._private(wave, arena, index)
                for part, shared in ((inside & ~private, True), (inside & private, False)):
                    if part.any():
                        known = None if content is None else content[part]
                        yield Touch(arena, index[part], write, way, atomic and shared, known, shared)

    def _private(self, wave: Wave, arena: Arena, index: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which bytes are scratch."""
        memory = self.world.launch.memory
        if arena is not memory.arena:
            return np.full(index.shape, arena is wave.reach.scratch)
        region = memory.regions[SCRATCH]
        start = region.address - arena.base
        found: NDArray[np.bool_] = (index >= start) & (index < start + region.size)
        return found


def _is_single(step: Step) -> bool:
    effect = effect_of(step.instruction.decoded, step.kernel.target)
    special = step.meaning.memory or effect.issues or effect.limits or effect.is_wait
    return bool(special) or step.meaning.control in _SYNCHRONISING


@lru_cache(maxsize=1 << 12)
def _late_function(decoded: Decoded, meaning: Meaning, mode: FloatMode, lanes: int) -> LateFunction:
    return compile_late(decoded, meaning, mode, lanes)


def _places(touch: Touch) -> list[int]:
    """Where an atomic synchronises."""
    found: list[int] = np.unique(touch.index).tolist()
    return found


def _sentence(step: Step, wave: Wave, misuse: Misuse) -> str:
    verb = "reads" if misuse.units & step.instruction.reads and not misuse.is_read_late else "overwrites"
    return f"{describe(step, wave, wave.group)} {verb} {misuse}"
