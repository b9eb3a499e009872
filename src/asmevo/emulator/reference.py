"""The engine that executes one instruction at a time with numpy: slow, simple, and able to watch everything.

It is what compiled code is compared with, it can print each instruction, and it knows for each register whether
anybody has written it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from asmevo.emulator.code import NOWHERE, Code, Step
from asmevo.emulator.errors import EmulationError, PoisonError, UnsupportedInstructionError
from asmevo.emulator.machine import Poison, Stop, Tally
from asmevo.emulator.unwritten import used_units
from asmevo.emulator.vectorised import Execute, compile_meaning
from asmevo.emulator.wave import MODE, Lanes, Wave
from asmevo.program.registers import register_names, units_of
from asmevo.semantics.expression import Control, Exactness, Scope
from asmevo.semantics.float_mode import FloatMode

Watch = Callable[[Wave, Step], None]

_FNUZ_FAMILIES = ("gfx940",)
_STOPS = {
    Control.END: Stop.END,
    Control.BARRIER: Stop.BARRIER,
    Control.BARRIER_SIGNAL: Stop.SIGNAL,
    Control.BARRIER_WAIT: Stop.WAIT,
}


def float_mode(register: int, step: Step) -> FloatMode:
    """MODE's floating-point part on the target of a step."""
    family = step.kernel.target.family.value
    return FloatMode.from_register(
        register, fnuz=family in _FNUZ_FAMILIES, has_ieee_bits=not family.startswith("gfx12")
    )


def _named(step: Step) -> str:
    return f"{step.kernel.name}: instruction {step.instruction.id} `{step.instruction.text}`"


def refuse(step: Step) -> UnsupportedInstructionError:
    """The error about an instruction without a meaning."""
    mnemonic = step.instruction.mnemonic
    return UnsupportedInstructionError(mnemonic, f"{_named(step)}: the meaning of {mnemonic} is not known")


class ReferenceEngine:
    """Implements `machine.Engine`."""

    def __init__(self, code: Code, tally: Tally, poison: Poison = "ignore", watch: Watch | None = None) -> None:
        self.code = code
        self.tally = tally
        self.poison = poison
        self.watch = watch
        self._functions: dict[tuple[int, int], Execute] = {}
        self._reads: dict[int, Lanes] = {}

    def advance(self, wave: Wave, turn: int) -> Stop:
        """Runs up to `turn` instructions."""
        with np.errstate(all="ignore"):
            for _ in range(turn):
                stop = self._step(wave)
                if stop is not None:
                    return stop
        return Stop.TURN

    def finish(self) -> None:
        """Everything is counted as it runs."""

    def _step(self, wave: Wave) -> Stop | None:
        step = self.code.steps[wave.place]
        if self.watch is not None:
            self.watch(wave, step)
        if step.meaning.exactness is Exactness.UNSUPPORTED:
            raise refuse(step)
        if self.poison != "ignore":
            self.check_registers(wave, step)
        outcome = self._function(wave, step)(wave, step.behind)
        self.note_writes(wave, step)
        self.tally.executed[wave.place] += 1
        wave.steps += 1
        return self._go_on(wave, step, outcome)

    def _function(self, wave: Wave, step: Step) -> Execute:
        mode = int(wave.scalars[MODE])
        found = self._functions.get((step.place, mode))
        if found is None:
            found = compile_meaning(step.instruction.decoded, step.meaning, float_mode(mode, step), wave.lanes)
            self._functions[step.place, mode] = found
        return found

    def _go_on(self, wave: Wave, step: Step, outcome: int) -> Stop | None:
        control = step.meaning.control
        if control is Control.BRANCH and outcome:
            wave.place = self._known(step.branch, step, "a label that is not in the program")
        elif control is Control.JUMP:
            wave.place = self._known(self.code.place_at(outcome), step, f"{outcome:#x}, where no instruction is")
        elif control is Control.TRAP:
            raise EmulationError(f"{_named(step)}: a trap")
        else:
            wave.place += 1
        stop = _STOPS.get(control)
        if stop is None and wave.place >= len(self.code.steps):
            name, instruction = step.kernel.name, step.instruction
            words = f"{name}: behind instruction {instruction.id} `{instruction.text}`"
            raise EmulationError(f"{words} the code goes on where no instruction is")
        return stop

    def _known(self, place: int, step: Step, words: str) -> int:
        if place == NOWHERE:
            raise EmulationError(f"{_named(step)} goes to {words}")
        return place

    def note_writes(self, wave: Wave, step: Step) -> None:
        """The destinations of an instruction count as written."""
        if self.poison != "ignore":
            wave.written[list(units_of(step.instruction.writes))] = True

    def check_registers(self, wave: Wave, step: Step) -> None:
        """Reports registers that an instruction uses and nobody wrote, by `wave.written`. Raises PoisonError."""
        if step.meaning.scope is Scope.LANE and not wave.exec_mask and not step.meaning.ignores_exec:
            return
        units = self._reads.get(step.place)
        if units is None:
            units = self._reads[step.place] = np.fromiter(units_of(used_units(step.instruction.decoded)), int)
        if wave.written[units].all():
            return
        bad = sum(1 << int(unit) for unit in units[~wave.written[units]])
        words = f"{_named(step)} (wave {wave.number}) reads {register_names(bad)}, which nobody wrote"
        if self.poison == "error":
            raise PoisonError(words)
        self.tally.note(words)
