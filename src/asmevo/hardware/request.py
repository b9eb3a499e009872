"""From a program, a manifest and data to a request: the same bytes for every version and every run.

What nobody wrote before the launch holds poison, the same for all versions, so that elements which a kernel leaves out
compare equal and elements which only one version writes do not.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from asmevo.emulator import LaunchManifest, Trial
from asmevo.emulator.arguments import Apertures, Shape, pack_arguments, placed_arguments
from asmevo.emulator.manifest import NUMPY_TYPES, Array, BufferArgument, LocalArgument, Unwritten
from asmevo.hardware.errors import NotLaunchableError
from asmevo.hardware.messages import Allocation, Run, Version
from asmevo.program.kernel import Kernel
from asmevo.program.program import Program

GUARD = 1 << 16
"""Bytes in front of and behind every buffer that no kernel may store to; a convention."""
DISTINCT = 4
"""How many different results of one version are brought back to be compared; a convention."""

_ALIGNMENT = 256  # bytes: hipMalloc's own, which compilers and libraries may count on


def version_of(name: str, program: Program, kernel: Kernel, manifest: LaunchManifest) -> Version:
    """One version, ready to launch. Raises NotLaunchableError, LaunchError or ManifestError."""
    if program.image.relocatable:
        raise NotLaunchableError(program.file, "a relocatable object; link it first")
    if kernel.metadata is None:
        raise NotLaunchableError(program.file, f"{kernel.name} has no metadata, HIP launches nothing without")
    if any(isinstance(each, LocalArgument) for each in manifest.arguments):
        raise NotLaunchableError(manifest.name, "an argument is a piece of LDS, which OpenCL has and HIP has not")
    numbers = {argument.name: number for number, argument in enumerate(manifest.buffers)}
    pointers = tuple(
        (int(entry[".offset"]), numbers[argument.name])
        for entry, argument in placed_arguments(kernel, manifest)
        if isinstance(argument, BufferArgument)
    )
    shape = shape_of(manifest, kernel)
    nowhere = dict.fromkeys(numbers, 0)
    arguments = pack_arguments(kernel, manifest, shape, nowhere, Apertures())
    return Version(name, program.image.data, kernel.name, arguments, pointers, shape.lds_dynamic)


def shape_of(manifest: LaunchManifest, kernel: Kernel) -> Shape:
    """The launch's geometry on the kernel's target. Raises ManifestError."""
    geometry = manifest.geometry(kernel.target.name)
    assert geometry.workgroup is not None
    assert geometry.grid is not None
    return Shape(manifest.groups, geometry.workgroup, geometry.grid, geometry.lds_dynamic or 0)


def run_of(device: int, versions: Sequence[Version], trial: Trial, shape: Shape, order: Sequence[int]) -> Run:
    """Launches of versions in an order, on a trial's data."""
    allocations = tuple(
        Allocation(argument.name, _content(argument, trial.buffers[argument.name]), max(argument.align, _ALIGNMENT))
        for argument in trial.manifest.buffers
    )
    return Run(
        device, tuple(versions), allocations, shape.grid, shape.workgroup, tuple(order), GUARD, DISTINCT
    )  # fmt: skip


def _content(argument: BufferArgument, data: Array) -> bytes:
    if isinstance(argument.init, Unwritten):
        return random.Random(argument.name).randbytes(data.nbytes)
    return np.ascontiguousarray(data).tobytes()


def arrays_of(manifest: LaunchManifest, contents: Sequence[bytes]) -> dict[str, Array]:
    """What a launch left in each buffer."""
    return {
        argument.name: np.frombuffer(raw, NUMPY_TYPES[argument.dtype]).reshape(argument.shape)
        for argument, raw in zip(manifest.buffers, contents, strict=True)
    }
