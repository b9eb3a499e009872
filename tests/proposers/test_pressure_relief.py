"""Fewer registers alive at once: values made again, and orders that need less; steps that real kernels gain by it."""

from __future__ import annotations

import pytest
from emulated_launches import launch, program_of
from value_loops import loop

from asmevo.analysis.liveness import Liveness
from asmevo.analysis.occupancy import occupancy
from asmevo.gates import EmulationGate, Pipeline
from asmevo.program.candidate import Candidate
from asmevo.program.kernel import Kernel
from asmevo.proposers import Compaction, Facts
from asmevo.proposers.pressure_relief import blocks_over, most_alive, relieved
from asmevo.proposers.rematerialisation import Rematerialisation
from asmevo.prover import KernelProver, Outcome

LATER = "v_add_u32_e32 v0, s8, v0\nglobal_store_dword v1, v0, s[0:1]"
"""Reads s8 and v0, so that they live all through the loop."""


def remade(kernel: Kernel) -> tuple[Kernel, int]:
    """The kernel with every value made again that may be, and how many there are."""
    remaking = Rematerialisation(kernel)
    values = remaking.candidates(1)
    return kernel.with_blocks(remaking.made_again(values)), len(values)


@pytest.mark.parametrize(
    ("maker", "behind"),
    [
        ("v_mov_b32_e32 v7, 0x1234", ""),
        ("v_mov_b32_e32 v7, s8", LATER),
        ("v_lshl_add_u32 v7, v0, 3, s8", LATER),
    ],
)
def test_a_cheap_value_is_made_in_front_of_its_reader(maker: str, behind: str) -> None:
    """The prover, which knows nothing of how it was done, says that it is the same."""
    kernel = loop(maker, behind=behind)
    changed, count = remade(kernel)
    assert count == 1
    assert changed.blocks[1].instructions[2].text == maker
    assert maker not in [each.text for each in changed.blocks[0].instructions]
    assert KernelProver(kernel).prove(changed).outcome is Outcome.PROVED
    assert [Liveness(each).live_in(1) >> 7 & 1 for each in (kernel, changed)] == [1, 0]


def test_a_source_that_would_have_to_live_longer_is_no_source() -> None:
    assert remade(loop("v_mov_b32_e32 v7, s8"))[1] == 0
    assert remade(loop("v_lshl_add_u32 v7, v0, 3, s8", behind=LATER.replace("v0", "v1")))[1] == 0


@pytest.mark.parametrize(
    ("maker", "between"),
    [
        ("v_mov_b32_e32 v7, s8", "s_mov_b32 s8, 5"),  # the source is another value by then
        ("v_add_co_u32_e32 v7, vcc, 3, v0", ""),  # writes VCC
        ("v_exp_f32_e32 v7, v0", ""),  # dear
        ("global_load_dword v7, v1, s[0:1]", ""),  # memory
        ("v_mov_b32_e32 v7, 1", "s_cbranch_vccz .Lx\nv_mov_b32_e32 v7, 2\n.Lx:"),  # two writes
        ("v_mov_b32_dpp v7, v0 row_shr:1 row_mask:0xf bank_mask:0xf", ""),  # other lanes
    ],
)
def test_what_is_not_cheap_or_not_the_same_stays(maker: str, between: str) -> None:
    kernel = loop(maker, between, LATER)
    loop_block = next(b.index for b in kernel.blocks if b.labels and "L" in str(b.labels))
    makers = {v.place for v in Rematerialisation(kernel).candidates(loop_block) if v.block == 0}
    assert 2 not in makers


def test_a_value_made_of_a_changed_source_would_not_be_proved() -> None:
    """What the rule about sources is for: the same edit by hand, behind a write of the source."""
    kernel = loop("v_mov_b32_e32 v7, s8", "s_mov_b32 s8, 5", LATER)
    wrong = loop("", between="s_mov_b32 s8, 5", behind=LATER, again="v_mov_b32_e32 v7, s8")
    assert KernelProver(kernel).prove(wrong).outcome is not Outcome.PROVED


# --- real kernels --------------------------------------------------------------------------------------------


def test_an_order_with_fewer_alive_passes_all_gates() -> None:
    """The loop of fused_mlp holds 74 VGPRs; most of them are addresses made long before they are read."""
    kernel = program_of("fused_mlp", "gfx942").kernel("fused_mlp")
    facts = Facts(kernel)
    (block,) = blocks_over(kernel, 64, facts.liveness)
    lower = relieved(facts, 64)
    assert lower is not None
    assert most_alive(kernel, block, facts.liveness) == 74
    assert most_alive(lower, block, Liveness(lower)) <= 64


@pytest.mark.parametrize(
    ("name", "target", "waves"),
    [
        ("fused_mlp", "gfx950", (6, 8)),
        ("matmul_f16", "gfx908", (6, 7)),
        *[
            pytest.param(*case, marks=pytest.mark.long)
            for case in (("fused_mlp", "gfx90a", (6, 7)), ("fused_mlp", "gfx942", (6, 7)))
        ],
    ],
)
def test_steps_of_real_kernels(name: str, target: str, waves: tuple[int, int]) -> None:
    """Waves a SIMD before and after; the last proposal has passed the gates and run beside the original."""
    program, manifest = program_of(name, target), launch(name)
    kernel = program.kernel(manifest.symbol)
    pipeline, held, candidate = Pipeline(kernel), [occupancy(kernel).waves], None
    for script in Compaction().propose(Facts(kernel)):
        candidate = Candidate.make(kernel, script)
        judgement = pipeline.judge(candidate)
        assert judgement.accepted, judgement.verdicts[-1].reason
        held.append(occupancy(candidate.kernel).waves)
    assert held == sorted(set(held)), "each has more waves than the one before"
    assert (held[0], held[-1]) == waves
    assert candidate is not None
    verdict = EmulationGate(program, kernel, manifest).judge(candidate)
    assert verdict.accepted, verdict.reason
