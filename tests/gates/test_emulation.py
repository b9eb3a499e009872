"""The emulation gate: equal bytes for what is equivalent, a named element for what is not."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

import pytest
from compiled_programs import all_files

from asmevo.emulator import LaunchManifest, Limits, read_manifest, run, standard_trials
from asmevo.gates import EmulationGate, Pipeline, VerdictKind, emulation
from asmevo.program import Program, read_program
from asmevo.program.candidate import Candidate
from asmevo.program.edit import EditScript, Insert, Move, Replace, script_between
from asmevo.program.instruction_text import encode_text
from asmevo.program.kernel import Kernel
from asmevo.proposers import Facts, ListScheduler
from asmevo.proposers.block_region import BlockRegion
from asmevo.proposers.local_search import orders_of
from asmevo.proposers.placement import Placement

LAUNCHES = Path(__file__).parent.parent / "data" / "launches"


def launch(target: str, name: str) -> tuple[Program, Kernel, LaunchManifest]:
    program = read_program(all_files()[f"{target}/{name}.hsaco"], f"{name}.hsaco")
    return program, program.select()[0], read_manifest(LAUNCHES / f"{name}.json")


def changed(kernel: Kernel, before: str, after: str) -> Candidate:
    """The first instruction whose text has `before` in it, with `after` instead."""
    target = next(i for i in kernel.instructions if before in i.text)
    text = target.text.replace(before, after)
    code = encode_text(text, kernel.context).code.hex()
    edits = (Replace(id=target.id, code=code, text=text),)
    return Candidate.make(kernel, EditScript(base=kernel.hash, kernel=kernel.name, edits=edits))


@pytest.mark.parametrize("target", ["gfx942", "gfx1100"])
def test_a_schedule_leaves_the_same_bytes(target: str) -> None:
    program, kernel, manifest = launch(target, "vector_add")
    gate = EmulationGate(program, kernel, manifest)
    for script in list(ListScheduler().propose(Facts(kernel)))[:4]:
        verdict = gate.judge(Candidate.make(kernel, script))
        assert verdict.accepted, verdict.reason
        assert "results equal" in verdict.reason


@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201"])
@pytest.mark.parametrize("name", ["conv1d", "lds_reduce", "hash_mix", "divergent", "bit_ops"])
def test_what_the_other_gates_accept_computes_the_same(target: str, name: str) -> None:
    """Random schedules that were proved equivalent, on the emulator: an independent witness of the prover."""
    program = read_program(all_files()[f"{target}/{name}.hsaco"], f"{name}.hsaco")
    manifest = read_manifest(LAUNCHES / f"{name}.json")
    kernel = program.kernel(manifest.symbol)
    gate, pipeline = EmulationGate(program, kernel, manifest), Pipeline(kernel)
    facts = Facts(kernel, rng=random.Random(f"{target}/{name}"))
    tried = 0
    for block in facts.hot_blocks[:2]:
        problem = BlockRegion(Placement(facts, block))
        orders = orders_of(problem)
        if not orders.movable:
            continue
        blocks = problem.rebuild(orders.neighbour(orders.start, 40, facts.rng))
        if blocks is None:
            continue
        candidate = Candidate.make(kernel, script_between(kernel, blocks, "random"))
        if pipeline.judge(candidate).accepted:
            tried += 1
            verdict = gate.judge(candidate)
            assert verdict.accepted, verdict.reason
    assert tried


def test_another_operation_is_refused_with_the_element() -> None:
    program, kernel, manifest = launch("gfx942", "vector_add")
    verdict = EmulationGate(program, kernel, manifest).judge(changed(kernel, "v_pk_add_f32", "v_pk_mul_f32"))
    assert verdict.kind is VerdictKind.REJECTED
    assert "the original has" in verdict.reason


def test_an_endless_loop_or_a_fault_is_refused() -> None:
    program, kernel, manifest = launch("gfx942", "vector_add")
    store = next(i for i in kernel.instructions if "store" in i.mnemonic)
    first = kernel.instructions[0]
    moved = EditScript(base=kernel.hash, kernel=kernel.name, edits=(Move(id=store.id, before=first.id),))
    verdict = EmulationGate(program, kernel, manifest).judge(Candidate.make(kernel, moved))
    assert verdict.kind is VerdictKind.REJECTED


def test_a_candidate_that_was_given_up_is_neither_equal_nor_different(monkeypatch: pytest.MonkeyPatch) -> None:
    program, kernel, manifest = launch("gfx942", "vector_add")
    few = Limits(instructions=sum(run(program, kernel, manifest).executed.values()))
    monkeypatch.setattr(emulation, "standard_trials", partial(standard_trials, limits=few))
    gate = EmulationGate(program, kernel, manifest)
    end = kernel.instructions[-1]
    nop = encode_text("s_nop 0", kernel.context).code.hex()
    longer = (Insert(id=max(i.id for i in kernel.instructions) + 1, before=end.id, code=nop, text="s_nop 0"),)
    judged = gate.judge(Candidate.make(kernel, EditScript(base=kernel.hash, kernel=kernel.name, edits=longer)))
    assert judged.kind is VerdictKind.UNDECIDED
    assert judged.reason.endswith(f"the run takes more than {few.instructions} instructions; it was given up here")
    nothing = EditScript(base=kernel.hash, kernel=kernel.name, edits=())
    assert gate.judge(Candidate.make(kernel, nothing)).accepted


def test_a_difference_is_shrunk_to_its_store() -> None:
    """The kernel stores a sum and a maximum; the second store gets the first one's value."""
    program, kernel, manifest = launch("gfx1100", "lds_reduce")
    wrong = changed(kernel, "global_store_b32 v2, v0, s[2:3]", "global_store_b32 v2, v1, s[2:3]")
    (place,) = (i.id for i in wrong.kernel.instructions if i.text == "global_store_b32 v2, v1, s[2:3]")
    verdict = EmulationGate(program, kernel, manifest).judge(wrong)
    assert verdict.kind is VerdictKind.REJECTED
    assert verdict.instructions == (place,)
    assert f"stored by instruction {place} `global_store_b32 v2, v1, s[2:3]` (wave 0)" in verdict.reason
    assert "in the original by" in verdict.reason
