"""The one typer application, the arguments that commands share, and the one way to print JSON.

A command's module imports `app` and registers itself; `cli` imports the modules. A command reads, asks the rooms
below, and prints; it decides nothing itself. Heavy imports stand inside the commands, so that `asmevo --help` and
every start stay quick.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from asmevo.doors.exits import BAD_INPUT

app = typer.Typer(
    name="asmevo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

File = Annotated[Path, typer.Argument(help="A code object (.hsaco, .co, .o) or LLVM-syntax assembly (.s).")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
KernelGlob = Annotated[str | None, typer.Option("--kernel", "-k", help="Only kernels whose name matches this glob.")]


def gpu_asked_for(name: str | None) -> str | None:
    """The target that `--gpu` means: `auto` is that of the machine's GPU."""
    if name != AUTO:
        return name
    from asmevo.doors.exits import sentences
    from asmevo.hardware import find_device

    with sentences():
        return find_device().target


AUTO = "auto"
Gpu = Annotated[
    str | None,
    typer.Option(
        "--gpu", help="The target, where the file does not name one; `auto` asks the machine.", callback=gpu_asked_for
    ),
]
Constraints = Annotated[
    list[Path] | None, typer.Option("--constraints", help="A constraint set over the built-in one (repeatable).")
]
WholeWaves = Annotated[
    bool, typer.Option("--whole-waves", help="Your word that no launch has a wave with lanes missing.")
]
RunLimit = Annotated[int, typer.Option(help="Wave-instructions after which a run is given up.", min=1)]
Rocm = Annotated[str | None, typer.Option("--rocm", help="The ROCm release whose built-in constraints hold.")]
DebugConstraint = Annotated[
    bool, typer.Option("--debug-constraint", help="Print the failing edge, its condition and the state it saw.")
]


def writable(output: Path) -> Path:
    """The file to write, refused before the work and not behind it where it cannot be written."""
    place = output.parent
    refusal = ""
    if output.is_dir():
        refusal = f"{output}: a directory, not a file"
    elif not place.is_dir():
        refusal = f"{output}: there is no directory {place}"
    elif not os.access(output if output.exists() and not output.is_file() else place, os.W_OK):
        refusal = f"{output}: it may not be written"
    if refusal:
        print(f"asmevo: {refusal}", file=sys.stderr)
        raise typer.Exit(BAD_INPUT)
    return output


Output = Annotated[Path, typer.Option("-o", "--output", help="The file to write.", callback=writable)]


def say_written(output: Path, words: str) -> None:
    """Says what `output` now holds; on standard error where that is a pipe or a device, whose reader wants the data."""
    typer.echo(words, err=not output.is_file())


@app.callback()
def asmevo() -> None:
    """Makes AMD GPU kernels faster at the instruction level and never ships a change it could not verify."""


def print_json(value: Any) -> None:
    """Writes `value` as JSON to standard output."""
    typer.echo(json.dumps(value, indent=1))
