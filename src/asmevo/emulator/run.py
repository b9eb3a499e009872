"""One call from program and manifest to a judged result."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from enum import Enum
from typing import Any, Literal

import numpy as np
from msgspec import Struct, field

from asmevo.emulator.asynchronous import AsynchronousEngine, world
from asmevo.emulator.code import NOWHERE, Code, MeaningOf, Step
from asmevo.emulator.compiled import HOT_AFTER, CompiledEngine
from asmevo.emulator.errors import EmulationError, LaunchError, LimitError, UnsupportedInstructionError
from asmevo.emulator.launch import Launch, prepare
from asmevo.emulator.machine import Engine, Limits, Machine, Meter, Poison, Tally
from asmevo.emulator.manifest import (
    NUMPY_TYPES,
    Array,
    BufferArgument,
    LaunchManifest,
    compare,
    compare_with_manifest,
)
from asmevo.emulator.reference import ReferenceEngine, Watch
from asmevo.emulator.workgroups import may_share, run_interleaved, run_workgroups
from asmevo.program.kernel import Kernel
from asmevo.program.program import Program
from asmevo.semantics.expression import Exactness

_LIVE_GROUPS = 2  # workgroups that interleave in asynchronous mode
_LARGEST_SEED = 1 << 30

EngineName = Literal["compiled", "reference"]


class Outcome(Enum):
    """What a run came to. RAN: it ended well, and the manifest expects nothing to compare with."""

    MATCHES = "matches"
    RAN = "ran"
    DIFFERS = "differs"
    FAULT = "fault"
    LIMIT = "limit"
    UNSUPPORTED = "unsupported"

    @property
    def is_end(self) -> bool:
        """Whether all waves ended; `differs` is from what the manifest expects."""
        return self in (Outcome.MATCHES, Outcome.RAN, Outcome.DIFFERS)

    @property
    def is_definite(self) -> bool:
        """Whether something was decided: not where the emulator gave up."""
        return self not in (Outcome.LIMIT, Outcome.UNSUPPORTED)


class Fidelity(Struct, frozen=True):
    """How often each mnemonic ran, by the exactness of its meaning."""

    exact: dict[str, int] = field(default_factory=dict)
    approximate: dict[str, int] = field(default_factory=dict)
    unsupported: dict[str, int] = field(default_factory=dict)


class RunResult(Struct, frozen=True):
    """What a run gave. `outputs` are the buffers that the kernel may write, as they were at the end.

    `problems` are sentences: differences from what was expected, or the fault that ended the run. `notes` tell of
    values that nobody wrote. `instructions` counts wave-instructions, `seconds` the time to run them. `executed` is
    how often waves executed each instruction of the kernel, by instruction id.
    """

    outcome: Outcome
    outputs: dict[str, Array]
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    fidelity: Fidelity
    instructions: int
    seconds: float
    unsupported: str = ""
    executed: dict[int, int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The result without the buffers' contents and the counts by instruction, for JSON."""
        return {
            "outcome": self.outcome.value,
            "problems": list(self.problems),
            "notes": list(self.notes),
            "instructions": self.instructions,
            "seconds": round(self.seconds, 6),
            "unsupported": self.unsupported or None,
            "fidelity": {
                "exact": self.fidelity.exact,
                "approximate": self.fidelity.approximate,
                "unsupported": self.fidelity.unsupported,
            },
        }


class RunOptions(Struct, frozen=True):
    """How to run; `seed` see `Machine`. `asynchronous`: see `emulator.asynchronous`; every seed is another course.

    `watch` hears of each instruction before it runs, which takes the reference engine. `hot_after`: executions after
    which a block is compiled as a whole, 0 for at once.
    """

    poison: Poison = "collect"
    seed: int = 0
    engine: EngineName = "compiled"
    limits: Limits = field(default_factory=Limits)
    watch: Watch | None = None
    meaning_of: MeaningOf | None = None
    hot_after: int = HOT_AFTER
    asynchronous: bool = False


def run(
    program: Program,
    kernel: Kernel,
    manifest: LaunchManifest,
    expected: Mapping[str, Array] | None = None,
    buffers: Mapping[str, Array] | None = None,
    options: RunOptions | None = None,
) -> RunResult:
    """Emulates one launch and compares its results.

    `buffers` replaces the data that the manifest makes. `expected` gives whole arrays by name; without it the
    manifest's own expectations count. Raises LaunchError and ManifestError about the input; what goes wrong while
    the kernel runs is in the result.
    """
    options = options or RunOptions()
    launch = prepare(program, kernel, manifest, buffers)
    code = Code(program, kernel, launch.memory.load_base, options.meaning_of or _meaning_of())
    if code.place_at(code.load_base + launch.entry) == NOWHERE:
        raise LaunchError(kernel.name, f"waves start at {launch.entry:#x}, where no instruction begins")
    team = _Team(launch, code, options)
    started = time.perf_counter()
    outcome, problems, missing = Outcome.RAN, [], ""
    try:
        team.run()
    except UnsupportedInstructionError as error:
        outcome, problems, missing = Outcome.UNSUPPORTED, [str(error)], error.mnemonic
    except LimitError as error:
        outcome, problems = Outcome.LIMIT, [str(error)]
    except EmulationError as error:
        outcome, problems = Outcome.FAULT, [str(error)]
    tally = team.finish()
    seconds = time.perf_counter() - started
    outputs = _outputs(launch)
    if outcome is Outcome.RAN:
        outcome, problems = _judge(manifest, outputs, expected)
    return RunResult(
        outcome,
        outputs,
        tuple(problems),
        tuple(tally.notes),
        fidelity(code.steps, tally, missing),
        tally.instructions,
        seconds,
        missing,
        _executed(code.steps, tally, kernel),
    )


class _Team:
    """The machines that work on a launch: one, or two on threads of their own."""

    def __init__(self, launch: Launch, code: Code, options: RunOptions) -> None:
        self.launch = launch
        self.code = code
        self.options = options
        self.meter = Meter(options.limits)
        self.machines: list[Machine] = []
        self.world = world(launch, options.seed) if options.asynchronous else None

    def run(self) -> None:
        """Runs every workgroup. Raises EmulationError."""
        if self.world is not None:
            run_interleaved([self._machine() for _ in range(_LIVE_GROUPS)], self.world.random)
            return
        plain = self.options.engine == "compiled" and self.options.watch is None and not self.options.seed
        share = plain and may_share(self.code.steps)
        run_workgroups(self._machine(), self._machine if share else None)

    def _machine(self) -> Machine:
        options = self.options
        tally = Tally([0] * len(self.code.steps))
        engine = self._engine(tally)
        first_slot = len(self.machines) * self.launch.scratch_slots
        seed = options.seed if self.world is None else self.world.random.randint(1, _LARGEST_SEED)
        machine = Machine(self.launch, self.code, engine, tally, options.poison, self.meter, seed, first_slot)
        self.machines.append(machine)
        return machine

    def _engine(self, tally: Tally) -> Engine:
        code, options = self.code, self.options
        compiled = options.engine == "compiled" and options.watch is None
        if self.world is not None:
            return AsynchronousEngine(code, tally, options.poison, self.world, compiled, options.watch)
        if compiled:
            return CompiledEngine(code, tally, options.poison, hot_after=options.hot_after)
        return ReferenceEngine(code, tally, options.poison, options.watch)

    def finish(self) -> Tally:
        """All counts together."""
        total = Tally([0] * len(self.code.steps))
        for machine in self.machines:
            machine.engine.finish()
            total.add(machine.tally)
        return total


def _meaning_of() -> MeaningOf:
    from asmevo.semantics.meaning import meaning_of

    return meaning_of


def _judge(
    manifest: LaunchManifest,
    outputs: Mapping[str, Array],
    expected: Mapping[str, Array] | None,
) -> tuple[Outcome, list[str]]:
    if expected is None:
        problems, judged = compare_with_manifest(manifest, outputs)
    else:
        problems, judged = compare(manifest, outputs, expected), True
    if problems:
        return Outcome.DIFFERS, problems
    return (Outcome.MATCHES if judged else Outcome.RAN), []


def _outputs(launch: Launch) -> dict[str, Array]:
    return {argument.name: _array(launch, argument) for argument in launch.manifest.buffers if argument.is_result}


def _array(launch: Launch, argument: BufferArgument) -> Array:
    raw = launch.memory.content(argument.name)
    return np.frombuffer(raw, NUMPY_TYPES[argument.dtype]).reshape(argument.shape).copy()


def _executed(steps: list[Step], tally: Tally, kernel: Kernel) -> dict[int, int]:
    return {
        step.instruction.id: times
        for step, times in zip(steps, tally.executed, strict=True)
        if step.kernel.name == kernel.name
    }


def fidelity(steps: list[Step], tally: Tally, missing: str) -> Fidelity:
    """Counts of what ran, by mnemonic and exactness."""
    counts: dict[Exactness, Counter[str]] = {each: Counter() for each in Exactness}
    for step, times in zip(steps, tally.executed, strict=True):
        if times:
            counts[step.meaning.exactness][step.instruction.mnemonic] += times
    if missing:
        counts[Exactness.UNSUPPORTED][missing] += 1
    return Fidelity(*(dict(sorted(counts[each].items())) for each in Exactness))
