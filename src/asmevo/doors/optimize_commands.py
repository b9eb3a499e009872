"""Commands that change kernels: `optimize` searches and writes a patch, `apply` brings it into a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from asmevo.doors.application import (
    Constraints,
    DebugConstraint,
    File,
    Gpu,
    Json,
    KernelGlob,
    Output,
    Rocm,
    WholeWaves,
    app,
    print_json,
    say_written,
    writable,
)
from asmevo.doors.exits import BAD_INPUT, DEFINITE_NO, GOOD, sentences
from asmevo.doors.gpu import release_witness
from asmevo.doors.proposing import (
    Adapter,
    LlmModel,
    LlmUrl,
    ModelPath,
    PromptFile,
    ProposerCommands,
    ProposerNames,
    Wanted,
    own_proposers,
    say_if_no_model,
)
from asmevo.doors.searching import (
    DEFAULT_BUDGET,
    BudgetText,
    BuiltInNames,
    ExecutorName,
    FloatingPoint,
    Workers,
    budget_of,
    built_in_of,
    policy_of,
)
from asmevo.doors.templates_command import TemplateFiles, own_templates

if TYPE_CHECKING:
    from asmevo.search import Conditions, Patch


@app.command()
def optimize(
    file: Annotated[Path, typer.Argument(help="A program as everywhere, or a slice: then only its blocks change.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The patch to write.", callback=writable)],
    kernel: KernelGlob = None,
    gpu: Gpu = None,
    level: Annotated[
        str, typer.Option(help="draft, standard or release (with --launch): which gates a candidate must pass.")
    ] = "standard",
    budget: BudgetText = DEFAULT_BUDGET,
    seed: Annotated[int, typer.Option(help="The same seed tries the same when the budget is in candidates.")] = 0,
    proposers: BuiltInNames = None,
    fp: FloatingPoint = "exact",
    workers: Workers = 1,
    executor: ExecutorName = "processes",
    launch: Annotated[Path | None, typer.Option(help="A launch manifest: offers also run on the emulator.")] = None,
    ledger: Annotated[Path, typer.Option(help="Where runs are recorded.")] = Path(".asmevo"),
    constraints: Constraints = None,
    whole_waves: WholeWaves = False,
    proposer_command: ProposerCommands = None,
    proposer: ProposerNames = None,
    llm_url: LlmUrl = None,
    llm_model: LlmModel = None,
    model_path: ModelPath = None,
    adapter: Adapter = None,
    prompt_template: PromptFile = None,
    templates: TemplateFiles = None,
    rocm: Rocm = None,
    debug_constraint: DebugConstraint = False,
    as_json: Json = False,
) -> None:
    """Searches for faster versions of one kernel; every offer has passed all gates."""
    from asmevo.checks.constraints import constraints_for
    from asmevo.emulator import read_manifest
    from asmevo.program import open_program, write_file_atomically
    from asmevo.report.findings import edge_lines
    from asmevo.report.progress import search_progress
    from asmevo.report.tables import print_patch
    from asmevo.search import Ledger, Level, SearchOptions
    from asmevo.search import optimize as search
    from asmevo.search.slice import is_slice, open_slice

    wanted = Wanted(
        tuple(proposer_command or ()), tuple(proposer or ()), llm_url, llm_model, model_path, adapter, prompt_template
    )
    with sentences():
        if level not in {each.value for each in Level}:
            typer.echo(f"asmevo: --level is one of {', '.join(e.value for e in Level)}, not {level}", err=True)
            raise typer.Exit(BAD_INPUT)
        if is_slice(file):
            if kernel is not None:
                typer.echo("asmevo: a slice names its kernel; leave --kernel out", err=True)
                raise typer.Exit(BAD_INPUT)
            program, chosen, windows = open_slice(file, gpu)
        else:
            program = open_program(file, gpu=gpu)
            chosen, windows = program.only(kernel), ()
        manifest = read_manifest(launch) if launch is not None else None
        hardware, no_hardware = None, ""
        if level == Level.RELEASE.value and manifest is not None:
            hardware, no_hardware = release_witness(program, chosen, manifest, policy_of(fp))
        limit, policy = budget_of(budget), policy_of(fp)
        options = SearchOptions(
            level=Level(level),
            budget=limit,
            seed=seed,
            launch=manifest,
            constraints=constraints_for(chosen.target.name, tuple(map(str, constraints or ())), rocm),
            proposers=(*own_templates(templates or (), chosen, policy), *own_proposers(wanted, limit)),
            windows=windows,
            built_in=built_in_of(proposers),
            floating_point=policy,
            whole_waves=whole_waves,
            workers=workers,
            executor=executor,
            hardware=hardware,
            no_hardware=no_hardware,
        )
        with search_progress(quiet=as_json) as tell:
            records = Ledger(ledger)
            run = search(program, chosen, options, records, tell)
        write_file_atomically(output, run.patch.to_json().encode())
    if debug_constraint:
        for verdict in records.refusals(run.id, "constraints"):
            for edge in verdict["evidence"]["edges"]:
                typer.echo("\n".join(edge_lines(edge)), err=True)
    if as_json:
        print_json(json.loads(run.patch.to_json()) | run.to_dict())
    else:
        say_if_no_model(wanted)
        print_patch(run.patch, run)
    raise typer.Exit(GOOD if run.patch.candidates else DEFINITE_NO)


@app.command()
def apply(
    patch: Annotated[Path, typer.Argument(help="A patch that `asmevo optimize` wrote.")],
    file: File,
    output: Output,
    candidate: Annotated[int, typer.Option(help="Which of the patch's candidates, best first.", min=1)] = 1,
    gpu: Gpu = None,
    launch: Annotated[
        Path | None, typer.Option(help="A launch manifest: the candidate also runs again on the emulator.")
    ] = None,
    constraints: Constraints = None,
    rocm: Rocm = None,
    as_json: Json = False,
) -> None:
    """Writes the patched file; refuses a file that is not the patch's base, and judges the candidate again.

    With --launch all gates that the patch claims are asked again, at level release a GPU, too; without, those that need
    patch and file only, and the others are named.
    """
    from asmevo.program import write_file_atomically
    from asmevo.search import apply_patch, read_patch

    with sentences():
        read = read_patch(patch)
        conditions = _conditions(read, file, gpu, launch, tuple(map(str, constraints or ())), rocm)
        applied = apply_patch(read, file, candidate, gpu=gpu, conditions=conditions)
        if applied.data is not None:
            write_file_atomically(output, applied.data)
    if as_json:
        written = str(output) if applied.data else None
        print_json(
            {
                "written": written,
                "floating_point": read.floating_point,
                "verdicts": applied.verdicts,
                "not_judged": applied.not_judged,
            }
        )
    elif applied.data is not None:
        passed = f"{len(applied.verdicts)} gates passed, floating point {read.floating_point}"
        passed += "".join(f"\n  not judged again: {gate}: {why}" for gate, why in applied.not_judged.items())
        say_written(output, f"{output}: candidate {candidate} of {patch}, {passed}")
    else:
        last = applied.verdicts[-1]
        typer.echo(f"asmevo: {patch}: gate {last['gate']} {last['kind']}: {last['reason']}", err=True)
    raise typer.Exit(GOOD if applied.data is not None else DEFINITE_NO)


def _conditions(
    patch: Patch, file: Path, gpu: str | None, launch: Path | None, constraints: tuple[str, ...], rocm: str | None
) -> Conditions:
    """What the candidates of a patch are judged by; a GPU is asked only about a patch of level release."""
    from asmevo.emulator import read_manifest
    from asmevo.program import open_program
    from asmevo.prover import FloatPolicy
    from asmevo.search import Conditions, Level, patched_kernel

    if launch is None:
        return Conditions(constraints=constraints, rocm=rocm)
    manifest = read_manifest(launch)
    hardware, no_hardware = None, f"the patch's level is {patch.level}"
    if patch.level == Level.RELEASE.value:
        program, policy = open_program(file, gpu=gpu), FloatPolicy.named(patch.floating_point)
        hardware, no_hardware = release_witness(program, patched_kernel(patch, program), manifest, policy)
    return Conditions(manifest, hardware, no_hardware, constraints, rocm)
