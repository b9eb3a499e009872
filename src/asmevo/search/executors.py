"""Where islands live: in this process, in processes of this machine, or as actors of a Ray cluster.

Islands that are elsewhere search in epochs. For an epoch each is told how far it may go and which versions others
found; it answers with everything that it tried. Answers are taken in the order of the islands, never in that of
their arrival, so a search counted in candidates repeats itself exactly with any executor. What an island had answered
before it dies stands. Where a process of this machine dies during a proposer's turn, that proposer is given up and
the island is settled anew without it; any other island that dies (while it settles, or with its machine) is left out
from then on, with a note.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from threading import Thread
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from asmevo.program import ProgramError, read_program
from asmevo.program.edit import EditScript
from asmevo.program.kernel import Kernel
from asmevo.program.program import Program
from asmevo.search.bench import Bench
from asmevo.search.budget import Budget
from asmevo.search.island import Island
from asmevo.search.options import SearchOptions
from asmevo.search.tried import Tried

EXECUTORS = ("processes", "ray")

_NAME_BYTES = 64  # of a proposer, with the byte that ends it


class ExecutorError(ProgramError):
    """An executor cannot be used here; says how it can."""


class Settlement(Struct, frozen=True):
    """What an island is made of, in a process that knows nothing yet; `without` are proposers that were given up."""

    data: bytes
    file: str
    target: str
    kernel: str
    options: SearchOptions
    number: int
    count: int
    without: tuple[str, ...] = ()


class Epoch(Struct, frozen=True):
    """How far to go, and the versions (with costs) that others found."""

    budget: Budget
    immigrants: tuple[tuple[EditScript, float], ...]


class EpochAnswer(Struct, frozen=True):
    """What an island tried; `going` is False when nobody there has an idea left."""

    tried: tuple[Tried, ...]
    failures: tuple[tuple[str, str], ...]
    going: bool


class Settler:
    """An island with what it takes to run it by messages; lives where the executor put it."""

    def __init__(self, settlement: Settlement, on_turn: Callable[[str], None] = lambda proposer: None) -> None:
        program = read_program(settlement.data, settlement.file, gpu=settlement.target)
        self._tried: list[Tried] = []
        self._failures: list[tuple[str, str]] = []
        bench = Bench(program.kernel(settlement.kernel), settlement.options, self._tried.append)
        number, count = settlement.number, settlement.count
        self._island = Island(bench, number, count, self._failed, on_turn, settlement.without)

    def epoch(self, epoch: Epoch) -> EpochAnswer:
        """One epoch."""
        self._tried.clear()
        self._failures.clear()
        self._island.receive(epoch.immigrants)
        going = self._island.run(epoch.budget)
        return EpochAnswer(tuple(self._tried), tuple(self._failures), going)

    def _failed(self, proposer: str, words: str) -> None:
        self._failures.append((proposer, words))


class Executor(Protocol):
    """Islands elsewhere."""

    def epoch(self, epochs: Sequence[Epoch]) -> list[EpochAnswer | str]:
        """One epoch on every island, in their order; words where an island is lost."""
        ...

    def close(self) -> None:
        """Ends what was started."""
        ...


def settlements(program: Program, kernel: Kernel, options: SearchOptions) -> list[Settlement]:
    """One for each worker; the user's own proposers, the emulator and the GPU stay in the first process."""
    bare = replace(options, proposers=(), launch=None, hardware=None)
    target, count = program.target.name, options.workers
    return [Settlement(program.data, program.file, target, kernel.name, bare, number, count) for number in range(count)]


def make_executor(name: str, wanted: Sequence[Settlement]) -> Executor:
    """The executor of a name (see EXECUTORS). Raises ExecutorError."""
    if name == "processes":
        return Processes(wanted)
    if name == "ray":
        from asmevo.search.ray_executor import RayActors

        return RayActors(wanted)
    raise ExecutorError("--executor", f"is one of {', '.join(EXECUTORS)}, not {name}")


class Processes:
    """A process for each island. They are started afresh, not forked: LLVM and threads do not survive a fork."""

    def __init__(self, wanted: Sequence[Settlement]) -> None:
        self._workers = [_Worker(each) for each in wanted]

    def epoch(self, epochs: Sequence[Epoch]) -> list[EpochAnswer | str]:
        """See Executor."""
        running = [worker.begin(epoch) for worker, epoch in zip(self._workers, epochs, strict=True)]
        return [worker.answer(each) for worker, each in zip(self._workers, running, strict=True)]

    def close(self) -> None:
        """See Executor."""
        for worker in self._workers:
            worker.close()


class _Worker:
    """One island's process. Who is at work there stands in shared memory, where it outlives the process."""

    def __init__(self, settlement: Settlement) -> None:
        self._context = get_context("spawn")
        self._heard: tuple[tuple[EditScript, float], ...] = ()
        self._start(settlement)

    def _start(self, settlement: Settlement) -> None:
        self._settlement = settlement
        self._at_work = self._context.RawArray("c", _NAME_BYTES)
        self._starts = True
        arguments = (settlement, self._at_work)
        self._pool = ProcessPoolExecutor(1, self._context, initializer=_settle, initargs=arguments)

    def begin(self, epoch: Epoch) -> Future[EpochAnswer] | str:
        """Sends an epoch off; one that starts hears of all versions that others heard of before."""
        self._heard += epoch.immigrants
        immigrants = self._heard if self._starts else epoch.immigrants
        self._starts = False
        try:
            return self._pool.submit(_epoch, replace(epoch, immigrants=immigrants))
        except BrokenProcessPool as error:
            return str(error)

    def answer(self, running: Future[EpochAnswer] | str) -> EpochAnswer | str:
        """The island's answer; one that lost its process in a turn answers that it goes on without that proposer."""
        answer = gathered(running.result) if isinstance(running, Future) else running
        culprit = self._at_work.value.decode()
        if not isinstance(answer, str) or not culprit:
            return answer
        self.close()
        self._start(replace(self._settlement, without=(*self._settlement.without, culprit)))
        failure = (culprit, f"was given up: island {self._settlement.number} was lost in its turn: {answer}")
        return EpochAnswer((), (failure,), True)

    def close(self) -> None:
        """Ends the process."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def gathered(result: Callable[[], Any]) -> EpochAnswer | str:
    """An island's answer, or how it was lost; whatever happened there ends that island only."""
    try:
        answer = result()
    except Exception as error:
        words = str(error).strip().splitlines()
        return f"{error.__class__.__name__}: {words[0]}" if words else error.__class__.__name__
    return answer if isinstance(answer, EpochAnswer) else f"answered with {type(answer).__name__}"


_settler: Settler | None = None


def _settle(settlement: Settlement, at_work: Any) -> None:
    global _settler
    Thread(target=_end_with_the_parent, daemon=True).start()
    _settler = Settler(settlement, lambda proposer: setattr(at_work, "value", proposer.encode()))


def _end_with_the_parent() -> None:
    """A parent that is killed cannot tell its workers; they would wait for work for ever."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _epoch(epoch: Epoch) -> EpochAnswer:
    assert _settler is not None
    return _settler.epoch(epoch)
