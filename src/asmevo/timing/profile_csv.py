"""The three kinds of CSV that profilers write, each known by its header (order and case of columns do not matter).

* thread-trace statistics of rocprofv3 (`stats_*.csv`): a row an instruction with its virtual address, text, hits, and
  cycles summed over hits: `Stall` until the unit took it, `Latency` that and the issue itself, `Idle` what passed
  before that since the instruction before;
* counters of rocprofv3 (`*_counter_collection.csv`): a row a dispatch and counter;
* counters of the older rocprof (`results.csv`): a row a dispatch, a column a counter.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from asmevo.program import ProgramError

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


class TraceRow(Struct, frozen=True):
    """One instruction of a thread trace: cycles are sums over `hits` wave-instructions."""

    address: int
    text: str
    hits: int
    latency: int
    stall: int
    idle: int
    line: int


class CounterRow(Struct, frozen=True):
    """One counter of one dispatch."""

    kernel: str
    dispatch: str
    counter: str
    value: float


Rows = tuple[tuple[TraceRow, ...], tuple[CounterRow, ...]]
"""Rows of a thread trace, rows of counters; one of the two is empty."""


def read_csv(file: str, data: bytes) -> Rows:
    """The rows of a CSV of any of the three kinds. Raises ProfileError with file, line and column."""
    try:
        rows = list(csv.reader(io.StringIO(data.decode("utf-8-sig"), newline="")))
    except (UnicodeDecodeError, csv.Error) as error:
        raise ProfileError(file, f"not CSV text ({error})") from None
    if not rows:
        raise ProfileError(file, "is empty")
    header = [name.strip().lower() for name in rows[0]]
    table = _Table(file, header, rows[1:])
    if set(header) >= _TRACE:
        return tuple(_trace_rows(table)), ()
    if set(header) >= _COUNTERS:
        return (), tuple(_counter_rows(table))
    if set(header) >= _OLD_COUNTERS:
        return (), tuple(_old_counter_rows(table))
    raise ProfileError(file, f"no known profile: its columns are {', '.join(rows[0][:8])}", 1)


class _Table(Struct, frozen=True):
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
        stall, idle = (table.whole(line, row, name) if name in row else 0 for name in ("stall", "idle"))
        address, hits, latency = (table.whole(line, row, name) for name in ("vaddr", "hitcount", "latency"))
        yield TraceRow(address, text, hits, latency, stall, idle, line)


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
