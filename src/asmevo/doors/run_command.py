"""`asmevo run`: one launch on the emulator."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from asmevo.doors.application import File, Gpu, Json, RunLimit, app, print_json
from asmevo.doors.exits import sentences


@app.command(name="run")
def run_launch(
    file: File,
    launch: Annotated[Path, typer.Option("--launch", help="The launch manifest (JSON, see docs/manifests.md).")],
    gpu: Gpu = None,
    asynchronous: Annotated[
        bool,
        typer.Option(
            "--async", help="A value is there once the wave has waited for it; finds missing waits and races."
        ),
    ] = False,
    seed: Annotated[
        int, typer.Option(help="0 runs waves in order, others interleave them; with --async each is another course.")
    ] = 0,
    trace: Annotated[bool, typer.Option("--trace", help="Print each instruction that runs.")] = False,
    limit: RunLimit = 200_000_000,
    as_json: Json = False,
) -> None:
    """Emulates one launch and compares its results with those the manifest expects."""
    from asmevo.doors.running import exit_code, trace_to_stderr
    from asmevo.emulator import Limits, RunOptions, read_manifest
    from asmevo.emulator import run as emulate
    from asmevo.program import open_program
    from asmevo.report.emulation import run_lines

    with sentences():
        manifest = read_manifest(launch)
        program = open_program(file, gpu=gpu)
        options = RunOptions(
            limits=Limits(instructions=limit),
            seed=seed,
            asynchronous=asynchronous,
            watch=trace_to_stderr if trace else None,
        )
        result = emulate(program, program.kernel(manifest.symbol), manifest, options=options)
    if as_json:
        print_json({"kernel": manifest.symbol, "target": program.target.name} | result.to_dict())
    else:
        typer.echo("\n".join(run_lines(manifest.symbol, result)))
    raise typer.Exit(exit_code(result.outcome))
