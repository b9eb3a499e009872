"""`asmevo doctor`: what is installed, what is missing, how to get it."""

from __future__ import annotations

import typer

from asmevo.doors.application import Json, app, print_json
from asmevo.doors.exits import DEFINITE_NO, GOOD


@app.command()
def doctor(as_json: Json = False) -> None:
    """What is installed, what each missing part would add, and how to get it."""
    from asmevo.doors.doctor import examine
    from asmevo.report.tables import print_doctor

    parts = examine()
    if as_json:
        print_json([part.to_dict() for part in parts])
    else:
        print_doctor(parts)
    raise typer.Exit(GOOD if all(part.found or part.optional for part in parts) else DEFINITE_NO)
