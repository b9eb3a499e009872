"""How well the cycle model agrees with silicon, in words: as lines for a terminal, as a Markdown report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from asmevo.timing.validation import Floor, Row

_COLUMNS = (
    "target", "kernel", "runs", "waves at once", "gaps", "exact", "floor", "within a unit", "floor", "execute exact",
    "wave time error",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class KernelRows:
    """All runs of one kernel on one target, summed up."""

    target: str
    kernel: str
    rows: tuple[Row, ...]

    @property
    def gaps(self) -> int:
        """Issue gaps that the model was asked for."""
        return sum(row.gaps for row in self.rows)

    @property
    def exact(self) -> float:
        """Share of gaps predicted to the cycle."""
        return _share(sum(row.exact for row in self.rows), self.gaps)

    @property
    def close(self) -> float:
        """Share of gaps predicted within one unit of the trace's clock."""
        return _share(sum(row.close for row in self.rows), self.gaps)

    @property
    def execute(self) -> float | None:
        """Share of execute times predicted to the cycle; None where the traces have none."""
        asked = sum(row.executes for row in self.rows)
        return _share(sum(row.executes_exact for row in self.rows), asked) if asked else None

    @property
    def wave_time_error(self) -> float:
        """Mean over runs of the wave time's error as a share of it."""
        return sum(row.wave_time_error for row in self.rows) / len(self.rows)

    @property
    def floor(self) -> Floor | None:
        """How far two runs of the kernel agree, over all pairs of runs."""
        known = [row.floor for row in self.rows if row.floor is not None]
        if not known:
            return None
        return Floor(sum(f.gaps for f in known), sum(f.exact for f in known), sum(f.close for f in known))


def by_kernel(rows: Iterable[Row]) -> list[KernelRows]:
    """Rows of single runs summed up by target and kernel; kernels without a gap are left out."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.gaps:
            found.setdefault((row.target, row.kernel), []).append(row)
    return [KernelRows(target, kernel, tuple(each)) for (target, kernel), each in sorted(found.items())]


def validation_lines(kernels: Sequence[KernelRows]) -> Iterator[str]:
    """One line a kernel, and where the model is wrong most often."""
    for each in kernels:
        floor = f" (two runs agree on {each.floor.share:.1%})" if each.floor is not None and each.floor.gaps else ""
        yield (
            f"{each.target} {each.kernel}: {each.exact:.1%} of {each.gaps} issue gaps exact{floor}, "
            f"{each.close:.1%} within a unit; wave time off by {each.wave_time_error:.1%}"
        )
    misses = _misses(kernels)
    if misses:
        yield "most frequent misses:"
        for words, count in misses.most_common(10):
            yield f"  {count:6d} x {words}"


def validation_report(kernels: Sequence[KernelRows]) -> str:
    """The Markdown report, with the command that writes it."""
    lines = [
        "# The cycle model against silicon",
        "",
        "Written by `asmevo timing validate TRACES --report FILE`. Each trace is replayed: the model is told which way",
        "a wave took and when its waits were satisfied, and asked for every other gap between two issues of a wave.",
        "*Floor*: the share that two captures of one kernel agree on; no model that knows only the code can do better.",
        "",
        "| " + " | ".join(_COLUMNS) + " |",
        "|" + "---|" * len(_COLUMNS),
        *(_row(each) for each in kernels),
        "",
        "## Most frequent misses",
        "",
        "| count | gap |",
        "|---:|---|",
        *(f"| {count} | {words} |" for words, count in _misses(kernels).most_common(20)),
        "",
    ]
    return "\n".join(lines)


def _row(each: KernelRows) -> str:
    floor = each.floor if each.floor is not None and each.floor.gaps else None
    together = max(row.together for row in each.rows)
    cells = (
        each.target, each.kernel, len(each.rows), together, each.gaps, f"{each.exact:.1%}",
        f"{floor.share:.1%}" if floor else "-", f"{each.close:.1%}", f"{floor.close_share:.1%}" if floor else "-",
        "-" if each.execute is None else f"{each.execute:.1%}", f"{each.wave_time_error:.1%}",
    )  # fmt: skip
    return "| " + " | ".join(map(str, cells)) + " |"


def _misses(kernels: Sequence[KernelRows]) -> Counter[str]:
    found: Counter[str] = Counter()
    for each in kernels:
        for row in each.rows:
            for miss in row.worst:
                words = (
                    f"{each.target}: `{miss.before}` -> `{miss.instruction}`: {miss.traced}, predicted {miss.predicted}"
                )
                found[words] += miss.count
    return found


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
