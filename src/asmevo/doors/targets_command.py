"""`asmevo targets`: the supported GPUs and their facts."""

from __future__ import annotations

from typing import Annotated

import typer

from asmevo.doors.application import Json, app, print_json
from asmevo.doors.exits import sentences


@app.command()
def targets(
    name: Annotated[str | None, typer.Argument(help="Show this GPU's facts with their sources.")] = None,
    as_json: Json = False,
) -> None:
    """Supported GPUs and their facts with sources."""
    from asmevo.report.tables import print_target, print_targets
    from asmevo.target import describe, load_target, target_names

    with sentences():
        if name is None:
            found = [load_target(each) for each in target_names()]
            if as_json:
                print_json([{"name": t.name, "products": t.products.value, "family": t.family.value} for t in found])
            else:
                print_targets(found)
            return
        target = load_target(name)
        rows = describe(target)
        if as_json:
            print_json({"name": target.name, "facts": [row._asdict() for row in rows]})
        else:
            print_target(target, rows)
