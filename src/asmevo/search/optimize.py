"""The loop: proposers propose, gates decide, the best survives and is proposed upon again.

Every candidate is a script against the original kernel and is judged against it, however many rounds it took
to find: nothing rests on a chain of earlier verdicts. The cycle model ranks; only what passed all gates
is ever kept.
"""

from __future__ import annotations

import platform
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version

from asmevo.analysis.windows import Window
from asmevo.checks.constraints import Compiled, constraints_for
from asmevo.emulator import LaunchManifest
from asmevo.gates import EmulationGate, Judgement, Level, Pipeline, TimingGate, Verdict
from asmevo.gates.gate import VerdictKind
from asmevo.gates.timing import MINIMUM_GAIN, Prediction
from asmevo.program.candidate import Candidate
from asmevo.program.edit import EditScript, apply_script, script_between
from asmevo.program.errors import EditError, WriteError
from asmevo.program.kernel import Kernel
from asmevo.program.program import Program
from asmevo.program.writing import write_program
from asmevo.proposers import Facts, ListScheduler, LocalSearch, Proposer, ProposerError, WaitRelaxer
from asmevo.search.explain import explain, relies_on
from asmevo.search.ledger import Ledger, LedgerRun, Offered
from asmevo.search.measures import measure
from asmevo.search.patch import SCHEMA, Patch, PatchCandidate
from asmevo.toolchain import toolchain

Tell = Callable[[float, str], None]

_SEEN = Verdict("script", VerdictKind.UNDECIDED, "this kernel was tried before")
_OFFERED = 3
_PREDICTED = 6
_ROUNDS = 2


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """`budget` in seconds; the search may end sooner. `memory` is the cycle model's scenario.

    With a `launch` every offer has also run on the emulator beside the original. `constraints` are those of the
    constraints gate; by default the target's built-in ones. `proposers` are the user's own, asked first. With
    `windows` nothing outside of their blocks may change.
    """

    level: Level = Level.STANDARD
    budget: float = 45.0
    seed: int = 0
    memory: str = "l2"
    launch: LaunchManifest | None = None
    constraints: Compiled | None = None
    proposers: tuple[Proposer, ...] = ()
    windows: tuple[Window, ...] = ()

    @property
    def blocks(self) -> frozenset[int] | None:
        """Blocks that may change; None for all."""
        return frozenset(window.block for window in self.windows) or None


@dataclass(frozen=True, slots=True)
class OptimizationRun:
    """A finished run: the patch, and how many candidates were tried and accepted on the way."""

    id: str
    patch: Patch
    tried: int
    accepted: int
    why_nothing: str


@dataclass(slots=True)
class _Kept:
    """A version that passed all gates, with its cost as a share of the original's cycles."""

    cost: float
    judgement: Judgement


@dataclass(slots=True)
class _Search:
    """One run's state."""

    kernel: Kernel
    options: SearchOptions
    pipeline: Pipeline
    timing: TimingGate
    run: LedgerRun
    tell: Tell
    started: float = field(default_factory=time.monotonic)
    kept: dict[str, _Kept] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    refused: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    last: Verdict | None = None
    tried: int = 0

    def elapsed(self) -> float:
        return time.monotonic() - self.started

    def out_of_time(self) -> bool:
        return self.elapsed() >= self.options.budget

    def cost(self, kernel: Kernel) -> float:
        """What proposers and ranking minimise: see Prediction.cost; only for a lone wave where that loses already."""
        lone = self.timing.estimate(kernel, 1)
        share = lone.cycles / self.timing.parent[0].cycles
        return share if share > 1.0 + MINIMUM_GAIN else self.timing.predict(kernel, lone).cost

    def facts(self, kernel: Kernel, rng: random.Random) -> Facts:
        options = self.options
        return Facts(
            kernel,
            options.memory,
            rng,
            self.cost,
            self.out_of_time,
            lambda: self.last,
            options.windows,
            options.constraints or constraints_for(kernel.target.name),
            self.run.record_exchange,
        )

    def follow(self, proposer: Proposer, kernel: Kernel, rng: random.Random) -> Kernel:
        """Sends a proposer's scripts through the gates; returns the best version, which may be `kernel`."""
        best, best_cost = kernel, self.cost(kernel)
        scripts = proposer.propose(self.facts(kernel, rng))
        answer: bool | None = None
        try:
            while not self.out_of_time():
                found = self._try(scripts.send(answer), kernel)
                answer = found is not None
                if found is not None and found.cost < best_cost:
                    best, best_cost = found.judgement.candidate.kernel, found.cost
                words = f"{proposer.name}: {self.tried} tried, {len(self.kept)} kept"
                self.tell(self.elapsed() / self.options.budget, words)
        except StopIteration:
            pass
        except ProposerError as error:
            self.failures.append(f"proposer {proposer.name} {error}")
            self.run.record_failure(proposer.name, str(error))
        finally:
            scripts.close()
        return best

    def _try(self, script: EditScript, kernel: Kernel) -> _Kept | None:
        """Judges a script for `kernel` as one for the original. None when a gate refused it."""
        try:
            changed = apply_script(kernel, script)
            if changed.hash in self.seen:
                self.last = _SEEN
                return self.kept.get(changed.hash)
            candidate = Candidate.make(self.kernel, script_between(self.kernel, changed.blocks, script.origin))
            self._stay_inside(candidate)
        except EditError as error:
            self._misfit(script, kernel, error)
            return None
        self.seen.add(changed.hash)
        self.tried += 1
        judgement = self.pipeline.judge(candidate)
        self.last = judgement.verdicts[-1]
        if not judgement.accepted:
            self.refused[judgement.verdicts[-1].gate] += 1
            self.run.record(judgement, None, kernel.hash)
            return None
        kept = _Kept(self.cost(judgement.candidate.kernel), judgement)
        self.kept[changed.hash] = kept
        self.run.record(judgement, kept.cost, kernel.hash)
        return kept

    def _stay_inside(self, candidate: Candidate) -> None:
        """Raises EditError when a block outside of the search's windows changed."""
        allowed = self.options.blocks
        outside = [] if allowed is None else [each for each in candidate.changed_blocks if each not in allowed]
        if outside:
            raise EditError(f"block {outside[0]} is outside of the windows that may change")

    def _misfit(self, script: EditScript, kernel: Kernel, error: EditError) -> None:
        """A script that fits no kernel is a candidate refused before the first gate."""
        self.tried += 1
        self.refused["script"] += 1
        self.last = Verdict("script", VerdictKind.REJECTED, str(error))
        self.run.record_misfit(script, self.last, kernel.hash)


def optimize(
    program: Program, kernel: Kernel, options: SearchOptions, ledger: Ledger, tell: Tell = lambda share, words: None
) -> OptimizationRun:
    """Searches for faster versions of one kernel of a program and records everything in the ledger.

    The same seed tries the same candidates in the same order as far as the budget of seconds reaches.
    """
    request = {
        "file": program.file,
        "base": program.hash,
        "kernel": kernel.name,
        "kernel_hash": kernel.hash,
        "target": kernel.target.name,
        "level": options.level.value,
        "seed": options.seed,
        "budget_seconds": options.budget,
        "memory": options.memory,
        "version": version("asm-evo-skill"),
        "llvm": toolchain().version,
        "python": platform.python_version(),
        "proposers": [proposer.name for proposer in options.proposers],
        "blocks": sorted(options.blocks) if options.blocks is not None else None,
    }
    with ledger.open_run(request, program.data) as run:
        pipeline = Pipeline(kernel, options.level, options.constraints)
        search = _Search(kernel, options, pipeline, TimingGate(kernel, options.memory), run, tell)
        _rounds(search)
        patch = _offer(search, program)
        counts = {"tried": search.tried, "accepted": len(search.kept), "seconds": round(search.elapsed(), 3)}
        run.finish(patch.to_json(), _recorded_offers(search, program, patch), counts)
        return OptimizationRun(run.id, patch, search.tried, len(search.kept), _why_nothing(search))


def _recorded_offers(search: _Search, program: Program, patch: Patch) -> list[Offered]:
    """What the ledger keeps of each offer; without a program where none can be written."""
    offers = []
    for offer in patch.candidates:
        made = apply_script(search.kernel, offer.script)
        try:
            written = write_program(program, {search.kernel.name: made})
        except WriteError:
            written = None
        offers.append(Offered(offer.model_dump(mode="json", exclude={"script"}), made.hash, written))
    return offers


def _rounds(search: _Search) -> None:
    """The user's proposers, cheap proposers until they find nothing more, then the local search on what they made."""
    rng = random.Random(search.options.seed)
    best = search.kernel
    for proposer in search.options.proposers:
        best = search.follow(proposer, best, rng)
    quick: tuple[Proposer, ...] = (WaitRelaxer(), ListScheduler())
    for _ in range(_ROUNDS):
        before = best
        for proposer in quick:
            best = search.follow(proposer, best, rng)
        if best is before:
            break
    for start in dict.fromkeys((best, search.kernel)):
        search.follow(LocalSearch(), start, rng)


def _offer(search: _Search, program: Program) -> Patch:
    parent = search.kernel
    ranked = _different(sorted(search.kept.values(), key=lambda kept: kept.cost))
    predicted = [(search.timing.predict(kept.judgement.candidate.kernel), kept) for kept in ranked]
    predicted.sort(key=lambda pair: pair[0].cost)
    emulation = EmulationGate(program, parent, launch) if (launch := search.options.launch) is not None else None
    offers: list[PatchCandidate] = []
    for prediction, kept in predicted:
        verdicts = [search.timing.verdict(prediction)]
        if verdicts[-1].accepted and emulation is not None and len(offers) < _OFFERED:
            verdicts.insert(0, emulation.judge(kept.judgement.candidate))
        if all(verdict.accepted for verdict in verdicts) and len(offers) < _OFFERED:
            offers.append(_offer_one(search, kept, len(offers) + 1, prediction, verdicts))
        else:
            search.refused.update(verdict.gate for verdict in verdicts if not verdict.accepted)
    lone = search.timing.parent[0]
    return Patch(
        schema=SCHEMA,
        tool_version=version("asm-evo-skill"),
        base=program.hash,
        file=program.file,
        target=parent.target.name,
        kernel=parent.name,
        kernel_hash=parent.hash,
        seed=search.options.seed,
        level=search.options.level.value,
        before=measure(parent, search.timing.parent),
        candidates=tuple(offers),
        launch=search.options.launch.name if search.options.launch is not None else None,
        estimate_note=f"{lone.note}; {'; '.join(lone.assumptions)}",
    )


def _different(ranked: list[_Kept]) -> list[_Kept]:
    """The best for each set of blocks that changed: three offers that differ by a detail are one offer."""
    best: dict[tuple[int, ...], _Kept] = {}
    for kept in ranked:
        best.setdefault(kept.judgement.candidate.changed_blocks, kept)
    return list(best.values())[:_PREDICTED]


def _offer_one(
    search: _Search, kept: _Kept, rank: int, prediction: Prediction, verdicts: list[Verdict]
) -> PatchCandidate:
    candidate = kept.judgement.candidate
    lone = prediction.estimates[0]
    return PatchCandidate(
        rank=rank,
        script=candidate.script,
        why=explain(candidate.parent, candidate.kernel, search.timing.parent[0], lone),
        relies_on=relies_on(lone),
        after=measure(candidate.kernel, prediction.estimates),
        predicted_gain=prediction.gain,
        verdicts=tuple(each.to_dict() for each in (*kept.judgement.verdicts, *verdicts)),
    )


def _why_nothing(search: _Search) -> str:
    failures = "; ".join(search.failures)
    if not search.tried:
        return f"no proposer had an idea; {failures}" if failures else "no proposer had an idea"
    refused = ", ".join(f"{gate} refused {count}" for gate, count in search.refused.most_common())
    best = min((kept.cost for kept in search.kept.values()), default=1.0)
    found = f"the best accepted one saves {100 * (1 - best):.2f} % (at least {100 * MINIMUM_GAIN:.1f} % is asked)"
    return "; ".join(part for part in (found, refused, failures) if part)
