"""`asmevo estimate`: predicted cycles of a kernel, with their reasons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import Struct, field
from msgspec.structs import asdict, replace

from asmevo.doors.application import File, Gpu, Json, KernelGlob, app, print_json
from asmevo.doors.exits import BAD_INPUT, sentences

if TYPE_CHECKING:
    from asmevo.analysis.occupancy import Occupancy
    from asmevo.program import Kernel
    from asmevo.timing import Estimate
    from asmevo.timing.scenarios import Memory
    from asmevo.timing.timeline import Timeline


class Engine(Enum):
    """Whose model."""

    ASMEVO = "asmevo"
    LLVM_MCA = "llvm-mca"


class _Question(Struct, frozen=True):
    """What is asked about each kernel."""

    engine: Engine
    waves: int | None
    lds: int | None
    workgroup: int | None
    trips: int | dict[int, int] | None
    memory: Memory
    issues: bool
    counters: Mapping[str, float] = field(default_factory=dict)

    def limits(self, kernel: Kernel) -> Occupancy:
        """The occupancy under the launch that is asked about."""
        from asmevo.analysis.occupancy import occupancy

        return occupancy(kernel, self.workgroup, self.lds)

    def waves_of(self, kernel: Kernel) -> int:
        """Waves to simulate."""
        return self.waves if self.waves is not None else max(1, self.limits(kernel).waves)


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


def _memory(words: list[str]) -> Memory:
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
    lds: Annotated[int | None, typer.Option(help="LDS of a workgroup, if the launch brings it (bytes).", min=0)] = None,
    workgroup: Annotated[int | None, typer.Option(help="Work-items of a workgroup; else the most.", min=1)] = None,
    trips: Annotated[list[str], typer.Option(help="Iterations: N, or BLOCK=N (repeatable).")] = [],  # noqa: B006
    memory: Annotated[list[str], typer.Option(help="cold, l2, lds-only, or CLASS=CYCLES (repeatable).")] = ["l2"],  # noqa: B006
    engine: Annotated[Engine, typer.Option(help="Whose model answers.")] = Engine.ASMEVO,
    profile: Annotated[Path | None, typer.Option(help="Thread trace, its statistics, or counters.")] = None,
    issues: Annotated[bool, typer.Option("--timeline", help="Also list every simulated issue.")] = False,
    page: Annotated[Path | None, typer.Option("--html", help="Write the timeline of one kernel as a page.")] = None,
    as_json: Json = False,
) -> None:
    """Predicted cycles with stalls, their sources, and how well each number is known."""
    from asmevo.program import open_program

    with sentences():
        program = open_program(file, gpu=gpu)
        chosen = program.select(kernel)
        question = _Question(engine, waves, lds, workgroup, _trips(trips), _memory(memory), issues)
        if profile is not None:
            question = _with_profile(program.only(kernel), question, profile)
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

    text = timeline_html(kernel, _timeline(kernel, question), question.limits(kernel))
    write_file_atomically(page, text.encode())


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
        return predict(kernel, waves=question.waves_of(kernel), trip_count=question.trips, memory=question.memory)


def _timeline(kernel: Kernel, question: _Question) -> Timeline:
    from asmevo.timing.timeline import timeline

    with _values_make_sense():
        return timeline(kernel, waves=question.waves_of(kernel), trip_count=question.trips, memory=question.memory)


def _with_profile(kernel: Kernel, question: _Question, path: Path) -> _Question:
    """The question with what a profile shows: counters, or waves, iterations of loops and memory latencies.

    What was asked for by hand stays, and so do latencies that the profile does not show.
    """
    from asmevo.timing.profile import costs_of, counters_of, executions, read_profile, seen_latencies, seen_waves
    from asmevo.timing.trips import trips_from_counts

    profile = read_profile(path)
    if profile.counters:
        return replace(question, counters=counters_of(profile, kernel))
    given = {} if isinstance(question.memory, str) else dict(question.memory)
    trips = question.trips
    if trips is None:
        trips = trips_from_counts(kernel, executions(kernel, costs_of(profile, kernel)))
    waves = question.waves or seen_waves(profile, kernel)
    return replace(question, memory=given | seen_latencies(profile, kernel), trips=trips, waves=waves)


def _ends(kernel: Kernel, question: _Question) -> tuple[float, float] | None:
    """Cycles at both ends of what memory is seen to take, None where it is one number."""
    from asmevo.timing.scenarios import ends

    both = ends(kernel.target, question.memory)
    if both is None:
        return None
    low, high = (_estimate(kernel, replace(question, memory=end)).cycles for end in both)
    return low, high


def _answer(kernel: Kernel, question: _Question) -> tuple[dict[str, Any], list[str]]:
    """(JSON, lines of text) about one kernel."""
    from asmevo.report.estimates import counter_lines, estimate_lines, mca_lines, timeline_lines
    from asmevo.timing.counters import beside
    from asmevo.timing.scenarios import latencies_of
    from asmevo.timing.second_opinion import ask_mca

    if question.engine is Engine.LLVM_MCA:
        opinion = ask_mca(kernel, question.trips)
        return opinion.to_dict(), list(mca_lines(opinion))
    timeline = _timeline(kernel, question) if question.issues else None
    found = timeline.estimate if timeline is not None else _estimate(kernel, question)
    seen, both = latencies_of(kernel.target, question.memory), _ends(kernel, question)
    counters, limits = beside(question.counters, found), question.limits(kernel)
    data = found.to_dict() | {
        "occupancy": limits.waves,
        "occupancy_limits": [asdict(limit) for limit in limits.limits],
        "memory_latencies": {kind: each.to_dict() for kind, each in seen.items()},
        "cycles_low_high": both,
        "counters": [line.to_dict() for line in counters],
    }
    lines = [*estimate_lines(kernel, found, limits, seen, both), *counter_lines(counters)]
    if timeline is None:
        return data, lines
    return data | {"timeline": timeline.to_dict()}, [*lines, *timeline_lines(kernel, timeline)]
