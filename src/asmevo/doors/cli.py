"""The command line. Each command reads, asks the rooms below, and prints; it decides nothing itself.

Heavy imports stand inside the commands, so that `asmevo --help` and every start stay quick.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from asmevo.doors.exits import BAD_INPUT, DEFINITE_NO, GOOD, sentences

app = typer.Typer(
    name="asmevo",
    help="Makes AMD GPU kernels faster at the instruction level and never ships a change it could not verify.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

_File = Annotated[Path, typer.Argument(help="A code object (.hsaco, .co, .o) or LLVM-syntax assembly (.s).")]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
_Kernel = Annotated[str | None, typer.Option("--kernel", "-k", help="Only kernels whose name matches this glob.")]
_Gpu = Annotated[str | None, typer.Option("--gpu", help="The target, where the file does not name one.")]
_Out = Annotated[Path, typer.Option("-o", "--output", help="The file to write.")]


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=1))


@app.command()
def doctor(as_json: _Json = False) -> None:
    """What is installed, what each missing part would add, and how to get it."""
    from asmevo.doors.doctor import examine
    from asmevo.report.tables import print_doctor

    parts = examine()
    if as_json:
        _print_json([part.to_dict() for part in parts])
    else:
        print_doctor(parts)
    raise typer.Exit(GOOD if all(part.found or part.optional for part in parts) else DEFINITE_NO)


@app.command()
def targets(
    name: Annotated[str | None, typer.Argument(help="Show this GPU's facts with their sources.")] = None,
    as_json: _Json = False,
) -> None:
    """Supported GPUs and their facts with sources."""


    from asmevo.report.tables import print_target, print_targets
    from asmevo.target import describe, load_target, target_names

    with sentences():
        if name is None:
            found = [load_target(each) for each in target_names()]
            if as_json:
                _print_json([{"name": t.name, "products": t.products.value, "family": t.family.value} for t in found])
            else:
                print_targets(found)
            return
        target = load_target(name)
        rows = describe(target)
        if as_json:
            _print_json({"name": target.name, "facts": [row._asdict() for row in rows]})
        else:
            print_target(target, rows)


@app.command()
def inspect(file: _File, kernel: _Kernel = None, gpu: _Gpu = None, as_json: _Json = False) -> None:
    """One line a kernel: instructions, registers, LDS, scratch, occupancy and what limits it."""
    from asmevo.program import open_program
    from asmevo.report.inspection import inspect_kernel
    from asmevo.report.tables import print_inspection

    with sentences():
        program = open_program(file, gpu=gpu)
        rows = [inspect_kernel(each) for each in program.select(kernel)]
    if as_json:
        _print_json({"file": str(file), "target": program.target.name, "notes": list(program.notes), "kernels": rows})
    else:
        print_inspection(program, rows)


@app.command()
def check(file: _File, kernel: _Kernel = None, gpu: _Gpu = None, as_json: _Json = False) -> None:
    """Waits, hazards, registers and ABI of every kernel and function, with the mend for each finding."""
    from asmevo.checks import check_kernel
    from asmevo.program import open_program
    from asmevo.report.tables import print_findings

    with sentences():
        program = open_program(file, gpu=gpu)
        chosen = program.kernels if kernel is None else program.select(kernel)
        findings = [(each, check_kernel(each)) for each in chosen]
    if as_json:
        _print_json([finding.to_dict() for _, found in findings for finding in found])
    else:
        print_findings(program, findings)
    blocked = any(finding.severity.value == "error" for _, found in findings for finding in found)
    raise typer.Exit(DEFINITE_NO if blocked else GOOD)


@app.command()
def disasm(file: _File, output: _Out, gpu: _Gpu = None) -> None:
    """Writes assembly text that `asmevo asm` turns into the same bytes."""
    from asmevo.program import disassemble, open_program, write_file_atomically

    with sentences():
        text = disassemble(open_program(file, gpu=gpu))
        write_file_atomically(output, text.encode())


@app.command()
def asm(file: _File, output: _Out, gpu: _Gpu = None) -> None:
    """Assembles and links LLVM-syntax text into a code object."""
    from asmevo.program import assemble_text, write_file_atomically

    with sentences():
        try:
            text = file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            typer.echo(f"asmevo: {file}: not text", err=True)
            raise typer.Exit(BAD_INPUT) from None
        write_file_atomically(output, assemble_text(text, str(file), gpu=gpu))


@app.command(name="run")
def run_launch(
    file: _File,
    launch: Annotated[Path, typer.Option("--launch", help="The launch manifest (JSON, see docs/manifests.md).")],
    gpu: _Gpu = None,
    seed: Annotated[int, typer.Option(help="0 runs waves in order; other seeds interleave them at random.")] = 0,
    trace: Annotated[bool, typer.Option("--trace", help="Print each instruction that runs.")] = False,
    limit: Annotated[int, typer.Option(help="Wave-instructions after which a run is given up.", min=1)] = 200_000_000,
    as_json: _Json = False,
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
            limits=Limits(instructions=limit), seed=seed, watch=trace_to_stderr if trace else None
        )
        result = emulate(program, program.kernel(manifest.symbol), manifest, options=options)
    if as_json:
        _print_json({"kernel": manifest.symbol, "target": program.target.name} | result.to_dict())
    else:
        typer.echo("\n".join(run_lines(manifest.symbol, result)))
    raise typer.Exit(exit_code(result.outcome))


@app.command()
def optimize(
    file: _File,
    output: Annotated[Path, typer.Option("-o", "--output", help="The patch to write.")],
    kernel: _Kernel = None,
    gpu: _Gpu = None,
    level: Annotated[str, typer.Option(help="draft or standard: which gates a candidate must pass.")] = "standard",
    budget: Annotated[float, typer.Option(help="Seconds to search.", min=1.0)] = 45.0,
    seed: Annotated[int, typer.Option(help="The same seed tries the same things in the same order.")] = 0,
    launch: Annotated[Path | None, typer.Option(help="A launch manifest: offers also run on the emulator.")] = None,
    ledger: Annotated[Path, typer.Option(help="Where runs are recorded.")] = Path(".asmevo") / "runs",
    as_json: _Json = False,
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
        _print_json(json.loads(run.patch.to_json()) | {"run": run.id})
    else:
        print_patch(run.patch, run)
    raise typer.Exit(GOOD if run.patch.candidates else DEFINITE_NO)


@app.command()
def apply(
    patch: Annotated[Path, typer.Argument(help="A patch that `asmevo optimize` wrote.")],
    file: _File,
    output: _Out,
    candidate: Annotated[int, typer.Option(help="Which of the patch's candidates, best first.", min=1)] = 1,
    gpu: _Gpu = None,
    as_json: _Json = False,
) -> None:
    """Writes the patched file; refuses a file that is not the patch's base, and judges the candidate again."""
    from asmevo.program import write_file_atomically
    from asmevo.search import apply_patch, read_patch

    with sentences():
        applied = apply_patch(read_patch(patch), file, candidate, gpu=gpu)
        if applied.data is not None:
            write_file_atomically(output, applied.data)
    if as_json:
        _print_json({"written": str(output) if applied.data else None, "verdicts": applied.verdicts})
    elif applied.data is not None:
        typer.echo(f"{output}: candidate {candidate} of {patch}, {len(applied.verdicts)} gates passed")
    else:
        last = applied.verdicts[-1]
        typer.echo(f"asmevo: {patch}: gate {last['gate']} {last['kind']}: {last['reason']}", err=True)
    raise typer.Exit(GOOD if applied.data is not None else DEFINITE_NO)


def main() -> None:
    """The entry point of the `asmevo` command."""
    app()
