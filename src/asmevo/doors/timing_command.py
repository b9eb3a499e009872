"""`asmevo timing validate`: the cycle model against traces of silicon."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from asmevo.doors.application import Json, app, print_json
from asmevo.doors.exits import BAD_INPUT, sentences

timing = typer.Typer(no_args_is_help=True, help="The cycle model itself.")
app.add_typer(timing, name="timing")


@timing.command()
def validate(
    traces: Annotated[Path, typer.Argument(help="A folder of traces (TARGET/KERNEL/RUN.jsonl.gz with code objects).")],
    report: Annotated[Path | None, typer.Option(help="Also write a Markdown report.")] = None,
    without_mca: Annotated[bool, typer.Option("--no-mca", help="Do not ask llvm-mca for the same gaps.")] = False,
    as_json: Json = False,
) -> None:
    """Replays traces of real GPUs: how many issue gaps the model predicts, beside two runs' agreement and llvm-mca."""
    from asmevo.program import write_file_atomically
    from asmevo.report.validation import validation_lines, validation_report
    from asmevo.timing.validation import validate as replay_all
    from asmevo.toolchain.mca import find_mca

    with sentences():
        second_opinion = not without_mca and find_mca() is not None
        if not without_mca and not second_opinion:
            typer.echo("asmevo: llvm-mca is not installed; its numbers are left out", err=True)
        rows = list(replay_all(traces, second_opinion)) if traces.is_dir() else []
        if not rows:
            typer.echo(f"asmevo: {traces}: no traces (TARGET/KERNEL/RUN.jsonl.gz)", err=True)
            raise typer.Exit(BAD_INPUT)
        if report is not None:
            write_file_atomically(report, validation_report(rows).encode())
    if as_json:
        print_json([row.to_dict() for row in rows])
    else:
        typer.echo("\n".join(validation_lines(rows)))
