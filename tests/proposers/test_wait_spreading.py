"""Waits across blocks: examples worked by hand, with the gates as judges."""

from __future__ import annotations

from wait_simulator import find_violation
from written_kernels import written

from asmevo.gates import Pipeline
from asmevo.program.candidate import Candidate
from asmevo.program.kernel import Kernel
from asmevo.proposers import Facts, WaitRelaxer


def candidates(text: str, word: str) -> list[Kernel]:
    """What the proposer makes of it under that word, all of which must pass the gates and an independent witness."""
    kernel = written(text)
    pipeline = Pipeline(kernel)
    found = []
    for script in WaitRelaxer().propose(Facts(kernel)):
        if word in script.origin:
            candidate = Candidate.make(kernel, script)
            judgement = pipeline.judge(candidate)
            assert judgement.accepted, (script.origin, judgement.verdicts[-1])
            assert find_violation(candidate.kernel, seed=1, walks=20, steps=500) is None
            found.append(candidate.kernel)
    return found


def texts(kernel: Kernel) -> list[list[str]]:
    return [[each.text for each in block.instructions] for block in kernel.blocks]


BRANCHES = """
global_load_dword v2, v[8:9], off
s_waitcnt vmcnt(0)
s_cbranch_scc1 other
v_add_u32 v4, 1, v2
global_store_dword v[10:11], v4, off
s_endpgm
other:
v_mov_b32 v5, 0
global_store_dword v[10:11], v5, off
s_endpgm
"""


def test_a_wait_goes_to_the_path_that_needs_it() -> None:
    (moved,) = candidates(BRANCHES, "spread `s_waitcnt vmcnt(0)`")
    blocks = texts(moved)
    assert [text.split()[0] for text in blocks[0]] == ["global_load_dword", "s_cbranch_scc1"]
    assert blocks[1][:2] == ["s_waitcnt vmcnt(0)", "v_add_u32_e32 v4, 1, v2"]
    assert "s_waitcnt vmcnt(0)" not in blocks[2]


SPLIT = """
again:
global_load_dword v2, v[8:9], off
global_load_dword v3, v[8:9], off offset:4
s_waitcnt vmcnt(0)
v_add_u32 v4, v4, v2
v_add_u32 v5, 1, v4
v_add_u32 v4, v5, v3
s_add_i32 s0, s0, -1
s_cmp_lg_u32 s0, 0
s_cbranch_scc1 again
global_store_dword v[10:11], v4, off
s_endpgm
"""


def test_a_wait_for_all_becomes_counted_ones() -> None:
    (moved,) = candidates(SPLIT, "spread `s_waitcnt vmcnt(0)`")
    assert texts(moved)[0][2:7] == [
        "s_waitcnt vmcnt(1)",
        "v_add_u32_e32 v4, v4, v2",
        "v_add_u32_e32 v5, 1, v4",
        "s_waitcnt vmcnt(0)",
        "v_add_u32_e32 v4, v5, v3",
    ]


BEFORE_THE_LOOP = """
global_load_dword v2, v[8:9], off
s_mov_b32 s0, 9
again:
{}
s_waitcnt vmcnt(0)
v_add_u32 v4, v4, v2
s_add_i32 s0, s0, -1
s_cmp_lg_u32 s0, 0
s_cbranch_scc1 again
global_store_dword v[10:11], v4, off
s_endpgm
"""


def test_a_wait_leaves_the_loop() -> None:
    (moved,) = candidates(BEFORE_THE_LOOP.format("v_add_u32 v6, 1, v6"), "in front of the loop")
    blocks = texts(moved)
    assert blocks[0][-1] == "s_waitcnt vmcnt(0)"
    assert not any(text.startswith("s_waitcnt") for text in blocks[1])


def test_a_wait_with_work_in_the_loop_stays_for_it() -> None:
    text = BEFORE_THE_LOOP.format("global_load_dword v3, v[8:9], off").replace("v4, v4, v2", "v4, v2, v3")
    for moved in candidates(text, "in front of the loop"):
        assert "s_waitcnt vmcnt(0)" in texts(moved)[1]


def test_a_tight_wait_is_no_idea() -> None:
    tight = SPLIT.replace("global_load_dword v3, v[8:9], off offset:4\n", "").replace("v_add_u32 v4, v5, v3\n", "")
    assert candidates(tight, "spread") == []
