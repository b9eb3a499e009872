"""A trace replayed: the model's times beside those of silicon, issue by issue.

A replay gives the model the way that each wave took and the times at which its waits were satisfied (memory and other
waves decide those, not the schedule), and asks for the rest: each issue gap that does not end in a wait, a barrier's
successor or where instructions were fetched from memory. Waves that ran at the same time on one SIMD are simulated
together. Instructions that leave no packet are filled in between those that do, straight on or at a branch's target.

Where instructions come from memory is no matter of the model's answer: it is the first issue of all traced SIMDs in
each line of the instruction cache, which they share, since captures start with cold caches, and any gap that is too
long for anything else (a line that was lost meanwhile). A first issue is left out whether its line had come in time or
not; the model is told how long after the issue before it came.

The stream of a wave may have lost packets (then it comes in parts). What queues and units held when a later part starts
nobody knows, so its gaps are asked from the first on that follows a pause in which they drain.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from asmevo.program.decode import UNKNOWN
from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Kernel
from asmevo.timing.costs import Cause
from asmevo.timing.instruction_class import END, Port
from asmevo.timing.machine import Machine
from asmevo.timing.path import layout_of
from asmevo.timing.refused import as_executed
from asmevo.timing.scenarios import machine_for
from asmevo.timing.schedule import schedule
from asmevo.timing.simulator import Simulator
from asmevo.timing.steps import FORWARDED, Step
from asmevo.timing.traces import Trace, TracedWave

FETCH_MISS = 200
"""Gaps from here on (cycles) hold an instruction-cache miss wherever they are, by the notes of the trace collection."""
_FETCH = Cause("instruction fetch", "measured")
NO_PACKET = frozenset({"s_delay_alu", "s_wait_alu", "s_waitcnt_depctr", "s_barrier_wait"})
"""Instructions that leave no packet in a thread trace."""


class Gap(Struct, frozen=True):
    """Cycles from the issue before to issue `place` of a wave, in the trace and in the model."""

    place: int
    traced: int
    predicted: int


class Replayed(Struct, frozen=True):
    """One wave beside the model.

    For each issue: `steps` what it is, `issued` and `executed` the predicted cycles of its issue and its execute packet
    (None where the model has no queue before execution). `given` are the places that the model was told.
    """

    wave: TracedWave
    steps: tuple[Step, ...]
    issued: tuple[int, ...]
    executed: tuple[int | None, ...]
    given: frozenset[int]

    def gaps(self) -> Iterator[Gap]:
        """The gaps that the model was asked for, in order."""
        issues = self.wave.issues
        for place in range(1, len(issues)):
            if place not in self.given:
                traced = issues[place].cycle - issues[place - 1].cycle
                yield Gap(place, traced, self.issued[place] - self.issued[place - 1])

    def runs(self) -> Iterator[range]:
        """Places of issues with only asked gaps between them, two places at least; the first is where it starts."""
        return _between(self.given, len(self.steps))

    def straight_code(self) -> Iterator[range]:
        """As `runs`, but a cache miss does not end one: what lies between two waits is the same code each time."""
        waits = {place for place in self.given if _is_told(self.steps, place)}
        return _between(waits, len(self.steps))

    @property
    def cycles(self) -> int:
        """The wave's traced time from its first issue to its last."""
        return self.wave.issues[-1].cycle - self.wave.issues[0].cycle


def _between(starts: Container[int], count: int) -> Iterator[range]:
    """Ranges of two places at least, each from a start to before the next."""
    start = 0
    for place in range(1, count + 1):
        if place == count or place in starts:
            if place - start > 1:
                yield range(start, place)
            start = place


def replay(trace: Trace, kernel: Kernel) -> tuple[Replayed, ...]:
    """The waves of a trace that issued anything beside the model, in the order of the trace."""
    machine = machine_for(kernel.target, kernel.wave_size, "l2")
    code = _Code(kernel)
    found: dict[int, Replayed] = {}
    fetched = _fetched(code, trace)
    for simd in sorted({wave.simd for wave in trace.waves}):
        numbers = [n for n, wave in enumerate(trace.waves) if wave.simd == simd and wave.issues]
        for group in _overlapping(trace.waves, numbers):
            waves = [trace.waves[n] for n in group]
            together = _together(machine, code, trace, waves, [fetched[n] for n in group])
            found |= dict(zip(group, together, strict=True))
    return tuple(found[number] for number in sorted(found))


def _fetched(code: _Code, trace: Trace) -> list[set[int]]:
    """For each wave its issues in a line of the instruction cache that was not there before: the first of all, and
    those of waves that were waiting for the line as well. The traced SIMDs share the cache.
    """
    found: list[set[int]] = [set() for _ in trace.waves]
    line = code.kernel.target.timing.get("instruction_line")
    if line is None:
        return found
    size = int(line.value)
    issues = (
        (issue, number, place) for number, wave in enumerate(trace.waves) for place, issue in enumerate(wave.issues)
    )
    arrived: dict[int, int] = {}
    for issue, number, place in sorted(issues, key=lambda each: each[0].cycle):
        start = trace.entry + issue.offset
        before = trace.waves[number].issues[place - 1].cycle if place else issue.cycle
        for each in {start // size, (start + code.size(start - code.kernel.address) - 1) // size}:
            if each not in arrived or arrived[each] > before:
                found[number].add(place)
            arrived.setdefault(each, issue.cycle)
    return found


def _overlapping(waves: Sequence[TracedWave], numbers: Sequence[int]) -> Iterator[list[int]]:
    """Groups of waves, of which each overlaps in time with an earlier one of its group; in the order of `numbers`."""
    group: list[int] = []
    end = 0
    for number in sorted(numbers, key=lambda n: waves[n].issues[0].cycle):
        if group and waves[number].issues[0].cycle > end:
            yield sorted(group)
            group = []
        end = max(end, waves[number].issues[-1].cycle) if group else waves[number].issues[-1].cycle
        group.append(number)
    if group:
        yield sorted(group)


def _together(
    machine: Machine, code: _Code, trace: Trace, waves: Sequence[TracedWave], fetched: Sequence[set[int]]
) -> Iterator[Replayed]:
    """The waves of one SIMD, simulated together. `fetched`: places that came from memory."""
    offset = trace.entry - code.kernel.address
    routes = [_route(wave, own) for wave, own in zip(waves, fetched, strict=True)]
    paths: dict[_Route, list[Step]] = {}
    for route in routes:
        if route not in paths:
            came = dict(route.fetched)
            way = [(each + offset, passed, place in came) for place, (each, passed) in enumerate(route.path)]
            instructions, taken, skipped, missed = code.executed(way)
            straight = schedule(machine, [(instructions, taken, False)], skipped, code.layout, missed)[0]
            paths[route] = list(_behind_fetches(straight, came))
    order = {route: number for number, route in enumerate(paths)}
    spoken = {route: tuple(step for step in steps if not step.silent) for route, steps in paths.items()}
    told = [_given(spoken[route], wave) for route, wave in zip(routes, waves, strict=True)]
    times = [
        {spoken[route][place].slot: wave.issues[place].cycle for place in given}
        for route, wave, given in zip(routes, waves, told, strict=True)
    ]
    stretches = [(steps, False, 1) for steps in paths.values()]
    simulator = Simulator(
        machine, stretches, len(waves), 1, 0, times, [order[route] for route in routes],
        trace.neighbour,
    )  # fmt: skip
    simulator.run()
    for state, wave, route, given in zip(simulator.waves, waves, routes, told, strict=True):
        steps = spoken[route]
        issued = tuple(state.issued[step.slot] for step in steps)
        executed = tuple(None if step.queue is None else state.started[step.slot] + step.to_stamp for step in steps)
        yield Replayed(wave, steps, issued, executed, given | dict(route.fetched).keys())


class _Route(NamedTuple):
    """The way of a wave: offset of each issue, and whether it was a vector instruction that EXEC 0 passed over; and of
    each issue that was fetched its place and the cycles since the one before.
    """

    path: tuple[tuple[int, bool], ...]
    fetched: tuple[tuple[int, int], ...]


def _route(wave: TracedWave, fetched: set[int]) -> _Route:
    """A wave that does not start at the kernel's entry is told all its issues up to the first after a cache miss."""
    issues = wave.issues
    gaps = [issue.cycle - before.cycle for before, issue in pairwise(issues)]
    long = (place for place, gap in enumerate(gaps, 1) if gap >= FETCH_MISS)
    start = range(1, next(long, len(issues))) if issues[0].offset else range(0)
    told = ((place, gaps[place - 1]) for place in sorted({*fetched, *start} - {0}))
    path = ((issue.offset, issue.packet == "IMM" and issue.text.startswith("v_")) for issue in issues)
    return _Route(tuple(path), tuple(told))


def _behind_fetches(steps: Sequence[Step], fetched: Mapping[int, int]) -> Iterator[Step]:
    """The steps with those that had to be fetched so many cycles after the issue before. `fetched`: by place."""
    place, before = 0, -1
    for step in steps:
        if step.silent:
            yield step
            continue
        if place in fetched:
            step = replace(step, held=True, extra=0, issued=(*step.issued, (before, fetched[place], _FETCH)))
            if fetched[place] > FORWARDED and step.profile.port is Port.SALU:
                step.to_execute, step.scalar_sources = step.profile.to_execute, step.profile.scalar_reads
        yield step
        place, before = place + 1, step.slot


def _given(steps: Sequence[Step], wave: TracedWave) -> frozenset[int]:
    """Places whose times the model is told: the first issue, waits, barriers, what follows, and cache misses."""
    given = {0}
    for place in range(1, len(steps)):
        gap = wave.issues[place].cycle - wave.issues[place - 1].cycle
        if gap >= FETCH_MISS or _is_told(steps, place):
            given.add(place)
    return frozenset(given)


def _is_told(steps: Sequence[Step], place: int) -> bool:
    """Whether memory or other waves decide when an issue comes: a wait, a barrier, or what follows a barrier.

    A wait may count up to what a register holds, which nobody but the trace knows. The waits for one counter that gfx10
    and gfx11 have (s_waitcnt_vscnt) are stamped when they issue: what follows shows when they are over. The end waits
    for the wave's stores: of 557 waves that stored last, on all traced targets, none ended less than 222 cycles after.
    """
    before, here = (steps[each].profile.decoded.mnemonic for each in (place - 1, place))
    waits = here.startswith("s_wait") or before.startswith("s_waitcnt_") or _ends_behind_store(steps, place)
    return bool(waits or steps[place].barrier or steps[place - 1].barrier)


def _ends_behind_store(steps: Sequence[Step], place: int) -> bool:
    return steps[place].port == END and any(step.profile.kind == "vmem_store" for step in steps[:place])


class _Code:
    """The code of a kernel by offset from its first byte."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self._places: dict[int, int] = {}
        self._offsets: list[int] = []
        offset = 0
        for place, instruction in enumerate(kernel.instructions):
            self._places[offset] = place
            self._offsets.append(offset)
            offset += instruction.size
        self._starts = [0, *accumulate(len(block.instructions) for block in kernel.blocks)]
        self.layout = layout_of(kernel)

    def size(self, offset: int) -> int:
        """Bytes of the instruction that issued."""
        return len(self._executed(self._places[offset]).decoded.code)

    def executed(
        self, path: Sequence[tuple[int, bool, bool]]
    ) -> tuple[list[Instruction], list[bool], set[int], set[int]]:
        """The instructions that a wave went through, silent ones filled in, which branches it took, and the places of
        those that it skipped and of those that came from memory.

        `path`: offset of each issue, whether EXEC 0 passed it over, and whether it came from memory.
        """
        code: list[Instruction] = []
        taken: list[bool] = []
        skipped, fetched = set[int](), set[int]()
        issued = [self._places[offset] for offset, _, _ in path]
        for (here, following), (_, passed, came) in zip(pairwise([*issued, -1]), path, strict=True):
            if passed:
                skipped.add(len(code))
            if came:
                fetched.add(len(code))
            code.append(self._executed(here))
            behind = self._behind(here)
            straight = behind <= following and self._silent(behind, following)
            taken.append(following >= 0 and not straight)
            start = behind if straight else self._goal(here)
            between = range(start, following) if self._silent(start, following) else range(0)
            code += [self.kernel.instructions[place] for place in between]
            taken += [False] * len(between)
        return code, taken, skipped, fetched

    def _behind(self, place: int) -> int:
        """The place behind an instruction; one that LLVM refuses stands in two."""
        return self._places.get(self._offsets[place] + len(self._executed(place).decoded.code), place + 1)

    def _executed(self, place: int) -> Instruction:
        """The instruction at a place that issued; one that LLVM refuses as what silicon makes of it."""
        instruction = self.kernel.instructions[place]
        if UNKNOWN not in instruction.flags:
            return instruction
        words = self.kernel.instructions[place : place + 2]
        decoded = as_executed(b"".join(each.decoded.code for each in words), self.kernel.context)
        return instruction if decoded is None else replace(instruction, decoded=decoded)

    def _silent(self, start: int, end: int) -> bool:
        return all(each.mnemonic in NO_PACKET for each in self.kernel.instructions[start:end])

    def _goal(self, place: int) -> int:
        """Where a direct branch leads; the end of the kernel for anything else."""
        goal = self.kernel.instructions[place].target
        block = self.kernel.block_of_label.get(goal) if goal is not None else None
        return self._starts[block] if block is not None else len(self.kernel.instructions)
