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
    as_json: Json = False,
) -> None:
    """Replays traces of real GPUs: how many issue gaps the model predicts, beside how far two runs agree."""
    from asmevo.program import write_file_atomically
    from asmevo.report.validation import by_kernel, validation_lines, validation_report
    from asmevo.timing.validation import validate as replay_all

    with sentences():
        rows = list(replay_all(traces)) if traces.is_dir() else []
        if not rows:
            typer.echo(f"asmevo: {traces}: no traces (TARGET/KERNEL/RUN.jsonl.gz)", err=True)
            raise typer.Exit(BAD_INPUT)
        kernels = by_kernel(rows)
        if report is not None:
            write_file_atomically(report, validation_report(kernels).encode())
    if as_json:
        print_json([row.to_dict() for row in rows])
    else:
        typer.echo("\n".join(validation_lines(kernels)))
