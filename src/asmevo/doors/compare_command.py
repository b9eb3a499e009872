"""`asmevo test`: two versions of a kernel on the same launches."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from asmevo.doors.application import Gpu, Json, RunLimit, app, print_json
from asmevo.doors.exits import DEFINITE_NO, GOOD, UNDECIDED, sentences


class Device(Enum):
    """Where to run."""

    EMULATOR = "emulator"


@app.command(name="test")
def compare_versions(
    original: Annotated[Path, typer.Argument(help="The version that is known to be right.")],
    new: Annotated[Path, typer.Argument(help="The version to try.")],
    launch: Annotated[Path, typer.Option("--launch", help="The launch manifest (JSON, see docs/manifests.md).")],
    device: Annotated[Device, typer.Option(help="Where both versions run.")] = Device.EMULATOR,
    seeds: Annotated[int, typer.Option(help="How many asynchronous runs.", min=0)] = 2,
    limit: RunLimit = 200_000_000,
    gpu: Gpu = None,
    as_json: Json = False,
) -> None:
    """Runs two versions on the same launches (fuzzed data, late memory) and compares all result bytes."""
    from asmevo.emulator import Difference, Limits, Unfinished, Witness, read_manifest, standard_trials
    from asmevo.program import open_program

    with sentences():
        manifest = read_manifest(launch)
        first, second = open_program(original, gpu=gpu), open_program(new, gpu=gpu)
        trials = standard_trials(manifest, seeds, limits=Limits(instructions=limit))
        witness = Witness(first, first.kernel(manifest.symbol), trials)
        found = witness.examine(second, second.kernel(manifest.symbol)) if witness.known else None
    decided = bool(witness.known) and not isinstance(found, Unfinished)
    names = [each.trial.name for each in witness.known]
    if as_json:
        print_json(
            {
                "kernel": manifest.symbol,
                "device": device.value,
                "launches": names,
                "left_out": witness.refusals,
                "bytes": witness.result_bytes,
                "equal": found is None if decided else None,
                "difference": str(found) if isinstance(found, Difference) else None,
                "unfinished": str(found) if isinstance(found, Unfinished) else None,
            }
        )
    elif found is not None:
        typer.echo(f"{manifest.symbol}: {found}")
    elif names:
        typer.echo(
            f"{manifest.symbol}: all {witness.result_bytes} bytes equal in {len(names)} launches ({', '.join(names)})"
        )
    for name, reason in ({} if as_json else witness.refusals).items():
        typer.echo(f"  {name}: left out, for the original does not pass: {reason}")
    raise typer.Exit(UNDECIDED if not decided else GOOD if found is None else DEFINITE_NO)
