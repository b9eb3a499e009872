"""Profiles of real runs, mapped to a kernel's instructions.

Three kinds of CSV are known, by their header (order and case of the columns do not matter):

* thread-trace statistics of rocprofv3 (`stats_*.csv`): a row an instruction with its virtual address, text, hits,
  and cycles of latency, stall and idle summed over hits;
* counters of rocprofv3 (`*_counter_collection.csv`): a row a dispatch and counter;
* counters of the older rocprof (`results.csv`): a row a dispatch, a column a counter.

A thread trace tells of each instruction, so a window can be chosen and memory latencies can be read off: from a
load to the end of the wait that covers it pass the latencies of the instructions between, the wait's included.
Where waits did not stall, the load may have been back long before; only stalled waits count. Counters tell of whole
dispatches only. Rows are checked against the kernel's text, for a profile of another build says nothing.
"""

from __future__ import annotations

import csv
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from asmevo.analysis.windows import Cost
from asmevo.program import ProgramError
from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Kernel
from asmevo.timing.timeline import CoverLink

_TRACE = frozenset({"vaddr", "instruction", "hitcount", "latency"})
_COUNTERS = frozenset({"kernel_name", "counter_name", "counter_value"})
_OLD_COUNTERS = frozenset({"kernelname", "durationns"})
_NO_COUNTERS = frozenset(
    {
        "index", "kernelname", "gpu-id", "queue-id", "queue-index", "pid", "tid", "grd", "wgr", "lds", "scr", "vgpr",
        "arch_vgpr", "accum_vgpr", "sgpr", "wave_size", "fbar", "sig", "obj", "dispatchns", "beginns", "endns",
        "completens", "durationns",
    }
)  # fmt: skip


class ProfileError(ProgramError):
    """A profile cannot be read, or is of another kernel."""


@dataclass(frozen=True, slots=True)
class TraceRow:
    """One instruction of a thread trace: cycles are sums over `hits` wave-instructions."""

    address: int
    text: str
    hits: int
    latency: int
    stall: int
    line: int


@dataclass(frozen=True, slots=True)
class CounterRow:
    """One counter of one dispatch."""

    kernel: str
    dispatch: str
    counter: str
    value: float


@dataclass(frozen=True, slots=True)
class Profile:
    """What a file holds: rows of a thread trace, or counters."""

    file: str
    trace: tuple[TraceRow, ...] = ()
    counters: tuple[CounterRow, ...] = ()


def read_profile(path: str | Path) -> Profile:
    """Reads a CSV of any of the three kinds. Raises ProfileError with file, line and column."""
    file = str(path)
    try:
        with open(path, encoding="utf-8-sig", newline="") as source:
            rows = list(csv.reader(source))
    except OSError as error:
        raise ProfileError(file, f"cannot be read ({error.strerror or error})") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise ProfileError(file, f"not CSV text ({error})") from None
    if not rows:
        raise ProfileError(file, "is empty")
    header = [name.strip().lower() for name in rows[0]]
    table = _Table(file, header, rows[1:])
    if set(header) >= _TRACE:
        return Profile(file, trace=tuple(_trace_rows(table)))
    if set(header) >= _COUNTERS:
        return Profile(file, counters=tuple(_counter_rows(table)))
    if set(header) >= _OLD_COUNTERS:
        return Profile(file, counters=tuple(_old_counter_rows(table)))
    raise ProfileError(file, f"no known profile: its columns are {', '.join(rows[0][:8])}", 1)


@dataclass(frozen=True, slots=True)
class _Table:
    """Rows of a CSV by column name."""

    file: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __iter__(self) -> Iterator[tuple[int, dict[str, str]]]:
        for number, row in enumerate(self.rows, 2):
            if not any(cell.strip() for cell in row):
                continue
            if len(row) < len(self.header):
                raise ProfileError(self.file, f"{len(row)} columns instead of {len(self.header)}", number)
            yield number, dict(zip(self.header, row, strict=False))

    def whole(self, line: int, row: Mapping[str, str], column: str) -> int:
        text = row[column].strip()
        try:
            return int(text, 0) if text.lower().startswith("0x") else int(float(text))
        except (ValueError, OverflowError):
            raise ProfileError(self.file, f"column {column}: {text!r} is no number", line) from None


def _trace_rows(table: _Table) -> Iterable[TraceRow]:
    for line, row in table:
        text = row["instruction"].strip()
        if text.startswith(";"):  # the viewer's lines for symbols
            continue
        stall = table.whole(line, row, "stall") if "stall" in row else 0
        address, hits, latency = (table.whole(line, row, name) for name in ("vaddr", "hitcount", "latency"))
        yield TraceRow(address, text, hits, latency, stall, line)


def _counter_rows(table: _Table) -> Iterable[CounterRow]:
    for line, row in table:
        value = _real(table, line, row["counter_value"])
        yield CounterRow(row["kernel_name"].strip(), row.get("dispatch_id", "").strip(), row["counter_name"], value)


def _old_counter_rows(table: _Table) -> Iterable[CounterRow]:
    for line, row in table:
        for name, value in row.items():
            if name not in _NO_COUNTERS or name == "durationns":
                counter = _real(table, line, value)
                yield CounterRow(row["kernelname"].strip().removesuffix(".kd"), row.get("index", ""), name, counter)


def _real(table: _Table, line: int, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ProfileError(table.file, f"{text.strip()!r} is no number", line) from None


def costs_of(profile: Profile, kernel: Kernel) -> dict[int, Cost]:
    """The cost of each instruction (by id) of a thread trace. Raises ProfileError when it is of other code."""
    if not profile.trace:
        raise ProfileError(profile.file, "has no rows of instructions; thread-trace statistics are needed")
    rows = {row.address: row for row in profile.trace}
    start = _start(profile, kernel, rows)
    found: dict[int, Cost] = {}
    for address, instruction in _addresses(kernel, start):
        row = rows.get(address)
        if row is None:
            continue
        if _words(row.text) != _words(instruction.text):
            words = f"{address:#x} is `{row.text}`, in the kernel `{instruction.text}`: a profile of another build"
            raise ProfileError(profile.file, words, row.line)
        found[instruction.id] = Cost(row.latency, row.stall, row.hits)
    return found


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


def seen_latencies(kernel: Kernel, costs: Mapping[int, Cost], links: Iterable[CoverLink]) -> dict[str, int]:
    """Cycles from load to data by latency class, the median over loads whose wait stalled."""
    order = {instruction.id: place for place, instruction in enumerate(kernel.instructions)}
    seen: dict[str, list[float]] = {}
    for link in links:
        kind = _latency_class(kernel.by_id[link.load])
        if kind is None or link.wait is None or order[link.wait] <= order[link.load]:
            continue
        wait = costs.get(link.wait)
        if wait is None or not wait.stalls or not wait.hits:
            continue
        between = kernel.instructions[order[link.load] : order[link.wait] + 1]
        cycles = [costs[each.id].cycles / costs[each.id].hits for each in between if _ran(costs, each)]
        seen.setdefault(kind, []).append(sum(cycles))
    return {kind: round(statistics.median(values)) for kind, values in seen.items()}


def _ran(costs: Mapping[int, Cost], instruction: Instruction) -> bool:
    cost = costs.get(instruction.id)
    return cost is not None and cost.hits > 0


def _latency_class(instruction: Instruction) -> str | None:
    flags = instruction.decoded.flags
    if "may_load" not in flags:
        return None
    if "smem" in flags:
        return "smem"
    return "lds" if "ds" in flags else "vmem_load"


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
        address += len(instruction.decoded.code)


def _words(text: str) -> str:
    """An instruction's text without what printers differ in: spaces, and where a branch goes."""
    words = text.split("//")[0].split(";")[0].replace(",", " ").split()
    if words and words[0].startswith(("s_cbranch", "s_branch", "s_call")):
        return words[0]
    return " ".join(words)
