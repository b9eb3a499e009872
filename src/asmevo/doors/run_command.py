"""`asmevo run`: one launch, on the emulator or on a real GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from asmevo.doors.application import File, Gpu, Json, RunLimit, app, print_json
from asmevo.doors.exits import BAD_INPUT, DEFINITE_NO, GOOD, sentences
from asmevo.doors.gpu import SECONDS, Device, DeviceName, TimeLimit, session


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
    device: DeviceName = Device.EMULATOR,
    time_limit: TimeLimit = SECONDS,
    limit: RunLimit = 200_000_000,
    as_json: Json = False,
) -> None:
    """Runs one launch and compares its results with those the manifest expects."""
    if device is Device.HIP:
        if asynchronous or seed or trace:
            typer.echo(
                "asmevo: --async, --seed and --trace are the emulator's; leave them out with --device hip", err=True
            )
            raise typer.Exit(BAD_INPUT)
        raise typer.Exit(_on_a_gpu(file, launch, gpu, time_limit, as_json))
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


def _on_a_gpu(file: Path, manifest_file: Path, gpu: str | None, seconds: float, as_json: bool) -> int:
    from asmevo.emulator import read_manifest
    from asmevo.hardware import launch
    from asmevo.program import open_program

    with sentences():
        manifest = read_manifest(manifest_file)
        program = open_program(file, gpu=gpu)
        result = launch(session(seconds), program, program.kernel(manifest.symbol), manifest)
    if as_json:
        print_json({"kernel": manifest.symbol, "target": program.target.name} | result.to_dict())
    else:
        typer.echo(f"{manifest.symbol} on {result.device}: {result}")
        for problem in result.problems[1:]:
            typer.echo(f"  {problem}")
    return DEFINITE_NO if result.problems else GOOD
