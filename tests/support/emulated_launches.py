"""The project's own kernels with their launches: every (launch, target), and how to run one."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import kernel_references
import numpy as np
from compiled_programs import all_files

from asmevo.emulator.manifest import LaunchManifest, make_buffers, read_manifest
from asmevo.emulator.run import RunOptions, RunResult, run
from asmevo.program.opening import read_program
from asmevo.program.program import Program

LAUNCHES = Path(__file__).parent.parent / "data" / "launches"


@functools.cache
def launch(name: str) -> LaunchManifest:
    """A manifest by its name."""
    return read_manifest(LAUNCHES / f"{name}.json")


@functools.cache
def _objects(name: str) -> dict[str, str]:
    import json

    document = json.loads((LAUNCHES / f"{name}.json").read_text())
    return {target: info["object"] for target, info in document["targets"].items()}


def all_pairs() -> list[tuple[str, str]]:
    """(launch, target), all that were compiled."""
    names = sorted(path.stem for path in LAUNCHES.glob("*.json"))
    return [(name, target) for name in names for target in _objects(name)]


@functools.lru_cache(maxsize=32)
def program_of(name: str, target: str) -> Program:
    """The compilers' code object for a launch."""
    file = _objects(name)[target]
    return read_program(all_files()[file], file)


@functools.cache
def wanted(name: str) -> dict[str, Any]:
    """The results by numpy."""
    manifest = launch(name)
    scalars = {
        argument.name: kernel_references.DTYPES[argument.dtype](argument.value)
        for argument in manifest.arguments
        if argument.kind == "scalar"
    }
    buffers = {key: np.array(value) for key, value in make_buffers(manifest).items()}
    assert manifest.reference is not None
    return kernel_references.REFERENCES[manifest.reference](buffers, scalars)


def run_pair(name: str, target: str, options: RunOptions | None = None) -> RunResult:
    """Runs a launch on a target and compares every result with numpy's."""
    program, manifest = program_of(name, target), launch(name)
    return run(program, program.kernel(manifest.symbol), manifest, expected=wanted(name), options=options)
