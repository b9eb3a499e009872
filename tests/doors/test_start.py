"""The entry point loads the module of one command, and knows of every command where it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from asmevo.doors.cli import app
from asmevo.doors.start import MODULES


def test_every_command_is_known_by_the_module_that_registers_it() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    assert set(MODULES) == set(commands)
    for info in app.registered_commands:
        assert info.callback is not None
        name = info.name or info.callback.__name__.replace("_", "-")
        assert info.callback.__module__ == f"asmevo.doors.{MODULES[name]}"


LOADED = "import sys\nfrom asmevo.doors.start import main\ntry: main()\nfinally: print(*sys.modules, file=sys.stderr)"


@pytest.mark.parametrize("word", ["check", "nonsense", "--help"])
def test_the_start_loads_what_the_command_needs(word: str) -> None:
    done = subprocess.run([sys.executable, "-c", LOADED, word, "--help"], capture_output=True, text=True, check=False)
    assert ("asmevo.doors.prove_command" in done.stderr) == (word != "check")
    assert done.returncode == (2 if word == "nonsense" else 0)


def test_a_check_of_a_plain_kernel_does_without_what_takes_long_to_load(tmp_path: Path) -> None:
    """numpy alone is a third of a start."""
    source = tmp_path / "plain.s"
    source.write_text('.amdgcn_target "amdgcn-amd-amdhsa--gfx942"\nf:\n  v_add_u32_e32 v0, v0, v1\n  s_endpgm\n')
    command = [sys.executable, "-c", LOADED, "check", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert set(done.stderr.split()).isdisjoint({"numpy", "llvmlite", "bitwuzla", "httpx", "bokeh"})
