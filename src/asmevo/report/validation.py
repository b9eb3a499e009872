"""How well the cycle model agrees with silicon, in words: as lines for a terminal, as a Markdown report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from asmevo.target import target_names
from asmevo.timing.agreement import Share, summed
from asmevo.timing.ranking import pairs, rank_pairs, spearman
from asmevo.timing.validation import Row

_INTRODUCTION = """# The cycle model against silicon

Written by `asmevo timing validate TRACES --report FILE`. Each trace is replayed: the model is told which way a wave
took, when its waits were satisfied, when the SIMD that shares the path to memory used it, and how long the first issue
in each new line of code took (instructions come from memory then, whatever their schedule), and asked for every other
gap between two issues of a wave. llvm-mca is asked for the same gaps, each run of issues between waits as straight
code; it knows of one wave only.

* *exact*, *within a unit*: share of the gaps predicted to the cycle, and within one unit of the trace's clock (1 cycle,
  on gfx950 4).
* *llvm-mca exact*: of the gaps that it answers, which are fewer where it does not know an instruction.
* *floor*: the share that two captures of one kernel agree on; no model that knows only the code can do better.
* *near its floor*: exact within 3 points of it; on gfx950 within a unit, and 5 points.
* *executes exact*: times between two executions of a wave that follow each other in one unit, where the traces show
  them and the unit has a queue; left out where the model was told when something in between issues.
* *delays exact*: times from issue to execution. One execution that comes early or late counts here once for each
  instruction that queues behind it.
* *wave time error*: how far the asked gaps of a wave are off together, as a share of the wave's whole time; the mean.
  Its floor is how far a second capture's same gaps are off. *other captures'*: how far off they are if each is
  foretold from the other captures of the code object, by the mean, the median or the most frequent of their gaps
  between the same two instructions (whichever is nearest, over the kernel). What is left is not decided by the code;
  a model is nearer only by what it is told of the capture.
"""

_POINTS, _COARSE_POINTS = 0.03, 0.05
_KERNELS = (
    "target", "kernel", "captures", "waves at once", "gaps", "exact", "floor", "llvm-mca exact", "within a unit",
    "floor", "executes exact", "floor", "delays exact", "floor", "wave time error",
    "floor", "other captures'", "llvm-mca's",
)  # fmt: skip


def validation_lines(rows: Sequence[Row]) -> Iterator[str]:
    """One line a kernel, what is said of ranking, and where the model is wrong most often."""
    for row in rows:
        mca = "" if row.mca_total is None else f", llvm-mca {_percent(row.mca_total)}"
        floor = f" (two captures agree on {_percent(row.floor_total)})" if row.floor_total.count else ""
        yield (
            f"{row.target} {row.kernel}: {_percent(row.total)} of {row.total.count} issue gaps exact{floor}{mca}; "
            f"{row.total.close_share:.1%} within a unit; wave time off by {row.wave_time_error:.1%}{_order_words(row)}"
        )
    for words in (*_summary_sentences(rows), *_ranking_sentences(rows)):
        yield words.replace("`", "")
    found = _misses(rows)
    if found:
        yield "most frequent misses:"
        for words, count in found.most_common(10):
            yield f"  {count:6d} x {words}"


def _order_words(row: Row) -> str:
    if not row.order.count:
        return ""
    floor = f" ({_percent(row.order_floor)} in two captures)" if row.order_floor.count else ""
    return f"; waves issue in the same order in {_percent(row.order)}{floor}"


def validation_report(rows: Sequence[Row]) -> str:
    """The Markdown report, with the command that writes it."""
    parts = [
        _INTRODUCTION,
        "## In short\n\n" + "".join(f"* {words}\n" for words in (*_summary_sentences(rows), _untraced(rows))),
        "## Kernels that only test the model\n\n" + _kernel_table([row for row in rows if not row.fitted]),
        "## Kernels that measured facts were fitted on\n\n" + _kernel_table([row for row in rows if row.fitted]),
        "## By class of instruction\n\nOver all kernels of a target, by the unit of the later instruction.\n\n"
        + _class_table(rows),
        _ORDER + _order_table(rows),
        _RANKING + "".join(f"* {words}\n" for words in _ranking_sentences(rows)),
        "## Most frequent misses\n\n"
        + _table(("count", "gap"), ((count, words) for words, count in _misses(rows).most_common(20))),
    ]
    return "\n".join(parts)


_ORDER = """## Order of the waves

Where waves share a SIMD: issues of two waves that follow each other in the trace (their times not both given), and the
share that the model has in the same order, or in one cycle where silicon has. *floor*: what a second capture says, in
which waves start at other distances.

"""

_RANKING = """## Ranking

Spearman's rank correlation of traced and predicted cycles (asked gaps only), and pairs of schedules of one block: the
same instructions by mnemonic in another order, whose traced cycles differ by more than captures do.

"""


def _summary_sentences(rows: Sequence[Row]) -> Iterator[str]:
    for words, chosen in (
        ("tested only", [row for row in rows if not row.fitted]),
        ("fitted", [row for row in rows if row.fitted]),
    ):
        for target in sorted({row.target for row in chosen}):
            own = [row for row in chosen if row.target == target]
            yield f"{target}, {words} ({', '.join(row.kernel for row in own)}): {_agreement(own)}"
    alone = [row for row in rows if row.target == "gfx1100" and row.alone.count]
    if alone:
        kernels = ", ".join(f"{_percent(row.alone)} of {row.alone.count} gaps of {row.kernel}" for row in alone)
        yield f"a wave alone on its SIMD, gfx1100, exact: {kernels}"


def _agreement(rows: Sequence[Row]) -> str:
    gaps, floor = summed(row.total for row in rows), summed(row.floor_total for row in rows)
    words = f"{_percent(gaps)} of {gaps.count} gaps exact, {gaps.close_share:.1%} within a unit"
    if floor.count:
        words += f", floor {_percent(floor)}"
    known = [row.mca_total for row in rows if row.mca_total is not None]
    if known:
        words += f", llvm-mca {_percent(summed(known))}"
    words += f", wave time off by {sum(row.wave_time_error for row in rows) / len(rows):.1%} in the mean"
    within = [row for row in rows if row.floor_total.count]
    near = sum(map(_near_its_floor, within))
    return words + (f"; {near} of {len(within)} kernels near their floor" if within else "")


def _near_its_floor(row: Row) -> bool:
    """Within `_POINTS` of what captures agree on; by a coarse clock within a unit, and `_COARSE_POINTS`."""
    if row.unit == 1:
        return row.total.share >= row.floor_total.share - _POINTS
    return row.total.close_share >= row.floor_total.close_share - _COARSE_POINTS


def _untraced(rows: Sequence[Row]) -> str:
    traced = {row.target for row in rows}
    without = ", ".join(name for name in target_names() if name not in traced)
    matrix = "no trace holds an MFMA" if not any("mfma" in m for row in rows for m in _mnemonics(row)) else ""
    return f"no traces here of {without}; their timing rests on other sources" + (f", and {matrix}" if matrix else "")


def _mnemonics(row: Row) -> set[str]:
    return {name for each in row.schedules for name in each.mnemonics}


def _kernel_table(rows: Iterable[Row]) -> str:
    return _table(_KERNELS, (_kernel_cells(row) for row in rows))


def _kernel_cells(row: Row) -> tuple[object, ...]:
    total, floor, mca = row.total, row.floor_total, row.mca_total
    wave_times = (row.wave_time_error, row.wave_time_floor, row.other_captures_error, row.mca_wave_time_error)
    return (
        row.target, row.kernel, row.captures, row.together, total.count, _percent(total), _percent(floor),
        "-" if mca is None else _of(mca, total.count), f"{total.close_share:.1%}",
        f"{floor.close_share:.1%}" if floor.count else "-", _percent(row.executes.gaps),
        _percent(row.execute_floor.gaps), _percent(row.executes.delays), _percent(row.execute_floor.delays),
        *("-" if each is None else f"{each:.1%}" for each in wave_times),
    )  # fmt: skip


def _class_table(rows: Sequence[Row]) -> str:
    cells = []
    for target in sorted({row.target for row in rows}):
        own = [row for row in rows if row.target == target]
        for name in sorted({name for row in own for name in row.gaps}):
            gaps, floor, mca = (
                summed(part[name] for part in parts if name in part)
                for parts in ([row.gaps for row in own], [row.floor for row in own], [row.mca or {} for row in own])
            )
            cells.append((target, name, gaps.count, *map(_percent, (gaps, floor, mca))))
    return _table(("target", "class", "gaps", "exact", "floor", "llvm-mca exact"), cells)


def _order_table(rows: Sequence[Row]) -> str:
    shared = [row for row in rows if row.order.count]
    cells = (
        (row.target, row.kernel, row.together, row.order.count, _percent(row.order), _percent(row.order_floor))
        for row in shared
    )
    return _table(("target", "kernel", "waves at once", "neighbours", "same order", "floor"), cells)


def _ranking_sentences(rows: Sequence[Row]) -> Iterator[str]:
    blocks = [block for row in rows for block in row.blocks]
    for target in sorted({row.target for row in rows}):
        own = [block for block in blocks if block.target == target]
        ours = spearman([block.traced for block in own], [block.predicted for block in own])
        known = [block for block in own if block.mca is not None]
        theirs = spearman([block.traced for block in known], [block.mca or 0.0 for block in known])
        yield f"{target}: {len(own)} blocks, {_rank(ours)}{_mca_rank(theirs, len(known))}; {_runs(rows, target)}"
    cycles = [row.wave_cycles for row in rows]
    known_cycles = [each for each in cycles if each[2] is not None]
    ours = spearman([traced for traced, _, _ in cycles], [predicted for _, predicted, _ in cycles])
    theirs = spearman([traced for traced, _, _ in known_cycles], [mca or 0.0 for _, _, mca in known_cycles])
    yield f"kernels of all targets: {len(cycles)}, {_rank(ours)}{_mca_rank(theirs, len(known_cycles))}"
    yield _pair_sentence(rows)


def _runs(rows: Sequence[Row], target: str) -> str:
    """The finer question: runs of issues between waits."""
    runs = [each for row in rows if row.target == target for each in row.schedules]
    known = [each for each in runs if each.mca is not None]
    ours = spearman([each.mean for each in runs], [each.predicted for each in runs])
    theirs = spearman([each.mean for each in known], [each.mca or 0.0 for each in known])
    return f"{len(runs)} runs between waits, {_rank(ours)}{_mca_rank(theirs, len(known))}"


def _rank(value: float | None) -> str:
    return "too few to rank" if value is None else f"rank correlation {value:.3f}"


def _mca_rank(value: float | None, count: int) -> str:
    return "" if value is None else f", llvm-mca {value:.3f} (over {count})"


def _pair_sentence(rows: Sequence[Row]) -> str:
    found = rank_pairs(pairs([each for row in rows for each in row.schedules]))
    if not found.pairs:
        return "pairs of schedules of one block that silicon tells apart: the traces hold none"
    return (
        f"pairs of schedules of one block that silicon tells apart: {found.pairs}, ordered rightly "
        f"{found.right / found.pairs:.1%}, by llvm-mca {found.mca_right / found.pairs:.1%}"
    )


def _misses(rows: Sequence[Row]) -> Counter[str]:
    found: Counter[str] = Counter()
    for row in rows:
        for miss in row.worst:
            gap = f"{miss.traced}, predicted {miss.predicted}"
            found[f"{row.target}: `{miss.before}` -> `{miss.instruction}`: {gap}"] += miss.count
    return found


def _table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _of(share: Share, asked: int) -> str:
    """A share, with how many times it is of if that is not all that were asked."""
    return _percent(share) + (f" of {share.count}" if share.count and share.count < asked else "")


def _percent(share: Share) -> str:
    return f"{share.share:.1%}" if share.count else "-"
