"""The head of a loop over its back edge: worked by hand, judged by all gates."""

from __future__ import annotations

from written_kernels import written

from asmevo.gates import Level, Pipeline
from asmevo.program.candidate import Candidate
from asmevo.program.kernel import Kernel
from asmevo.proposers import Facts
from asmevo.proposers.pipelining import Pipeliner, Rotation
from asmevo.prover.product import Product
from asmevo.prover.solver import SolverLimits

LOOP = """
s_mov_b32 s0, 0
v_mov_b32 v3, 0
again:
s_add_i32 s0, s0, 4
v_add_u32 v1, s0, v0
v_lshlrev_b32 v1, 2, v1
buffer_load_dword v2, v1, s[4:7], 0 offen
s_waitcnt vmcnt(0)
v_add_u32 v3, v3, v2
s_cmp_lt_i32 s0, s8
s_cbranch_scc1 again
s_mov_b32 s9, 0
{}
global_store_dword v[10:11], v3, off
s_endpgm
"""


def rotated(text: str) -> tuple[Kernel, Kernel]:
    kernel = written(text)
    script = next(iter(Pipeliner().propose(Facts(kernel))))
    return kernel, Candidate.make(kernel, script).kernel


def names(kernel: Kernel, block: int) -> list[str]:
    return [each.mnemonic.removesuffix("_e32") for each in kernel.blocks[block].instructions]


def test_the_address_is_computed_an_iteration_ahead() -> None:
    _, after = rotated(LOOP.format(""))
    head = ["s_add_i32", "v_add_u32", "v_lshlrev_b32"]
    assert names(after, 0) == ["s_mov_b32", "v_mov_b32", *head]
    kept = ["s_cselect_b32", *head, "s_cmp_lg_u32", "s_cbranch_scc1"]
    assert names(after, 1) == ["buffer_load_dword", "s_waitcnt", "v_add_u32", "s_cmp_lt_i32", *kept]


def test_it_is_proved_and_passes_the_other_gates() -> None:
    """The proof has more time than the gate's second here, so that a busy machine decides nothing."""
    kernel = written(LOOP.format(""))
    pipeline = Pipeline(kernel, Level.DRAFT)
    scripts = list(Pipeliner().propose(Facts(kernel)))
    assert scripts
    for script in scripts:
        candidate = Candidate.make(kernel, script)
        judgement = pipeline.judge(candidate)
        assert judgement.accepted, judgement.verdicts[-1]
        proof = Product(kernel, candidate.kernel, limits=SolverLimits(200_000, 1_200_000)).compare()
        assert proof.proved, proof.reason


def test_what_is_read_behind_the_loop_stays() -> None:
    """Once more at the end would change what is read there: the counter, and with it all that hangs on it."""
    (rotation,) = Rotation.of_loops(Facts(written(LOOP.format("v_add_u32 v3, s0, v3"))))
    assert rotation.head == ()
    assert rotation.blocks() is None


def test_loads_and_what_depends_on_them_stay() -> None:
    chased = LOOP.replace("v_add_u32 v1, s0, v0", "v_add_u32 v1, s0, v2")
    (rotation,) = Rotation.of_loops(Facts(written(chased.format(""))))
    assert not any("load" in rotation.facts.kernel.blocks[1].instructions[place].mnemonic for place in rotation.head)
