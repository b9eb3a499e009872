"""Estimates in words: where the cycles go, what limits, and how well the numbers are known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from asmevo.analysis.occupancy import Occupancy, asks_for_lds_at_launch
from asmevo.program.kernel import Kernel
from asmevo.timing import Estimate
from asmevo.timing.counters import CounterLine
from asmevo.timing.estimate import LoopEstimate, Stall
from asmevo.timing.scenarios import Latencies
from asmevo.timing.second_opinion import McaEstimate
from asmevo.timing.timeline import CoverLink, Timeline

_MOST_STALLS = 8
_DIFFERS = 0.05
"""Instructions that an estimate may be off, as a share, before a line says so."""


def estimate_lines(
    kernel: Kernel, found: Estimate, limits: Occupancy, seen: Latencies, ends: tuple[float, float] | None
) -> Iterator[str]:
    """The estimate as lines of text, the most important first.

    `limits` is the occupancy, `seen` are memory latencies that are distributions, `ends` the cycles at their 10th and
    90th percentile.
    """
    waves = f"{found.waves} wave{'s' if found.waves != 1 else ''} a SIMD"
    spread = "" if ends is None else f" ({ends[0]:.0f} to {ends[1]:.0f} by what memory takes)"
    yield f"{found.kernel} on {found.target}: {found.cycles:.0f} cycles{spread} with {waves} (memory: {found.memory})"
    yield f"  {found.critical}"
    if found.next_limit:
        yield f"  {found.next_limit}"
    yield f"  IPC {found.ipc:.2f}; held: " + ", ".join(f"{unit} {share:.0%}" for unit, share in _busiest(found))
    for loop in found.loops:
        yield from _loop_lines(kernel, loop)
    if found.stalls:
        yield "  stalls of a wave in cycles, whole kernel:"
    for stall in found.stalls[:_MOST_STALLS]:
        yield f"    {_stall_words(kernel, stall)}"
    yield from _occupancy_lines(kernel, limits)
    for kind, each in seen.items():
        yield f"  measured {kind}: {each}"
    yield "  known: " + ", ".join(f"{share:.0%} {known}" for known, share in found.known.items()) + f"; {found.silicon}"
    yield f"  {found.note}; {'; '.join(found.assumptions)}"


def _occupancy_lines(kernel: Kernel, limits: Occupancy) -> Iterator[str]:
    """How many waves fit, by what, and what would let one more in."""
    yield f"  occupancy {limits.waves} of {limits.max_waves} waves a SIMD, limited by {limits.limited_by}"
    for limit in limits.limits[:-1]:  # the last is the machine's own maximum
        step = f"; {limit.step}" if limit.step and limit in limits.limiters else ""
        yield f"    {limit.waves:2d} waves by {limit.resource}: {limit.uses}{step}"
    if asks_for_lds_at_launch(kernel) and limits.limit("LDS").uses.startswith("0 bytes"):
        yield "    the launch brings this kernel's LDS, so these are the most waves; --lds BYTES says how many it is"


def counter_lines(lines: Sequence[CounterLine]) -> Iterator[str]:
    """Counters of a profile beside the estimate, a line each."""
    if lines:
        yield "  counters, mean of the dispatches:"
    for line in lines:
        if line.of_wave is None or line.estimated is None:
            yield f"    {line.name:20s} {line.value:14,.0f}"
            continue
        words = f"{line.of_wave:,.1f} a wave, {line.estimated:,.1f} estimated"
        if abs(line.of_wave - line.estimated) > _DIFFERS * max(line.of_wave, 1.0):
            words += ": another way through the code, or other --trips"
        yield f"    {line.name:20s} {line.value:14,.0f}  {words}"


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
            text += _link_words(kernel, link)
        yield text


def _link_words(kernel: Kernel, link: CoverLink) -> str:
    """Which wait covers a memory instruction, and what uses its result first; "" where neither is on the path."""
    parts = []
    if link.wait is not None:
        parts.append(f"covered by {_named(kernel, link.wait)}")
    if link.use is not None:
        parts.append(f"first used by {_named(kernel, link.use)}")
    return f"  [{'; '.join(parts)}]" if parts else ""
