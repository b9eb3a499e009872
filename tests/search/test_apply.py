"""`apply` asks again what a patch claims, and names what it could not ask again."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiled_programs import all_files

from asmevo.emulator import LaunchManifest, read_manifest
from asmevo.gates import HardwareEvidence
from asmevo.program import Program, open_program
from asmevo.program.kernel import Kernel
from asmevo.search import Budget, Conditions, Ledger, Level, Patch, SearchOptions, apply_patch, optimize

NAME = "gfx942/saxpy.hsaco"
LAUNCHES = Path(__file__).parent.parent / "data" / "launches"


class _Gpu:
    """A GPU that says what it is told to say, and counts how often it is asked."""

    def __init__(self, difference: str | None = None) -> None:
        self._difference = difference
        self.asked = 0

    def examine(self, program: Program, kernel: Kernel) -> HardwareEvidence:
        self.asked += 1
        return HardwareEvidence(True, self._difference, slower=False, words="a stand-in")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("base") / "saxpy.hsaco"
    path.write_bytes(all_files()[NAME])
    return path


@pytest.fixture(scope="module")
def manifest() -> LaunchManifest:
    return read_manifest(LAUNCHES / "saxpy.json")


@pytest.fixture(scope="module")
def patch(file: Path, manifest: LaunchManifest, tmp_path_factory: pytest.TempPathFactory) -> Patch:
    program = open_program(file)
    options = SearchOptions(
        level=Level.RELEASE,
        budget=Budget(candidates=10),
        launch=manifest,
        hardware=_Gpu(),
        built_in=("waits", "list-scheduler"),
    )
    run = optimize(program, program.select()[0], options, Ledger(tmp_path_factory.mktemp("runs")))
    assert run.patch.candidates
    return run.patch


def test_what_was_not_asked_again_is_named(patch: Patch, file: Path, manifest: LaunchManifest) -> None:
    alone = apply_patch(patch, file, 1)
    assert alone.data is not None
    assert set(alone.not_judged) == {"emulation", "hardware"}
    assert all("--launch" in why for why in alone.not_judged.values())
    without_gpu = apply_patch(patch, file, 1, conditions=Conditions(manifest, no_hardware="no GPU here"))
    assert without_gpu.not_judged == {"hardware": "no GPU here"}


def test_all_that_a_patch_of_level_release_claims_is_asked_again(
    patch: Patch, file: Path, manifest: LaunchManifest
) -> None:
    gpu = _Gpu()
    applied = apply_patch(patch, file, 1, conditions=Conditions(manifest, gpu))
    assert applied.data is not None
    assert applied.not_judged == {}
    assert [verdict["gate"] for verdict in applied.verdicts][-2:] == ["emulation", "hardware"]
    assert gpu.asked == 1


def test_a_gate_that_refuses_now_is_believed(patch: Patch, file: Path, manifest: LaunchManifest) -> None:
    applied = apply_patch(patch, file, 1, conditions=Conditions(manifest, _Gpu("byte 0 differs")))
    assert applied.data is None
    assert applied.verdicts[-1]["gate"] == "hardware"


def test_constraints_of_the_search_are_asked_for(patch: Patch, file: Path, tmp_path: Path) -> None:
    own = tmp_path / "ours.yaml"
    own.write_text("schema: asmevo.constraints/1\ncomment: ours\nlimits: []\n")
    first = patch.candidates[0]
    verdicts = tuple(
        verdict | {"reason": "keeps the constraints ours"} if verdict["gate"] == "constraints" else verdict
        for verdict in first.verdicts
    )
    stricter = patch.model_copy(update={"candidates": (first.model_copy(update={"verdicts": verdicts}),)})
    assert "--constraints" in apply_patch(stricter, file, 1).not_judged["constraints"]
    named = apply_patch(patch, file, 1, conditions=Conditions(constraints=(str(own),)))
    assert named.data is not None
