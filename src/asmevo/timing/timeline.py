"""The simulated run, instruction by instruction: when each wave issued what, and what it waited for.

The simulator tells of every issue; here each becomes a slot with its stall (cycles beyond the issue interval, the
constraint that came last, the instruction behind it). Links say which wait covers which memory instruction, and
which instruction uses the result first: along the first wave's path, a wait covers what is pending on its counters
beyond the count it allows, oldest first, which is what the simulator's queues do as well.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict

from asmevo.analysis.windows import Cost
from asmevo.program.kernel import Kernel
from asmevo.timing.estimate import Estimate, estimate
from asmevo.timing.instruction_class import Port
from asmevo.timing.path import TripCounts
from asmevo.timing.scenarios import Memory, machine_for
from asmevo.timing.steps import Step
from asmevo.timing.wave import Bound, Wave

_IMMEDIATE_REASON = "issue"


class IssueSlot(Struct, frozen=True):
    """One issue. `cycle` is when it issued; before it the wave waited `stall` cycles for `reason`.

    `source` is the id of the instruction that was waited for, None where it is the unit itself or nothing.
    `iteration` counts within the stretch (a loop's body or the code between loops).
    """

    wave: int
    instruction: int
    iteration: int
    cycle: int
    stall: int
    held: int
    reason: str
    known: str
    source: int | None
    unit: str


class CoverLink(Struct, frozen=True):
    """`load` is covered by `wait` and used first by `use` (ids; None: not on the simulated path)."""

    load: int
    wait: int | None
    use: int | None


class Timeline(Struct, frozen=True):
    """All issues of a simulated run in the order of time, and the links of the first wave."""

    estimate: Estimate
    slots: tuple[IssueSlot, ...]
    links: tuple[CoverLink, ...]

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values, without the estimate."""
        return {"slots": [asdict(each) for each in self.slots], "links": [asdict(each) for each in self.links]}


def timeline(
    kernel: Kernel, *, waves: int | None = None, trip_count: TripCounts = None, memory: Memory = "l2"
) -> Timeline:
    """Estimates a kernel and keeps every issue. Arguments and errors as those of `estimate`."""
    interval = machine_for(kernel.target, kernel.wave_size, memory).interval
    collected = _Collector(interval)
    found = estimate(kernel, waves=waves, trip_count=trip_count, memory=memory, observe=collected)
    slots = sorted(collected.slots, key=lambda each: (each.cycle, each.wave))
    return Timeline(found, tuple(slots), tuple(_links(kernel, collected.first)))


def costs_of_timeline(kernel: Kernel, found: Timeline) -> dict[int, Cost]:
    """Cycles by instruction (id), with loops weighted by their trips beyond the simulated iterations."""
    weights = _weights(kernel, found)
    sums: dict[int, list[float]] = {}
    interval = min((slot.held for slot in found.slots), default=1)
    for slot in found.slots:
        weight = weights.get(slot.instruction, 1.0)
        own = sums.setdefault(slot.instruction, [0.0, 0.0, 0.0])
        for place, value in enumerate((slot.stall + interval, slot.stall, 1)):
            own[place] += weight * value
    return {place: Cost(*values) for place, values in sums.items()}


def _weights(kernel: Kernel, found: Timeline) -> dict[int, float]:
    """How often a simulated issue of a loop's instruction stands for a real one."""
    simulated: dict[int, set[int]] = {}
    for slot in found.slots:
        simulated.setdefault(slot.instruction, set()).add(slot.iteration)
    trips = {
        instruction.id: loop.trips
        for loop in found.estimate.loops
        for block in loop.blocks
        for instruction in kernel.blocks[block].instructions
    }
    return {place: trips[place] / len(seen) for place, seen in simulated.items() if place in trips}


class _Collector(Struct):
    """Implements `simulator.Observe`. `first` are the steps of wave 0, in order."""

    interval: int
    slots: list[IssueSlot] = field(default_factory=list)
    first: list[Step] = field(default_factory=list)
    ids: dict[int, int] = field(default_factory=dict)

    def __call__(self, wave: Wave, step: Step, time: int, own: Bound, shared: Bound | None) -> None:
        self.ids[step.slot] = step.id
        if wave.number == 0:
            self.first.append(step)
        last = shared if shared is not None else own
        cause = last.cause or step.issue_busy
        stall = time - wave.last_issue - self.interval
        source = self.ids.get(last.culprit) if last.culprit >= 0 else None
        self.slots.append(
            IssueSlot(
                wave.number,
                step.id,
                wave.iteration,
                time,
                stall,
                max(self.interval, step.hold),
                cause.reason if stall else _IMMEDIATE_REASON,
                str(cause.known),
                source if stall else None,
                Port(step.port).name.lower(),
            )
        )


def _links(kernel: Kernel, steps: list[Step]) -> list[CoverLink]:
    pending: dict[int, list[Step]] = {}
    waits: dict[int, int] = {}
    order: dict[int, None] = {}
    for step in steps:
        for counter, most in step.waits:
            events = pending.get(counter, [])
            covered, pending[counter] = events[: max(0, len(events) - most)], events[max(0, len(events) - most) :]
            for load in covered:
                waits.setdefault(load.id, step.id)
        for each in step.returns:
            pending.setdefault(each.counter, []).append(step)
            order[step.id] = None
    ids = [step.id for step in steps]
    return [CoverLink(load, waits.get(load), _first_use(kernel, ids, load)) for load in order]


def _first_use(kernel: Kernel, ids: list[int], load: int) -> int | None:
    written = kernel.by_id[load].writes
    for place in ids[ids.index(load) + 1 :]:
        reader = kernel.by_id[place]
        if place != load and reader.reads & written:
            return place
        written &= ~reader.writes
    return None
