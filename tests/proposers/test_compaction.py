"""Compaction and resizing: kernels spread over more registers than they need come back, proved and run."""

from __future__ import annotations

from functools import cache

import pytest
from emulated_launches import launch, program_of
from msgspec.structs import replace
from written_kernels import written

from asmevo.analysis.occupancy import occupancy
from asmevo.analysis.pressure import allocation, register_use
from asmevo.emulator import LaunchManifest
from asmevo.gates import EmulationGate, Pipeline
from asmevo.gates.resources import ResourcesGate
from asmevo.program import Program, read_program, write_program
from asmevo.program.candidate import Candidate
from asmevo.program.edit import EditScript, Resize, apply_script, script_between
from asmevo.program.errors import EditError
from asmevo.program.instruction_text import encode_text
from asmevo.program.kernel import Kernel
from asmevo.program.register_counts import register_counts, with_register_counts
from asmevo.program.registers import RegisterFile
from asmevo.proposers import Compaction, Facts
from asmevo.proposers.compaction_layout import Layout
from asmevo.prover import KernelProver, Outcome

SPREAD = 60
"""Registers by which every value that may move is shifted up."""


@cache
def spread(name: str, target: str) -> tuple[Program, Kernel, LaunchManifest]:
    """A compiled kernel whose values lie far apart, as a program of its own."""
    program, manifest = program_of(name, target), launch(name)
    kernel = program.kernel(manifest.symbol)
    layout = Layout(kernel, RegisterFile.VGPR)
    blocks = layout.renamed({id(bundle): bundle.base + SPREAD for bundle in layout.bundles})
    assert blocks is not None
    highest = register_use(kernel.with_blocks(blocks)).vgprs
    assert kernel.descriptor is not None
    counts = replace(register_counts(kernel.descriptor, kernel.target, kernel.wave_size), vgprs=highest)
    descriptor = with_register_counts(kernel.descriptor, counts, kernel.target, kernel.wave_size)
    script = script_between(kernel, blocks, "", descriptor)
    data = write_program(program, {kernel.name: apply_script(kernel, script)})
    wide = read_program(data, "spread.hsaco")
    return wide, wide.kernel(manifest.symbol), manifest


CASES = [("softmax", "gfx1201"), ("saxpy", "gfx1100"), ("lds_reduce", "gfx90a"), ("rms_norm", "gfx942")]


@pytest.mark.parametrize(("name", "target"), CASES)
def test_values_moved_over_all_blocks_are_proved_by_structure(name: str, target: str) -> None:
    original = program_of(name, target).kernel(launch(name).symbol)
    _, wide, _ = spread(name, target)
    result = KernelProver(original).prove(wide)
    assert result.outcome is Outcome.PROVED, result.reason
    assert result.method == "structure"


@pytest.mark.parametrize(("name", "target"), CASES)
def test_a_spread_kernel_is_brought_together_again(name: str, target: str) -> None:
    program, kernel, manifest = spread(name, target)
    before = occupancy(kernel)
    scripts = list(Compaction().propose(Facts(kernel)))
    if before.limit("VGPRs").waves == before.max_waves:
        assert not scripts
        return
    assert scripts
    candidate = Candidate.make(kernel, scripts[-1])
    judgement = Pipeline(kernel).judge(candidate)
    assert judgement.accepted, judgement.verdicts[-1].reason
    assert occupancy(candidate.kernel).waves > before.waves
    verdict = EmulationGate(program, kernel, manifest).judge(candidate)
    assert verdict.accepted, verdict.reason
    written_ = read_program(write_program(program, {kernel.name: candidate.kernel}), "made.hsaco").kernel(kernel.name)
    assert written_.descriptor is not None
    given = allocation(kernel.target, kernel.wave_size, written_.descriptor)
    assert written_.metadata is not None
    assert written_.metadata[".vgpr_count"] <= given.total_vgprs < allocation_of(kernel)


def allocation_of(kernel: Kernel) -> int:
    assert kernel.descriptor is not None
    return allocation(kernel.target, kernel.wave_size, kernel.descriptor).total_vgprs


def test_a_value_left_behind_in_one_block_is_refused() -> None:
    """Every block of a candidate but one has the new names: what comes out of that one is lost."""
    _, kernel, _ = spread("rms_norm", "gfx942")
    candidate = apply_script(kernel, list(Compaction().propose(Facts(kernel)))[-1])
    changed = [old.index for old, new in zip(kernel.blocks, candidate.blocks, strict=True) if old is not new]
    refused = 0
    for index in changed:
        blocks = tuple(kernel.blocks[index] if each.index == index else each for each in candidate.blocks)
        mixed = candidate.with_blocks(blocks)
        refused += KernelProver(kernel).structure.prove(mixed).answer.value != "equivalent"
    assert refused >= len(changed) - 2, "only a block whose values are all its own may keep its names"
    assert len(changed) > 3


# --- counts and the edit -------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["gfx906", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"])
@pytest.mark.parametrize("vgprs", [1, 24, 65, 120])
def test_counts_come_back_from_the_descriptor(target: str, vgprs: int) -> None:
    kernel = program_of("vector_add", target).select()[0]
    assert kernel.descriptor is not None
    now = register_counts(kernel.descriptor, kernel.target, kernel.wave_size)
    made = with_register_counts(kernel.descriptor, replace(now, vgprs=vgprs), kernel.target, kernel.wave_size)
    again = register_counts(made, kernel.target, kernel.wave_size)
    granule = kernel.target.vgpr_encoding_granule(kernel.wave_size)
    assert vgprs <= again.vgprs < max(vgprs, now.agprs) + granule
    assert again.sgprs == now.sgprs
    other_bits = made.with_field("granulated_vgpr_count", 0).with_field("accum_offset_encoded", 0)
    assert other_bits == kernel.descriptor.with_field("granulated_vgpr_count", 0).with_field("accum_offset_encoded", 0)


def resized(kernel: Kernel, **numbers: int) -> Candidate:
    script = EditScript(base=kernel.hash, kernel=kernel.name, edits=(Resize(**numbers),))
    return Candidate.make(kernel, script)


def test_too_small_an_allocation_is_refused() -> None:
    kernel = program_of("softmax", "gfx1100").select()[0]
    verdict = ResourcesGate(kernel).judge(resized(kernel, vgprs=8))
    assert not verdict.accepted
    assert "uses v" in verdict.reason


def test_code_that_calls_keeps_its_allocation() -> None:
    kernel = program_of("function_calls", "gfx942").select()[0]
    assert kernel.descriptor is not None
    wide = resized(kernel, vgprs=64).kernel
    verdict = ResourcesGate(wide).judge(resized(wide, vgprs=32))
    assert not verdict.accepted
    assert "may need more registers" in verdict.reason


def test_a_descriptor_that_changed_otherwise_is_refused() -> None:
    kernel = program_of("softmax", "gfx1100").select()[0]
    assert kernel.descriptor is not None
    other = replace(kernel, descriptor=kernel.descriptor.with_field("float_round_mode_32", 3))
    script = EditScript(base=kernel.hash, kernel=kernel.name, edits=())
    verdict = ResourcesGate(kernel).judge(Candidate(kernel, script, other))
    assert not verdict.accepted
    assert "more than numbers of registers" in verdict.reason


def test_functions_have_nothing_to_resize() -> None:
    kernel = written("v_mov_b32 v0, v1\ns_endpgm", "gfx1100")
    with pytest.raises(EditError, match="nothing is allocated"):
        apply_script(kernel, EditScript(base=kernel.hash, kernel=kernel.name, edits=(Resize(vgprs=8),)))


def test_more_registers_than_there_are_is_refused() -> None:
    kernel = program_of("softmax", "gfx1100").select()[0]
    with pytest.raises(EditError, match="no 300 VGPRs"):
        apply_script(kernel, EditScript(base=kernel.hash, kernel=kernel.name, edits=(Resize(vgprs=300),)))


def test_names_differ_and_meaning_does() -> None:
    """The correspondence must not take a register for another: the loop adds v2 where the parent adds v1."""
    text = (
        "v_mov_b32 v0, 0\nv_mov_b32 v1, 1\nv_mov_b32 v2, 2\nL:\nv_add_u32 v0, v0, {}\ns_cbranch_vccnz L\n"
        "global_store_dword v[10:11], v{}, off\ns_endpgm"
    )
    parent = written(text.format("v1", 0), "gfx942")
    assert KernelProver(parent).structure.prove(written(text.format("v2", 0), "gfx942")).answer.value == "different"
    renamed = text.replace("v_mov_b32 v0, 0", "v_mov_b32 v7, 0").replace("v_add_u32 v0, v0", "v_add_u32 v7, v7")
    same = written(renamed.format("v1", 7), "gfx942")
    assert KernelProver(parent).structure.prove(same).answer.value == "equivalent"
    swapped = written(renamed.format("v1", 1), "gfx942")
    assert KernelProver(parent).structure.prove(swapped).answer.value == "different"


def test_encoding_is_what_the_layout_says() -> None:
    kernel = written("v_mov_b32 v0, 1\nglobal_store_dword v[10:11], v0, off\ns_endpgm", "gfx942")
    layout = Layout(kernel, RegisterFile.VGPR)
    (bundle,) = layout.bundles
    blocks = layout.renamed({id(bundle): 30})
    assert blocks is not None
    assert blocks[0].instructions[0].decoded is encode_text("v_mov_b32_e32 v30, 1", kernel.context)
