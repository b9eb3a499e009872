"""`asmevo slice`: the hot windows of a kernel, by a profile or by the cycle model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from asmevo.doors.application import File, Gpu, Json, KernelGlob, Output, app, print_json, say_written
from asmevo.doors.exits import sentences


@app.command(name="slice")
def slice_kernel(
    file: File,
    output: Output,
    kernel: KernelGlob = None,
    gpu: Gpu = None,
    profile: Annotated[Path | None, typer.Option(help="Thread-trace statistics (CSV); else the model's costs.")] = None,
    windows: Annotated[int, typer.Option(help="How many windows.", min=1)] = 1,
    smallest: Annotated[int, typer.Option(help="Fewest instructions of a window.", min=1)] = 5,
    largest: Annotated[int, typer.Option(help="Most instructions of a window.", min=1)] = 15,
    as_json: Json = False,
) -> None:
    """Finds where the cycles go and writes the hot windows as one JSON document."""
    from asmevo.program import open_program, write_file_atomically
    from asmevo.report.slices import slice_lines
    from asmevo.search.slice import make_slice
    from asmevo.timing.profile import costs_of, read_profile
    from asmevo.timing.timeline import costs_of_timeline, timeline

    with sentences():
        program = open_program(file, gpu=gpu)
        chosen = program.only(kernel)
        if profile is not None:
            costs, origin = costs_of(read_profile(profile), chosen), profile.name
        else:
            costs, origin = costs_of_timeline(chosen, timeline(chosen)), "model"
        found = make_slice(program, chosen, costs, origin, windows, smallest, largest)
        write_file_atomically(output, found.to_json().encode())
    if as_json:
        print_json(found.model_dump(mode="json", by_alias=True))
    else:
        say_written(output, "\n".join(slice_lines(found)))
