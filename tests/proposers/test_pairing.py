"""Dual instructions: LLVM says which pairs are legal, the gates and the emulator whether they compute the same."""

from __future__ import annotations

import itertools

import pytest
from emulated_launches import all_pairs, launch, program_of
from written_kernels import written

from asmevo.gates import EmulationGate, Pipeline
from asmevo.program.candidate import Candidate
from asmevo.program.dual_halves import halves_of
from asmevo.program.edit import apply_script, script_between
from asmevo.program.instruction_text import encode_text
from asmevo.program.kernel import Kernel
from asmevo.proposers import DualIssue, Facts
from asmevo.proposers.pairing import pair_count, rebuilt_blocks, single_instructions
from asmevo.prover import Answer, Prover


def pairs(kernel: Kernel) -> int:
    return sum(map(pair_count, kernel.blocks))


def best_of(text: str, gpu: str) -> Kernel:
    """A piece of code with as many pairs as some way makes of its first block; the gates must take each."""
    kernel = written(f"{text}\ns_endpgm", gpu)
    assert kernel.target.vopd is not None
    best = kernel
    for blocks in rebuilt_blocks(Facts(kernel), 0, kernel.target.vopd):
        candidate = Candidate.make(kernel, script_between(kernel, blocks, ""))
        judgement = Pipeline(kernel).judge(candidate)
        assert judgement.accepted, judgement.verdicts[-1].reason
        best = max(best, candidate.kernel, key=pairs)
    return best


STORES = "global_store_b64 v[20:21], v[{}:{}], off"
GPUS = ("gfx1100", "gfx1201")


# --- worked by hand ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gpu", [*GPUS, "gfx1250"])
def test_neighbours_whose_registers_fit(gpu: str) -> None:
    made = best_of(f"v_add_f32 v0, v4, v8\nv_mul_f32 v1, v5, v9\n{STORES.format(0, 1)}", gpu)
    assert pairs(made) == 1


@pytest.mark.parametrize("gpu", [*GPUS, "gfx1250"])
def test_results_of_one_parity_are_renamed(gpu: str) -> None:
    """v0 and v2 are both even; nothing outside needs them there."""
    text = "v_add_f32 v0, v4, v8\nv_mul_f32 v2, v5, v9\nglobal_store_b32 v[20:21], v0, off\n"
    assert pairs(best_of(text + "global_store_b32 v[20:21], v2, off offset:4", gpu)) == 1


@pytest.mark.parametrize("gpu", GPUS)
def test_a_result_that_the_other_half_reads_makes_no_pair(gpu: str) -> None:
    text = "v_add_f32 v0, v4, v8\nv_mul_f32 v1, v0, v9\nglobal_store_b32 v[20:21], v1, off"
    assert pairs(best_of(text, gpu)) == 0


def test_sources_in_one_bank_that_cannot_move_make_no_pair() -> None:
    """Both halves read v4 first: the same bank, on gfx11 even for the same register, and neither may be swapped."""
    text = f"v_sub_f32 v0, v4, v8\nv_sub_f32 v1, v4, v9\n{STORES.format(0, 1)}"
    assert pairs(best_of(text, "gfx1100")) == 0


@pytest.mark.parametrize("gpu", GPUS)
def test_two_literals_make_no_pair_one_shared_does(gpu: str) -> None:
    text = "v_add_f32 v0, 0x40490fdb, v8\nv_mul_f32 v1, {}, v9\n" + STORES.format(0, 1)
    assert pairs(best_of(text.format("0x3f317218"), gpu)) == 0
    assert pairs(best_of(text.format("0x40490fdb"), gpu)) == 1


@pytest.mark.parametrize("gpu", GPUS)
def test_the_second_half_only_goes_second(gpu: str) -> None:
    made = best_of(f"v_lshlrev_b32 v0, 2, v8\nv_mul_f32 v1, v5, v9\n{STORES.format(0, 1)}", gpu)
    (pair,) = (each for each in made.instructions if "vopd" in each.flags)
    assert pair.mnemonic == "v_dual_mul_f32"


@pytest.mark.parametrize("gpu", GPUS)
def test_a_select_by_other_than_vcc_is_no_half(gpu: str) -> None:
    """It must not take a partner from what can be paired."""
    text = (
        "v_cndmask_b32_e64 v0, v4, v8, s4\nv_mul_f32 v1, v5, v9\nv_add_f32 v2, v6, v10\n"
        "global_store_b96 v[20:21], v[0:2], off"
    )
    assert pairs(best_of(text, gpu)) == 1


@pytest.mark.parametrize("gpu", GPUS)
def test_a_pair_is_taken_apart_for_two_better_ones(gpu: str) -> None:
    """The middle two are paired; the first and the last read and feed them, so only other partners give two pairs."""
    text = (
        "v_mul_f32 v0, v4, v8\nv_dual_add_f32 v1, v5, v9 :: v_dual_mul_f32 v2, v6, v10\n"
        "v_add_f32 v3, v7, v11\nglobal_store_b128 v[20:21], v[0:3], off"
    )
    assert pairs(best_of(text, gpu)) == 2


def test_waves_of_64_have_none() -> None:
    kernel = written("v_add_f32 v0, v4, v8\nv_mul_f32 v1, v5, v9\ns_endpgm", "gfx942")
    assert not list(DualIssue().propose(Facts(kernel)))


# --- halves --------------------------------------------------------------------------------------------------


def test_halves_are_single_instructions_for_the_prover() -> None:
    pair = "v_dual_cndmask_b32 v1, 0, v5 :: v_dual_fmac_f32 v4, v2, v7"
    stores = "global_store_b32 v[20:21], v1, off\nglobal_store_b32 v[20:21], v4, off"
    kernel = written(f"{pair}\n{stores}\ns_endpgm", "gfx1100")
    first, second = halves_of(kernel.instructions[0].decoded)
    assert (first.text, second.text) == ("v_cndmask_b32 v1, 0, v5, vcc_lo", "v_fmac_f32 v4, v2, v7")
    block = kernel.blocks[0]
    single = single_instructions(block.instructions, kernel, 100)
    assert len(single) == len(block.instructions) + 1
    apart = kernel.with_blocks((type(block)(0, block.labels, tuple(single)),))
    assert Prover(kernel).prove(apart).answer is Answer.EQUIVALENT


@pytest.mark.parametrize(
    "wrong",
    [
        "v_dual_mul_f32 v1, v5, v9 :: v_dual_add_f32 v0, v4, v8",  # the operations exchanged their registers
        "v_dual_add_f32 v0, v4, v8 :: v_dual_mul_f32 v1, v6, v9",  # another source
        "v_dual_add_f32 v0, v4, v8 :: v_dual_sub_f32 v1, v5, v9",  # another operation
    ],
)
def test_a_wrong_pair_is_not_proved(wrong: str) -> None:
    kernel = written(f"v_mul_f32 v0, v4, v8\nv_add_f32 v1, v5, v9\n{STORES.format(0, 1)}\ns_endpgm", "gfx1100")
    block = kernel.blocks[0]
    first = block.instructions[0]
    pair = type(first)(first.id, encode_text(wrong, kernel.context))
    candidate = kernel.with_blocks((type(block)(0, block.labels, (pair, *block.instructions[2:])),))
    assert Prover(kernel).prove(candidate).answer is Answer.DIFFERENT


def test_both_halves_read_before_either_writes() -> None:
    """A pair that exchanges two registers is not the two moves one after the other."""
    exchange = "v_dual_mov_b32 v0, v1 :: v_dual_mov_b32 v1, v0"
    kernel = written(f"{exchange}\n{STORES.format(0, 1)}\ns_endpgm", "gfx1100")
    block = kernel.blocks[0]
    assert single_instructions(block.instructions, kernel, 100) == list(block.instructions), "it stays a pair"
    moves = [encode_text(f"v_mov_b32 v{a}, v{b}", kernel.context) for a, b in ((0, 1), (1, 0))]
    first = block.instructions[0]
    apart = (type(first)(0, moves[0]), type(first)(100, moves[1]), *block.instructions[1:])
    candidate = kernel.with_blocks((type(block)(0, block.labels, apart),))
    assert Prover(kernel).prove(candidate).answer is Answer.DIFFERENT


# --- compiled kernels ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "target", "least"),
    [("softmax", "gfx1100", 8), ("bf16_scale_add", "gfx1100", 5), ("lds_reduce", "gfx1201", 18)],
)
def test_more_pairs_than_the_compiler_made(name: str, target: str, least: int) -> None:
    """The last script has all blocks that found more together; it must hold on the emulator, too."""
    program, manifest = program_of(name, target), launch(name)
    kernel = program.kernel(manifest.symbol)
    best = most_pairs(kernel)
    assert best is not None
    assert pairs(best.kernel) >= least > pairs(kernel)
    verdict = EmulationGate(program, kernel, manifest).judge(best)
    assert verdict.accepted, verdict.reason


@pytest.mark.long
@pytest.mark.parametrize("target", ["gfx1100", "gfx1201"])
def test_pairs_are_up_by_a_third(target: str) -> None:
    """Over all programs with a launch but the few largest; what is counted has passed the gates and run."""
    before = after = 0
    for name, each in all_pairs():
        if each != target:
            continue
        program, manifest = program_of(name, target), launch(name)
        kernel = program.kernel(manifest.symbol)
        if len(kernel.instructions) > LARGEST:
            continue
        best = most_pairs(kernel)
        if best is not None:
            verdict = EmulationGate(program, kernel, manifest).judge(best)
            assert verdict.accepted, (name, verdict.reason)
        before += pairs(kernel)
        after += pairs(best.kernel if best is not None else kernel)
    assert after >= before * 4 / 3


LARGEST = 1000
"""Instructions of the programs that the sweep takes."""


def most_pairs(kernel: Kernel) -> Candidate | None:
    """The accepted candidate with the most pairs."""
    pipeline, best, answer = Pipeline(kernel), None, None
    proposals = DualIssue().propose(Facts(kernel))
    try:
        while True:
            candidate = Candidate.make(kernel, proposals.send(answer))
            judgement = pipeline.judge(candidate)
            answer = judgement.accepted
            assert answer, judgement.verdicts[-1].reason
            if best is None or pairs(candidate.kernel) > pairs(best.kernel):
                best = candidate
    except StopIteration:
        return best


def test_the_same_kernel_gives_the_same_scripts() -> None:
    kernel = program_of("saxpy", "gfx1100").select()[0]
    one, other = (list(itertools.islice(DualIssue().propose(Facts(kernel)), 3)) for _ in range(2))
    assert one == other
    assert all(pairs(apply_script(kernel, script)) > pairs(kernel) for script in one)
