"""What a gain rests on, on kernels where it can be said by hand, and that the offer's text says it."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiled_programs import all_files
from msgspec.structs import replace
from written_kernels import COMPILED, written

from asmevo.gates import TimingGate
from asmevo.program import open_program, read_program
from asmevo.program.edit import script_between
from asmevo.program.kernel import Kernel
from asmevo.prover import FloatPolicy
from asmevo.search import Ledger, SearchOptions
from asmevo.search.basis import Basis, basis_of
from asmevo.search.bench import Bench
from asmevo.search.board import Board
from asmevo.search.explain import relies_on
from asmevo.search.offering import make_offers
from asmevo.timing import estimate
from asmevo.timing.estimate import simulate
from asmevo.timing.path import path_of
from asmevo.timing.scenarios import machine_for

ANY = "gfx1201/saxpy.hsaco"  # offers need a program only where they are run
LOAD = "global_load_dword v4, v[0:1], off"
WAIT = "s_waitcnt vmcnt(0)"
WORK = "\n".join(f"v_add_f32 v{n}, v2, v3" for n in range(10, 40))


def _basis(before: str, after: str) -> Basis:
    parent, candidate = (written(f"{text}\ns_endpgm") for text in (before, after))
    return basis_of(parent, candidate, TimingGate(parent).predict(candidate))


def _known(kernel: Kernel, kind: str, memory: str) -> str:
    row = kernel.target.latency[kind]
    return row.scenarios.known if row.scenarios is not None and memory in row.scenarios.value else row.result.known


def test_a_load_that_is_hidden_rests_on_the_latency_of_loads() -> None:
    """30 vector instructions of 4 cycles come between the load and its wait: 120 cycles of waiting are saved."""
    basis = _basis(f"{LOAD}\n{WAIT}\n{WORK}", f"{LOAD}\n{WORK}\n{WAIT}")
    ((reason, share),) = basis.saved
    assert reason.words == "wait vmcnt"
    assert reason.known == _known(written("s_endpgm"), "vmem_load", "l2")
    assert basis.known == {reason.known: 1.0}
    parent = TimingGate(written(f"{LOAD}\n{WAIT}\n{WORK}\ns_endpgm")).parent[0]
    assert share * parent.cycles == pytest.approx(120, abs=15)
    assert basis.elsewhere["lds-only"] < 0.05
    assert basis.elsewhere["cold"] > 0.05
    assert basis.crowded[8] < share


def test_no_ops_that_go_rest_on_issue_slots_and_not_on_memory() -> None:
    basis = _basis(f"s_nop 7\ns_nop 7\n{WORK}", WORK)
    assert {reason.words for reason, _ in basis.saved} <= {"nop", "issue"}
    assert set(basis.known) == {"vendor"}
    (cold, at_once) = (basis.elsewhere[memory] for memory in ("cold", "lds-only"))
    assert cold == at_once > 0.2


def test_nothing_saved_is_said_to_rest_on_nothing() -> None:
    basis = _basis(WORK, WORK)
    assert basis.saved == ()
    assert basis.known == {}
    assert basis.elsewhere == {"cold": 0.0, "lds-only": 0.0}
    assert basis.crowded == {8: 0.0}
    assert "what is saved is nothing" in relies_on(basis, "l2", FloatPolicy.EXACT, whole_waves=False)


def test_the_text_names_reasons_sources_and_other_memory() -> None:
    basis = _basis(f"{LOAD}\n{WAIT}\n{WORK}", f"{LOAD}\n{WORK}\n{WAIT}")
    text = relies_on(basis, "l2", FloatPolicy.CONTRACT, whole_waves=False)
    assert "100% `wait vmcnt` (" in text
    assert "memory scenario `l2` (the gain is " in text
    assert "% with `cold`" in text
    assert "% with `lds-only`" in text
    assert "with 8 waves a SIMD the gain is " in text
    assert text.endswith("floating-point policy `contract`: results are equal only as far as it says")


def test_what_is_offered_was_simulated_longer_where_a_loop_does_not_become_steady() -> None:
    """With 4 waves 8 iterations are simulated of this loop by default, and 32 of the same loop for offers."""
    kernel = open_program(COMPILED / "gfx906" / "matmul_f16.hsaco").select()[0]
    assert not any(loop.steady for loop in estimate(kernel, waves=4).loops)
    machine, path = machine_for(kernel.target, kernel.wave_size, "l2"), path_of(kernel)
    made = []
    for patience in (1, Bench(kernel, SearchOptions()).patient_timing.patience):
        logs = simulate(kernel, machine, path, 4, 100, patience=patience).logs
        made.append(min(len(own) for log in logs if log.repeats for own in log.passes))
    assert made[0] == 8
    assert made[1] >= 32


BOTH_LOADS = """s_load_b32 s4, s[0:1], 0x0
{work}
s_load_b32 s5, s[0:1], 0x4
s_wait_kmcnt 0x0
global_load_b32 v4, v5, s[2:3]
s_wait_loadcnt 0x0
s_wait_kmcnt 0x0
v_add_f32 v4, s5, v4
global_store_b32 v5, v4, s[2:3]
s_endpgm"""


def test_what_only_gains_while_memory_is_near_is_not_offered(tmp_path: Path) -> None:
    """The second scalar load is moved to where the vector load hides it; from DRAM a scalar load takes longer.

    By gfx1201's facts: from L2 the 30 instructions before it no longer delay the wait, from DRAM it comes back last.
    """
    original = written(BOTH_LOADS.format(work=WORK), "gfx1201")
    (block,) = original.blocks
    order = list(block.instructions)
    late = next(i for i in order if i.mnemonic == "s_load_b32" and "0x4" in i.text)
    order.remove(late)
    order.insert(1 + next(n for n, i in enumerate(order) if i.mnemonic == "global_load_b32"), late)
    script = script_between(original, (replace(block, instructions=tuple(order)),), "later")
    offered = []
    with Ledger(tmp_path).open_run({}, b"") as run:
        for memory in ("l2", "cold"):
            board = Board(run)
            bench = Bench(original, SearchOptions(memory=memory), board.note)
            kept = bench.judge(script, original, "test")
            assert kept is not None
            offered.append(make_offers(bench, board, read_program(all_files()[ANY], ANY)))
            gate = TimingGate(original, memory).predict(kept.kernel)
            assert (gate.gain > 0.01) is (memory == "l2")
            assert kept.cost > 1.0
            assert board.refused["timing"] == 1
    assert offered == [(), ()]
