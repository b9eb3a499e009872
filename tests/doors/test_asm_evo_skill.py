"""`asm-evo-skill`: one step of a build; its log, what it leaves alone, and bad input."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from compiled_programs import all_files
from typer.testing import CliRunner, Result

from asmevo.doors.asm_evo_skill import app
from asmevo.program import open_program
from asmevo.search import Ledger

runner = CliRunner()


def _source(root: Path, name: str) -> Path:
    path = root / Path(name).name
    path.write_bytes(all_files()[name])
    return path


def _evolve(root: Path, source: Path, *more: str) -> Result:
    words = ["--input", str(source), "--output", str(root / "out.s"), "--ledger", str(root / "ledger"), *more]
    return runner.invoke(app, words)


def test_one_step_from_a_file_to_a_faster_verified_one(tmp_path: Path) -> None:
    source = _source(tmp_path, "gfx90a/three_kernels.s")
    result = _evolve(tmp_path, source, "--gpu", "gfx90a", "--rocm", "6.1.3", "--budget", "16", "--verbose")
    assert result.exit_code == 0, result.output
    old, new = open_program(source), open_program(tmp_path / "out.s")
    better = {one.name for one, other in zip(old.kernels, new.kernels, strict=True) if one.hash != other.hash}
    assert better
    lines = result.output.splitlines()
    assert all(line.startswith("asm-evo-skill: ") for line in lines)
    for kernel in old.select():
        own = [line for line in lines if f"kernel {kernel.name}: " in line]
        assert any(re.search(rf"{len(kernel.blocks)} blocks, \d+ in loops, \d+ instr", line) for line in own)
        assert any("passed all gates (run " in line for line in own)
        told = [line for line in own if re.search(r": VGPRs \d+ -> \d+ \([+-]\d+\), occupancy \d+ waves", line)]
        assert bool(told) == (kernel.name in better)
        assert any("estimated gain" in line for line in own) == (kernel.name in better)
        assert any("gates passed: assemble, constraints, waits" in line for line in own) == (kernel.name in better)
        assert any("nothing better was found" in line for line in own) == (kernel.name not in better)
    assert sum("  edit: {" in line for line in lines) >= len(better)
    assert sum("  gate equivalence: accepted" in line for line in lines) == len(better)
    assert f"{len(better)} of {len(old.select())} kernels are faster" in lines[-1]


def test_nothing_better_is_the_same_file_and_a_good_exit(tmp_path: Path) -> None:
    source = tmp_path / "small.s"
    text = '.amdgcn_target "amdgcn-amd-amdhsa--gfx90a"\n.text\n.globl f\n.type f,@function\nf:\n  s_endpgm ; the end\n'
    source.write_text(text)
    result = _evolve(tmp_path, source, "--budget", "1s")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "out.s").read_text() == text
    assert result.output.splitlines()[-1].endswith(f"nothing better was found, it equals {source}")
    assert "kernel f: nothing better was found, left as it is: " in result.output


def test_the_switch_is_among_the_constraints(tmp_path: Path) -> None:
    source = _source(tmp_path, "gfx90a/saxpy.s")
    result = _evolve(tmp_path, source, "--budget", "1s", "--no-mac-merge", "--debug-constraint")
    assert result.exit_code == 0, result.output
    assert "no_mac_merge" in result.output
    ledger = Ledger(tmp_path / "ledger")
    (run,) = ledger.runs()
    judged = [v["reason"] for body in ledger.candidates(run) for v in body["verdicts"] if v["gate"] == "constraints"]
    assert all("no_mac_merge" in reason for reason in judged)
    assert "no_mac_merge" not in _evolve(tmp_path, source, "--budget", "1s").output


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--gpu", "gfx1100"), "gfx90a"),
        (("--gpu", "gfx9999"), "gfx9999"),
        (("--rocm", "six"), "six"),
        (("--kernel", "nobody"), "no kernel matches `nobody`"),
        (("--model-path", "/no/such/model"), "no directory of a model"),
        (("--prompt-template", "mine.txt"), "needs a model"),
    ],
)
def test_bad_options_are_one_sentence(more: tuple[str, ...], words: str, tmp_path: Path) -> None:
    result = _evolve(tmp_path, _source(tmp_path, "gfx90a/saxpy.s"), *more)
    assert result.exit_code == 2, result.output
    assert words in result.output.splitlines()[-1]
    assert not (tmp_path / "out.s").exists()


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"hello there\n", b"\xff\xfe\x00", None])
def test_bad_files_are_one_sentence(data: bytes | None, tmp_path: Path) -> None:
    source = tmp_path / "in.s"
    if data is not None:
        source.write_bytes(data)
    result = _evolve(tmp_path, source, "--gpu", "gfx90a")
    assert result.exit_code == 2, result.output
    assert result.output.startswith(f"asmevo: {source}")
    assert len(result.output.strip().splitlines()) == 1
    assert not (tmp_path / "out.s").exists()
