"""How many VGPRs cost nothing: worked by hand from the files' sizes and granules, and held against occupancy."""

from __future__ import annotations

import pytest
from compiled_programs import all_files, names
from emulated_launches import program_of
from msgspec.structs import replace

from asmevo.analysis.occupancy import occupancy
from asmevo.analysis.pressure import register_use
from asmevo.gates.gate import VerdictKind
from asmevo.gates.resources import ResourcesGate
from asmevo.program import read_program, write_program
from asmevo.program.candidate import Candidate
from asmevo.program.edit import EditScript, Resize
from asmevo.program.instruction import Instruction
from asmevo.program.instruction_text import encode_text
from asmevo.program.kernel import Kernel
from asmevo.program.register_counts import RegisterCounts, register_counts, with_register_counts
from asmevo.proposers.register_room import descriptor_with, roomier_descriptor, vgpr_room


def kernel_with(target: str, vgprs: int, agprs: int = 0) -> Kernel:
    """vector_add, naming so many registers, and the descriptor that says so."""
    kernel = program_of("vector_add", target).select()[0]
    assert kernel.descriptor is not None
    texts = [f"v_mov_b32_e32 v{vgprs - 1}, 0"] + ([f"v_accvgpr_write_b32 a{agprs - 1}, v0"] if agprs else [])
    more = [Instruction(10_000 + n, encode_text(text, kernel.context)) for n, text in enumerate(texts)]
    first = kernel.blocks[0]
    changed = replace(first, instructions=(*more, *first.instructions))
    sgprs = register_counts(kernel.descriptor, kernel.target, kernel.wave_size).sgprs
    counts = RegisterCounts(vgprs, agprs, sgprs)
    descriptor = with_register_counts(kernel.descriptor, counts, kernel.target, kernel.wave_size)
    return replace(kernel.with_blocks((changed, *kernel.blocks[1:])), descriptor=descriptor)


@pytest.mark.parametrize(
    ("target", "vgprs", "agprs", "room"),
    [
        ("gfx942", 56, 0, 64),  # 512 registers: 8 waves of 64, the most there are
        ("gfx942", 74, 0, 80),  # 6 waves of 80 (512 / 6 = 85, granule 8)
        ("gfx90a", 100, 20, 108),  # 4 waves of 128, of which 20 are AGPRs behind a multiple of 4
        ("gfx950", 129, 0, 168),  # 3 waves of 168
        ("gfx90a", 200, 40, 216),  # 2 waves of 256
        ("gfx908", 38, 16, 40),  # two files of 256: 6 waves of 40 (256 / 6 = 42, granule 4)
        ("gfx1100", 60, 0, 96),  # 1,536 registers: 16 waves of 96
        ("gfx1100", 97, 0, 120),  # 12 waves of 120 (granule 24: 96, then 120)
    ],
)
def test_the_room_ends_at_the_step(target: str, vgprs: int, agprs: int, room: int) -> None:
    kernel = kernel_with(target, vgprs, agprs)
    assert vgpr_room(kernel) == room
    waves = occupancy(kernel).waves
    assert occupancy(replace(kernel, descriptor=descriptor_with(kernel, room))).waves == waves
    assert occupancy(replace(kernel, descriptor=descriptor_with(kernel, room + 1))).waves < waves


def test_agprs_of_rounding_are_not_kept() -> None:
    """Triton asks for 124 VGPRs where 122 are named, and granules of 8 make 4 AGPRs of the rest."""
    kernel = kernel_with("gfx942", 124)
    assert kernel.descriptor is not None
    assert register_counts(kernel.descriptor, kernel.target, kernel.wave_size).agprs == 4
    assert vgpr_room(kernel) == 128
    roomier = kernel_with("gfx942", 128)
    descriptor = roomier_descriptor(replace(roomier, descriptor=kernel.descriptor), roomier.blocks)
    assert descriptor is not None
    given = register_counts(descriptor, kernel.target, kernel.wave_size)
    assert (given.vgprs, given.agprs) == (128, 0)


def test_agprs_that_are_named_move_up() -> None:
    kernel = kernel_with("gfx90a", 100, 20)
    descriptor = descriptor_with(kernel, 105)
    given = register_counts(descriptor, kernel.target, kernel.wave_size)
    assert (given.vgprs, given.agprs) == (108, 20)
    assert (descriptor.field("accum_offset_encoded") + 1) * 4 == 108


def test_room_never_costs_a_wave_and_more_does() -> None:
    seen = 0
    for name in names(".hsaco", every=6):
        for kernel in read_program(all_files()[name], name).kernels:
            if kernel.descriptor is None:
                continue
            room, waves, seen = vgpr_room(kernel), occupancy(kernel).waves, seen + 1
            assert room >= register_use(kernel).vgprs
            assert occupancy(replace(kernel, descriptor=descriptor_with(kernel, room))).waves >= waves, name
            if room < kernel.target.vgpr.max_addressable.value:
                assert occupancy(replace(kernel, descriptor=descriptor_with(kernel, room + 1))).waves < waves, name
    assert seen > 40


def resized(kernel: Kernel, vgprs: int, agprs: int = 0) -> Candidate:
    edits = (Resize(vgprs=vgprs, agprs=agprs),)
    return Candidate.make(kernel, EditScript(base=kernel.hash, kernel=kernel.name, edits=edits))


def test_the_gate_lets_registers_up_to_the_step_and_says_so() -> None:
    kernel = kernel_with("gfx942", 74)
    verdict = ResourcesGate(kernel).judge(resized(kernel, 80))
    assert verdict.accepted
    assert "VGPRs 76 -> 80" in verdict.reason
    assert "6 waves a SIMD as before" in verdict.reason


@pytest.mark.parametrize(("vgprs", "agprs"), [(81, 0), (80, 4)])
def test_the_gate_refuses_a_wave_less(vgprs: int, agprs: int) -> None:
    """AGPRs behind the VGPRs count: 80 and 4 are 88 registers, and 5 waves."""
    kernel = kernel_with("gfx942", 74)
    verdict = ResourcesGate(kernel).judge(resized(kernel, vgprs, agprs))
    assert verdict.kind is VerdictKind.REJECTED
    assert "5 waves a SIMD of 6" in verdict.reason


@pytest.mark.parametrize("vgprs", [109, 112, 113, 120, 128, 105, 97])
def test_the_text_asks_for_as_many(vgprs: int) -> None:
    """108 VGPRs are 112 in granules of 8: where only accum_offset grows, next_free_vgpr in the text must follow it."""
    name = "gfx942/attention_fwd.s"
    program = read_program(all_files()[name], name)
    kernel = program.select()[0]
    changed = resized(kernel, vgprs).kernel
    again = read_program(write_program(program, {kernel.name: changed}), name).kernel(kernel.name)
    assert again.descriptor == changed.descriptor
