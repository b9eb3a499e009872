"""How far the cycle model agrees with traces of silicon, beside how far silicon agrees with itself.

Every trace is replayed (see `traces`): the model is told the way each wave took and when its waits were
satisfied, and asked for every other issue gap and for the execute times. The noise floor is the share of the
same gaps that two captures of one kernel agree on, their waves matched in order of start; no model that knows
only the code can be right more often.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from asmevo.program.codeobject import CodeObject
from asmevo.program.kernel import Kernel
from asmevo.program.reading import read_kernels
from asmevo.timing.traces import FETCH_MISS, Agreement, Trace, TracedWave, TraceError, read_trace, replay

_WORST = 10
_WAITS = ("s_wait", "s_barrier")


@dataclass(frozen=True, slots=True)
class Miss:
    """A pair of consecutive instructions, the cycles between them traced and predicted, and how often."""

    before: str
    instruction: str
    traced: int
    predicted: int
    count: int


@dataclass(frozen=True, slots=True)
class Floor:
    """Issue gaps of two captures: compared, identical, and within one clock unit."""

    gaps: int
    exact: int
    close: int

    @property
    def share(self) -> float:
        return self.exact / self.gaps if self.gaps else 1.0

    @property
    def close_share(self) -> float:
        return self.close / self.gaps if self.gaps else 1.0


@dataclass(frozen=True, slots=True)
class Row:
    """The model against one capture. Counts of gaps and execute times, `wave_time_error` the mean over waves.

    `floor` is None where there is no second capture of the same code object. `together`: the most waves that
    were on one SIMD at the same time.
    """

    target: str
    kernel: str
    run: str
    waves: int
    together: int
    gaps: int
    exact: int
    close: int
    executes: int
    executes_exact: int
    wave_time_error: float
    floor: Floor | None
    worst: tuple[Miss, ...]

    @property
    def share(self) -> float:
        """Of the gaps, those predicted exactly."""
        return self.exact / self.gaps if self.gaps else 1.0

    @property
    def close_share(self) -> float:
        """Of the gaps, those predicted within one clock unit."""
        return self.close / self.gaps if self.gaps else 1.0

    @property
    def execute_share(self) -> float:
        """Of the times from issue to execution, those predicted exactly."""
        return self.executes_exact / self.executes if self.executes else 1.0

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values, the shares included."""
        shares = {"share": self.share, "close_share": self.close_share, "execute_share": self.execute_share}
        return asdict(self) | shares


def trace_files(root: Path) -> list[Path]:
    """The trace files in a directory and below it, sorted."""
    return sorted(path for path in root.rglob("*.jsonl.gz") if not path.name.endswith(".aux.json.gz"))


def kernel_of(trace: Trace, folder: Path) -> Kernel:
    """The kernel that a trace in `folder` is of.

    Raises ValueError if its code object is not beside it or holds no kernel at the traced address.
    """
    path = folder / trace.code_object
    if not path.is_file():
        raise TraceError(str(path), f"the code object of {trace.run} is not beside the trace")
    for kernel in read_kernels(CodeObject(path.read_bytes(), path.name)):
        if kernel.address <= trace.entry < kernel.address + kernel.size:
            return kernel
    raise TraceError(str(path), f"no kernel at {trace.entry:#x}, where {trace.run} starts")


def validate(root: Path) -> Iterator[Row]:
    """One row for each trace under `root`, directory by directory.

    Raises TraceError for a file that is no trace or has no code object.
    """
    for folder in sorted({path.parent for path in trace_files(root)}):
        traces = [read_trace(path) for path in trace_files(folder) if path.parent == folder]
        kernels = {trace.code_object: kernel_of(trace, folder) for trace in traces}
        floors = noise_floors(traces)
        for trace in traces:
            if any(wave.issues for wave in trace.waves):
                agreement = replay(trace, kernels[trace.code_object])
                yield _row(trace, agreement, floors.get((trace.code_object, trace.run)))


def noise_floors(traces: Sequence[Trace]) -> dict[tuple[str, str], Floor]:
    """By code object and run: how far it and the other captures of its code object (same source) agree."""
    found: dict[tuple[str, str], Floor] = {}
    for first, second in combinations(traces, 2):
        if (first.source, first.code_object) == (second.source, second.code_object):
            floor = compare(first, second)
            for trace in (first, second):
                key = (trace.code_object, trace.run)
                found[key] = _sum(found.get(key), floor)
    return found


def compare(first: Trace, second: Trace) -> Floor:
    """Two captures of one code object; waves that went different ways are not compared."""
    gaps = exact = close = 0
    for one, other in zip(first.waves, second.waves, strict=False):
        if [each.offset for each in one.issues] != [each.offset for each in other.issues]:
            continue
        for left, right in zip(_gaps(one), _gaps(other), strict=True):
            if left is not None and right is not None:
                gaps += 1
                exact += left == right
                close += abs(left - right) <= first.unit
    return Floor(gaps, exact, close)


def _gaps(wave: TracedWave) -> list[int | None]:
    """Issue gaps, None for those that a replay is given."""
    found: list[int | None] = []
    before = wave.issues[0] if wave.issues else None
    for issue in wave.issues[1:]:
        assert before is not None
        gap = issue.cycle - before.cycle
        given = issue.text.startswith(_WAITS) or before.text.startswith("s_barrier") or gap >= FETCH_MISS
        found.append(None if given else gap)
        before = issue
    return found


def _sum(one: Floor | None, other: Floor) -> Floor:
    if one is None:
        return other
    return Floor(one.gaps + other.gaps, one.exact + other.exact, one.close + other.close)


def _row(trace: Trace, found: Agreement, floor: Floor | None) -> Row:
    errors = found.wave_errors
    return Row(
        target=trace.target,
        kernel=trace.kernel,
        run=trace.run,
        waves=len(trace.waves),
        together=_together(trace),
        gaps=found.gaps,
        exact=found.exact,
        close=found.close,
        executes=found.executes,
        executes_exact=found.executes_exact,
        wave_time_error=sum(errors) / len(errors) if errors else 0.0,
        floor=floor,
        worst=tuple(Miss(*key, count) for key, count in found.misses.most_common(_WORST)),
    )


def _together(trace: Trace) -> int:
    """The most waves that run on one SIMD at one time."""
    most = 0
    for simd in {wave.simd for wave in trace.waves}:
        spans = [(w.issues[0].cycle, w.issues[-1].cycle) for w in trace.waves if w.simd == simd and w.issues]
        most = max([most, *(sum(a <= start <= b for a, b in spans) for start, _ in spans)])
    return most
