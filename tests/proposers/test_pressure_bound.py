"""Occupancy steps out of reach are seen at once, and none that is reached counts as out of reach."""

from __future__ import annotations

import pytest
from emulated_launches import launch, program_of
from value_loops import loop
from written_kernels import written

from asmevo.analysis.liveness import Liveness
from asmevo.analysis.pressure import register_use
from asmevo.program.edit import apply_script
from asmevo.program.kernel import Kernel
from asmevo.program.registers import RegisterFile
from asmevo.proposers import Compaction, Facts, compaction
from asmevo.proposers.compaction_layout import Layout
from asmevo.proposers.pressure_bound import highest_pinned, least_vgprs
from asmevo.proposers.rematerialisation import Rematerialisation

THEN = "v_add_u32_e32 v0, 1, v0\nglobal_store_dword v1, v0, s[0:1]"
PAIRS = """
global_load_dwordx2 v[4:5], v0, s[0:1]
global_load_dwordx2 v[6:7], v0, s[0:1] offset:8
s_waitcnt vmcnt(0)
s_cbranch_scc1 L
s_nop 0
L:
v_add_u32_e32 v4, v{first}, v{second}
global_store_dword v0, v4, s[0:1]
s_endpgm
"""


def _least(kernel: Kernel, block: int) -> int:
    layout = Layout(kernel, RegisterFile.VGPR)
    return least_vgprs(layout, Rematerialisation(kernel), Liveness(kernel), block)


@pytest.mark.parametrize(("maker", "least"), [("v_exp_f32_e32 v7, v0", 4), ("v_mov_b32_e32 v7, 0x1234", 3)])
def test_what_lives_through_a_block_counts_unless_it_can_be_made_again(maker: str, least: int) -> None:
    """v0 and v7 live through the loop, and v1 and v2 are stored together; v7 may be a constant."""
    assert _least(loop(maker, behind=THEN), 1) == least


@pytest.mark.parametrize(("first", "second", "least"), [(4, 6, 3), (4, 7, 3), (5, 7, 4)])
def test_halves_of_aligned_pairs_stay_even_or_odd(first: int, second: int, least: int) -> None:
    """v0 may be anywhere. Two even halves leave an odd place for it; an even and an odd one may be neighbours;
    two odd ones are at best v1 and v3."""
    assert _least(written(PAIRS.format(first=first, second=second), "gfx90a"), 1) == least


@pytest.mark.parametrize(
    ("name", "target"), [("fused_mlp", "gfx950"), ("matmul_f16", "gfx908"), ("attention_decode", "gfx908")]
)
def test_a_step_that_is_reached_is_above_the_bound(name: str, target: str) -> None:
    kernel = program_of(name, target).kernel(launch(name).symbol)
    *_, last = Compaction().propose(Facts(kernel))
    reached = register_use(apply_script(kernel, last)).vgprs
    assert highest_pinned(Layout(kernel, RegisterFile.VGPR)) <= reached
    assert max(_least(kernel, block.index) for block in kernel.blocks) <= reached


@pytest.mark.parametrize(
    ("name", "target"), [("attention_fwd", "gfx90a"), ("gemm_bias_silu", "gfx1201"), ("fused_mlp", "gfx908")]
)
def test_no_way_is_looked_for_to_a_step_out_of_reach(name: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first two hold pinned registers above the step; the third is tried, as only trying shows that it fails."""
    kernel = program_of(name, target).kernel(launch(name).symbol)
    tried: list[int] = []
    monkeypatch.setattr(compaction, "lowered", lambda facts, limit, remaking: tried.append(limit))
    assert list(Compaction().propose(Facts(kernel))) == []
    assert bool(tried) is (name == "fused_mlp")
