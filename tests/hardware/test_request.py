"""Requests against the emulator's launches: the same bytes, the same geometry, with the addresses put in."""

from __future__ import annotations

import numpy as np
import pytest
from emulated_launches import all_pairs, launch, program_of

from asmevo.emulator import LaunchManifest, standard_trials
from asmevo.emulator.launch import prepare
from asmevo.hardware import NotLaunchableError
from asmevo.hardware.request import arrays_of, run_of, shape_of, version_of

LOCAL = "dynamic_lds"


def without_pieces_of_lds(manifest: LaunchManifest) -> bool:
    return all(argument.kind != "local" for argument in manifest.arguments)


@pytest.mark.parametrize(
    ("name", "target"), [pair for pair in all_pairs() if without_pieces_of_lds(launch(pair[0]))][::13]
)
def test_the_segment_and_the_geometry_are_the_emulators(name: str, target: str) -> None:
    program, manifest = program_of(name, target), launch(name)
    kernel = program.kernel(manifest.symbol)
    made = prepare(program, kernel, manifest)
    version = version_of("it", program, kernel, manifest)
    segment = bytearray(version.arguments)
    for offset, number in version.pointers:
        address = made.memory.address(manifest.buffers[number].name)
        segment[offset : offset + 8] = address.to_bytes(8, "little")
    assert bytes(segment) == made.kernarg
    assert len(version.pointers) == len(manifest.buffers)
    trial = next(iter(standard_trials(manifest, seeds=0)))
    run = run_of(0, (version,), trial, shape_of(manifest, kernel), (0,))
    assert (run.grid, run.workgroup, version.lds) == (made.shape.grid, made.shape.workgroup, made.shape.lds_dynamic)
    arrays = arrays_of(manifest, [each.content for each in run.allocations])
    for argument, allocation in zip(manifest.buffers, run.allocations, strict=True):
        assert allocation.align % 256 == 0
        if argument.init.kind != "unwritten":
            assert np.array_equal(arrays[argument.name].view(np.uint8), trial.buffers[argument.name].view(np.uint8))


def test_results_that_nobody_wrote_hold_the_same_poison_for_all() -> None:
    manifest = launch("vector_add")
    program = program_of("vector_add", "gfx942")
    kernel = program.kernel(manifest.symbol)
    edges = next(trial for trial in standard_trials(manifest, seeds=0) if trial.name == "edge values")
    version = version_of("it", program, kernel, manifest)
    contents = [run_of(0, (version,), edges, shape_of(manifest, kernel), (0,)).allocations[2].content for _ in range(2)]
    assert contents[0] == contents[1]
    assert len(set(contents[0])) == 256


def test_a_piece_of_lds_is_refused() -> None:
    name, target = next(pair for pair in all_pairs() if pair[0] == LOCAL)
    program, manifest = program_of(name, target), launch(name)
    assert not without_pieces_of_lds(manifest)
    with pytest.raises(NotLaunchableError):
        version_of("it", program, program.kernel(manifest.symbol), manifest)
