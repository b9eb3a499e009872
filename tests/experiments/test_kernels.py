"""The experiment's kernels, in both languages from one source, against numpy on the emulator."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import launches
import pytest

from asmevo.compiler import compile_source
from asmevo.emulator import Outcome, read_manifest, run
from asmevo.toolchain import ToolchainMissingError
from asmevo.toolchain.staged_compiler import StagedCompiler, staged_compiler

KERNELS = Path(launches.__file__).parent / "kernels"
NAMES = ("fused_mlp", "attention_decode", "attention_decode_one_wave")
QUICK = [("gfx1100", ".cl"), ("gfx942", ".hip")]
REST = [(gpu, suffix) for gpu in launches.TARGETS for suffix in (".cl", ".hip") if (gpu, suffix) not in QUICK]


@cache
def _compiler() -> StagedCompiler:
    try:
        found = staged_compiler()
    except ToolchainMissingError as error:
        pytest.skip(str(error))
    if found.clang is None:
        pytest.skip("no clang of llc's version")
    return found


def _outcome(source: Path, gpu: str) -> tuple[Outcome, tuple[str, ...]]:
    compilation = compile_source(source, gpu, _compiler())
    program = compilation.program(compilation.assembly, source.name)
    manifest = read_manifest(launches.MANIFESTS / f"{source.stem.removesuffix('_one_wave')}.json")
    result = run(program, program.kernel(manifest.symbol), manifest)
    return result.outcome, result.problems


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("gpu", "suffix"), [*QUICK, *(pytest.param(*each, marks=pytest.mark.long) for each in REST)])
def test_a_kernel_matches_numpy(name: str, gpu: str, suffix: str) -> None:
    assert _outcome(KERNELS / f"{name}{suffix}", gpu) == (Outcome.MATCHES, ())


MISTAKES = {
    "fused_mlp": ("sums[i][j] += a[i] * b[j]", "sums[i][j] += a[j] * b[i]"),
    "attention_decode": ("i += ITEMS", "i += ITEMS + 1"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_wrong_kernel_differs(name: str, tmp_path: Path) -> None:
    right, wrong = MISTAKES[name]
    text = (KERNELS / f"{name}.cl").read_text()
    assert right in text
    (tmp_path / "device.h").write_text((KERNELS / "device.h").read_text())
    (tmp_path / f"{name}.cl").write_text(text.replace(right, wrong))
    assert _outcome(tmp_path / f"{name}.cl", "gfx1100")[0] in (Outcome.DIFFERS, Outcome.FAULT)


@pytest.mark.parametrize("name", launches.LAUNCHES)
def test_the_manifests_are_what_numpy_gives(name: str) -> None:
    wanted = launches.text(launches.complete(launches.LAUNCHES[name]()))
    assert (launches.MANIFESTS / f"{name}.json").read_text() == wanted


def test_hints_to_the_compiler_take_effect() -> None:
    """The one-wave variant may use every register, and does use more."""
    used = {}
    for name in NAMES[1:]:
        compilation = compile_source(KERNELS / f"{name}.cl", "gfx942", _compiler())
        kernel = compilation.program(compilation.assembly, name).kernel("attention_decode")
        used[name] = int((kernel.metadata or {})[".vgpr_count"])
    assert used["attention_decode_one_wave"] > used["attention_decode"]
