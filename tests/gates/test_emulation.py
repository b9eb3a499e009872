"""The emulation gate: equal bytes for what is equivalent, a named element for what is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiled_programs import all_files

from asmevo.emulator import LaunchManifest, read_manifest
from asmevo.gates import EmulationGate, VerdictKind
from asmevo.program import Program, read_program
from asmevo.program.candidate import Candidate
from asmevo.program.edit import EditScript, Move, Replace
from asmevo.program.instruction_text import encode_text
from asmevo.program.kernel import Kernel
from asmevo.proposers import Facts, ListScheduler

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
