"""`asmevo check`: what is wrong with programs, where, on which path, and how to mend it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from asmevo.doors.application import Constraints, DebugConstraint, Gpu, Json, KernelGlob, Rocm, app, print_json
from asmevo.doors.exits import BAD_INPUT, sentences

Files = Annotated[
    list[Path] | None,
    typer.Argument(metavar="FILE...", help="Code objects (.hsaco, .co, .o) or LLVM-syntax assembly (.s)."),
]


@app.command()
def check(
    files: Files = None,
    kernel: KernelGlob = None,
    gpu: Gpu = None,
    wave_size: Annotated[
        int | None, typer.Option("--wave-size", help="Lanes of a wave, where the code does not say.")
    ] = None,
    rocm: Rocm = None,
    constraints: Constraints = None,
    suppress: Annotated[
        list[Path] | None, typer.Option("--suppress", help="A file of suppressions with reasons (repeatable).")
    ] = None,
    explain: Annotated[
        str | None, typer.Option("--explain", metavar="RULE", help="Print what a rule means; `all` lists them.")
    ] = None,
    debug_constraint: DebugConstraint = False,
    as_json: Json = False,
    as_sarif: Annotated[bool, typer.Option("--sarif", help="Print SARIF 2.1.0 for code scanning.")] = False,
) -> None:
    """Waits, hazards, registers, ABI, races and constraints of every kernel and function, with mends."""
    from asmevo.doors.checking import check_files, exit_code, explain_rule

    if explain is not None:
        raise typer.Exit(explain_rule(explain))
    if not files:
        typer.echo("asmevo: name a file to check, or a rule with --explain", err=True)
        raise typer.Exit(BAD_INPUT)
    if as_json and as_sarif:
        typer.echo("asmevo: choose one of --json and --sarif", err=True)
        raise typer.Exit(BAD_INPUT)

    from asmevo.checks.file_report import CheckOptions, unused_in_files
    from asmevo.checks.suppression import read_suppressions
    from asmevo.report.findings import json_document, text_lines
    from asmevo.report.sarif import sarif_document

    with sentences():
        rows = tuple(row for file in suppress or () for row in read_suppressions(file))
        sets = tuple(map(str, constraints or ()))
        reports = check_files(files, CheckOptions(kernel, gpu, wave_size, rocm, sets, rows))
    others = unused_in_files(rows, reports)
    if as_json:
        print_json(json_document(reports, others))
    elif as_sarif:
        print_json(sarif_document(reports, others))
    else:
        sys.stdout.writelines(f"{line}\n" for line in text_lines(reports, others, debug_constraint))
    for report in reports:
        if report.error:
            typer.echo(f"asmevo: {report.error}", err=True)
    raise typer.Exit(exit_code(reports))
