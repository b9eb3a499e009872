"""One version on a real GPU, beside what its manifest expects."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from asmevo.emulator import LaunchManifest, Trial, make_buffers
from asmevo.emulator.manifest import compare_with_manifest
from asmevo.hardware.device import Device, Session
from asmevo.hardware.errors import GpuFaultError
from asmevo.hardware.request import arrays_of, run_of, shape_of, version_of
from asmevo.program.kernel import Kernel
from asmevo.program.program import Program

LAUNCHES = 3
"""How often a version runs, to see whether it does the same each time; a convention."""


class LaunchResult(Struct, frozen=True):
    """What came of it. `problems` are sentences; without any the results are as expected, if `judged`, every time.

    `milliseconds` are the times of the launches, the first with everything cold.
    """

    device: Device
    problems: tuple[str, ...]
    judged: bool
    milliseconds: tuple[float, ...]

    def __str__(self) -> str:
        if self.problems:
            return self.problems[0]
        times = ", ".join(f"{1000 * each:.2f}" for each in self.milliseconds)
        words = "the results are as expected" if self.judged else "it ran; the manifest expects nothing to compare with"
        return f"{words}, the same in {len(self.milliseconds)} launches ({times} us)"

    def to_dict(self) -> dict[str, Any]:
        """As JSON data."""
        return {
            "gpu": str(self.device),
            "architecture": self.device.architecture,
            "outcome": "fails" if self.problems else "matches" if self.judged else "ran",
            "problems": list(self.problems),
            "milliseconds": list(self.milliseconds),
        }


def launch(session: Session, program: Program, kernel: Kernel, manifest: LaunchManifest) -> LaunchResult:
    """Runs the manifest's launch a few times. What goes wrong while it runs is in the result.

    Raises WrongTargetError, NotLaunchableError, LaunchError or ManifestError before it runs, and DeviceLostError.
    """
    session.device.refuse_other_target(program)
    version = version_of(kernel.name, program, kernel, manifest)
    trial = Trial("the manifest's data", manifest, make_buffers(manifest))
    shape = shape_of(manifest, kernel)
    try:
        ran = session.run(run_of(session.device.index, (version,), trial, shape, (0,) * LAUNCHES))
    except GpuFaultError as error:
        return LaunchResult(session.device, (str(error),), False, ())
    problems = [f"it stores outside of {manifest.buffers[each.allocation].name}, {each}" for each in ran.damage[:1]]
    contents = ran.results[0]
    if len(contents) > 1:
        problems.append("the results differ between launches")
    found, judged = compare_with_manifest(manifest, arrays_of(manifest, contents[0]))
    times = tuple(each.milliseconds for each in ran.launches)
    return LaunchResult(session.device, (*problems, *found), judged, times)
