"""The GPU at hand: which one it is, whether a code object is for it, and a session that runs requests on it.

A code object is for a GPU if the processors are the same and every feature that the code object pins (xnack,
sramecc) is set on the GPU as pinned; what it leaves open runs with either. AMDGPU backend user guide, "Target ID".

After a fault the GPU is looked at before anything else runs on it: memory of it must give back what is written. One
that does not answer ends the session.
"""

from __future__ import annotations

import re

from msgspec import Struct

from asmevo.hardware import endings
from asmevo.hardware.errors import DeviceLostError, GpuFaultError, NoDeviceError, NoHipError, WrongTargetError
from asmevo.hardware.messages import Failure, Look, Looked, Ran, Run, Seen
from asmevo.hardware.worker_process import ask
from asmevo.program.program import Program

GET_HIP = (
    "install ROCm's HIP runtime (Debian, Ubuntu: the package libamdhip64-5 or -6; AMD's: rocm-hip-runtime), or name "
    "the library with ASMEVO_HIP=FILE"
)
GET_DEVICE = "an AMD GPU with ROCm's kernel driver, and the right to open /dev/kfd and /dev/dri (groups render, video)"

_LOOK_SECONDS = 60.0  # the first use of a GPU after a start of the machine takes long
_FEATURE = re.compile(r":([a-z]+[+-])")


class Device(Struct, frozen=True):
    """A GPU that answers. `architecture` is its target id, e.g. "gfx942:sramecc+:xnack-"; `runtime` HIP's version."""

    index: int
    name: str
    architecture: str
    runtime: str

    @property
    def target(self) -> str:
        """The processor alone, e.g. "gfx942"."""
        return self.architecture.partition(":")[0]

    @property
    def features(self) -> tuple[str, ...]:
        """How xnack and sramecc are set, e.g. ("sramecc+", "xnack-")."""
        return tuple(_FEATURE.findall(self.architecture))

    def refuse_other_target(self, program: Program) -> None:
        """Raises WrongTargetError if the code object is for another GPU."""
        wanted = program.image.target_id
        if wanted.name != self.target:
            words = f"the code object is for {wanted.name}, {self} is {self.target}"
            raise WrongTargetError(program.file, words)
        other = [pinned for pinned in wanted.features if pinned not in self.features]
        if other:
            words = f"the code object is for {wanted}, {self} is {self.architecture}"
            raise WrongTargetError(program.file, words)

    def __str__(self) -> str:
        return f"GPU {self.index} ({self.name or self.target})"


def find_device(index: int = 0) -> Device:
    """The GPU of a number. Raises NoHipError, NoDeviceError, or DeviceLostError for one that does not answer."""
    looked = _look()
    if not looked.devices:
        raise NoDeviceError("GPU", f"HIP sees no AMD GPU; needed is {GET_DEVICE}")
    if index >= len(looked.devices):
        raise NoDeviceError("GPU", f"there is no GPU {index}; HIP sees {len(looked.devices)}")
    seen = looked.devices[index]
    if seen.trouble:
        raise DeviceLostError("GPU", f"GPU {index} does not answer: {seen.trouble}")
    return _device(seen, looked.runtime)


def _look() -> Looked:
    try:
        message = ask(Look(), _LOOK_SECONDS).message
    except GpuFaultError as error:
        raise DeviceLostError("GPU", f"HIP does not answer when asked for GPUs: {error}") from error
    if isinstance(message, Looked):
        return message
    assert isinstance(message, Failure)
    if not message.call:
        raise NoHipError("HIP", f"{message.words}; {GET_HIP}")
    if message.code in endings.NO_DEVICE:
        return Looked(0, ())
    raise NoDeviceError("HIP", f"{message.words}; needed is {GET_DEVICE}")


def _device(seen: Seen, runtime: int) -> Device:
    major, minor = divmod(runtime, 10_000_000)
    return Device(seen.index, seen.name, seen.architecture, f"{major}.{minor // 100_000}")


class Session:
    """Requests on one GPU, each in a process of its own; `seconds` is the time limit of each."""

    def __init__(self, device: Device, seconds: float) -> None:
        self.device = device
        self._seconds = seconds
        self._in_doubt = False
        self._lost: str | None = None

    def run(self, request: Run) -> Ran:
        """All launches of a request. Raises GpuFaultError, and DeviceLostError from then on once the GPU is lost."""
        if self._in_doubt:
            self.look()
        if self._lost is not None:
            raise DeviceLostError("GPU", self._lost)
        try:
            answer = ask(request, self._seconds)
        except GpuFaultError:
            self._in_doubt = True
            raise
        except DeviceLostError as error:
            self._lost = error.words
            raise
        if isinstance(answer.message, Failure):
            self._in_doubt = True
            raise endings.of_failure(answer.message, answer.version)
        assert isinstance(answer.message, Ran)
        return answer.message

    def look(self) -> None:
        """Looks whether the GPU still answers. Raises DeviceLostError."""
        try:
            same = find_device(self.device.index).architecture == self.device.architecture
            self._lost = self._lost if same else "another GPU answers now"
        except (DeviceLostError, NoDeviceError, NoHipError) as error:
            self._lost = f"after a fault {error.words}"
        self._in_doubt = False
        if self._lost is not None:
            raise DeviceLostError("GPU", self._lost)
