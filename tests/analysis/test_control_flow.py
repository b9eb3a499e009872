"""Flow graphs worked out by hand, and dominators of compiled kernels against their definition."""

from __future__ import annotations

import pytest
from written_kernels import compiled_kernels, written

from asmevo.analysis.control_flow import ControlFlow, Exit, predecessors, successors
from asmevo.program.kernel import Kernel

DIAMOND = """
s_cmp_eq_u32 s0, 0
s_cbranch_scc1 then
v_mov_b32 v0, 1
s_branch join
then:
v_mov_b32 v0, 2
join:
s_endpgm
"""

NESTED = """
s_mov_b32 s0, 0
outer:
s_mov_b32 s1, 0
inner:
s_add_u32 s1, s1, 1
s_cmp_lt_u32 s1, 8
s_cbranch_scc1 inner
s_add_u32 s0, s0, 1
s_cmp_lt_u32 s0, 8
s_cbranch_scc1 outer
s_endpgm
"""

TWO_ENTRIES = """
s_cbranch_scc1 second
first:
s_nop 0
second:
s_cbranch_vccnz first
s_endpgm
"""


def test_diamond() -> None:
    flow = ControlFlow(written(DIAMOND))
    assert flow.successors == ((2, 1), (3,), (3,), ())
    assert flow.predecessors == ((), (0,), (0,), (1, 2))
    assert flow.immediate_dominators == (None, 0, 0, 0)
    assert flow.exits == (None, None, None, Exit.ENDS)
    assert not flow.loops
    assert not flow.irreducible
    assert flow.reverse_postorder[0] == 0
    assert flow.reverse_postorder[-1] == 3


def test_nested_loops() -> None:
    flow = ControlFlow(written(NESTED))
    assert flow.successors == ((1,), (2,), (2, 3), (1, 4), ())
    outer, inner = flow.loops
    assert (outer.header, outer.blocks, outer.back_edges, outer.depth, outer.parent) == (
        1,
        {1, 2, 3},
        (3,),
        1,
        None,
    )
    assert (inner.header, inner.blocks, inner.back_edges, inner.depth, inner.parent) == (2, {2}, (2,), 2, 1)
    assert flow.loop_depth == (0, 1, 2, 1, 0)
    assert flow.innermost_loop(2) is inner
    assert flow.innermost_loop(3) is outer
    assert flow.innermost_loop(4) is None


def test_a_cycle_with_two_entries_is_irreducible() -> None:
    flow = ControlFlow(written(TWO_ENTRIES))
    assert flow.irreducible
    assert not flow.loops


def test_padding_is_unreachable() -> None:
    flow = ControlFlow(written("s_endpgm\ns_code_end\ns_code_end", "gfx1100"))
    assert flow.reachable == {0}
    assert flow.unreachable == (1, 2)
    assert ControlFlow(written("s_endpgm\ns_nop 0\ns_nop 0")).unreachable == (1,)


@pytest.mark.parametrize(
    ("text", "expected", "leaves"),
    [
        ("s_swappc_b64 s[30:31], s[0:1]\ns_endpgm", ((1,), ()), (None, Exit.ENDS)),
        ("s_setpc_b64 s[30:31]\ns_endpgm", ((), ()), (Exit.INDIRECT, Exit.ENDS)),
        ("s_call_b64 s[30:31], callee\ns_endpgm\ncallee:\ns_setpc_b64 s[30:31]", ((1, 2), (), ()), None),
        ("v_mov_b32 v0, 0", ((),), (Exit.FALLS_OFF,)),
        ("s_trap 2", ((),), (Exit.FALLS_OFF,)),
        ("s_cbranch_scc0 next\nnext:\ns_endpgm", ((1,), ()), (None, Exit.ENDS)),
        ("again:\ns_cbranch_scc0 again", ((0,),), (Exit.FALLS_OFF,)),
    ],
)
def test_block_ends(text: str, expected: tuple[tuple[int, ...], ...], leaves: tuple[Exit | None, ...] | None) -> None:
    flow = ControlFlow(written(text))
    if "s_trap" in text:
        leaves = (Exit.TRAPS,)
    assert flow.successors == expected
    if leaves is not None:
        assert flow.exits == leaves


def test_kernels_of_one_shape_share_the_result() -> None:
    kernel = written(NESTED)
    assert ControlFlow(kernel) is ControlFlow(kernel.with_blocks(kernel.blocks))
    assert successors(kernel) is ControlFlow(kernel).successors
    assert predecessors(kernel) is ControlFlow(kernel).predecessors


def reached_without(kernel: Kernel, removed: int | None) -> set[int]:
    """Blocks that a path from the entry reaches without passing `removed`."""
    edges = successors(kernel)
    waiting, seen = ([0], {0}) if removed != 0 else ([], set())
    while waiting:
        for goal in edges[waiting.pop()]:
            if goal not in seen and goal != removed:
                seen.add(goal)
                waiting.append(goal)
    return seen


@pytest.mark.parametrize("kernel", [*compiled_kernels(), written(NESTED), written(TWO_ENTRIES)], ids=lambda k: k.name)
def test_dominators_by_definition(kernel: Kernel) -> None:
    flow = ControlFlow(kernel)
    everything = reached_without(kernel, None)
    assert everything == flow.reachable
    for first in everything:
        avoided = reached_without(kernel, first)
        dominated = {block for block in everything if flow.dominates(first, block)}
        assert dominated == everything - avoided


@pytest.mark.parametrize("kernel", compiled_kernels(), ids=lambda k: k.name)
def test_compilers_make_natural_loops(kernel: Kernel) -> None:
    flow = ControlFlow(kernel)
    assert not flow.irreducible
    for loop in flow.loops:
        entries = {goal for block in flow.reachable - loop.blocks for goal in flow.successors[block]}
        assert entries & loop.blocks <= {loop.header}
        assert all(loop.header in flow.successors[block] for block in loop.back_edges)
