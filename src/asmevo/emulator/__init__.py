"""Runs kernels on the machine at hand: launches, memory, waves, workgroups. Start with `run`."""

from asmevo.emulator.code import Step
from asmevo.emulator.comparison import Difference, Trial, Unfinished, Witness, standard_trials
from asmevo.emulator.errors import EmulationError, LaunchError, ManifestError
from asmevo.emulator.machine import Limits
from asmevo.emulator.manifest import LaunchManifest, make_buffers, parse_manifest, read_manifest, schema
from asmevo.emulator.run import Outcome, RunOptions, RunResult, run
from asmevo.emulator.wave import Wave

__all__ = [
    "Difference",
    "EmulationError",
    "LaunchError",
    "LaunchManifest",
    "Limits",
    "ManifestError",
    "Outcome",
    "RunOptions",
    "RunResult",
    "Step",
    "Trial",
    "Unfinished",
    "Wave",
    "Witness",
    "make_buffers",
    "parse_manifest",
    "read_manifest",
    "run",
    "schema",
    "standard_trials",
]
