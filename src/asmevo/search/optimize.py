"""The search as a whole: the user's proposers, islands of built-in ones, offers, everything in the ledger.

With one worker the island is on this process's own bench. With more, islands live where the executor puts them
and meet after each epoch, when each hears of the best that others found.
"""

from __future__ import annotations

import platform
import random
import time
from importlib.metadata import version
from typing import Any

from msgspec import Struct, field

from asmevo.program.edit import apply_script
from asmevo.program.errors import WriteError
from asmevo.program.kernel import Kernel
from asmevo.program.program import Program
from asmevo.program.writing import write_program
from asmevo.proposers import Proposer, ProposerError
from asmevo.proposers.asking import begin, end, next_script
from asmevo.proposers.versions import version_hash
from asmevo.prover import FloatPolicy
from asmevo.search.bench import Bench
from asmevo.search.board import Board
from asmevo.search.budget import Budget
from asmevo.search.executors import Epoch, EpochAnswer, Executor, make_executor, settlements
from asmevo.search.island import Island, Tell
from asmevo.search.ledger import Ledger, Offered
from asmevo.search.measures import measure
from asmevo.search.offering import make_offers
from asmevo.search.options import OptimizationRun, SearchOptions
from asmevo.search.patch import SCHEMA, FloatingPoint, Patch, PatchCandidate
from asmevo.toolchain import toolchain

_POLICY_NAMES: dict[FloatPolicy, FloatingPoint] = {
    FloatPolicy.EXACT: "exact",
    FloatPolicy.NAN: "nan",
    FloatPolicy.CONTRACT: "contract",
    FloatPolicy.REASSOC: "reassoc",
    FloatPolicy.FAST: "fast",
}
_OWN_SHARE = 0.5  # of the budget, for all of the user's proposers together with the gates' time for them
_EPOCHS = 10
_SHORTEST_EPOCH = 1.0  # seconds
_SMALLEST_EPOCH = 16  # candidates of one worker
_IMMIGRANTS = 4


def optimize(
    program: Program, kernel: Kernel, options: SearchOptions, ledger: Ledger, tell: Tell = lambda share, words: None
) -> OptimizationRun:
    """Searches for faster versions of one kernel of a program and records everything in the ledger.

    The same seed tries the same candidates in the same order when the budget is counted in candidates; with
    a budget of seconds the order depends on what pays for its time on this machine. Raises ExecutorError, and
    ManifestError for a launch without whole waves where the options say that there is none, and LevelError.
    """
    options.refuse_unfounded_level(program.file)
    if options.whole_waves and options.launch is not None:
        options.launch.refuse_partial_waves(kernel.target.name, kernel.wave_size)
    with ledger.open_run(_request(program, kernel, options), program.data) as run:
        board = Board(run)
        search = _Search(program, Bench(kernel, options, board.note, run.record_exchange), board, tell)
        search.run()
        patch = search.patch()
        counts = {
            "tried": board.tried,
            "accepted": len(board.found),
            "seconds": round(search.elapsed(), 3),
            "proposers": {name: [tally.tried, tally.accepted] for name, tally in board.tallies.items()},
        }
        run.finish(patch.to_json(), [_recorded(program, kernel, each) for each in patch.candidates], counts)
        why_nothing, failures = board.why_nothing(), tuple(board.failures)
        return OptimizationRun(run.id, patch, board.tried, len(board.found), why_nothing, board.tallies, failures)


def _request(program: Program, kernel: Kernel, options: SearchOptions) -> dict[str, Any]:
    return {
        "file": program.file,
        "base": program.hash,
        "kernel": kernel.name,
        "kernel_hash": kernel.hash,
        "target": kernel.target.name,
        "level": options.level.value,
        "not_run": options.not_run,
        "seed": options.seed,
        "budget": str(options.budget),
        "memory": options.memory,
        "floating_point": str(options.floating_point),
        "whole_waves": options.whole_waves,
        "version": version("asm-evo-skill"),
        "llvm": toolchain().version,
        "python": platform.python_version(),
        "proposers": [*(proposer.name for proposer in options.proposers), *options.built_in],
        "workers": options.workers,
        "blocks": sorted(options.blocks) if options.blocks is not None else None,
    }


def _recorded(program: Program, kernel: Kernel, offer: PatchCandidate) -> Offered:
    """What the ledger keeps of an offer; without a program where none can be written."""
    made = apply_script(kernel, offer.script)
    try:
        written = write_program(program, {kernel.name: made})
    except WriteError:
        written = None
    return Offered(offer.model_dump(mode="json", exclude={"script"}), version_hash(made), written)


class _Search(Struct):
    """One run's state."""

    program: Program
    bench: Bench
    board: Board
    tell: Tell
    started: float = field(default_factory=time.monotonic)

    @property
    def options(self) -> SearchOptions:
        return self.bench.options

    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self.started

    def used(self) -> float:
        """The share of the budget that is used."""
        return self.options.budget.used(self.elapsed(), self.board.tried)

    def left(self) -> Budget:
        """What is left of the budget."""
        return self.options.budget.part(max(0.0, 1.0 - self.used()))

    def run(self) -> None:
        """All of the searching."""
        rng = random.Random(self.options.seed)
        own = self.options.proposers
        together = _OWN_SHARE if self.options.built_in else 1.0
        for number, proposer in enumerate(own, 1):
            self._follow(proposer, rng, together * number / len(own))
        if self.used() >= 1.0 or not self.options.built_in:
            return
        if self.options.workers > 1 or self.options.executor != "processes":
            self._elsewhere()
        else:
            before = self.used()
            island = Island(self.bench, failed=self.board.failed)
            island.run(self.left(), lambda share, words: self._say(before + share * (1.0 - before), words))

    def _follow(self, proposer: Proposer, rng: random.Random, until: float) -> None:
        """One of the user's proposers, on the best version so far, until it is done or that share is used."""
        base = self.bench.best.kernel
        answer: bool | None = None
        try:
            scripts = begin(proposer, self.bench.facts(base, rng, lambda: self.used() >= until))
            while self.used() < until and (script := next_script(scripts, answer)) is not None:
                answer = self.bench.judge(script, base, proposer.name) is not None
                self._say(self.used(), f"{proposer.name}: {self.board.tried} tried, {len(self.board.found)} kept")
            end(scripts)
        except ProposerError as error:
            self.board.failed(proposer.name, str(error))

    def _say(self, share: float, words: str) -> None:
        """Reports progress; what it speaks of is in the ledger before."""
        self.board.ledger.flush()
        self.tell(share, words)

    def _elsewhere(self) -> None:
        """Epochs on islands that the executor runs."""
        executor = make_executor(self.options.executor, settlements(self.program, self.bench.kernel, self.options))
        try:
            self._epochs(executor)
        finally:
            executor.close()

    def _epochs(self, executor: Executor) -> None:
        told: set[str] = set()
        lost: set[int] = set()
        going = True
        while going and self.used() < 1.0:
            found = {hash_: each for hash_, each in self.board.found.items() if hash_ not in told}
            news = sorted(found.items(), key=lambda item: (item[1].cost, item[0]))[:_IMMIGRANTS]
            told.update(found)
            immigrants = tuple((each.script, each.cost) for _, each in news if each.cost < 1.0)
            answers = executor.epoch([Epoch(self._epoch_budget(), immigrants)] * self.options.workers)
            going = self._gather(answers, lost)
            best = 100 * (1 - self.board.best)
            words = f"{self.options.workers} workers: {self.board.tried} tried, {len(self.board.found)} kept"
            self._say(self.used(), f"{words}, best {best:.1f} %")

    def _gather(self, answers: list[EpochAnswer | str], lost: set[int]) -> bool:
        """Takes the answers in; whether anybody can go on."""
        going = False
        for number, answer in enumerate(answers):
            if isinstance(answer, str):
                if number not in lost:
                    self.board.failed(f"island {number}", f"was lost: {answer}")
                lost.add(number)
                continue
            for tried in answer.tried:
                self.board.note(tried)
            for proposer, words in answer.failures:
                self.board.failed(proposer, words)
            going = going or answer.going
        return going

    def _epoch_budget(self) -> Budget:
        budget, workers = self.options.budget, self.options.workers
        if budget.is_timed:
            seconds = max(_SHORTEST_EPOCH, budget.seconds / _EPOCHS)
            return Budget(seconds=min(seconds, self.left().seconds))
        wanted = max(_SMALLEST_EPOCH, budget.part(1 / _EPOCHS / workers).candidates)
        return Budget(candidates=min(wanted, self.left().part(1 / workers).candidates))

    def patch(self) -> Patch:
        """What is offered, or why nothing is."""
        parent, timing = self.bench.kernel, self.bench.patient_timing
        lone = timing.parent[0]
        launch = self.options.launch
        return Patch(
            schema=SCHEMA,
            tool_version=version("asm-evo-skill"),
            base=self.program.hash,
            file=self.program.file,
            target=parent.target.name,
            kernel=parent.name,
            kernel_hash=parent.hash,
            seed=self.options.seed,
            level=self.options.level.value,
            floating_point=_POLICY_NAMES[self.options.floating_point],
            whole_waves=self.options.whole_waves,
            before=measure(parent, timing.parent),
            candidates=make_offers(self.bench, self.board, self.program),
            launch=launch.name if launch is not None else None,
            not_run=self.options.not_run,
            estimate_note=f"{lone.note}; {'; '.join(lone.assumptions)}",
        )
