"""Issue traces of real GPUs: reading them, and replaying them to see how far the model agrees with silicon.

A trace file is gzipped JSON lines: a header, then one line a wave with `issues` = [cycle, offset of the
program counter from the entry, packet class, text]. A replay gives the model the order of instructions that
the wave took and the times at which its waits were satisfied (memory and other waves decide those, not the
schedule), and asks for the rest: each issue gap that does not end in a wait, a barrier's successor or an
instruction-cache miss.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from asmevo.program import ProgramError
from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Kernel
from asmevo.timing.estimate import machine_for
from asmevo.timing.machine import Machine
from asmevo.timing.schedule import Step, schedule
from asmevo.timing.simulator import Simulator

FETCH_MISS = 200
"""Gaps from here on (cycles) hold an instruction-cache miss, by the notes of the trace collection."""
_NO_PACKET = frozenset({"s_delay_alu", "s_wait_alu", "s_waitcnt_depctr", "s_barrier_wait"})


@dataclass(frozen=True, slots=True)
class Issue:
    """One issued instruction: `offset` in bytes from the kernel's entry."""

    cycle: int
    offset: int
    packet: str
    text: str


@dataclass(frozen=True, slots=True)
class TracedWave:
    """One wave on SIMD `simd`; `start` is the cycle at which it was launched.

    `executes`: for each issue the cycle of its execute packet, None where there is none or it is unknown.
    """

    slot: int
    simd: int
    start: int
    issues: tuple[Issue, ...]
    executes: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Trace:
    """One capture. `entry` is the virtual address of the kernel's first instruction in `code_object`.

    `source` tells captures of one version of the collection apart; `run` names the capture.
    """

    target: str
    kernel: str
    run: str
    source: str
    code_object: str
    entry: int
    unit: int
    waves: tuple[TracedWave, ...]


class TraceError(ProgramError):
    """A file is no trace, or its code object is missing or another one."""


@dataclass(slots=True)
class Agreement:
    """Issue gaps compared: all, exactly predicted, and within one clock unit; `misses` by what preceded what.

    `executes` counts the execute times compared (issue to execute), `executes_exact` those predicted exactly.
    `traced` and `predicted` hold the cycles of each run of compared gaps, for rank comparisons; `wave_errors`
    how far the compared gaps of each wave are off together, as a share of the wave's whole time.
    """

    gaps: int = 0
    exact: int = 0
    close: int = 0
    executes: int = 0
    executes_exact: int = 0
    wave_errors: list[float] = field(default_factory=list)
    misses: Counter[tuple[str, str, int, int]] = field(default_factory=Counter)
    traced: list[int] = field(default_factory=list)
    predicted: list[int] = field(default_factory=list)

    @property
    def share(self) -> float:
        """Of the gaps, those predicted exactly."""
        return self.exact / self.gaps if self.gaps else 1.0


def read_trace(path: Path) -> Trace:
    """Reads one trace file. Raises TraceError if it is none."""
    try:
        with gzip.open(path, "rt") as file:
            lines = [json.loads(line) for line in file]
        head, rest = lines[0], lines[1:]
        return Trace(
            head["target"], head["kernel"], head["run"], f"{head['source_commit']} se{head['se']}",
            head["object"], head["entry_pc"], head["cycle_unit"], tuple(map(_traced_wave, rest)),
        )  # fmt: skip
    except (OSError, EOFError, zlib.error, ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise TraceError(str(path), f"no trace ({error.__class__.__name__}: {error})") from error


def _traced_wave(line: dict[str, Any]) -> TracedWave:
    issues = tuple(Issue(*issue) for issue in line["issues"])
    executes = tuple(line.get("exec") or [None] * len(issues))
    return TracedWave(line["wave"], line.get("simd", 0), line["start"], issues, executes)


def replay(trace: Trace, kernel: Kernel) -> Agreement:
    """Compares the model with a trace, SIMD by SIMD, waves that ran at the same time together."""
    result = Agreement()
    machine = machine_for(kernel.target, kernel.wave_size, "l2")
    places = _places(kernel)
    for simd in sorted({wave.simd for wave in trace.waves}):
        waves = [wave for wave in trace.waves if wave.simd == simd and wave.issues]
        _replay_together(machine, kernel, places, trace, waves, result)
    return result


def _places(kernel: Kernel) -> dict[int, int]:
    """Place in the kernel by address."""
    found, address = {}, kernel.address
    for place, instruction in enumerate(kernel.instructions):
        found[address] = place
        address += instruction.size
    return found


def _replay_together(
    machine: Machine,
    kernel: Kernel,
    places: dict[int, int],
    trace: Trace,
    waves: Sequence[TracedWave],
    result: Agreement,
) -> None:
    paths: dict[tuple[int, ...], list[Step]] = {}
    for wave in waves:
        path = tuple(issue.offset for issue in wave.issues)
        if path not in paths:
            code, taken = _executed(kernel, places, [places[trace.entry + offset] for offset in path])
            paths[path] = schedule(machine, [(code, taken, False)])[0]
    order = {path: number for number, path in enumerate(paths)}
    routes = [order[tuple(issue.offset for issue in wave.issues)] for wave in waves]
    spoken = [[step for step in steps if not step.silent] for steps in paths.values()]
    given = [_given(spoken[route], wave) for route, wave in zip(routes, waves, strict=True)]
    stretches = [(steps, False, 1) for steps in paths.values()]
    simulator = Simulator(machine, stretches, len(waves), 1, 0, given, routes)
    simulator.run()
    for state, wave, route, times_given in zip(simulator.waves, waves, routes, given, strict=True):
        steps = spoken[route]
        times = [(state.issued[step.slot], state.started[step.slot] + step.to_stamp) for step in steps]
        _compare(steps, wave, times, set(times_given), trace.unit, result)


def _no_packets(kernel: Kernel, start: int, end: int) -> bool:
    return all(each.mnemonic in _NO_PACKET for each in kernel.instructions[start:end])


def _branch_target(kernel: Kernel, places: Mapping[int, int], place: int) -> int:
    """Where a direct branch leads; the end of the kernel for anything else."""
    instruction = kernel.instructions[place]
    if "branch" not in instruction.flags:
        return len(kernel.instructions)
    words = int.from_bytes(instruction.decoded.code[:2], "little", signed=True)
    address = next(address for address, each in places.items() if each == place)
    return places.get(address + instruction.size + 4 * words, len(kernel.instructions))


def _executed(kernel: Kernel, places: Mapping[int, int], issued: Sequence[int]) -> tuple[list[Instruction], list[bool]]:
    """The instructions a wave went through, those that leave no packet filled in (straight on or at a target)."""
    code: list[Instruction] = []
    taken: list[bool] = []
    for here, following in pairwise([*issued, -1]):
        code.append(kernel.instructions[here])
        straight = here < following and _no_packets(kernel, here + 1, following)
        taken.append(following >= 0 and not straight)
        start = here + 1 if straight else _branch_target(kernel, places, here)
        between = range(start, following) if _no_packets(kernel, start, following) else range(0)
        code += [kernel.instructions[place] for place in between]
        taken += [False] * len(between)
    return code, taken


def _given(spoken: Sequence[Step], wave: TracedWave) -> dict[int, int]:
    """Times that the model is not asked for: the first issue, waits, barriers, what follows, and cache
    misses.
    """
    given = {spoken[0].slot: wave.issues[0].cycle}
    for (before, earlier), (step, issue) in pairwise(zip(spoken, wave.issues, strict=True)):
        if step.waits or step.barrier or before.barrier or issue.cycle - earlier.cycle >= FETCH_MISS:
            given[step.slot] = issue.cycle
    return given


def _compare(
    spoken: Sequence[Step],
    wave: TracedWave,
    times: Sequence[tuple[int, int]],
    given: set[int],
    unit: int,
    result: Agreement,
) -> None:
    run, off = [0, 0], 0
    for place, (issue, executed) in enumerate(zip(wave.issues, wave.executes, strict=True)):
        if executed is not None and spoken[place].queue is not None:
            result.executes += 1
            result.executes_exact += executed - issue.cycle == times[place][1] - times[place][0]
        if not place or spoken[place].slot in given:
            _close(run, result)
            continue
        seen = issue.cycle - wave.issues[place - 1].cycle
        said = times[place][0] - times[place - 1][0]
        result.gaps += 1
        result.exact += seen == said
        result.close += abs(seen - said) <= unit
        off += said - seen
        run[0] += seen
        run[1] += said
        if seen != said:
            names = (spoken[place - 1].profile.decoded.mnemonic, spoken[place].profile.decoded.mnemonic)
            result.misses[(*names, seen, said)] += 1
    _close(run, result)
    whole = wave.issues[-1].cycle - wave.issues[0].cycle
    result.wave_errors.append(abs(off) / whole if whole else 0.0)


def _close(run: list[int], result: Agreement) -> None:
    """Ends a run of compared gaps."""
    if run[0]:
        result.traced.append(run[0])
        result.predicted.append(run[1])
    run[:] = [0, 0]
