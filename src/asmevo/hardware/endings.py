"""How a worker's end is read: what the runtime returned or printed, by kind of fault.

The runtime speaks in two ways. Calls return a `hipError_t` ("HIP error codes" of AMD's HIP documentation); but for
faults of a kernel it mostly prints a line on standard error and aborts the process (ROCR-Runtime,
`Runtime::VMFaultHandler` and `HwExceptionHandler`; the statuses of `hsa.h` and `hsa_ext_amd.h`, which ROCclr prints).
"""

from __future__ import annotations

import signal
from collections.abc import Mapping

from asmevo.hardware.errors import (
    GpuCrashError,
    GpuFaultError,
    GpuHangError,
    GpuMemoryFaultError,
    GpuRefusedError,
)
from asmevo.hardware.messages import Failure

NO_DEVICE = frozenset({100, 101})
"""hipErrorNoDevice, and hipErrorInvalidDevice: what hipInit returns on a machine without a GPU, ROCm 6.4 and 5.2."""

_CODES: Mapping[int, type[GpuFaultError]] = {
    700: GpuMemoryFaultError,  # hipErrorIllegalAddress
    702: GpuHangError,  # hipErrorLaunchTimeOut
    214: GpuCrashError,  # hipErrorECCNotCorrectable
    710: GpuCrashError,  # hipErrorAssert
}
"""Errors whose kind does not depend on the call that returns them."""

_BEFORE_IT_RUNS = ("hipMalloc", "hipModuleLoadData", "hipModuleGetFunction", "hipExtModuleLaunchKernel")
"""An error of these calls says that the runtime does not take what it was given."""

_PRINTED: tuple[tuple[str, type[GpuFaultError]], ...] = (
    ("Memory access fault by GPU", GpuMemoryFaultError),
    ("HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION", GpuMemoryFaultError),
    ("HSA_STATUS_ERROR_MEMORY_FAULT", GpuMemoryFaultError),
    ("GPU Hang", GpuHangError),
    ("HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION", GpuCrashError),
    ("HSA_STATUS_ERROR_EXCEPTION", GpuCrashError),
)
"""What is printed before the runtime aborts."""

_MOST_WORDS = 200


def of_failure(failure: Failure, version: str | None) -> GpuFaultError:
    """The fault that a call's error tells of."""
    kind = _CODES.get(failure.code)
    if kind is None:
        kind = GpuRefusedError if failure.call in _BEFORE_IT_RUNS else GpuCrashError
    words = {
        GpuMemoryFaultError: "a memory fault",
        GpuHangError: "the GPU hangs",
        GpuRefusedError: "refused",
        GpuCrashError: "an error on the GPU",
    }[kind]
    return kind(f"{words}: {failure.words}", version)


def of_death(code: int, printed: str, version: str | None) -> GpuFaultError:
    """The fault of a process that died; `code` as `subprocess` has it, negative for a signal."""
    for sign, kind in _PRINTED:
        line = next((line.strip() for line in printed.splitlines() if sign in line), None)
        if line is not None:
            return kind(f"the runtime ended the process: {line[:_MOST_WORDS]}", version)
    lines = printed.strip().splitlines()
    said = f"; its last words: {lines[-1].strip()[:_MOST_WORDS]}" if lines else ""
    return GpuCrashError(f"the process that ran it ended by {_how(code)}{said}", version)


def _how(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
