"""Commands that change kernels: `optimize` searches and writes a patch, `apply` brings it into a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from asmevo.doors.application import File, Gpu, Json, KernelGlob, Output, app, print_json
from asmevo.doors.exits import BAD_INPUT, DEFINITE_NO, GOOD, sentences


@app.command()
def optimize(
    file: File,
    output: Annotated[Path, typer.Option("-o", "--output", help="The patch to write.")],
    kernel: KernelGlob = None,
    gpu: Gpu = None,
    level: Annotated[str, typer.Option(help="draft or standard: which gates a candidate must pass.")] = "standard",
    budget: Annotated[float, typer.Option(help="Seconds to search.", min=1.0)] = 45.0,
    seed: Annotated[int, typer.Option(help="The same seed tries the same things in the same order.")] = 0,
    launch: Annotated[Path | None, typer.Option(help="A launch manifest: offers also run on the emulator.")] = None,
    ledger: Annotated[Path, typer.Option(help="Where runs are recorded.")] = Path(".asmevo") / "runs",
    as_json: Json = False,
) -> None:
    """Searches for faster versions of one kernel; every offer has passed all gates."""
    from asmevo.emulator import read_manifest
    from asmevo.program import KernelNotFoundError, open_program, write_file_atomically
    from asmevo.report.progress import search_progress
    from asmevo.report.tables import print_patch
    from asmevo.search import Ledger, Level, SearchOptions
    from asmevo.search import optimize as search

    with sentences():
        if level not in {each.value for each in Level}:
            typer.echo(f"asmevo: --level is one of {', '.join(e.value for e in Level)}, not {level}", err=True)
            raise typer.Exit(BAD_INPUT)
        program = open_program(file, gpu=gpu)
        chosen = program.select(kernel)
        if len(chosen) != 1:
            names = ", ".join(each.name for each in chosen)
            raise KernelNotFoundError(str(file), f"choose one kernel with --kernel; there are: {names}")
        manifest = read_manifest(launch) if launch is not None else None
        options = SearchOptions(level=Level(level), budget=budget, seed=seed, launch=manifest)
        with search_progress(quiet=as_json) as tell:
            run = search(program, chosen[0], options, Ledger(ledger), tell)
        write_file_atomically(output, run.patch.to_json().encode())
    if as_json:
        print_json(json.loads(run.patch.to_json()) | {"run": run.id})
    else:
        print_patch(run.patch, run)
    raise typer.Exit(GOOD if run.patch.candidates else DEFINITE_NO)


@app.command()
def apply(
    patch: Annotated[Path, typer.Argument(help="A patch that `asmevo optimize` wrote.")],
    file: File,
    output: Output,
    candidate: Annotated[int, typer.Option(help="Which of the patch's candidates, best first.", min=1)] = 1,
    gpu: Gpu = None,
    as_json: Json = False,
) -> None:
    """Writes the patched file; refuses a file that is not the patch's base, and judges the candidate again."""
    from asmevo.program import write_file_atomically
    from asmevo.search import apply_patch, read_patch

    with sentences():
        applied = apply_patch(read_patch(patch), file, candidate, gpu=gpu)
        if applied.data is not None:
            write_file_atomically(output, applied.data)
    if as_json:
        print_json({"written": str(output) if applied.data else None, "verdicts": applied.verdicts})
    elif applied.data is not None:
        typer.echo(f"{output}: candidate {candidate} of {patch}, {len(applied.verdicts)} gates passed")
    else:
        last = applied.verdicts[-1]
        typer.echo(f"asmevo: {patch}: gate {last['gate']} {last['kind']}: {last['reason']}", err=True)
    raise typer.Exit(GOOD if applied.data is not None else DEFINITE_NO)
