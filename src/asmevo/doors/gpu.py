"""Real GPUs as the command line has them: a device to choose, a time limit, the witness of level release."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from asmevo.emulator import LaunchManifest
    from asmevo.gates import HardwareWitness
    from asmevo.hardware import Session
    from asmevo.program import Program
    from asmevo.program.kernel import Kernel
    from asmevo.prover import FloatPolicy

SECONDS = 60.0
"""Time limit of a process that runs launches; a convention."""


class Device(Enum):
    """Where to run."""

    EMULATOR = "emulator"
    HIP = "hip"


DeviceName = Annotated[Device, typer.Option(help="Where it runs: the emulator, or a real GPU through HIP.")]
TimeLimit = Annotated[
    float, typer.Option("--time-limit", help="With --device hip: seconds after which a launch counts as a hang.", min=1)
]


def session(seconds: float) -> Session:
    """A session on the machine's first GPU (HIP_VISIBLE_DEVICES chooses). Raises HardwareError."""
    from asmevo.hardware import Session, find_device

    return Session(find_device(), seconds)


def release_witness(
    program: Program, kernel: Kernel, manifest: LaunchManifest, policy: FloatPolicy
) -> tuple[HardwareWitness | None, str]:
    """The GPU as a witness; or None and the reason why none can be asked about this program.

    Raises DeviceLostError for a GPU that is there and does not answer.
    """
    from asmevo.hardware import DeviceLostError, GateWitness, HardwareError

    try:
        return GateWitness(session(SECONDS), program, kernel, manifest, policy), ""
    except DeviceLostError:
        raise
    except HardwareError as error:
        return None, error.words
