"""Dependence graphs: worked examples, and completeness on compiled kernels pair by pair."""

from __future__ import annotations

import random

import pytest
from written_kernels import block_of, compiled_kernels

from asmevo.analysis.dependence import Dependence, DependenceGraph, Edge, Marks, conflict, is_legal_order
from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Block, Kernel


def edges_of(text: str, gpu: str = "gfx942", marks: Marks = Marks.BARRIER) -> set[tuple[int, int, str]]:
    graph = DependenceGraph.for_block(block_of(text, gpu), marks)
    return {(edge.before, edge.after, edge.kind.name) for edge in graph.edges}


def test_register_chain() -> None:
    assert edges_of(
        """
        v_mov_b32 v0, s0
        v_add_u32 v1, v0, v2
        v_mov_b32 v2, 3
        v_mov_b32 v1, v3
        """
    ) == {(0, 1, "RAW"), (1, 2, "WAR"), (1, 3, "WAW")}


def test_only_the_last_writer_and_the_readers_since() -> None:
    assert edges_of("s_mov_b32 s0, 1\ns_mov_b32 s1, s0\ns_mov_b32 s0, 2\ns_mov_b32 s2, s0") == {
        (0, 1, "RAW"),
        (0, 2, "WAW"),
        (1, 2, "WAR"),
        (2, 3, "RAW"),
    }


@pytest.mark.parametrize(
    ("gpu", "text", "expected"),
    [
        # implicit registers
        ("gfx942", "s_cmp_eq_u32 s0, 1\ns_cselect_b32 s1, s2, s3", (0, 1, "RAW")),
        ("gfx942", "s_add_u32 s0, s0, s1\ns_cmp_eq_u32 s2, 1", (0, 1, "WAW")),
        ("gfx942", "v_cmp_eq_u32 vcc, v0, v1\nv_cndmask_b32 v2, v3, v4, vcc", (0, 1, "RAW")),
        ("gfx942", "s_mov_b64 exec, s[0:1]\nv_mov_b32 v0, 1", (0, 1, "RAW")),
        ("gfx942", "v_mov_b32 v0, 1\ns_mov_b64 exec, s[0:1]", (0, 1, "WAR")),
        ("gfx942", "s_mov_b32 m0, s0\nbuffer_load_dword v1, s[4:7], 0 offen lds", (0, 1, "RAW")),
        ("gfx803", "s_mov_b32 m0, -1\nds_read_b32 v0, v1", (0, 1, "RAW")),
        ("gfx942", "v_mul_f32 v0, v1, v2\ns_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 3", (0, 1, "WAR")),
        ("gfx942", "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 3\nv_mul_f32 v0, v1, v2", (0, 1, "RAW")),
        # parts of wider registers, tied operands, the accumulator
        ("gfx942", "v_mov_b32 v5, 1\nglobal_store_dwordx4 v[0:1], v[4:7], off", (0, 1, "RAW")),
        ("gfx942", "v_fmac_f32 v0, v1, v2\nv_fmac_f32 v0, v3, v4", (0, 1, "RAW")),
        (
            "gfx942",
            "v_mfma_f32_4x4x4_16b_f16 a[0:3], v[0:1], v[2:3], a[0:3]\nv_accvgpr_read_b32 v9, a3",
            (0, 1, "RAW"),
        ),
        ("gfx1100", "v_mov_b16 v0.l, 1\nv_mov_b16 v0.h, 2", (0, 1, "RAW")),
        # memory
        ("gfx942", "ds_write_b32 v0, v1\nds_read_b32 v2, v3", (0, 1, "MEMORY")),
        ("gfx942", "ds_read_b32 v2, v3\nds_write_b32 v0, v1", (0, 1, "MEMORY")),
        ("gfx942", "ds_read_b32 v2, v3\ns_barrier", (0, 1, "ORDER")),
        ("gfx942", "global_load_dword v0, v[2:3], off\nbuffer_inv sc1", (0, 1, "ORDER")),
        # pillars
        ("gfx942", "v_mov_b32 v0, 1\ns_endpgm", (0, 1, "ORDER")),
        ("gfx1100", "v_mov_b32 v0, 1\ns_sendmsg sendmsg(MSG_DEALLOC_VGPRS)", (0, 1, "ORDER")),
        ("gfx942", "v_mov_b32 v0, 1\n.long 0xffffffff", (0, 1, "ORDER")),
        (
            "gfx906",
            "s_set_gpr_idx_on s0, gpr_idx(SRC0)\nv_mov_b32 v0, v1\ns_set_gpr_idx_off",
            (1, 2, "ORDER"),
        ),
    ],
)
def test_one_edge(gpu: str, text: str, expected: tuple[int, int, str]) -> None:
    assert expected in edges_of(text, gpu)


@pytest.mark.parametrize(
    "text",
    [
        "v_add_f32 v0, v1, v2\nv_mul_f32 v3, v1, v2",
        "ds_read_b32 v0, v1\nds_read_b32 v2, v1",
        "ds_write_b32 v0, v1\nglobal_store_dword v[2:3], v1, off",
        "v_add_f32 v0, v1, v2\ns_barrier",
        "s_mov_b32 s0, 1\nv_mov_b32 v0, s1",
        "s_load_dword s0, s[2:3], 0\nglobal_load_dword v0, v[2:3], off",
        "v_readlane_b32 s0, v0, 1\ns_mov_b64 exec, s[2:3]",
    ],
)
def test_independent(text: str) -> None:
    assert not edges_of(text)


def test_indexed_regions_are_pillars() -> None:
    text = """
        s_set_gpr_idx_on s0, gpr_idx(SRC0)
        v_mov_b32 v0, v1
        v_mov_b32 v2, v3
        s_set_gpr_idx_off
        v_mov_b32 v4, v5
        v_mov_b32 v6, v7
        """
    edges = edges_of(text, "gfx906", Marks.IGNORED)
    assert (1, 2, "ORDER") in edges
    assert not any({before, after} == {4, 5} for before, after, _ in edges)


def test_high_register_bits_make_pillars_until_they_are_zero_again() -> None:
    text = """
        s_set_vgpr_msb 1
        v_mov_b32 v0, v1
        v_mov_b32 v2, v3
        s_set_vgpr_msb 0
        v_mov_b32 v4, v5
        v_mov_b32 v6, v7
        """
    edges = edges_of(text, "gfx1250", Marks.IGNORED)
    assert (1, 2, "ORDER") in edges
    assert (4, 5, "ORDER") not in edges


def test_marks() -> None:
    text = "v_mov_b32 v0, 1\ns_nop 0\nv_mov_b32 v1, 1\ns_waitcnt vmcnt(0)"
    assert edges_of(text) == {(0, 1, "ORDER"), (1, 2, "ORDER"), (1, 3, "ORDER"), (2, 3, "ORDER")}
    assert edges_of(text, marks=Marks.IGNORED) == {(1, 3, "ORDER")}


def test_clauses_stay_together() -> None:
    block = block_of(
        """
        v_mov_b32 v9, 1
        s_clause 1
        global_load_b32 v0, v[2:3], off
        global_load_b32 v1, v[4:5], off
        v_mov_b32 v8, 1
        """,
        "gfx1100",
    )
    graph = DependenceGraph.for_block(block, Marks.IGNORED)
    assert graph.bundles == (range(1, 4),)
    assert graph.violation([1, 2, 3, 0, 4]) is None
    assert graph.violation([4, 0, 1, 2, 3]) is None
    for order in ([0, 1, 2, 4, 3], [0, 1, 3, 2, 4], [0, 2, 3, 1, 4], [1, 0, 2, 3, 4]):
        broken = graph.violation(order)
        assert broken is not None
        assert broken.kind is Dependence.ORDER


def test_an_address_sum_stays_together() -> None:
    kernels = [kernel for kernel in compiled_kernels() if any("s_getpc" in str(each) for each in kernel.instructions)]
    assert kernels
    for kernel in kernels:
        for block in kernel.blocks:
            graph = DependenceGraph.for_block(block)
            for place, instruction in enumerate(block.instructions):
                if instruction.reference is not None:
                    assert any(place in bundle for bundle in graph.bundles)


def test_violation_in_words() -> None:
    block = block_of("v_mov_b32 v0, 1\nv_add_f32 v1, v0, v2")
    broken = is_legal_order(block, [1, 0])
    assert str(broken) == (
        "`v_mov_b32_e32 v0, 1` must stay before `v_add_f32_e32 v1, v0, v2`: the first writes v0, which the second reads"
    )
    block = block_of("ds_write_b32 v0, v1\nds_read_b32 v2, v3")
    assert "both access lds memory" in str(is_legal_order(block, [1, 0]))
    block = block_of("ds_write_b32 v0, v1\ns_barrier")
    assert "no memory operation may cross `s_barrier`" in str(is_legal_order(block, [1, 0]))
    block = block_of("v_cmp_eq_u32 vcc, v0, v1\nv_cndmask_b32 v2, v3, v4, vcc")
    assert "vcc" in str(is_legal_order(block, [1, 0]))


@pytest.mark.parametrize("order", [[0], [0, 0], [0, 1, 2], [0, 5]])
def test_no_permutation(order: list[int]) -> None:
    with pytest.raises(ValueError, match="permutation"):
        is_legal_order(block_of("v_mov_b32 v0, 1\nv_mov_b32 v1, 1"), order)


def test_scheduler_helpers() -> None:
    block = block_of(
        """
        global_load_dword v0, v[2:3], off
        v_mov_b32 v4, 1
        v_add_f32 v5, v0, v4
        v_add_f32 v6, v5, v5
        """
    )
    graph = DependenceGraph.for_block(block)
    assert [sorted({edge.after for edge in edges}) for edges in graph.successors] == [[2], [2], [3], []]
    assert [len({edge.before for edge in edges}) for edges in graph.predecessors] == [0, 0, 2, 1]

    def latency(edge: Edge) -> int:
        return 100 if edge.before == 0 else 4

    assert graph.heights(latency) == [104, 8, 4, 0]


def blocks(kernel: Kernel, longest: int) -> list[Block]:
    return [block for block in kernel.blocks if len(block.instructions) <= longest]


def reachable_pairs(graph: DependenceGraph) -> list[int]:
    """For each place the set (bits) of those that some chain of edges puts before it."""
    before: list[int] = []
    for edges in graph.predecessors:
        mask = 0
        for edge in edges:
            mask |= before[edge.before] | 1 << edge.before
        before.append(mask)
    return before


@pytest.mark.parametrize("marks", Marks, ids=lambda marks: marks.name)
@pytest.mark.parametrize("kernel", compiled_kernels(), ids=lambda kernel: kernel.name)
def test_chains_cover_every_pair_in_conflict(kernel: Kernel, marks: Marks) -> None:
    """The tables of last writers lose nothing that comparing all pairs finds, and edges are conflicts."""
    for block in blocks(kernel, 120):
        graph = DependenceGraph.for_block(block, marks)
        before = reachable_pairs(graph)
        direct = {(edge.before, edge.after) for edge in graph.edges}
        for j, second in enumerate(block.instructions):
            for i, first in enumerate(block.instructions[:j]):
                if conflict(first, second, marks) is not None:
                    assert before[j] >> i & 1, f"{first} / {second}"
                elif (i, j) in direct:
                    raise AssertionError(f"no conflict between {first} and {second}")


def random_topological_order(graph: DependenceGraph, rng: random.Random) -> list[int]:
    """A list schedule with random choices; None of the bundles is split since they are taken whole."""
    degrees = [len({edge.before for edge in edges}) for edges in graph.predecessors]
    successors = [sorted({edge.after for edge in edges}) for edges in graph.successors]
    ready = [place for place, degree in enumerate(degrees) if degree == 0]
    order = []
    while ready:
        place = ready.pop(rng.randrange(len(ready)))
        order.append(place)
        for after in successors[place]:
            degrees[after] -= 1
            if degrees[after] == 0:
                ready.append(after)
    return order


def replay(instructions: list[Instruction]) -> dict[int, tuple[int, ...]]:
    """What each instruction gets to read: for each register unit the id of its last writer before."""
    writer: dict[int, int] = {}
    seen: dict[int, tuple[int, ...]] = {}
    for instruction in instructions:
        units = [unit for unit in range(1700) if instruction.reads >> unit & 1]
        seen[instruction.id] = tuple(writer.get(unit, -1) for unit in units)
        writer |= {unit: instruction.id for unit in range(1700) if instruction.writes >> unit & 1}
    return seen | {-unit - 2: (last,) for unit, last in writer.items()}


def test_random_schedules_compute_the_same() -> None:
    rng = random.Random(7)
    moved = 0
    for kernel in compiled_kernels():
        for block in blocks(kernel, 200)[:6]:
            graph = DependenceGraph.for_block(block, Marks.IGNORED)
            places = random_topological_order(graph, rng)
            assert sorted(places) == list(range(len(block.instructions)))
            moved += sum(place != at for at, place in enumerate(places))
            order = [block.instructions[place] for place in places]
            broken = graph.violation([instruction.id for instruction in order])
            assert broken is None or graph.bundles
            assert replay(order) == replay(list(block.instructions))
    assert moved > 1000


def test_plain_loads_alone_cross_quiet_fences() -> None:
    """Barriers at 1 and 5; the first one is quiet. Edges lead to the load at 3 and from the one at 0 only elsewhere."""
    block = block_of(
        "global_load_dword v2, v[0:1], off\ns_barrier\nds_read_b32 v3, v4\nglobal_load_dword v5, v[0:1], off\n"
        "global_load_dword v6, v[0:1], off sc1\ns_barrier\nglobal_load_dword v7, v[0:1], off"
    )
    ids = [each.id for each in block.instructions]

    def orders(quiet: frozenset[int]) -> set[tuple[int, int]]:
        edges = DependenceGraph(block.instructions, Marks.IGNORED, quiet).edges
        return {(each.before, each.after) for each in edges if each.kind is Dependence.ORDER}

    loud, quiet = orders(frozenset()), orders(frozenset({ids[1]}))
    assert {(0, 1), (1, 3)} <= loud
    assert not {(0, 1), (1, 3)} & quiet
    assert {(1, 2), (3, 4), (0, 4), (1, 4), (4, 5), (5, 6)} <= quiet
