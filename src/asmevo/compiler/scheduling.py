"""One source, many schedules, one table: each agent and each of LLVM's own strategies as a row for each kernel.

    llvm      what LLVM makes of the source in one run; with a strategy its options or hints
    pre       an agent's order of machine IR before registers are allocated; `default` is LLVM's own order, same way
    post      LLVM's final code, its blocks in an agent's order; `default` keeps the order, but waits and hints are
              derived anew for it as for the others
    both      `pre`, then `post` by the same agent

Cycles and lines are compared with `default` of stage `pre`, which went the same way as the other agents' code; what
that way itself costs is the difference between `default` and `llvm`. Results are compared on the emulator with
`llvm`, which went no way of ours. With no launch, or none for a kernel, nothing is verified, and the row says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from asmevo.compiler.choosing import DEFAULT, SEARCH, Chooser
from asmevo.compiler.compilation import Compilation, compile_source
from asmevo.compiler.decisions import Observed, StateLog, read_decisions
from asmevo.compiler.errors import SchedulingError
from asmevo.compiler.final_code import Rescheduled, SourceOrder, reschedule, searched
from asmevo.compiler.measures import Measures, lines_changed, measure
from asmevo.compiler.strategies import Strategy, strategy_named
from asmevo.emulator.comparison import Difference, Unfinished, Witness, standard_trials
from asmevo.emulator.manifest import LaunchManifest
from asmevo.program import Kernel, Program, ProgramError, read_program, write_program
from asmevo.proposers.chat import ChatModel
from asmevo.proposers.proposer import ProposerError
from asmevo.proposers.scheduling import Agent, Choice, list_schedule
from asmevo.search.budget import Budget
from asmevo.toolchain.errors import ToolchainError
from asmevo.toolchain.staged_compiler import StagedCompiler, staged_compiler

LLVM = "llvm"
"""The row of LLVM's own result; a strategy's row is `llvm:NAME`."""
DECISIONS = "decisions"
"""The agent that follows a decisions file."""


class Stage(StrEnum):
    """Where agents decide."""

    PRE = "pre"
    POST = "post"
    BOTH = "both"


class Verified(StrEnum):
    """Whether the emulator saw the same bytes as from LLVM's own result.

    `UNDEFINED_READ`: it did, and the code reads a register that nobody wrote, as undefined values allow. Emulated
    registers hold 0 then, so that nothing came of it is known for 0 only. `UNFINISHED`: the run was given up.
    """

    EQUAL = "equal"
    UNDEFINED_READ = "equal, undefined read"
    DIFFERENT = "different"
    UNFINISHED = "given up"
    NOT_RUN = "not run"


_KINDS = {type(None): Verified.EQUAL, Difference: Verified.DIFFERENT, Unfinished: Verified.UNFINISHED}


class Row(Struct, frozen=True):
    """One kernel by one agent. `stage` is `llvm` for what LLVM did alone.

    `decisions` are those with more than one candidate, `changed` those of them that are not the default's.
    `measures` are None where there is no code, and `words` says why; else they say what differs on the emulator, why
    nothing ran, or which blocks' orders the gates refused. `code` is the kernel, `program` what llc made, of which
    it is a version.
    """

    agent: str
    stage: str
    kernel: str
    decisions: int = 0
    changed: int = 0
    measures: Measures | None = None
    lines_changed: int | None = None
    against_default: float | None = None
    verified: Verified = Verified.NOT_RUN
    launches: int = 0
    words: tuple[str, ...] = ()
    program: Program | None = None
    code: Kernel | None = None

    @property
    def change_rate(self) -> float | None:
        """The share of decisions that are not the default's; None where nobody decided."""
        return self.changed / self.decisions if self.decisions else None

    def files(self) -> tuple[bytes, bytes] | None:
        """(assembly text, code object) of the whole program with this kernel; None where there is no code.

        Raises WriteError.
        """
        if self.program is None or self.code is None:
            return None
        text = write_program(self.program, {self.kernel: self.code})
        return text, read_program(text, self.program.file, gpu=self.code.target.name).image.data

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values, without the code."""
        return {
            "agent": self.agent,
            "stage": self.stage,
            "kernel": self.kernel,
            "decisions": self.decisions,
            "changed": self.changed,
            "change_rate": None if self.change_rate is None else round(self.change_rate, 4),
            "lines_changed": self.lines_changed,
            "measures": None if self.measures is None else self.measures.to_dict(),
            "against_default": self.against_default,
            "verified": self.verified.value,
            "launches": self.launches,
            "words": list(self.words),
        }


class Scheduled(Struct, frozen=True):
    """The rows in the order asked for, LLVM's first. `unmatched`: instructions that LLVM's scheduler
    made anew elsewhere, so that `default` has no place for them.

    `note` says what no row holds.
    """

    file: str
    gpu: str
    compiler: str
    rows: tuple[Row, ...]
    unmatched: int
    note: str = "predicted by a cycle model and run on an emulator; no GPU has measured any of this"

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "schema": "asmevo.sched/1",
            "file": self.file,
            "gpu": self.gpu,
            "compiler": self.compiler,
            "unmatched": self.unmatched,
            "note": self.note,
            "rows": [row.to_dict() for row in self.rows],
        }


class _Version(Struct, frozen=True):
    """A program with, for each kernel, how many decisions made it and how many of them are not the default's."""

    program: Program
    counts: Mapping[str, tuple[int, int]]


class SchedulingOptions(Struct, frozen=True):
    """`strategies` of LLVM by name, `seeds` asynchronous launches beside the plain ones, `memory` for the cycle model,
    `search` what the agent `search` may spend on a kernel.

    `state_log` and `decisions` are files (see `decisions`), `tell` hears what is being done.
    """

    strategies: Sequence[str] = ()
    seed: int = 0
    seeds: int = 1
    memory: str = "l2"
    search: Budget = field(default_factory=lambda: Budget(seconds=45.0))
    chat: ChatModel | None = None
    state_log: StateLog | None = None
    decisions: Path | None = None
    tell: Callable[[str], None] = lambda words: None


def schedule_source(
    source: Path | str,
    gpu: str,
    agents: Sequence[str],
    stage: Stage | str = Stage.PRE,
    launch: LaunchManifest | None = None,
    options: SchedulingOptions | None = None,
    compiler: StagedCompiler | None = None,
) -> Scheduled:
    """Schedules every kernel of a source (OpenCL C, HIP or LLVM IR by the end of its name) by every agent.

    Raises ToolchainMissingError without llc, SchedulingError, MachineIRError, CompilationError, OSError. An agent or a
    strategy that fails for itself is a row that says so.
    """
    compilation = compile_source(Path(source), gpu, compiler or staged_compiler())
    return _Table(compilation, Stage(stage), launch, options or SchedulingOptions()).fill(agents)


class _Table:
    """The rows in the making."""

    def __init__(
        self, compilation: Compilation, stage: Stage, launch: LaunchManifest | None, options: SchedulingOptions
    ) -> None:
        self.compilation = compilation
        self.stage = stage
        self.launch = launch
        self.options = options
        self._base: dict[str, tuple[Kernel, Measures]] = {}

    @cached_property
    def original(self) -> Program:
        """LLVM's own result in one run."""
        return self.compilation.program(self.compilation.assembly, LLVM)

    @cached_property
    def witness(self) -> Witness | None:
        """What the launch leaves when LLVM's own result runs; None without a launch for this source."""
        if self.launch is None:
            return None
        kernel = next((each for each in _entries(self.original) if each.name == self.launch.symbol), None)
        if kernel is None:
            words = f"has no kernel {self.launch.symbol}, which the launch is for"
            raise SchedulingError(self.compilation.file, words)
        self.launch.geometry(self.compilation.gpu)
        return Witness(self.original, kernel, standard_trials(self.launch, self.options.seeds))

    def fill(self, agents: Sequence[str]) -> Scheduled:
        """All rows."""
        compilation, options = self.compilation, self.options
        extra: dict[str, Agent] = {}
        if options.decisions is not None:
            extra[DECISIONS] = read_decisions(options.decisions, compilation)
        chooser = Chooser(options.seed, options.chat, extra)
        for name in agents:
            chooser.check(name, compilation.file)
            if name == SEARCH and self.stage is Stage.PRE:
                raise SchedulingError(compilation.file, "the search works on final code: ask for stage post or both")
        ways = [strategy_named(name, compilation.file) for name in options.strategies]
        if options.state_log is not None:
            options.state_log.begin(compilation)
        rows = self._first_rows()
        for way in ways:
            rows += self._guarded(f"{LLVM}:{way.name}", LLVM, partial(self._by_strategy, way))
        for name in dict.fromkeys((*agents, *extra)):
            rows += self._of_agent(name, chooser, before_only=name in extra)
        version = compilation.compiler.version
        return Scheduled(compilation.file, compilation.gpu, version, tuple(rows), compilation.llvm.unmatched)

    def _first_rows(self) -> list[Row]:
        """LLVM's own result and its order on our way; the latter is what the others are compared with."""
        _ = self.witness
        self.options.tell("LLVM's own order")
        version = self._ordered(self.compilation.llvm)
        for kernel in _entries(version.program):
            self._base[kernel.name] = (kernel, measure(kernel, self.options.memory))
        own = _Version(self.original, {})
        return [*self._rows(LLVM, LLVM, own), *self._rows(DEFAULT, Stage.PRE, version)]

    def _of_agent(self, name: str, chooser: Chooser, before_only: bool) -> Iterator[Row]:
        stages = (Stage.PRE, Stage.POST, Stage.BOTH) if self.stage is Stage.BOTH else (self.stage,)
        for stage in stages:
            if (stage is not Stage.PRE and before_only) or (stage is Stage.PRE and name in (DEFAULT, SEARCH)):
                continue
            self.options.tell(f"{name}, {stage}")
            yield from self._guarded(name, stage, partial(self._by_agent, name, stage, chooser))

    def _guarded(self, name: str, stage: str, rows: Callable[[], list[Row]]) -> list[Row]:
        """The rows, or one for each kernel that says why there are none."""
        try:
            return rows()
        except (ToolchainError, ProgramError, ProposerError) as error:
            if isinstance(error, SchedulingError):
                raise
            words = (str(error),)
            return [Row(name, stage, kernel.name, words=words) for kernel in _entries(self.original)]

    def _by_strategy(self, way: Strategy) -> list[Row]:
        assembly = way.assembly(self.compilation)
        name = f"{LLVM}:{way.name}"
        return self._rows(name, LLVM, _Version(self.compilation.program(assembly, name), {}))

    def _by_agent(self, name: str, stage: Stage, chooser: Chooser) -> list[Row]:
        if stage is Stage.POST:
            return self._rescheduled(name, stage, _Version(self.original, {}), chooser)
        version = self._ordered(chooser.before_allocation(DEFAULT if name == SEARCH else name, self.compilation))
        if stage is Stage.PRE:
            return self._rows(name, stage, version)
        return self._rescheduled(name, stage, version, chooser)

    def _ordered(self, agent: Agent) -> _Version:
        """The source with an agent's order of its machine IR."""
        compilation = self.compilation
        orders: dict[str, tuple[int, ...]] = {}
        counts = {}
        for function in compilation.functions:
            observed = Observed(agent, compilation.llvm, self._told)
            orders |= {name: list_schedule(compilation.problems[name], observed) for name in function.regions}
            counts[function.function.name] = (observed.decisions, observed.changed)
        assembly = compilation.with_orders(orders)
        return _Version(compilation.program(assembly, agent.name), counts)

    @property
    def _told(self) -> Callable[[str, Choice, int, int], None] | None:
        return self.options.state_log.decision if self.options.state_log is not None else None

    def _rescheduled(self, name: str, stage: Stage, version: _Version, chooser: Chooser) -> list[Row]:
        """Rows of final code whose blocks are in an agent's order; decisions count against the code's own order."""
        rows = []
        for kernel in _entries(version.program):
            decided, changed = version.counts.get(kernel.name, (0, 0))
            result, observed = self._in_final_code(name, stage, version.program, kernel, chooser)
            counts = (decided + observed.decisions, changed + observed.changed)
            rows.append(self._row(name, stage, version, result.kernel, counts, result.refused))
        return rows

    def _in_final_code(
        self, name: str, stage: Stage, program: Program, kernel: Kernel, chooser: Chooser
    ) -> tuple[Rescheduled, Observed]:
        options = self.options
        if name == SEARCH:
            best = searched(program, kernel, options.search, options.seed, options.memory)
            return Rescheduled(best, 0, ()), Observed(SourceOrder(), SourceOrder())
        agent = chooser.after_allocation(name, SourceOrder(), self.compilation.file)
        observed = Observed(agent, SourceOrder(), options.state_log.later(stage) if options.state_log else None)
        return reschedule(kernel, observed, options.memory), observed

    def _rows(self, name: str, stage: str, version: _Version) -> list[Row]:
        kernels = _entries(version.program)
        return [self._row(name, stage, version, each, version.counts.get(each.name, (0, 0))) for each in kernels]

    def _row(
        self,
        name: str,
        stage: str,
        version: _Version,
        kernel: Kernel,
        counts: tuple[int, int],
        words: tuple[str, ...] = (),
    ) -> Row:
        measures = measure(kernel, self.options.memory)
        base_kernel, base = self._base[kernel.name]
        verified, launches, said = self._verified(version.program, kernel)
        return Row(
            agent=name,
            stage=stage,
            kernel=kernel.name,
            decisions=counts[0],
            changed=counts[1],
            measures=measures,
            lines_changed=lines_changed(base_kernel, kernel),
            against_default=round(measures.cycles / base.cycles, 4) if base.cycles else None,
            verified=verified,
            launches=launches,
            words=(*said, *words),
            program=version.program,
            code=kernel,
        )

    def _verified(self, program: Program, kernel: Kernel) -> tuple[Verified, int, tuple[str, ...]]:
        witness = self.witness
        if witness is None:
            return Verified.NOT_RUN, 0, ()
        if kernel.name != witness.kernel.name:
            return Verified.NOT_RUN, 0, (f"the launch is for {witness.kernel.name}",)
        if not witness.known:
            return Verified.NOT_RUN, 0, tuple(f"{name}: {why}" for name, why in witness.refusals.items())
        found = None if kernel is witness.kernel else witness.examine(program, kernel)
        kind = _KINDS[type(found)]
        if kind is Verified.DIFFERENT:
            again = _KINDS[type(witness.examine(program, kernel, unwritten=False))]
            kind = Verified.UNDEFINED_READ if again is Verified.EQUAL else again
        return kind, len(witness.known), () if found is None else (str(found),)


def _entries(program: Program) -> tuple[Kernel, ...]:
    """The kernels of a program, without functions that they call."""
    return tuple(each for each in program.kernels if each.is_entry)
