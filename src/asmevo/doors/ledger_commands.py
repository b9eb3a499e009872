"""Commands over the ledger: `log` lists, `show` tells one entry, `rollback` restores, `verify` checks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from asmevo.doors.application import Json, Output, app, print_json, say_written
from asmevo.doors.exits import DEFINITE_NO, GOOD, sentences

LedgerRoot = Annotated[Path, typer.Option("--ledger", help="Where runs are recorded.")]
Id = Annotated[str, typer.Argument(help="An id from `asmevo log`: RUN, RUN/N or RUN/offer-N.")]
_ROOT = Path(".asmevo")


@app.command()
def log(
    ledger: LedgerRoot = _ROOT,
    export: Annotated[Path | None, typer.Option(help="Write every record to this JSON file.")] = None,
    as_json: Json = False,
) -> None:
    """Lists the runs that the ledger holds."""
    from asmevo.program import write_file_atomically
    from asmevo.search import Ledger
    from asmevo.search import history as past

    with sentences():
        records = Ledger(ledger)
        lines = past.run_lines(records)
        if export is not None:
            write_file_atomically(export, (json.dumps(past.export(records), indent=1) + "\n").encode())
    if as_json:
        print_json([line.to_dict() for line in lines])
        return
    for line in lines:
        counts = f"{line.candidates} candidates, {line.accepted} accepted, {line.offers} offers"
        typer.echo(f"{line.id}  {line.kernel} ({line.target}, {line.file}) seed {line.seed}: {counts}, {line.state}")


@app.command()
def show(name: Id, ledger: LedgerRoot = _ROOT, as_json: Json = False) -> None:
    """Shows one entry with its lineage from the original on."""
    from asmevo.search import Ledger
    from asmevo.search import history as past

    with sentences():
        entry = past.describe(Ledger(ledger), name)
    if as_json:
        print_json(entry)
        return
    typer.echo(f"{entry['kind']} {entry['id']}, record {entry['number']}, hash {entry['hash']}")
    typer.echo(f"lineage: {' -> '.join(entry['lineage'])}")
    for key, value in entry["body"].items():
        if key == "verdicts":
            for verdict in value:
                typer.echo(f"gate {verdict['gate']}: {verdict['kind']}: {verdict['reason']}")
        else:
            typer.echo(f"{key}: {value if isinstance(value, str) else json.dumps(value)}")


@app.command()
def rollback(name: Id, output: Output, ledger: LedgerRoot = _ROOT, as_json: Json = False) -> None:
    """Writes the program of an earlier verified entry, byte for byte; of a run, its input."""
    from asmevo.program import write_file_atomically
    from asmevo.search import Ledger
    from asmevo.search import history as past

    with sentences():
        data = past.restore(Ledger(ledger), name)
        write_file_atomically(output, data)
    if as_json:
        print_json({"id": name, "written": str(output), "bytes": len(data)})
    else:
        say_written(output, f"{output}: {len(data)} bytes of {name}")


@app.command()
def verify(
    ledger: LedgerRoot = _ROOT,
    head: Annotated[str | None, typer.Option(help="A head noted earlier: it must still be in the chain.")] = None,
    as_json: Json = False,
) -> None:
    """Checks every record of the chain and every artifact; names the first that is broken."""
    from asmevo.search import Ledger
    from asmevo.search import history as past

    with sentences():
        found = past.check(Ledger(ledger), head)
    if as_json:
        print_json(found.to_dict())
    elif found.broken is None:
        typer.echo(f"{ledger}: {found.records} records and {found.artifacts} artifacts are whole, head {found.head}")
    else:
        typer.echo(f"asmevo: {ledger}: {found.broken}", err=True)
    raise typer.Exit(GOOD if found.broken is None else DEFINITE_NO)
