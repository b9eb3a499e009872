"""`asmevo sched`: scheduling agents inside the compiler and behind it, and LLVM's own strategies, in one table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from asmevo.doors.application import Json, app, gpu_asked_for, print_json
from asmevo.doors.exits import DEFINITE_NO, GOOD, UNDECIDED, sentences
from asmevo.doors.proposing import Adapter, LlmModel, LlmUrl, ModelPath, Wanted, chat_model, proposers_named

if TYPE_CHECKING:
    from asmevo.compiler import Scheduled, StateLog

_ALL = "all"


class Where(Enum):
    """Where agents decide."""

    PRE = "pre"
    POST = "post"
    BOTH = "both"


@app.command()
def sched(
    source: Annotated[Path, typer.Argument(help="OpenCL C (.cl), HIP (.hip) or LLVM IR (.ll).")],
    gpu: Annotated[
        str, typer.Option("--gpu", help="The target, e.g. gfx1100; `auto` asks the machine.", callback=gpu_asked_for)
    ],
    agents: Annotated[
        str, typer.Option(help="Agents, comma-separated, or all (without language_model and search).")
    ] = "default",
    stage: Annotated[
        Where, typer.Option(help="Before register allocation, on the final code, or each and one after the other.")
    ] = Where.PRE,
    strategies: Annotated[str, typer.Option(help="LLVM's own strategies, comma-separated, or all.")] = "",
    launch: Annotated[Path | None, typer.Option(help="The launch manifest on which all results must agree.")] = None,
    seeds: Annotated[int, typer.Option(help="How many asynchronous launches.", min=0)] = 1,
    seed: Annotated[int, typer.Option(help="For the agent random and the language model.")] = 0,
    memory: Annotated[str, typer.Option(help="Memory scenario of the cycle model: cold, l2, lds-only.")] = "l2",
    search_budget: Annotated[
        str, typer.Option(help="What the agent search may spend on a kernel: candidates, or seconds as `30s`.")
    ] = "45s",
    state_log: Annotated[Path | None, typer.Option(help="Write every decision here, see docs/scheduling.md.")] = None,
    decisions: Annotated[Path | None, typer.Option(help="Orders to follow, see docs/scheduling.md.")] = None,
    save: Annotated[Path | None, typer.Option(help="A directory for assembly and code objects of all rows.")] = None,
    llm_url: LlmUrl = None,
    llm_model: LlmModel = None,
    model_path: ModelPath = None,
    adapter: Adapter = None,
    as_json: Json = False,
) -> None:
    """Schedules a source by agents inside a stock LLVM, and compares registers, cycles and results in one table."""
    from asmevo.compiler import SchedulingOptions, schedule_source
    from asmevo.emulator import read_manifest
    from asmevo.report.scheduling import print_scheduled
    from asmevo.search.budget import Budget

    wanted = Wanted(llm_url=llm_url, llm_model=llm_model, model_path=model_path, adapter=adapter)
    with sentences(), proposers_named(), _log(state_log) as log:
        options = SchedulingOptions(
            strategies=_strategies(strategies),
            seed=seed,
            seeds=seeds,
            memory=memory,
            search=Budget.of(search_budget),
            chat=chat_model(wanted),
            state_log=log,
            decisions=decisions,
        )
        manifest = read_manifest(launch) if launch is not None else None
        found = schedule_source(source, gpu, _agents(agents), stage.value, manifest, options)
        if save is not None:
            _save(found, save)
    if as_json:
        print_json(found.to_dict())
    else:
        print_scheduled(found)
    raise typer.Exit(_exit_code(found, launch is not None))


def _agents(words: str) -> list[str]:
    from asmevo.compiler import AGENT_NAMES

    if words == _ALL:
        return [name for name in AGENT_NAMES if name != "language_model"]
    return [word.strip() for word in words.split(",") if word.strip()]


def _strategies(words: str) -> list[str]:
    from asmevo.compiler import llvm_strategies

    return list(llvm_strategies()) if words == _ALL else [word.strip() for word in words.split(",") if word.strip()]


@contextmanager
def _log(path: Path | None) -> Iterator[StateLog | None]:
    from asmevo.compiler import StateLog

    if path is None:
        yield None
        return
    with path.open("w", encoding="utf-8") as file:
        yield StateLog(file)


def _save(found: Scheduled, directory: Path) -> None:
    from asmevo.program import write_file_atomically

    directory.mkdir(parents=True, exist_ok=True)
    for row in found.rows:
        files = row.files()
        if files is not None:
            name = f"{row.kernel}.{found.gpu}.{row.stage}.{row.agent.replace(':', '-')}"
            for ending, data in zip((".s", ".hsaco"), files, strict=True):
                write_file_atomically(directory / (name + ending), data)


def _exit_code(found: Scheduled, launched: bool) -> int:
    """1 if any result differs, 3 if a launch was given and some code could not be had or compared, else 0."""
    from asmevo.compiler import Verified

    if any(row.verified is Verified.DIFFERENT for row in found.rows):
        return DEFINITE_NO
    undecided = (Verified.NOT_RUN, Verified.UNFINISHED)
    return UNDECIDED if launched and any(row.verified in undecided for row in found.rows) else GOOD
