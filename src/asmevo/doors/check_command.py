"""`asmevo check`: what is wrong with a program, where, and how to mend it."""

from __future__ import annotations

import typer

from asmevo.doors.application import File, Gpu, Json, KernelGlob, app, print_json
from asmevo.doors.exits import DEFINITE_NO, GOOD, sentences


@app.command()
def check(file: File, kernel: KernelGlob = None, gpu: Gpu = None, as_json: Json = False) -> None:
    """Waits, hazards, registers and ABI of every kernel and function, with the mend for each finding."""
    from asmevo.checks import check_kernel
    from asmevo.program import open_program
    from asmevo.report.tables import print_findings

    with sentences():
        program = open_program(file, gpu=gpu)
        chosen = program.kernels if kernel is None else program.select(kernel)
        findings = [(each, check_kernel(each)) for each in chosen]
    if as_json:
        print_json([finding.to_dict() for _, found in findings for finding in found])
    else:
        print_findings(program, findings)
    blocked = any(finding.severity.value == "error" for _, found in findings for finding in found)
    raise typer.Exit(DEFINITE_NO if blocked else GOOD)
