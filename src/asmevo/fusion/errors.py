"""What can be wrong about a fusion search beside the chain file itself."""

from __future__ import annotations

from asmevo.program import ProgramError


class NoDeviceError(ProgramError):
    """Nothing is known about a whole device of the target, and the caller did not say it."""
