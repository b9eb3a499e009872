"""What `asmevo check` adds to checking one file: many files on all cores, exit codes, rules by name."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from asmevo.checks.constraints import check_constraint_files
from asmevo.checks.file_report import CheckOptions, FileReport, check_file
from asmevo.checks.registry import rules
from asmevo.doors.exits import BAD_INPUT, DEFINITE_NO, GOOD, UNDECIDED
from asmevo.report.findings import rule_lines

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

_CHUNKS_A_CORE = 8


def check_files(files: Sequence[Path], options: CheckOptions) -> list[FileReport]:
    """One report a file, in their order. Raises DocumentError for constraints that cannot be read."""
    check_constraint_files(options.constraints, options.rocm)
    work = partial(check_file, options=options)
    cores = min(len(os.sched_getaffinity(0)), len(files))
    return [work(file) for file in files] if cores < 2 else _in_processes(work, files, cores)


def _in_processes(work: Callable[[Path], FileReport], files: Sequence[Path], cores: int) -> list[FileReport]:
    """On all cores; a file that ends its process is told from the others."""
    from concurrent.futures.process import BrokenProcessPool

    try:
        with _pool(cores) as pool:
            return list(pool.map(work, files, chunksize=-(-len(files) // (cores * _CHUNKS_A_CORE))))
    except BrokenProcessPool:
        return [_alone(work, file) for file in files]


def _pool(cores: int) -> ProcessPoolExecutor:
    """Nothing runs beside the command yet when a pool starts, so a fork is safe, and it shares what is loaded."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    return ProcessPoolExecutor(cores, mp_context=multiprocessing.get_context("fork"))


def _alone(work: Callable[[Path], FileReport], file: Path) -> FileReport:
    from concurrent.futures.process import BrokenProcessPool

    try:
        with _pool(1) as pool:
            return pool.submit(work, file).result()
    except BrokenProcessPool:
        return FileReport(str(file), error=f"{file}: the process that read it was ended from outside or crashed")


def exit_code(reports: Sequence[FileReport]) -> int:
    """Bad input wins, then errors, then what could not be decided: an instruction without a meaning."""
    if any(report.error for report in reports):
        return BAD_INPUT
    if any(report.has_errors for report in reports):
        return DEFINITE_NO
    return UNDECIDED if any(report.is_undecided for report in reports) else GOOD


def explain_rule(id_: str) -> int:
    """Prints the documentation of a rule, or of `all` one line each; the exit code."""
    known = rules()
    if id_ == "all":
        for rule in known.values():
            typer.echo(f"{rule.id:32} {rule.severity:8} {rule.title}")
        return GOOD
    if id_ in known:
        typer.echo("\n".join(rule_lines(known[id_])))
        return GOOD
    near = get_close_matches(id_, known, 1)
    hint = f"did you mean {near[0]}?" if near else "`--explain all` lists them"
    typer.echo(f"asmevo: there is no rule `{id_}`; {hint}", err=True)
    return BAD_INPUT
