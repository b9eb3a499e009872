"""The `asm-skill` command: slice, optimize, apply with file options; thin over the commands of `asmevo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from asmevo.doors import optimize_commands, slice_command
from asmevo.doors.application import writable
from asmevo.doors.exits import sentences
from asmevo.doors.searching import DEFAULT_BUDGET, BudgetText

app = typer.Typer(
    name="asm-skill",
    help="Slices a kernel, optimises the slice, applies the patch. Settings: ~/.asm-skill/config.yaml",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


@app.command(name="slice")
def slice_kernel(
    source: Annotated[Path, typer.Option("--input", help="A code object or LLVM-syntax assembly.")],
    output: Annotated[Path, typer.Option("--output", help="The slice to write.", callback=writable)],
    kernel: Annotated[str | None, typer.Option("--kernel", help="The kernel's name or glob.")] = None,
    profile: Annotated[Path | None, typer.Option(help="Thread-trace statistics (CSV); else the model's costs.")] = None,
    windows: Annotated[int, typer.Option(help="How many windows.", min=1)] = 1,
    as_json: Json = False,
) -> None:
    """Writes the hot windows of one kernel."""
    from asmevo.doors.skill_config import config_file, read_config

    with sentences():
        config = read_config()
        config.use_installation(config_file())
    slice_command.slice_kernel(source, output, kernel, config.gpu_target, profile, windows, as_json=as_json)


@app.command()
def optimize(
    slice_: Annotated[Path, typer.Option("--slice", help="A slice; its program stands where it stood, or beside it.")],
    output: Annotated[Path, typer.Option("--output", help="The patch to write.", callback=writable)],
    budget: BudgetText = DEFAULT_BUDGET,
    seed: Annotated[int, typer.Option(help="The same seed tries the same when the budget is in candidates.")] = 0,
    launch: Annotated[Path | None, typer.Option(help="A launch manifest: offers also run on the emulator.")] = None,
    as_json: Json = False,
) -> None:
    """Searches the slice's blocks for something faster; every offer has passed all gates."""
    from asmevo.doors.skill_config import config_file, read_config
    from asmevo.search.slice import read_slice

    with sentences():
        config = read_config()
        config.use_installation(config_file())
        wanted = config.wanted(config_file())
        read_slice(slice_)
    optimize_commands.optimize(
        slice_,
        output,
        gpu=config.gpu_target,
        budget=budget,
        seed=seed,
        launch=launch,
        ledger=config.ledger,
        proposer_command=list(wanted.commands),
        llm_url=wanted.llm_url,
        llm_model=wanted.llm_model,
        model_path=wanted.model_path,
        adapter=wanted.adapter,
        prompt_template=wanted.prompt_template,
        templates=config.template_files(),
        rocm=config.rocm(),
        as_json=as_json,
    )


@app.command()
def apply(
    patch: Annotated[Path, typer.Option("--patch", help="A patch that `optimize` wrote.")],
    source: Annotated[Path, typer.Option("--source", help="The file that the patch is for.")],
    output: Annotated[Path, typer.Option("--output", help="The file to write.", callback=writable)],
    candidate: Annotated[int, typer.Option(help="Which of the patch's candidates, best first.", min=1)] = 1,
    launch: Annotated[Path | None, typer.Option(help="A launch manifest: the candidate also runs again.")] = None,
    as_json: Json = False,
) -> None:
    """Writes the patched file; the candidate is judged again first."""
    from asmevo.doors.skill_config import config_file, read_config

    with sentences():
        config = read_config()
        config.use_installation(config_file())
    optimize_commands.apply(
        patch, source, output, candidate, config.gpu_target, launch, rocm=config.rocm(), as_json=as_json
    )


def main() -> None:
    """The entry point of the `asm-skill` command."""
    app()
