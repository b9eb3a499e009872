"""What `asmevo run` adds to a run: exit codes, and the trace."""

from __future__ import annotations

import sys

from asmevo.doors.exits import DEFINITE_NO, GOOD, UNDECIDED
from asmevo.emulator import Outcome, Step, Wave


def exit_code(outcome: Outcome) -> int:
    """Good, a definite no, or could not decide."""
    if not outcome.is_definite:
        return UNDECIDED
    return GOOD if outcome in (Outcome.MATCHES, Outcome.RAN) else DEFINITE_NO


def trace_to_stderr(wave: Wave, step: Step) -> None:
    """One line an instruction: wave, instruction, EXEC."""
    print(
        f"wave {wave.number} {step.instruction.id:5d} {step.instruction.text}  exec={wave.exec_mask:#x}",
        file=sys.stderr,
    )
