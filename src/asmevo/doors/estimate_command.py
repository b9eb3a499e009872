"""`asmevo estimate`: predicted cycles of a kernel, with their reasons."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any

import typer

from asmevo.doors.application import File, Gpu, Json, KernelGlob, app, print_json
from asmevo.doors.exits import BAD_INPUT, sentences


class Engine(Enum):
    """Whose model."""

    ASMEVO = "asmevo"
    LLVM_MCA = "llvm-mca"


def _trips(words: list[str]) -> int | dict[int, int] | None:
    """`N` for every loop, or `BLOCK=N` for the loop whose header is that block."""
    if not words:
        return None
    if len(words) == 1 and words[0].isdigit():
        return int(words[0])
    pairs = [word.split("=") for word in words]
    if not all(len(pair) == 2 and pair[0].isdigit() and pair[1].isdigit() for pair in pairs):
        raise typer.BadParameter("iterations are N for every loop or BLOCK=N for the loop at a block")
    return {int(block): int(count) for block, count in pairs}


def _memory(words: list[str]) -> str | dict[str, int]:
    """A scenario's name, or CLASS=CYCLES for latency classes."""
    if len(words) == 1 and "=" not in words[0]:
        return words[0]
    pairs = [word.split("=") for word in words]
    if not all(len(pair) == 2 and pair[1].isdigit() for pair in pairs):
        raise typer.BadParameter("memory is cold, l2, lds-only, or CLASS=CYCLES")
    return {name: int(cycles) for name, cycles in pairs}


@app.command()
def estimate(
    file: File,
    kernel: KernelGlob = None,
    gpu: Gpu = None,
    waves: Annotated[int | None, typer.Option(help="Waves on the SIMD; else what occupancy allows.", min=1)] = None,
    trips: Annotated[list[str], typer.Option(help="Iterations: N, or BLOCK=N (repeatable).")] = [],  # noqa: B006
    memory: Annotated[list[str], typer.Option(help="cold, l2, lds-only, or CLASS=CYCLES (repeatable).")] = ["l2"],  # noqa: B006
    engine: Annotated[Engine, typer.Option(help="Whose model answers.")] = Engine.ASMEVO,
    as_json: Json = False,
) -> None:
    """Predicted cycles with stalls, their sources, and how well each number is known."""
    from asmevo.program import open_program

    with sentences():
        program = open_program(file, gpu=gpu)
        iterations, answering = _trips(trips), _memory(memory)
        answers: list[tuple[dict[str, Any], list[str]]] = []
        for each in program.select(kernel):
            answers.append(_answer(each, engine, waves, iterations, answering))
    if as_json:
        print_json([data for data, _ in answers])
    else:
        typer.echo("\n".join(line for _, lines in answers for line in lines))


def _answer(
    kernel: Any, engine: Engine, waves: int | None, trips: int | dict[int, int] | None, memory: str | dict[str, int]
) -> tuple[dict[str, Any], list[str]]:
    from asmevo.report.estimates import estimate_lines, mca_lines
    from asmevo.timing import estimate as predict
    from asmevo.timing.second_opinion import ask_mca

    if engine is Engine.LLVM_MCA:
        opinion = ask_mca(kernel, trips)
        return opinion.to_dict(), list(mca_lines(opinion))
    try:
        found = predict(kernel, waves=waves, trip_count=trips, memory=memory)
    except ValueError as error:
        typer.echo(f"asmevo: {error}", err=True)
        raise typer.Exit(BAD_INPUT) from None
    return found.to_dict(), list(estimate_lines(kernel, found))
