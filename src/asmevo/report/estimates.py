"""Estimates in words: where the cycles go, what limits, and how well the numbers are known."""

from __future__ import annotations

from collections.abc import Iterator

from asmevo.analysis.occupancy import occupancy
from asmevo.program.kernel import Kernel
from asmevo.timing import Estimate
from asmevo.timing.estimate import LoopEstimate, Stall
from asmevo.timing.second_opinion import McaEstimate
from asmevo.timing.timeline import Timeline

_MOST_STALLS = 8


def estimate_lines(kernel: Kernel, found: Estimate) -> Iterator[str]:
    """The estimate as lines of text, the most important first."""
    waves = f"{found.waves} wave{'s' if found.waves != 1 else ''} a SIMD"
    yield f"{found.kernel} on {found.target}: {found.cycles:.0f} cycles with {waves} (memory: {found.memory})"
    yield f"  {found.critical}"
    yield f"  IPC {found.ipc:.2f}; held: " + ", ".join(f"{unit} {share:.0%}" for unit, share in _busiest(found))
    for loop in found.loops:
        yield from _loop_lines(kernel, loop)
    yield "  stalls of a wave, whole kernel:"
    for stall in found.stalls[:_MOST_STALLS]:
        yield f"    {_stall_words(kernel, stall)}"
    yield "  known: " + ", ".join(f"{share:.0%} {known}" for known, share in found.known.items())
    steps = [limit.step for limit in occupancy(kernel).limiters if limit.step]
    if steps:
        yield f"  next: {steps[0]}"
    yield f"  {found.note}; {'; '.join(found.assumptions)}"


def mca_lines(found: McaEstimate) -> Iterator[str]:
    """llvm-mca's answer as lines of text."""
    yield f"{found.kernel} on {found.target}: {found.cycles:.0f} cycles for one wave, by llvm-mca"
    for loop in found.loops:
        yield (
            f"  loop at block {loop.header}: {loop.cycles:.1f} cycles an iteration "
            f"({loop.instructions} instructions, {loop.trips} iterations; its units allow {loop.bound:.0f})"
        )
    for note in found.notes:
        yield f"  note: {note}"


def _busiest(found: Estimate) -> list[tuple[str, float]]:
    return sorted(found.utilisation.items(), key=lambda item: -item[1])[:4]


def _loop_lines(kernel: Kernel, loop: LoopEstimate) -> Iterator[str]:
    steady = "" if loop.steady else ", not steady"
    yield (
        f"  loop at block {loop.header}: {loop.cycles:.1f} cycles an iteration "
        f"({loop.instructions} instructions, {loop.trips} iterations{steady})"
    )
    for stall in loop.stalls[:3]:
        yield f"    {_stall_words(kernel, stall)}"


def _stall_words(kernel: Kernel, stall: Stall) -> str:
    cause = ""
    if stall.waits_for is not None and stall.waits_for != stall.instruction:
        cause = f" of {_named(kernel, stall.waits_for)}"
    return f"{stall.cycles:9.1f}  {_named(kernel, stall.instruction)}: {stall.reason}{cause} ({stall.known})"


def _named(kernel: Kernel, place: int) -> str:
    instruction = kernel.by_id[place]
    where = f"line {instruction.line}" if instruction.line is not None else f"#{place}"
    return f"{where} `{instruction.text}`"


def timeline_lines(kernel: Kernel, found: Timeline) -> Iterator[str]:
    """One line an issue: cycle, wave, instruction, and what it waited for."""
    covered = {link.load: link for link in found.links}
    for slot in found.slots:
        text = f"{slot.cycle:8d}  wave {slot.wave:<2d} {_named(kernel, slot.instruction)}"
        if slot.stall:
            source = ""
            if slot.source is not None and slot.source != slot.instruction:
                source = f" of {_named(kernel, slot.source)}"
            text += f"  (waited {slot.stall}: {slot.reason}{source})"
        link = covered.get(slot.instruction)
        if link is not None and slot.wave == 0 and slot.iteration == 0:
            wait = _named(kernel, link.wait) if link.wait is not None else "no wait"
            use = _named(kernel, link.use) if link.use is not None else "nothing on the path"
            text += f"  [covered by {wait}; first used by {use}]"
        yield text
