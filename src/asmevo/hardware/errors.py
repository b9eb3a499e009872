"""What can go wrong on a real GPU, each kind a named exception with one sentence.

`HardwareError` is about the machine or the input: nothing was decided (exit code 2). `GpuFaultError` is about a
kernel: the process that ran it was lost or told of an error, and nothing else.
"""

from __future__ import annotations

from asmevo.program import ProgramError


class HardwareError(ProgramError):
    """Base of every error about the machine."""


class NoHipError(HardwareError):
    """HIP's runtime library is not there; says how to get it."""


class NoDeviceError(HardwareError):
    """HIP is there, but no GPU."""


class WrongTargetError(HardwareError):
    """The code object is for another GPU than the one at hand."""


class NotLaunchableError(HardwareError):
    """The launch has something that HIP cannot give a kernel."""


class DeviceLostError(HardwareError):
    """The GPU, or its driver, does not answer any more; it ends the session."""


class GpuFaultError(Exception):
    """A kernel did not end well. `version` is the name of the version that was under way, if one was."""

    def __init__(self, words: str, version: str | None = None) -> None:
        super().__init__(words)
        self.version = version


class GpuHangError(GpuFaultError):
    """The driver found the GPU hanging."""


class GpuTimeLimitError(GpuHangError):
    """It did not end within the time limit: nobody knows whether it would have."""


class GpuMemoryFaultError(GpuFaultError):
    """It touched memory that is not there for it."""


class GpuRefusedError(GpuFaultError):
    """The runtime did not take the code object or the launch."""


class GpuCrashError(GpuFaultError):
    """Anything else: an illegal instruction, a process that died without a word."""
