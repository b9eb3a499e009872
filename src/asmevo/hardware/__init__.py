"""Real GPUs through HIP: which one is there, whether versions leave the same bytes on it every time, and their times.

Start with `find_device`, then `Session` and `compare`, or `launch` for one version. No call of HIP happens in this
process: every request goes to a worker process. docs/hardware.md says what is done and what is assumed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asmevo.hardware.comparison import Examination, Plan, compare
    from asmevo.hardware.device import Device, Session, find_device
    from asmevo.hardware.errors import (
        DeviceLostError,
        GpuCrashError,
        GpuFaultError,
        GpuHangError,
        GpuMemoryFaultError,
        GpuRefusedError,
        GpuTimeLimitError,
        HardwareError,
        NoDeviceError,
        NoHipError,
        NotLaunchableError,
        WrongTargetError,
    )
    from asmevo.hardware.launching import LaunchResult, launch
    from asmevo.hardware.measurement import Pace, Times, Timing
    from asmevo.hardware.witness import GateWitness

_MODULES = {
    "comparison": ("Examination", "Plan", "compare"),
    "device": ("Device", "Session", "find_device"),
    "errors": (
        "DeviceLostError", "GpuCrashError", "GpuFaultError", "GpuHangError", "GpuMemoryFaultError", "GpuRefusedError",
        "GpuTimeLimitError", "HardwareError", "NoDeviceError", "NoHipError", "NotLaunchableError", "WrongTargetError",
    ),
    "launching": ("LaunchResult", "launch"),
    "measurement": ("Pace", "Times", "Timing"),
    "witness": ("GateWitness",),
}  # fmt: skip
_WHERE = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "Device",
    "DeviceLostError",
    "Examination",
    "GateWitness",
    "GpuCrashError",
    "GpuFaultError",
    "GpuHangError",
    "GpuMemoryFaultError",
    "GpuRefusedError",
    "GpuTimeLimitError",
    "HardwareError",
    "LaunchResult",
    "NoDeviceError",
    "NoHipError",
    "NotLaunchableError",
    "Pace",
    "Plan",
    "Session",
    "Times",
    "Timing",
    "WrongTargetError",
    "compare",
    "find_device",
    "launch",
]


def __getattr__(name: str) -> Any:
    """Loads a part when somebody asks for it: a worker process needs the binding alone and must start quickly."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
