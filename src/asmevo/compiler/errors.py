"""What can go wrong on the way through the compiler, each kind a named exception with one sentence."""

from __future__ import annotations

from asmevo.program.errors import ProgramError


class MachineIRError(ProgramError):
    """Machine IR that cannot be read; names file and line."""


class SchedulingError(ProgramError):
    """A source, an agent or a file of decisions with which nothing can be scheduled; says why."""


class IllegalOrderError(ProgramError):
    """An order that breaks a dependence; names both instructions and what ties them. LLVM never sees it."""
