"""How long memory took in a trace: from the issue of an access to the end of the wait that it ended.

Along a wave's issues the accesses under way are kept for each wait counter, oldest first. A wait takes away what lies
beyond the count that it allows. If it stalled, it ended when the last access that it took away was done: those
two times are one sample (where accesses come back out of order, as scalar loads do, a lower bound). A wait that did not
stall shows only that the access was done before, and is no sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Kernel
from asmevo.timing.distribution import Distribution
from asmevo.timing.machine import Machine
from asmevo.timing.scenarios import machine_for
from asmevo.timing.traces import TracedWave


class Sample(NamedTuple):
    """One access: its latency class, and cycles from its issue to the end of the wait."""

    kind: str
    cycles: int


def latency_class(instruction: Instruction) -> str | None:
    """The latency class of a load, None for anything else."""
    flags = instruction.decoded.flags
    if "may_load" not in flags:
        return None
    if "smem" in flags:
        return "smem"
    return "lds" if "ds" in flags else "vmem_load"


def memory_times(kernel: Kernel, waves: Iterable[TracedWave], entry: int = 0) -> dict[str, Distribution]:
    """By latency class how long loads took whose wait stalled. `entry`: where traces begin, bytes into the kernel."""
    found: dict[str, list[float]] = {}
    for sample in samples(kernel, waves, entry):
        found.setdefault(sample.kind, []).append(sample.cycles)
    return {kind: Distribution.of(cycles) for kind, cycles in sorted(found.items())}


def samples(kernel: Kernel, waves: Iterable[TracedWave], entry: int = 0) -> Iterator[Sample]:
    """The loads whose wait stalled; arguments as those of `memory_times`."""
    machine = machine_for(kernel.target, kernel.wave_size, "l2")
    own = machine.cost("immediate_after_other", "")
    unstalled = own.cycles if own is not None else machine.interval
    instructions, offset = dict[int, Instruction](), 0
    for instruction in kernel.instructions:
        instructions[offset] = instruction
        offset += instruction.size
    for wave in waves:
        code = [instructions[issue.offset + entry] for issue in wave.issues]
        yield from _of_wave(machine, code, wave, unstalled)


def _of_wave(machine: Machine, code: Sequence[Instruction], wave: TracedWave, unstalled: int) -> Iterator[Sample]:
    """`unstalled`: cycles from an issue to that of a wait behind it that has nothing to wait for."""
    pending: dict[int, list[tuple[int, str | None]]] = {}
    before = wave.start
    for instruction, issue in zip(code, wave.issues, strict=True):
        profile = machine.profile(instruction.decoded)
        ended: list[tuple[int, str | None]] = []
        for counter, most in profile.waits:
            under_way = pending.get(counter, [])
            done = max(0, len(under_way) - most)
            ended += under_way[:done]
            pending[counter] = under_way[done:]
        last = max(ended, default=None, key=lambda each: each[0])
        if last is not None and last[1] is not None and issue.cycle - before > unstalled:
            yield Sample(last[1], issue.cycle - last[0])
        for event in profile.returns:
            pending.setdefault(event.counter, []).append((issue.cycle, latency_class(instruction)))
        before = issue.cycle
