"""The whole path inside one process: search, patch, ledger, apply."""

from __future__ import annotations

import difflib
import json
import time
from pathlib import Path

import pytest
from compiled_programs import all_files
from written_kernels import COMPILED

from asmevo.program import open_program, read_program
from asmevo.program.candidate import Candidate
from asmevo.program.edit import Delete, EditScript
from asmevo.search import Budget, Ledger, OptimizationRun, PatchError, SearchOptions, apply_patch, optimize, read_patch
from asmevo.search.history import describe, restore
from asmevo.search.patch import Patch

MATMUL = COMPILED / "gfx942" / "matmul_f16.hsaco"
QUICK = SearchOptions(budget=Budget(candidates=16), built_in=("waits", "list-scheduler", "genetic"))


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    return Ledger(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def run(ledger: Ledger) -> OptimizationRun:
    program = open_program(MATMUL)
    return optimize(program, program.select()[0], QUICK, ledger)


def test_it_finds_a_verified_gain(run: OptimizationRun) -> None:
    assert run.patch.candidates
    best = run.patch.candidates[0]
    assert best.predicted_gain > 0.02
    assert [v["gate"] for v in best.verdicts] == [
        "assemble",
        "constraints",
        "waits",
        "hazards",
        "resources",
        "equivalence",
        "timing",
    ]
    assert all(v["kind"] == "accepted" for v in best.verdicts)
    assert len(run.patch.candidates) <= 3
    gains = [candidate.predicted_gain for candidate in run.patch.candidates]
    assert gains == sorted(gains, reverse=True) or len(set(gains)) == len(gains)


def test_the_sentence_says_what_changed_and_what_it_rests_on(run: OptimizationRun) -> None:
    best = run.patch.candidates[0]
    assert "cycles instead of" in best.why
    assert "cycle model" in best.relies_on
    assert "not measured" in run.patch.estimate_note


def test_the_patch_survives_its_own_json(run: OptimizationRun, tmp_path: Path) -> None:
    path = tmp_path / "a.patch"
    path.write_text(run.patch.to_json())
    assert json.loads(path.read_text())["schema"] == "asmevo.patch/1"
    assert read_patch(path) == run.patch


def test_the_ledger_holds_every_candidate(run: OptimizationRun, ledger: Ledger) -> None:
    assert run.id in ledger.runs()
    tried = ledger.candidates(run.id)
    assert len(tried) == run.tried
    assert all(body["verdicts"] for body in tried)
    assert restore(ledger, run.id) == MATMUL.read_bytes()
    patch = ledger.artifacts.read(describe(ledger, f"{run.id}/end")["body"]["artifacts"]["patch"])
    assert Patch.model_validate_json(patch) == run.patch


def test_applying_writes_the_kernel_that_was_judged(run: OptimizationRun) -> None:
    applied = apply_patch(run.patch, MATMUL, 1)
    assert applied.data is not None
    written = read_program(applied.data, "new.hsaco").kernel(run.patch.kernel)
    wanted = run.patch.candidates[0].after
    assert written.code_size() >= wanted.code_bytes
    trimmed = [i for i in written.instructions][: wanted.instructions]
    assert len(trimmed) == wanted.instructions
    assert sum(i.mnemonic.startswith("s_waitcnt") for i in trimmed) == wanted.waits


def test_applying_refuses_another_file(run: OptimizationRun) -> None:
    with pytest.raises(PatchError, match="not the file the patch is for"):
        apply_patch(run.patch, COMPILED / "gfx908" / "matmul_f16.hsaco", 1)
    with pytest.raises(PatchError, match="no number 9"):
        apply_patch(run.patch, MATMUL, 9)


def test_applying_judges_again(run: OptimizationRun) -> None:
    """A patch that somebody tampered with is not believed because of the verdicts that it carries."""
    kernel = open_program(MATMUL).select()[0]
    wait = next(i for i in kernel.instructions if i.mnemonic == "s_waitcnt")
    bad = EditScript(base=kernel.hash, kernel=kernel.name, edits=(Delete(id=wait.id, text=wait.text),))
    forged = run.patch.model_copy(update={"candidates": (run.patch.candidates[0].model_copy(update={"script": bad}),)})
    applied = apply_patch(forged, MATMUL, 1)
    assert applied.data is None
    assert applied.verdicts[-1]["gate"] == "waits"


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "not a patch"), ("{}", "not a patch"), ('{"schema": "asmevo.patch/2"}', "schema"), ("\x00\x01", "patch")],
)
def test_a_broken_patch_gets_one_sentence(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.patch"
    path.write_text(text)
    with pytest.raises(PatchError, match=words) as caught:
        read_patch(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "name", ["gfx1100/matmul_f16.hsaco", pytest.param("gfx942/matmul_f16.hsaco", marks=pytest.mark.long)]
)
def test_the_matmuls_gain_in_under_a_minute(name: str, tmp_path: Path) -> None:
    program = read_program(all_files()[name], name)
    start = time.monotonic()
    run = optimize(program, program.select()[0], SearchOptions(budget=Budget(seconds=10)), Ledger(tmp_path))
    assert time.monotonic() - start < 60
    assert run.patch.candidates
    assert run.patch.candidates[0].predicted_gain >= 0.01
    assert all(v["kind"] == "accepted" for candidate in run.patch.candidates for v in candidate.verdicts)


def test_text_in_text_out_with_only_the_edited_lines_changed(tmp_path: Path) -> None:
    path = tmp_path / "matmul.s"
    path.write_bytes(all_files()["gfx942/matmul_f16.s"])
    program = open_program(path)
    run = optimize(program, program.select()[0], QUICK, Ledger(tmp_path / "runs"))
    applied = apply_patch(run.patch, path, 1)
    assert applied.data is not None
    old, new = path.read_text().splitlines(), applied.data.decode().splitlines()
    changed = sum(line.startswith(("+", "-")) for line in difflib.ndiff(old, new))
    assert 0 < changed <= 4 * len(run.patch.candidates[0].script.touched_ids)
    reread = read_program(applied.data, "new.s").kernel("matmul_f16")
    wanted = Candidate.make(program.kernel("matmul_f16"), run.patch.candidates[0].script).kernel
    assert reread.hash == wanted.hash


def test_the_same_seed_finds_the_same(tmp_path: Path) -> None:
    program = open_program(COMPILED / "gfx1201" / "function_calls.hsaco")
    kernel = program.select()[0]

    def scripts(root: Path) -> list[object]:
        ledger = Ledger(root)
        run = optimize(program, kernel, SearchOptions(budget=Budget(candidates=24), seed=5), ledger)
        return [body["script"]["edits"] for body in ledger.candidates(run.id)]

    assert scripts(tmp_path / "one") == scripts(tmp_path / "other")
