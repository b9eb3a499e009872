"""The incremental estimate against the whole one, on edits that chance makes to compiled kernels."""

from __future__ import annotations

import random

import pytest
from compiled_programs import all_files
from legal_edits import legal_edits
from msgspec.structs import replace

from asmevo.program import Kernel, read_program
from asmevo.program.edit import apply_script
from asmevo.timing import estimate
from asmevo.timing.changed_window import ChangedWindow
from asmevo.timing.estimate import code_of
from asmevo.timing.path import layout_of, path_of
from asmevo.timing.scenarios import machine_for
from asmevo.timing.straight_walk import StraightWalk


def compiled(name: str) -> Kernel:
    return read_program(all_files()[f"{name}.hsaco"], "k.hsaco").select()[0]


@pytest.mark.parametrize("name", ["gfx942/matmul_f16", "gfx1100/matmul_f16", "gfx1201/softmax"])
def test_a_lone_wave_takes_what_the_whole_estimate_says(name: str) -> None:
    kernel = compiled(name)
    window = ChangedWindow(kernel)
    changes = 0
    for edit in legal_edits(kernel, each=2):
        version = apply_script(kernel, edit.script)
        whole = estimate(version, waves=1).cycles
        changes += whole != window.cycles
        assert window.predict(version) == pytest.approx(whole, rel=0.005), edit.words
    assert changes >= 3  # the edits do change cycles


@pytest.mark.parametrize("waves", [1, 3])
@pytest.mark.parametrize("name", ["gfx90a/matmul_f16", "gfx1100/gemm_bias_silu", "gfx1201/matmul_f16"])
def test_a_changed_loop_is_what_a_whole_walk_through_the_loops_says(name: str, waves: int) -> None:
    """Whatever order some of its instructions have: to the cycle, as both begin with nothing in flight."""
    kernel, rng = compiled(name), random.Random(7)
    window, changes = ChangedWindow(kernel, waves=waves), 0
    loops = [each.blocks for each in path_of(kernel) if each.loop is not None]
    block = max((kernel.blocks[n] for blocks in loops for n in blocks), key=lambda each: len(each.instructions))
    before = estimate(kernel, waves=waves, only_loops=True).cycles
    for _ in range(8):
        code = list(block.instructions)
        first, size = rng.randrange(len(code) - 16), rng.randrange(2, 16)
        code[first : first + size] = rng.sample(code[first : first + size], size)
        changed = replace(block, instructions=tuple(code))
        version = kernel.with_blocks(tuple(changed if each is block else each for each in kernel.blocks))
        whole = estimate(version, waves=waves, only_loops=True).cycles
        assert window.predict(version) - window.cycles == pytest.approx(whole - before, abs=1e-6)
        changes += whole != before
    assert changes >= 2


def test_several_waves_are_near() -> None:
    kernel = compiled("gfx1100/matmul_f16")
    window = ChangedWindow(kernel, waves=4)
    for edit in legal_edits(kernel, each=1):
        version = apply_script(kernel, edit.script)
        assert window.predict(version) == pytest.approx(estimate(version, waves=4).cycles, rel=0.06), edit.words


@pytest.mark.parametrize("name", ["gfx942/gemm_bias_silu", "gfx1100/softmax", "gfx1201/attention_fwd"])
def test_straight_code_is_walked_around_the_change_only(name: str) -> None:
    """What walking all of it says, whatever order a window has, and if an instruction is gone.

    To the cycle, but for what the run-up and the steps in step do not show (a register kept in a cache for long).
    """
    kernel = compiled(name)
    machine, rng = machine_for(kernel.target, kernel.wave_size, "l2"), random.Random(5)
    straight = [each for each in path_of(kernel) if each.loop is None]
    code, taken, _ = max((code_of(kernel, each) for each in straight), key=lambda each: len(each[0]))
    layout = layout_of(kernel)
    original, changes, exact = StraightWalk(machine, code, taken, layout), 0, 0
    for _ in range(12):
        first, size = rng.randrange(len(code) - 12), rng.randrange(2, 12)
        window = rng.sample(code[first : first + size], size)[rng.random() < 0.2 :]
        version = [*code[:first], *window, *code[first + size :]]
        goes = [*taken[:first], *[False] * len(window), *taken[first + size :]]
        whole = StraightWalk(machine, version, goes, layout).cycles
        found = original.cycles_of(version, goes, layout)
        assert found == pytest.approx(whole, rel=0.002)
        changes += whole != original.cycles
        exact += found == whole
    assert changes >= 3
    assert exact >= 11


def test_no_change_costs_nothing() -> None:
    kernel = compiled("gfx942/matmul_f16")
    window = ChangedWindow(kernel, waves=2, trip_count=7, memory="cold")
    assert window.predict(kernel) == window.cycles == estimate(kernel, waves=2, trip_count=7, memory="cold").cycles


def test_other_blocks_are_refused() -> None:
    with pytest.raises(ValueError, match="blocks instead of"):
        ChangedWindow(compiled("gfx942/matmul_f16")).predict(compiled("gfx942/vector_add"))
