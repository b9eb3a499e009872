"""The user's word that all waves are whole: what it buys, where it is kept, and that nothing is taken for granted."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiled_programs import all_files
from emulated_launches import launch

from asmevo.emulator import ManifestError
from asmevo.program import open_program
from asmevo.search import Budget, Ledger, OptimizationRun, SearchOptions, apply_patch, optimize, read_patch

QUICK = SearchOptions(budget=Budget(candidates=4), built_in=("renamer",), whole_waves=True)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kernels") / "matmul_i8.hsaco"
    path.write_bytes(all_files()["gfx90a/matmul_i8.hsaco"])
    return path


@pytest.fixture(scope="module")
def run(file: Path) -> OptimizationRun:
    program = open_program(file)
    return optimize(program, program.select()[0], QUICK, Ledger(file.parent / "runs"))


def test_the_offer_says_that_it_rests_on_it(run: OptimizationRun) -> None:
    offer = run.patch.candidates[0]
    assert run.patch.whole_waves
    assert "all waves of all launches are whole" in offer.relies_on
    proof = next(each for each in offer.verdicts if each["gate"] == "equivalence")
    assert proof["evidence"]["whole_waves"] is True


def test_the_patch_carries_it_to_where_it_is_judged_again(run: OptimizationRun, file: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.patch"
    path.write_text(run.patch.to_json())
    assert apply_patch(read_patch(path), file, 1).data is not None
    without = apply_patch(run.patch.model_copy(update={"whole_waves": False}), file, 1)
    assert without.data is None
    assert without.verdicts[-1]["gate"] == "equivalence"


@pytest.mark.parametrize("shape", [{"workgroup": (240, 1, 1)}, {"grid": (250, 2, 1)}])
def test_a_launch_that_says_otherwise_is_refused(shape: dict[str, tuple[int, ...]], file: Path, tmp_path: Path) -> None:
    program, manifest = open_program(file), launch("matmul_i8")
    own = manifest.targets["gfx90a"].model_copy(update={"grid": None} | shape)
    partial = manifest.model_copy(update={"targets": {"gfx90a": own}})
    options = SearchOptions(budget=Budget(candidates=1), launch=partial, whole_waves=True)
    with pytest.raises(ManifestError, match="whole-waves"):
        optimize(program, program.select()[0], options, Ledger(tmp_path))
