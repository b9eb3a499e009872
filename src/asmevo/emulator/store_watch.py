"""Who stored what: finds the instructions that wrote given elements of a buffer.

The watch hears of each instruction before it runs (see `RunOptions.watch`). Nothing but the instruction that ran
last can have changed memory since, so an element that holds other bytes than a moment ago was stored by that
instruction. Looking at some dozens of elements costs little beside the reference engine that calls the watch.
A store of the value that was there already is not seen; the element it leaves is not the one that differs.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct, field

from asmevo.emulator.code import Step
from asmevo.emulator.manifest import Array
from asmevo.emulator.memory import Bytes, Region
from asmevo.emulator.wave import Wave


class Store(Struct, frozen=True):
    """One change of an element: `order` counts changes of the run, `step` and `wave` say who made it."""

    order: int
    step: Step
    wave: int

    def __str__(self) -> str:
        instruction = self.step.instruction
        line = f", line {instruction.line}" if instruction.line is not None else ""
        return f"instruction {instruction.id} `{instruction.text}`{line} (wave {self.wave})"


class StoreWatch(Struct):
    """Watches `elements` (indices) of `buffer`, of `size` bytes each. `last` is each one's last store so far."""

    buffer: str
    elements: Array
    size: int
    last: dict[int, Store] = field(default_factory=dict)
    _view: Bytes | None = None
    _seen: Bytes = field(default_factory=lambda: np.zeros((0, 0), np.uint8))
    _before: tuple[Step, int] | None = None
    _changes: int = 0

    def __call__(self, wave: Wave, step: Step) -> None:
        """Called before `step` runs."""
        if self._view is None:
            self._begin(wave)
        else:
            self._look(self._view)
        self._before = (step, wave.number)

    def finish(self) -> dict[int, Store]:
        """The last store of each element, after the run's end."""
        if self._view is not None:
            self._look(self._view)
        return self.last

    def _begin(self, wave: Wave) -> None:
        arena = wave.reach.memory
        region: Region = next(each for each in arena.regions if each.name == self.buffer)
        self._view = arena.view(region)
        self._seen = self._now(self._view)

    def _now(self, view: Bytes) -> Bytes:
        return view[self.elements[:, None] * self.size + np.arange(self.size)]

    def _look(self, view: Bytes) -> None:
        now = self._now(view)
        if self._before is None or np.array_equal(now, self._seen):
            return
        step, wave = self._before
        for row in np.flatnonzero((now != self._seen).any(axis=1)):
            self._changes += 1
            self.last[int(self.elements[row])] = Store(self._changes, step, wave)
        self._seen = now
