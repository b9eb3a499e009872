"""Iterations from execution counts, on loops whose counts are known by hand."""

from __future__ import annotations

from written_kernels import written

from asmevo.timing.trips import trips_from_counts

NESTED = """
s_mov_b32 s0, 3
outer:
s_mov_b32 s1, 5
inner:
s_sub_u32 s1, s1, 1
s_cmp_lg_u32 s1, 0
s_cbranch_scc1 inner
s_sub_u32 s0, s0, 1
s_cmp_lg_u32 s0, 0
s_cbranch_scc1 outer
s_endpgm
"""

GUARDED = """
s_cbranch_scc1 done
s_mov_b32 s0, 3
loop:
s_sub_u32 s0, s0, 1
s_cbranch_scc0 loop
done:
s_endpgm
"""


def _counts(text: str, by_block: list[int]) -> dict[int, int]:
    kernel = written(text)
    assert len(kernel.blocks) == len(by_block)
    return {
        instruction.id: times
        for block, times in zip(kernel.blocks, by_block, strict=True)
        for instruction in block.instructions
    }


def test_nested_loops() -> None:
    waves = 4
    executed = _counts(NESTED, [waves, 3 * waves, 15 * waves, 3 * waves, waves])
    assert trips_from_counts(written(NESTED), executed) == {1: 3, 2: 5}


def test_a_loop_that_some_waves_skip_is_divided_by_those_that_enter() -> None:
    # 6 waves, 2 of them jump over the loop: 4 enter and make 12 turns in all
    assert trips_from_counts(written(GUARDED), _counts(GUARDED, [6, 4, 12, 6])) == {2: 3}


def test_a_loop_that_nobody_entered_has_no_entry() -> None:
    assert trips_from_counts(written(GUARDED), _counts(GUARDED, [6, 0, 0, 6])) == {}
