"""What can go wrong with an emulated launch, each kind a named exception with one sentence.

`ManifestError` and `LaunchError` are about what was handed in (exit code 2). `EmulationError` is a fault of the
program that ran: a definite no. `LimitError` and `UnsupportedInstructionError` say that nothing was decided.
"""

from __future__ import annotations

from asmevo.program import ProgramError


class ManifestError(ProgramError):
    """The launch manifest is no valid manifest; the sentence names the field."""


class LaunchError(ProgramError):
    """Manifest and program do not fit each other."""


class EmulationError(Exception):
    """The program did something that no correct program does; the sentence names the instruction."""


class MemoryFaultError(EmulationError):
    """An access outside of every buffer, a store to read-only memory."""


class PoisonError(EmulationError):
    """A value was used that nobody wrote."""


class InFlightError(EmulationError):
    """A register was used or overwritten that an access still had; asynchronous mode only."""


class RaceError(EmulationError):
    """Two waves met at a byte of memory without an order; asynchronous mode only."""


class DeadlockError(EmulationError):
    """Waves wait at a barrier that the others never reach."""


class LimitError(EmulationError):
    """The instruction or time limit ended the run."""


class UnsupportedInstructionError(EmulationError):
    """An instruction whose meaning is not known stood in the way."""

    def __init__(self, mnemonic: str, words: str) -> None:
        super().__init__(words)
        self.mnemonic = mnemonic
