"""`asmevo test`: two versions of a kernel on the same launches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from asmevo.doors.application import Gpu, Json, RunLimit, app, print_json
from asmevo.doors.exits import DEFINITE_NO, GOOD, UNDECIDED, sentences
from asmevo.doors.gpu import SECONDS, Device, DeviceName, TimeLimit, session

if TYPE_CHECKING:
    from asmevo.emulator import LaunchManifest, Trial
    from asmevo.program import Program


@app.command(name="test")
def compare_versions(
    original: Annotated[Path, typer.Argument(help="The version that is known to be right.")],
    new: Annotated[Path, typer.Argument(help="The version to try.")],
    launch: Annotated[Path, typer.Option("--launch", help="The launch manifest (JSON, see docs/manifests.md).")],
    device: DeviceName = Device.EMULATOR,
    seeds: Annotated[int, typer.Option(help="How many asynchronous runs on the emulator.", min=0)] = 2,
    limit: RunLimit = 200_000_000,
    time_limit: TimeLimit = SECONDS,
    gpu: Gpu = None,
    as_json: Json = False,
) -> None:
    """Runs two versions on the same launches (fuzzed data, late memory) and compares all result bytes."""
    from asmevo.emulator import Limits, read_manifest, standard_trials
    from asmevo.program import open_program

    with sentences():
        manifest = read_manifest(launch)
        first, second = open_program(original, gpu=gpu), open_program(new, gpu=gpu)
        if device is Device.HIP:
            code = _on_a_gpu(manifest, first, second, time_limit, as_json)
        else:
            trials = standard_trials(manifest, seeds, limits=Limits(instructions=limit))
            code = _on_the_emulator(manifest, first, second, trials, as_json)
    raise typer.Exit(code)


def _on_the_emulator(
    manifest: LaunchManifest, first: Program, second: Program, trials: Iterator[Trial], as_json: bool
) -> int:
    from asmevo.emulator import Difference, Unfinished, Witness

    witness = Witness(first, first.kernel(manifest.symbol), trials)
    found = witness.examine(second, second.kernel(manifest.symbol)) if witness.known else None
    decided = bool(witness.known) and not isinstance(found, Unfinished)
    names = [each.trial.name for each in witness.known]
    if as_json:
        print_json(
            {
                "kernel": manifest.symbol,
                "device": Device.EMULATOR.value,
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
    _say_left_out({} if as_json else witness.refusals)
    return UNDECIDED if not decided else GOOD if found is None else DEFINITE_NO


def _on_a_gpu(manifest: LaunchManifest, first: Program, second: Program, seconds: float, as_json: bool) -> int:
    from asmevo.emulator import standard_trials
    from asmevo.hardware import compare

    pair = [(program, program.kernel(manifest.symbol)) for program in (first, second)]
    found = compare(session(seconds), pair[0], pair[1], standard_trials(manifest, seeds=0))
    if as_json:
        print_json({"kernel": manifest.symbol, "device": Device.HIP.value} | found.to_dict())
    elif words := found.difference or found.undecided:
        typer.echo(f"{manifest.symbol} on {found.device}: {words}")
    elif found.trials:
        sets = f"{len(found.trials)} sets of data ({', '.join(found.trials)}), {found.launches} launches each"
        typer.echo(f"{manifest.symbol} on {found.device}: all {found.result_bytes} bytes equal in {sets}")
        typer.echo(f"  {found.timing}")
    _say_left_out({} if as_json else found.left_out)
    return UNDECIDED if not found.decided else GOOD if found.difference is None else DEFINITE_NO


def _say_left_out(reasons: dict[str, str]) -> None:
    for name, reason in reasons.items():
        typer.echo(f"  {name}: left out, for the original does not pass: {reason}")
