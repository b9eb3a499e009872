"""The constraints gate: new findings reject a candidate, the parent's own do not, and switches ask about edits only."""

from __future__ import annotations

from pathlib import Path

import pytest

from asmevo.checks.constraints import Compiled, constraints_for
from asmevo.gates import Pipeline
from asmevo.gates.constraints import ConstraintsGate
from asmevo.program import assemble_text, read_program
from asmevo.program.candidate import Candidate
from asmevo.program.edit import Delete, EditScript, Insert, Move, Replace
from asmevo.program.kernel import Kernel

CODE = """.type f,@function
f:
  s_mov_b32 s7, 1
  s_setprio 1
  s_nop 0
  v_mul_f32 v3, v1, v2
  v_add_f32 v3, v3, v4
  s_endpgm
"""


def kernel() -> Kernel:
    return read_program(CODE.encode(), "t.s", "gfx90a").kernels[0]


def code(text: str) -> str:
    whole = read_program(assemble_text(f"f:\n{text}\n", "t.s", gpu="gfx90a"), "t.o").kernels[0]
    return whole.instructions[0].decoded.code.hex()


def graph(tmp_path: Path, rules: str) -> Compiled:
    file = tmp_path / "own.yaml"
    file.write_text(f"schema: asmevo.constraints/1\n{rules}\n")
    return constraints_for("gfx90a", (str(file),))


def candidate(parent: Kernel, *edits: Insert | Replace | Move | Delete) -> Candidate:
    return Candidate.make(parent, EditScript(base=parent.hash, kernel=parent.name, edits=edits))


def test_what_the_parent_has_does_not_count_and_what_is_new_does(tmp_path: Path) -> None:
    rules = "reserved: [{id: x, registers: s7, role: table, reason: it holds the table}]"
    parent = kernel()
    gate = ConstraintsGate(parent, graph(tmp_path, rules))
    kept = candidate(parent, Move(id=3, before=1))
    assert gate.judge(kept).accepted
    text = "s_mov_b32 s7, 2"
    fresh = candidate(parent, Insert(id=100, code=code(text), text=text, after=2))
    verdict = gate.judge(fresh)
    assert not verdict.accepted
    assert verdict.instructions == (100,)
    assert "reserved (table)" in verdict.reason
    assert [edge["entry"] for edge in verdict.evidence["edges"]] == ["x"]


def test_a_move_that_breaks_a_neighbourhood(tmp_path: Path) -> None:
    rules = "required_neighbours: [{id: x, instruction: {mnemonic: s_setprio}, needs: {mnemonic: s_nop}, reason: r}]"
    parent = kernel()
    gate = ConstraintsGate(parent, graph(tmp_path, rules))
    assert gate.judge(candidate(parent, Move(id=0, after=4))).accepted
    assert not gate.judge(candidate(parent, Move(id=3, after=1))).accepted


@pytest.mark.parametrize("allowed", ["true", "false"])
def test_mac_merge(tmp_path: Path, allowed: str) -> None:
    parent = kernel()
    gate = ConstraintsGate(parent, graph(tmp_path, f"switches: {{mac_merge: {allowed}}}"))
    text = "v_fma_f32 v3, v1, v2, v4"
    merged = candidate(parent, Replace(id=3, code=code(text), text=text), Delete(id=4, text="v_add_f32"))
    verdict = gate.judge(merged)
    assert verdict.accepted is (allowed == "true")
    if allowed == "false":
        assert verdict.evidence["findings"][0]["rule"] == "constraints.switch"
        assert "v_fma_f32" in verdict.reason


def test_a_switch_does_not_concern_what_was_there(tmp_path: Path) -> None:
    parent = read_program(CODE.replace("v_mul_f32 v3, v1, v2", "v_fma_f32 v3, v1, v2, v2").encode(), "t.s", "gfx90a")
    first = parent.kernels[0]
    gate = ConstraintsGate(first, graph(tmp_path, "switches: {mac_merge: false}"))
    assert gate.judge(candidate(first, Move(id=3, before=1))).accepted
    renamed = "v_fma_f32 v5, v1, v2, v2"
    assert gate.judge(candidate(first, Replace(id=3, code=code(renamed), text=renamed))).accepted


def test_the_pipeline_asks_it_between_assemble_and_waits(tmp_path: Path) -> None:
    parent = kernel()
    pipeline = Pipeline(parent, constraints=graph(tmp_path, "limits: [{id: x, resource: vgprs, most: 0, reason: r}]"))
    assert [gate.name for gate in pipeline.gates][:3] == ["assemble", "constraints", "waits"]
    verdicts = pipeline.judge(candidate(parent, Move(id=3, before=1))).verdicts
    assert verdicts[1].accepted
    assert Pipeline(parent).gates[1].name == "constraints"
