"""`asmevo estimate`: predicted cycles of a kernel, with their reasons."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from asmevo.doors.application import File, Gpu, Json, KernelGlob, app, print_json
from asmevo.doors.exits import BAD_INPUT, sentences

if TYPE_CHECKING:
    from asmevo.program import Kernel
    from asmevo.timing import Estimate
    from asmevo.timing.timeline import Timeline


class Engine(Enum):
    """Whose model."""

    ASMEVO = "asmevo"
    LLVM_MCA = "llvm-mca"


@dataclass(frozen=True, slots=True)
class _Question:
    """What is asked about each kernel."""

    engine: Engine
    waves: int | None
    trips: int | dict[int, int] | None
    memory: str | dict[str, int]
    issues: bool


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
    profile: Annotated[Path | None, typer.Option(help="Thread-trace CSV; its latencies replace assumed ones.")] = None,
    issues: Annotated[bool, typer.Option("--timeline", help="Also list every simulated issue.")] = False,
    page: Annotated[Path | None, typer.Option("--html", help="Write the timeline of one kernel as a page.")] = None,
    as_json: Json = False,
) -> None:
    """Predicted cycles with stalls, their sources, and how well each number is known."""
    from asmevo.program import open_program

    with sentences():
        program = open_program(file, gpu=gpu)
        chosen = program.select(kernel)
        question = _Question(engine, waves, _trips(trips), _memory(memory), issues)
        if profile is not None:
            question = replace(question, memory=_seen(program.only(kernel), question, profile))
        if page is not None:
            _write_page(program.only(kernel), question, page)
        answers = [_answer(each, question) for each in chosen]
    if as_json:
        print_json([data for data, _ in answers])
    else:
        typer.echo("\n".join(line for _, lines in answers for line in lines))


def _write_page(kernel: Kernel, question: _Question, page: Path) -> None:
    from asmevo.program import write_file_atomically
    from asmevo.report.timeline_html import timeline_html

    write_file_atomically(page, timeline_html(kernel, _timeline(kernel, question)).encode())


@contextmanager
def _values_make_sense() -> Iterator[None]:
    """The model's complaint about waves, iterations or memory becomes one sentence and exit code 2."""
    try:
        yield
    except ValueError as error:
        typer.echo(f"asmevo: {error}", err=True)
        raise typer.Exit(BAD_INPUT) from None


def _estimate(kernel: Kernel, question: _Question) -> Estimate:
    from asmevo.timing import estimate as predict

    with _values_make_sense():
        return predict(kernel, waves=question.waves, trip_count=question.trips, memory=question.memory)


def _timeline(kernel: Kernel, question: _Question) -> Timeline:
    from asmevo.timing.timeline import timeline

    with _values_make_sense():
        return timeline(kernel, waves=question.waves, trip_count=question.trips, memory=question.memory)


def _seen(kernel: Kernel, question: _Question, profile: Path) -> dict[str, int]:
    """Memory latencies of a profile by class; those that it does not show stay as they were asked for."""
    from asmevo.timing.profile import costs_of, read_profile, seen_latencies

    costs = costs_of(read_profile(profile), kernel)
    given = question.memory if isinstance(question.memory, dict) else {}
    return given | seen_latencies(kernel, costs, _timeline(kernel, question).links)


def _answer(kernel: Kernel, question: _Question) -> tuple[dict[str, Any], list[str]]:
    """(JSON, lines of text) about one kernel."""
    from asmevo.report.estimates import estimate_lines, mca_lines, timeline_lines
    from asmevo.timing.second_opinion import ask_mca

    if question.engine is Engine.LLVM_MCA:
        opinion = ask_mca(kernel, question.trips)
        return opinion.to_dict(), list(mca_lines(opinion))
    if not question.issues:
        found = _estimate(kernel, question)
        return found.to_dict(), list(estimate_lines(kernel, found))
    timeline = _timeline(kernel, question)
    data = timeline.estimate.to_dict() | {"timeline": timeline.to_dict()}
    return data, [*estimate_lines(kernel, timeline.estimate), *timeline_lines(kernel, timeline)]
