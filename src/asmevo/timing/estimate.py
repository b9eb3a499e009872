"""Predicted cycles of a kernel, with where they go and how well each part is known.

The estimate is that of a model, not a measurement: `waves` waves of the kernel alone on one SIMD, starting
together, warm instruction cache, memory answering after fixed times (`memory` scenario), other SIMDs of the
same compute unit not competing. The path and its repetition are those of `path`; loops run until steady and
are then multiplied. What is not modelled is named in `assumptions`.

Cycles of a loop's iteration are those of one wave while `waves` waves run: with waves that get different
shares (the oldest goes first) the mean over them that keeps the SIMD's throughput, i.e. the harmonic one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from asmevo.analysis.occupancy import declared_workgroup_size, occupancy
from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Kernel
from asmevo.target import Target
from asmevo.target.facts import Known
from asmevo.timing.instruction_class import Port
from asmevo.timing.limits import critical, next_limit
from asmevo.timing.machine import Machine
from asmevo.timing.passes import Pass, StretchLog
from asmevo.timing.path import ASSUMED_TRIP_COUNT, Stretch, TripCounts, layout_of, path_of, trips_of
from asmevo.timing.scenarios import Memory, machine_for, scenario_name, silicon_note
from asmevo.timing.schedule import schedule
from asmevo.timing.simulator import Observe, Simulator
from asmevo.timing.steps import Step

MOST_ITERATIONS = 12
WAVE_ITERATIONS = 32
"""Iterations simulated of a loop that does not become steady: at most of one wave, of all together."""
_FEWEST_ITERATIONS = 4
_NEAR = "l2"


class Stall(Struct, frozen=True):
    """Cycles that an instruction waited beyond its issue slot: for which instruction (id or None), and why.

    A wave's mean, weighted by how often the instruction runs. `known`: how well the number behind it is
    known.
    """

    instruction: int
    waits_for: int | None
    reason: str
    known: Known
    cycles: float


class LoopEstimate(Struct, frozen=True):
    """One innermost loop: `header` and `blocks` are block indices, `trips` its iterations per entry.

    `steady` is False when the iterations simulated never repeated; `cycles` is then their mean.
    """

    header: int
    blocks: tuple[int, ...]
    instructions: int
    cycles: float
    trips: int
    steady: bool
    stalls: tuple[Stall, ...]


class Estimate(Struct, frozen=True):
    """See the module. `cycles` until all `waves` waves on the SIMD are done, `cycles_per_wave` that by
    `waves`.

    `stalls` are the whole kernel's, for one wave, largest first; `stall_reasons` sums them by reason. `ipc`
    counts the instructions of all waves, `issues` those of one wave by the unit they issue to. `utilisation`: share
    of `cycles` that a unit is held. `known`: share of a wave's cycles by how well the fact behind them is known.
    `silicon` says whether traces of the target were there to check the model.
    """

    kernel: str
    target: str
    waves: int
    occupancy: int
    memory: str
    cycles: float
    cycles_per_wave: float
    loops: tuple[LoopEstimate, ...]
    stalls: tuple[Stall, ...]
    stall_reasons: Mapping[str, float]
    ipc: float
    issues: Mapping[str, float]
    utilisation: Mapping[str, float]
    critical: str
    next_limit: str
    known: Mapping[Known, float]
    silicon: str
    assumptions: tuple[str, ...]
    is_model: bool = True
    note: str = "predicted by a cycle model, not measured"

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        data: dict[str, Any] = to_builtins(self)
        return data


def estimate(
    kernel: Kernel,
    *,
    waves: int | None = None,
    trip_count: TripCounts = None,
    memory: Memory = "l2",
    only_loops: bool = False,
    observe: Observe | None = None,
    patience: int = 1,
) -> Estimate:
    """Estimates a kernel.

    `waves`: waves on the SIMD, by default what occupancy allows. `trip_count`: iterations of every loop, or
    by the index of the loop's header block. `memory`: "cold", "l2", "lds-only" (global memory answers at
    once), or cycles by latency class (e.g. {"vmem_load": 500}). `only_loops` leaves out the code between
    innermost loops, which is faster and enough to compare loop schedules; each loop then starts with nothing
    in flight. `observe` hears of each simulated issue. `patience`: how many times as many iterations are simulated of a
    loop that does not become steady; the mean over few depends on where they end. Raises ValueError for values that
    make no sense.
    """
    if waves is not None and waves < 1:
        raise ValueError(f"a SIMD cannot run {waves} waves")
    possible = max(1, occupancy(kernel).waves)
    count = waves if waves is not None else possible
    machine = machine_for(kernel.target, kernel.wave_size, memory)
    stretches = path_of(kernel)
    if only_loops:
        stretches = tuple(each for each in stretches if each.loop is not None)
    simulator = simulate(kernel, machine, stretches, count, trip_count, observe, patience)
    return _Summary(kernel, machine, stretches, simulator, trip_count).estimate(count, possible, memory)


def simulate(
    kernel: Kernel,
    machine: Machine,
    stretches: Sequence[Stretch],
    waves: int,
    trip_count: TripCounts,
    observe: Observe | None = None,
    patience: int = 1,
) -> Simulator:
    """The simulator after `waves` waves went through stretches of a kernel's path, one after the other."""
    most = patience * max(_FEWEST_ITERATIONS, min(MOST_ITERATIONS, WAVE_ITERATIONS // waves))
    limits = [min(trips_of(each.loop, trip_count), most) if each.loop is not None else 1 for each in stretches]
    steps = _steps(machine, kernel, tuple(stretches))
    plan = [(own, each.loop is not None, limit) for own, each, limit in zip(steps, stretches, limits, strict=True)]
    simulator = Simulator(machine, plan, waves, _waves_of_group(kernel), _spacing(kernel.target))
    simulator.observe = observe
    simulator.run()
    return simulator


def _steps(machine: Machine, kernel: Kernel, stretches: tuple[Stretch, ...]) -> list[list[Step]]:
    """The steps of each stretch. What memory takes is all that a scenario changes, and nothing is linked to it."""
    shared = _near_steps(kernel, stretches)
    if machine is machine_for(kernel.target, kernel.wave_size, _NEAR):
        return shared
    return [[_under(machine, step) if step.returns else step for step in steps] for steps in shared]


def _under(machine: Machine, step: Step) -> Step:
    profile = machine.profile(step.profile.decoded)
    return replace(step, profile=profile, returns=profile.returns)


@lru_cache(maxsize=4)
def _near_steps(kernel: Kernel, stretches: tuple[Stretch, ...]) -> list[list[Step]]:
    """The same for any number of waves: a version that is worth it is asked about with several, and cold memory."""
    machine = machine_for(kernel.target, kernel.wave_size, _NEAR)
    return schedule(machine, (code_of(kernel, each) for each in stretches), layout=layout_of(kernel))


def stretch_cycles(stretch: Stretch, log: StretchLog, number: int, trip_count: TripCounts) -> float:
    """Cycles that wave `number` spends in a stretch, all of its iterations and those of the loops around it."""
    trips = trips_of(stretch.loop, trip_count) if stretch.loop is not None else 1
    return rounds(stretch, trip_count) * _wave_cycles(log, number, trips)


def rounds(stretch: Stretch, trip_count: TripCounts) -> int:
    """How often a stretch is come to: the iterations of the loops around it."""
    around = 1
    for header in stretch.around:
        around *= trips_of(header, trip_count)
    return around


def code_of(kernel: Kernel, stretch: Stretch) -> tuple[list[Instruction], list[bool], bool]:
    """The instructions of a stretch, whether each one's branch is taken, and whether it repeats."""
    instructions: list[Instruction] = []
    taken: list[bool] = []
    for block, goes in zip(stretch.blocks, stretch.taken, strict=True):
        own = kernel.blocks[block].instructions
        instructions += own
        taken += [False] * (len(own) - 1) + [goes] if own else []
    return instructions, taken, stretch.loop is not None


def _waves_of_group(kernel: Kernel) -> int:
    """Waves of one workgroup on one SIMD: they are dealt out evenly over the SIMDs of a compute unit."""
    waves = -(-declared_workgroup_size(kernel) // kernel.wave_size)
    return max(1, -(-waves // kernel.target.limits.simds_per_cu.value))


def _spacing(target: Target) -> int:
    fact = target.timing.get("wave_start_interval")
    return int(fact.value) if fact is not None else 0


class _Summary:
    """Turns the passes of a simulation into an Estimate."""

    def __init__(
        self,
        kernel: Kernel,
        machine: Machine,
        stretches: tuple[Stretch, ...],
        simulator: Simulator,
        trip_count: TripCounts,
    ) -> None:
        self._kernel, self._machine, self._stretches = kernel, machine, stretches
        self._logs, self._trip_count = simulator.logs, trip_count
        self._ids = {step.slot: step.id for log in simulator.logs for step in log.steps}

    def estimate(self, waves: int, possible: int, memory: Memory) -> Estimate:
        stalls, busy = dict[tuple[int, int, Any], float](), dict[Port, float]()
        issues = dict[Port, float]()
        ends = [float(number * _spacing(self._kernel.target)) for number in range(waves)]
        loops = []
        for stretch, log in zip(self._stretches, self._logs, strict=True):
            around = rounds(stretch, self._trip_count)
            trips = trips_of(stretch.loop, self._trip_count) if stretch.loop is not None else 1
            ends = [e + stretch_cycles(stretch, log, n, self._trip_count) for n, e in enumerate(ends)]
            _add(stalls, _stretch_stalls(log, trips), around)
            times = around * trips
            for step in log.steps:
                port, engine = step.profile.port, step.profile.engine
                if not step.silent:
                    issues[port] = issues.get(port, 0.0) + times
                busy[port] = busy.get(port, 0.0) + times * step.occupancy
                if engine is not port:
                    busy[engine] = busy.get(engine, 0.0) + times * step.occupancy
            if stretch.loop is not None:
                loops.append(self._loop(stretch, log, trips))
        total, issued = max(ends), sum(issues.values())
        listed = self._stalls(stalls)
        reasons = _by_reason(listed)
        used = {port.name.lower(): cycles * waves / total for port, cycles in sorted(busy.items())} if total else {}
        return Estimate(
            kernel=self._kernel.name,
            target=self._kernel.target.name,
            waves=waves,
            occupancy=possible,
            memory=scenario_name(memory),
            cycles=total,
            cycles_per_wave=total / waves,
            loops=tuple(loops),
            stalls=listed,
            stall_reasons=reasons,
            ipc=issued * waves / total if total else 0.0,
            issues={port.name.lower(): count for port, count in sorted(issues.items())},
            utilisation=used,
            critical=critical(used, reasons, total),
            next_limit=next_limit(used, reasons, total),
            known=self._known(listed, issued),
            silicon=silicon_note(self._kernel),
            assumptions=self._assumptions(),
        )

    def _loop(self, stretch: Stretch, log: StretchLog, trips: int) -> LoopEstimate:
        assert stretch.loop is not None
        one = dict[tuple[int, int, Any], float]()
        _add(one, _last_stalls(log), 1.0)
        count = sum(not step.silent for step in log.steps)
        cycles = _iteration_cycles(log)
        steady = bool(log.period) and _simulated_iteration(log) >= _least_cycles(log)
        return LoopEstimate(stretch.loop, stretch.blocks, count, cycles, trips, steady, self._stalls(one))

    def _stalls(self, stalls: Mapping[tuple[int, int, Any], float]) -> tuple[Stall, ...]:
        found = [
            Stall(self._id(slot), self._id(whom) if whom >= 0 else None, cause.reason, cause.known, cycles)
            for (slot, whom, cause), cycles in stalls.items()
        ]
        return tuple(sorted(found, key=lambda stall: (-stall.cycles, stall.instruction, stall.reason)))

    def _id(self, slot: int) -> int:
        return self._ids[slot]

    def _known(self, stalls: Iterable[Stall], issued: float) -> dict[Known, float]:
        """Shares of one wave's cycles; every issue slot rests on the issue interval."""
        assert self._machine.issue is not None
        cycles: dict[Known, float] = {self._machine.issue.cause.known: issued * self._machine.interval}
        for stall in stalls:
            cycles[stall.known] = cycles.get(stall.known, 0.0) + stall.cycles
        whole = sum(cycles.values())
        return {known: part / whole for known, part in sorted(cycles.items())} if whole else {}

    def _assumptions(self) -> tuple[str, ...]:
        found = ["one SIMD alone, warm instruction cache, fixed memory latencies, no bank conflicts"]
        loops = {each.loop for each in self._stretches if each.loop is not None}
        loops |= {header for each in self._stretches for header in each.around}
        unknown = sorted(
            h
            for h in loops
            if self._trip_count is None or (not isinstance(self._trip_count, int) and h not in self._trip_count)
        )
        if unknown:
            loops_of = "loop at block" if len(unknown) == 1 else "loops at blocks"
            found.append(f"{ASSUMED_TRIP_COUNT} iterations of the {loops_of} {', '.join(map(str, unknown))}")
        walked = {block for each in self._stretches for block in each.blocks}
        left = len(self._kernel.blocks) - len(walked)
        if left:
            found.append(f"{left} of {len(self._kernel.blocks)} blocks are not on the estimated path")
        profiles = dict.fromkeys(step.profile for log in self._logs for step in log.steps)
        flags = frozenset[str]().union(*{each.decoded.flags for each in profiles})
        if "call" in flags:
            found.append("the called functions cost nothing")
        operations = sorted({each.decoded.mnemonic for each in profiles if each.moves_nothing})
        if operations:
            found.append(f"{', '.join(operations)} takes an issue slot and holds nothing up")
        if "unknown" in flags:
            steps = (step for log in self._logs for step in log.steps)
            unknown_ids = [str(step.id) for step in steps if "unknown" in step.profile.decoded.flags]
            found.append(f"unknown instructions cost one issue slot: {', '.join(unknown_ids[:10])}")
        return tuple(found)


def _wave_cycles(log: StretchLog, number: int, trips: int) -> float:
    """Cycles of one wave in a stretch: its passes, and the rest at the steady rate of all waves."""
    own = log.passes[number]
    made = float(sum(each.cycles for each in own[:trips]))
    return made + max(0, trips - len(own)) * _iteration_cycles(log) if log.repeats else made


def _window(log: StretchLog) -> int:
    """How many of the last passes stand for the rest: the period, else the later half."""
    fewest = min(map(len, log.passes))
    return log.period or max(1, fewest // 2)


def _iteration_cycles(log: StretchLog) -> float:
    return max(_simulated_iteration(log), _least_cycles(log))


def _simulated_iteration(log: StretchLog) -> float:
    size = _window(log)
    means = [sum(each.cycles for each in own[-size:]) / size for own in log.passes]
    if len(set(means)) == 1:
        return means[0]
    return len(means) / sum(1 / mean for mean in means if mean)


def _least_cycles(log: StretchLog) -> float:
    """What no order of the waves can beat: an iteration of each wave on the unit that is needed longest."""
    if log.longest_held is None:
        engines, ports = [0] * len(Port), [0] * len(Port)
        for step in log.steps:
            engines[step.engine] += step.occupancy
            ports[step.port] += 0 if step.silent else step.hold
        log.longest_held = max(engines + ports)
    return log.longest_held * len(log.passes)


def _last_stalls(log: StretchLog) -> dict[tuple[int, int, Any], float]:
    """Stalls of one iteration, the mean over waves and over the window."""
    size = _window(log)
    found: dict[tuple[int, int, Any], float] = {}
    for own in log.passes:
        for each in own[-size:]:
            _add(found, each.stalls, 1 / (size * len(log.passes)))
    return found


def _stretch_stalls(log: StretchLog, trips: int) -> dict[tuple[int, int, Any], float]:
    found: dict[tuple[int, int, Any], float] = {}
    made: list[Pass] = [each for own in log.passes for each in own[:trips]]
    for each in made:
        _add(found, each.stalls, 1 / len(log.passes))
    rest = trips - min(map(len, log.passes))
    if log.repeats and rest > 0:
        _add(found, _last_stalls(log), rest)
    return found


def _add(total: dict[tuple[int, int, Any], float], part: Mapping[tuple[int, int, Any], float], weight: float) -> None:
    for key, cycles in part.items():
        total[key] = total.get(key, 0.0) + weight * cycles


def _by_reason(stalls: Iterable[Stall]) -> dict[str, float]:
    found: dict[str, float] = {}
    for stall in stalls:
        found[stall.reason] = found.get(stall.reason, 0.0) + stall.cycles
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))
