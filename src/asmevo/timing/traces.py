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
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

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
    """One wave on SIMD `simd`; `start` is the cycle at which it was launched."""

    slot: int
    simd: int
    start: int
    issues: tuple[Issue, ...]


@dataclass(frozen=True, slots=True)
class Trace:
    """One capture. `entry` is the virtual address of the kernel's first instruction in `code_object`."""

    target: str
    kernel: str
    code_object: str
    entry: int
    unit: int
    waves: tuple[TracedWave, ...]


@dataclass(slots=True)
class Agreement:
    """Issue gaps compared: all, exactly predicted, and within one clock unit; `misses` by what preceded what.

    `traced` and `predicted` hold the cycles of each run of compared gaps, for rank comparisons.
    """

    gaps: int = 0
    exact: int = 0
    close: int = 0
    misses: Counter[tuple[str, str, int, int]] = field(default_factory=Counter)
    traced: list[int] = field(default_factory=list)
    predicted: list[int] = field(default_factory=list)

    @property
    def share(self) -> float:
        """Of the gaps, those predicted exactly."""
        return self.exact / self.gaps if self.gaps else 1.0


def read_trace(path: Path) -> Trace:
    """Reads one trace file. Raises ValueError or KeyError if it is none."""
    with gzip.open(path, "rt") as file:
        lines = [json.loads(line) for line in file]
    head, rest = lines[0], lines[1:]
    waves = tuple(
        TracedWave(
            wave["wave"], wave.get("simd", 0), wave["start"], tuple(Issue(*issue) for issue in wave["issues"])
        )
        for wave in rest
    )
    return Trace(head["target"], head["kernel"], head["object"], head["entry_pc"], head["cycle_unit"], waves)


def replay(trace: Trace, kernel: Kernel) -> Agreement:
    """Compares the model with a trace, SIMD by SIMD, waves that ran at the same time together."""
    result = Agreement()
    machine = machine_for(kernel.target, kernel.wave_size, "l2")
    places = _places(kernel)
    for simd in sorted({wave.simd for wave in trace.waves}):
        waves = [wave for wave in trace.waves if wave.simd == simd and wave.issues]
        for path in sorted({tuple(issue.offset for issue in wave.issues) for wave in waves}):
            same = [wave for wave in waves if tuple(issue.offset for issue in wave.issues) == path]
            _replay_together(machine, kernel, places, trace, same, result)
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
    code, taken = _executed(kernel, [places[trace.entry + issue.offset] for issue in waves[0].issues])
    steps = schedule(machine, [(code, taken, False)])[0]
    spoken = [step for step in steps if not step.silent]
    given = [_given(spoken, wave) for wave in waves]
    simulator = Simulator(machine, [(steps, False, 1)], len(waves), 1, 0, given)
    simulator.run()
    for number, wave in enumerate(waves):
        times = [simulator.waves[number].issued[step.slot] for step in spoken]
        _compare(spoken, wave, times, set(given[number]), trace.unit, result)


def _executed(kernel: Kernel, issued: Sequence[int]) -> tuple[list[Instruction], list[bool]]:
    """The instructions a wave went through, those that leave no packet filled in where code is straight."""
    code: list[Instruction] = []
    taken: list[bool] = []
    for here, following in pairwise([*issued, -1]):
        code.append(kernel.instructions[here])
        straight = here < following and all(
            kernel.instructions[place].mnemonic in _NO_PACKET for place in range(here + 1, following)
        )
        taken.append(following >= 0 and not straight)
        between = range(here + 1, following) if straight else range(0)
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
    times: Sequence[int],
    given: set[int],
    unit: int,
    result: Agreement,
) -> None:
    run = [0, 0]
    for place in range(1, len(spoken)):
        if spoken[place].slot in given:
            _close(run, result)
            continue
        seen = wave.issues[place].cycle - wave.issues[place - 1].cycle
        said = times[place] - times[place - 1]
        result.gaps += 1
        result.exact += seen == said
        result.close += abs(seen - said) <= unit
        run[0] += seen
        run[1] += said
        if seen != said:
            names = (spoken[place - 1].profile.decoded.mnemonic, spoken[place].profile.decoded.mnemonic)
            result.misses[(*names, seen, said)] += 1
    _close(run, result)


def _close(run: list[int], result: Agreement) -> None:
    """Ends a run of compared gaps."""
    if run[0]:
        result.traced.append(run[0])
        result.predicted.append(run[1])
    run[:] = [0, 0]
