"""The compilers' own kernels against numpy, on the targets they were compiled for."""

from __future__ import annotations

from typing import Any

import pytest
from emulated_launches import all_pairs, launch, program_of, run_pair, wanted
from msgspec.structs import replace

from asmevo.emulator import Outcome, RunOptions, run
from asmevo.program import Block
from asmevo.program.decode import decode_one

# The reference expects the size of a partial workgroup; the object reads the argument with the full size, which
# compilers may do when they are told that all workgroups are full. The hardware would store 16 there as well.
NOT_THE_EMULATORS = "hidden_arguments_partial"

SAMPLE = [
    ("vector_add", "gfx90a"),
    ("saxpy", "gfx1200"),
    ("wave_ops", "gfx803"),
    ("bit_ops", "gfx1010"),
    ("half2_math", "gfx906"),
    ("lookup_table", "gfx1030"),
    ("function_calls", "gfx942"),
    ("narrow_memory", "gfx1100"),
    ("global_atomics", "gfx908"),
    ("float_atomics", "gfx1201"),
    ("dynamic_lds", "gfx1151"),
    ("hidden_arguments", "gfx950"),
    ("softmax", "gfx1100"),
    ("scratch_sort", "gfx900"),
    ("matmul_i8", "gfx942"),
    ("matmul_f16", "gfx1200"),
]


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("ASMEVO_CACHE", str(tmp_path_factory.getbasetemp() / "asmevo"))


@pytest.mark.parametrize(("name", "target"), SAMPLE)
def test_a_sample_matches_numpy(name: str, target: str) -> None:
    result = run_pair(name, target)
    assert result.outcome is Outcome.MATCHES, result.problems
    assert not result.fidelity.unsupported


@pytest.mark.parametrize(
    ("name", "target"), [("wave_ops", "gfx942"), ("divergent", "gfx1100"), ("row_argmax", "gfx906")]
)
def test_engines_give_the_same_bits(name: str, target: str) -> None:
    first, *others = (
        run_pair(name, target, options)
        for options in (RunOptions(engine="reference"), RunOptions(), RunOptions(hot_after=0))
    )
    for other in others:
        assert first.instructions == other.instructions
        assert first.fidelity == other.fidelity
        assert set(first.notes) == set(other.notes)
        for key, value in first.outputs.items():
            assert value.tobytes() == other.outputs[key].tobytes()


def test_addresses_of_data_follow_an_edited_kernel() -> None:
    """An instruction in front moves the `s_getpc` away from the table that it leads to."""
    program, manifest = program_of("lookup_table", "gfx942"), launch("lookup_table")
    kernel = program.kernel("lookup_table")
    (first, *others) = kernel.blocks
    extra = replace(first.instructions[0], id=10_000, decoded=decode_one(bytes.fromhex("000080bf"), kernel.context))
    edited = kernel.with_blocks((Block(first.index, first.labels, (extra, *first.instructions)), *others))
    result = run(program, edited, manifest, expected=wanted("lookup_table"))
    assert result.outcome is Outcome.MATCHES, result.problems


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_interleaving_waves_changes_nothing(seed: int) -> None:
    assert run_pair("lds_reduce", "gfx942", RunOptions(seed=seed)).outcome is Outcome.MATCHES


@pytest.mark.long
@pytest.mark.parametrize(("name", "target"), all_pairs())
def test_every_launch_on_every_target(name: str, target: str) -> None:
    result: Any = run_pair(name, target)
    if name == NOT_THE_EMULATORS:
        assert result.problems == ("out: 320 of 3200 elements differ, first at [0, 32, 0]: 16 instead of 8",)
    else:
        assert result.outcome is Outcome.MATCHES, result.problems
