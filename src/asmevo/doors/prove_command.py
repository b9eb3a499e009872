"""`asmevo prove`: whether two versions of a kernel do the same, for every launch and every memory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from asmevo.doors.application import Gpu, Json, KernelGlob, WholeWaves, app, print_json
from asmevo.doors.exits import DEFINITE_NO, GOOD, UNDECIDED, sentences

_POLICIES = (
    "exact, nan (NaN payloads are free), contract (a*b+c may fuse), reassoc (sums may be regrouped) "
    "or fast (no NaNs are compared)"
)


@app.command()
def prove(
    before: Annotated[Path, typer.Argument(help="The version that is known to be right.")],
    after: Annotated[Path, typer.Argument(help="The version to prove.")],
    kernel: KernelGlob = None,
    fp: Annotated[str, typer.Option("--fp", help=f"What floating point may do: {_POLICIES}.")] = "exact",
    timeout: Annotated[
        float, typer.Option("--timeout", help="Work for each kernel's proof, in seconds of a quiet core.", min=0.1)
    ] = 20.0,
    launch: Annotated[
        Path | None, typer.Option("--launch", help="A launch manifest (JSON) that may refute what stays undecided.")
    ] = None,
    whole_waves: WholeWaves = False,
    gpu: Gpu = None,
    as_json: Json = False,
) -> None:
    """Proves that two versions do the same, or shows inputs on which they differ (see docs/equivalence.md)."""
    from asmevo.emulator import read_manifest
    from asmevo.program import open_program
    from asmevo.prover import FloatPolicy, Outcome, ProofLimits, prove_programs
    from asmevo.report.proofs import proof_lines

    try:
        policy = FloatPolicy.named(fp)
    except KeyError:
        raise typer.BadParameter(f"{fp} is none of {_POLICIES}", param_hint="--fp") from None
    limits = ProofLimits.of_seconds(timeout)
    with sentences():
        first, second = open_program(before, gpu=gpu), open_program(after, gpu=gpu)
        manifest = read_manifest(launch) if launch is not None else None
        proofs = prove_programs(first, second, kernel, policy, limits, manifest, whole_waves)
    if as_json:
        print_json({"kernels": [{"kernel": each.kernel, **each.result.to_dict()} for each in proofs]})
    else:
        for each in proofs:
            typer.echo("\n".join(proof_lines(each.kernel, each.result)))
    outcomes = {each.result.outcome for each in proofs}
    refuted, undecided = Outcome.REFUTED in outcomes, Outcome.UNDECIDED in outcomes
    raise typer.Exit(DEFINITE_NO if refuted else UNDECIDED if undecided else GOOD)
