"""`asmevo fuse`: which operators of a chain belong into one kernel."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from asmevo.doors.application import Json, app, gpu_asked_for, print_json
from asmevo.doors.exits import DEFINITE_NO, GOOD, UNDECIDED, sentences

if TYPE_CHECKING:
    from asmevo.fusion import Chain, FusionSearch


@app.command()
def fuse(
    file: Annotated[Path, typer.Argument(help="A chain of operators (YAML, see docs/fusion.md).")],
    gpu: Annotated[
        str,
        typer.Option(
            "--gpu", help="The target to compile and estimate for; `auto` asks the machine.", callback=gpu_asked_for
        ),
    ],
    top: Annotated[int, typer.Option(help="Fusions that are listed and run as a whole.", min=1)] = 5,
    compute_units: Annotated[int | None, typer.Option(help="Instead of the described device's.", min=1)] = None,
    launch_cost: Annotated[
        float | None, typer.Option(help="Microseconds that a launch is assumed to cost.", min=0)
    ] = None,
    sources: Annotated[Path | None, typer.Option(help="A folder for the OpenCL C of the cheapest program.")] = None,
    as_json: Json = False,
) -> None:
    """Builds, verifies against numpy and ranks every fusion of a chain; needs a clang."""
    from asmevo.fusion import assumptions_for, read_chain, search
    from asmevo.report.fusion import fusion_dict, fusion_lines
    from asmevo.target import load_target

    with sentences():
        chain, target = read_chain(file), load_target(gpu)
        assumptions = assumptions_for(target, compute_units, launch_cost)
        found = search(chain, target, assumptions, top, _progress if sys.stderr.isatty() else _silent)
        if sources is not None:
            _write_sources(chain, found, sources)
    if as_json:
        print_json(fusion_dict(found))
    else:
        typer.echo("\n".join(fusion_lines(found, top)))
    raise typer.Exit(_exit_code(found))


def _silent(_done: int, _of: int) -> None: ...


def _progress(done: int, of: int) -> None:
    print(f"\rkernel {done + 1} of {of}", end="\n" if done + 1 == of else "", file=sys.stderr)


def _write_sources(chain: Chain, found: FusionSearch, folder: Path) -> None:
    from asmevo.program import write_file_atomically

    folder.mkdir(parents=True, exist_ok=True)
    for kernel in found.fusions[0].kernels if found.fusions else ():
        write_file_atomically(folder / f"{chain.name}.{kernel.built.kernel.name}.cl", kernel.built.source.encode())


def _exit_code(found: FusionSearch) -> int:
    """A kernel or program that differs from numpy is a definite no; one that could not be judged leaves it open."""
    from asmevo.emulator import Outcome

    outcomes = [kernel.outcome for kernel in found.kernels] + [each.outcome for each in found.fusions if each.outcome]
    if any(outcome in (Outcome.DIFFERS, Outcome.FAULT) for outcome in outcomes):
        return DEFINITE_NO
    return GOOD if all(outcome is Outcome.MATCHES for outcome in outcomes) else UNDECIDED
