"""Profiles of real runs, mapped to a kernel's instructions.

A profile is a CSV of a profiler (see `profile_csv`), a raw thread trace (see `thread_trace`), or a file of tinygrad
that holds several (see `tinygrad_profile`); the content tells which.

Thread traces and their statistics tell of each instruction, so a window can be chosen and memory latencies can be read
off. In statistics, from a load to the end of the wait that covers it pass: what the load itself took behind its stall,
and all of the instructions between, the wait's included. Where waits did not stall, the load may have been back long
before; only stalled waits count. A raw trace shows each access and wait on its own (see `memory_waits`). Counters tell
of whole dispatches only. Rows are checked against the kernel's text, for a profile of another build says nothing.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import chain
from pathlib import Path

from msgspec import Struct

from asmevo.analysis.windows import Cost
from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Kernel
from asmevo.timing.distribution import Distribution
from asmevo.timing.memory_waits import latency_class, memory_times
from asmevo.timing.profile_csv import CounterRow, ProfileError, TraceRow, read_csv
from asmevo.timing.scenarios import machine_for
from asmevo.timing.thread_trace import ThreadTraceError, looks_like_thread_trace, read_thread_trace
from asmevo.timing.timeline import CoverLink, timeline
from asmevo.timing.tinygrad_profile import is_profile, thread_traces
from asmevo.timing.traces import TracedWave, most_together


class Profile(Struct, frozen=True):
    """What a file holds: rows of a thread trace's statistics, counters, or the bytes of raw thread traces."""

    file: str
    trace: tuple[TraceRow, ...] = ()
    counters: tuple[CounterRow, ...] = ()
    raw: tuple[bytes, ...] = ()


def read_profile(path: str | Path) -> Profile:
    """Reads a profile of any kind. Raises ProfileError with file, line and column."""
    file = str(path)
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ProfileError(file, f"cannot be read ({error.strerror or error})") from None
    if is_profile(data):
        try:
            return Profile(file, raw=thread_traces(data))
        except ValueError as error:
            raise ProfileError(file, str(error)) from None
    if looks_like_thread_trace(data):
        return Profile(file, raw=(data,))
    trace, counters = read_csv(file, data)
    return Profile(file, trace, counters)


def costs_of(profile: Profile, kernel: Kernel) -> dict[int, Cost]:
    """The cost of each instruction (by id). Raises ProfileError and ThreadTraceError when it is of other code."""
    if profile.raw:
        return _costs_of_waves(kernel, chain.from_iterable(_captures(profile, kernel)))
    if not profile.trace:
        words = "has counters only; to know instructions, thread-trace statistics or a raw thread trace are needed"
        raise ProfileError(profile.file, words)
    return {
        instruction.id: Cost(row.latency + row.idle, row.stall + row.idle, row.hits)
        for instruction, row in _rows_of(profile, kernel)
    }


def executions(kernel: Kernel, costs: Mapping[int, Cost]) -> dict[int, int]:
    """How often each instruction (by id) ran: as often as the one of its block that was seen most."""
    return {
        instruction.id: round(max((costs[each.id].hits for each in block.instructions if each.id in costs), default=0))
        for block in kernel.blocks
        for instruction in block.instructions
    }


def seen_latencies(profile: Profile, kernel: Kernel) -> dict[str, Distribution]:
    """Cycles from load to data by latency class, over loads whose wait stalled; none for counters."""
    if profile.raw:
        return memory_times(kernel, chain.from_iterable(_captures(profile, kernel)))
    if not profile.trace:
        return {}
    rows = {instruction.id: row for instruction, row in _rows_of(profile, kernel) if row.hits}
    return _seen_between(kernel, rows, timeline(kernel, waves=1).links)


def seen_waves(profile: Profile, kernel: Kernel) -> int | None:
    """The most waves of the kernel that a raw trace shows on its SIMD at one time; None for other profiles."""
    return max(map(most_together, _captures(profile, kernel))) if profile.raw else None


@lru_cache(maxsize=4)
def _captures(profile: Profile, kernel: Kernel) -> tuple[tuple[TracedWave, ...], ...]:
    """The waves of each raw trace that the kernel ran in. Raises the last error if it ran in none."""
    found, error = [], None
    for raw in profile.raw:
        try:
            found.append(read_thread_trace(profile.file, raw, kernel))
        except ThreadTraceError as refused:
            error = refused
    if not found and error is not None:
        raise error
    return tuple(found)


def counters_of(profile: Profile, kernel: Kernel) -> dict[str, float]:
    """Each counter's mean over the kernel's dispatches. Raises ProfileError when there are none."""
    values: dict[str, list[float]] = {}
    for row in profile.counters:
        if row.kernel == kernel.name:
            values.setdefault(row.counter, []).append(row.value)
    if not values:
        known = ", ".join(sorted({row.kernel for row in profile.counters})[:5])
        raise ProfileError(profile.file, f"has no dispatch of {kernel.name}; there are: {known}")
    return {name: statistics.fmean(each) for name, each in values.items()}


def _costs_of_waves(kernel: Kernel, waves: Iterable[TracedWave]) -> dict[int, Cost]:
    """A wave's cycles since its issue before are the instruction's; what lies before its first issue is nobody's."""
    ids = {offset: instruction.id for offset, instruction in _addresses(kernel, 0)}
    interval = machine_for(kernel.target, kernel.wave_size, "l2").interval
    sums: dict[int, list[int]] = {}
    for wave in waves:
        before = wave.issues[0].cycle - interval
        for issue in wave.issues:
            own = sums.setdefault(ids[issue.offset], [0, 0, 0])
            for place, value in enumerate((issue.cycle - before, max(0, issue.cycle - before - interval), 1)):
                own[place] += value
            before = issue.cycle
    return {place: Cost(*values) for place, values in sums.items()}


def _seen_between(kernel: Kernel, rows: Mapping[int, TraceRow], links: Iterable[CoverLink]) -> dict[str, Distribution]:
    """From statistics: loads and the waits behind them in the code."""
    order = {instruction.id: place for place, instruction in enumerate(kernel.instructions)}
    seen: dict[str, list[float]] = {}
    for link in links:
        kind, load = latency_class(kernel.by_id[link.load]), rows.get(link.load)
        if kind is None or load is None or link.wait is None or order[link.wait] <= order[link.load]:
            continue
        wait = rows.get(link.wait)
        if wait is None or not wait.stall + wait.idle:
            continue
        behind = kernel.instructions[order[link.load] + 1 : order[link.wait] + 1]
        cycles = sum((row.latency + row.idle) / row.hits for each in behind if (row := rows.get(each.id)))
        seen.setdefault(kind, []).append((load.latency - load.stall) / load.hits + cycles)
    return {kind: Distribution.of(values) for kind, values in sorted(seen.items())}


def _rows_of(profile: Profile, kernel: Kernel) -> list[tuple[Instruction, TraceRow]]:
    """Each instruction that has a row. Raises ProfileError where the row's text is another instruction's."""
    rows = {row.address: row for row in profile.trace}
    found = []
    for address, instruction in _addresses(kernel, _start(profile, kernel, rows)):
        row = rows.get(address)
        if row is None:
            continue
        if _words(row.text) != _words(instruction.text):
            words = f"{address:#x} is `{row.text}`, in the kernel `{instruction.text}`: a profile of another build"
            raise ProfileError(profile.file, words, row.line)
        found.append((instruction, row))
    return found


def _start(profile: Profile, kernel: Kernel, rows: Mapping[int, TraceRow]) -> int:
    """Where the kernel begins in the profile: at its own address, or where its text is found."""
    if kernel.address in rows:
        return kernel.address
    texts = [(address - kernel.address, _words(i.text)) for address, i in _addresses(kernel, kernel.address)]
    for row in profile.trace:
        if _words(row.text) == texts[0][1] and all(
            row.address + offset in rows and _words(rows[row.address + offset].text) == text
            for offset, text in texts[: min(len(texts), 16)]
        ):
            return row.address
    raise ProfileError(profile.file, f"has no rows of {kernel.name}, which starts with `{texts[0][1]}`")


def _addresses(kernel: Kernel, start: int) -> Iterable[tuple[int, Instruction]]:
    address = start
    for instruction in kernel.instructions:
        yield address, instruction
        address += instruction.size


def _words(text: str) -> str:
    """An instruction's text without what printers differ in: spaces, and where a branch goes."""
    words = text.split("//")[0].split(";")[0].replace(",", " ").split()
    if words and words[0].startswith(("s_cbranch", "s_branch", "s_call")):
        return words[0]
    return " ".join(words)
