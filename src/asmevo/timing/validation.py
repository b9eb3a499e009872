"""How far the cycle model agrees with traces of silicon, beside how far silicon agrees with itself, and llvm-mca.

Every capture is replayed (see `replay`): the model is told the way each wave took and when its waits were satisfied,
and asked for every other issue gap and for the execute times. llvm-mca is asked for the same gaps: each run of issues
between given ones is a stretch of straight code to it. It knows nothing of other waves, which is part of its error.
Captures of one kernel are summed up in one row. The floor of each measure is what two captures of one code object say
of each other (see `agreement`), over all pairs of captures of one source.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from msgspec import Struct, field, to_builtins

from asmevo.program.kernel import Kernel
from asmevo.target.fit import fitted_kernels
from asmevo.timing.agreement import (
    Executes,
    Miss,
    Share,
    Tally,
    class_of,
    execute_floors,
    execute_shares,
    floor_shares,
    gap_shares,
    merged,
    misses,
    summed,
    wave_time_errors,
    wave_time_floors,
)
from asmevo.timing.interleaving import order_floor, order_share
from asmevo.timing.other_captures import other_captures_error
from asmevo.timing.ranking import BlockTime, Schedule
from asmevo.timing.replay import Replayed, replay
from asmevo.timing.second_opinion import McaGaps
from asmevo.timing.traces import Trace, kernel_of, most_together, read_trace, trace_files

_WORST = 10


class Row(Struct, frozen=True):
    """The model against all captures of one kernel on one target.

    `unit`: cycles that the clock of the traces can tell apart. `gaps` and `floor` are shares of issue gaps by class
    (the unit of the later instruction), `mca` those of llvm-mca (None: not asked). `alone` counts the gaps of
    captures in which no two waves of a SIMD overlap. `order` is who of two waves goes first. `together`: the most
    waves that were on one SIMD at the same time. `wave_cycles` are the asked cycles of a wave: traced, predicted, and
    by llvm-mca where it knows all instructions.
    """

    target: str
    kernel: str
    fitted: bool
    unit: int
    captures: int
    waves: int
    together: int
    gaps: Mapping[str, Share]
    floor: Mapping[str, Share]
    mca: Mapping[str, Share] | None
    alone: Share
    executes: Executes
    execute_floor: Executes
    order: Share
    order_floor: Share
    wave_time_error: float
    wave_time_floor: float | None
    other_captures_error: float | None
    mca_wave_time_error: float | None
    wave_cycles: tuple[float, float, float | None]
    blocks: tuple[BlockTime, ...]
    schedules: tuple[Schedule, ...]
    worst: tuple[Miss, ...]

    @property
    def total(self) -> Share:
        """All issue gaps."""
        return summed(self.gaps.values())

    @property
    def floor_total(self) -> Share:
        """All issue gaps that two captures were compared in."""
        return summed(self.floor.values())

    @property
    def mca_total(self) -> Share | None:
        """All issue gaps that llvm-mca answered; None if it was not asked."""
        return None if self.mca is None else summed(self.mca.values())

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values, the shares included; schedules are left out."""
        data: dict[str, Any] = to_builtins(self)
        del data["schedules"]
        floor = self.floor_total.share if self.floor_total.count else None
        return data | {"share": self.total.share, "close_share": self.total.close_share, "floor_share": floor}


class _Capture(Struct):
    """One replayed capture with llvm-mca's gaps by wave and place."""

    trace: Trace
    kernel: Kernel
    waves: tuple[Replayed, ...]
    mca: list[dict[int, int]] | None


def validate(root: Path, second_opinion: bool) -> Iterator[Row]:
    """One row for each kernel under `root`, directory by directory; kernels without an asked gap are left out.

    Raises TraceError for a file that is no trace or has no code object, and ToolchainMissingError if a second opinion
    is wanted and llvm-mca is not there.
    """
    for folder in sorted({path.parent for path in trace_files(root)}):
        traces = [read_trace(path) for path in sorted(folder.glob("*.jsonl.gz")) if path in set(trace_files(folder))]
        for name in sorted({trace.kernel for trace in traces}):
            captures = list(_captures([trace for trace in traces if trace.kernel == name], folder, second_opinion))
            if any(gap for capture in captures for wave in capture.waves for gap in wave.gaps()):
                yield _row(captures)


def _captures(traces: Sequence[Trace], folder: Path, second_opinion: bool) -> Iterator[_Capture]:
    kernels = {trace.code_object: kernel_of(trace, folder) for trace in traces}
    opinions = {name: McaGaps(kernel) for name, kernel in kernels.items()}
    for trace in traces:
        waves = replay(trace, kernels[trace.code_object])
        answers = [_mca_gaps(wave, opinions[trace.code_object]) for wave in waves] if second_opinion else None
        yield _Capture(trace, kernels[trace.code_object], waves, answers)


def _mca_gaps(wave: Replayed, opinion: McaGaps) -> dict[int, int]:
    """llvm-mca's gap before each place; places of code with an instruction that it does not know are missing."""
    found: dict[int, int] = {}
    for run in wave.straight_code():
        answer = opinion.of([wave.steps[place].id for place in run])
        if answer is not None:
            found |= dict(zip(run[1:], answer, strict=True))
    return found


def _row(captures: Sequence[_Capture]) -> Row:
    first = captures[0].trace
    waves = [wave for capture in captures for wave in capture.waves]
    asked = captures[0].mca is not None
    floors = _Floors.of(captures)
    errors, mca_errors = list(wave_time_errors(waves)), list(_mca_errors(captures))
    together = [most_together([wave.wave for wave in capture.waves]) for capture in captures]
    alone = [w for capture, most in zip(captures, together, strict=True) if most <= 1 for w in capture.waves]
    return Row(
        target=first.target,
        kernel=first.kernel,
        fitted=first.kernel in fitted_kernels(first.target),
        unit=first.unit,
        captures=len(captures),
        waves=len(waves),
        together=max(together),
        gaps=gap_shares(waves, first.unit),
        floor=floors.gaps,
        mca=_mca_shares(captures) if asked else None,
        alone=summed(gap_shares(alone, first.unit).values()),
        executes=execute_shares(waves, first.unit),
        execute_floor=floors.executes,
        order=summed(order_share(capture.waves) for capture in captures),
        order_floor=floors.order,
        wave_time_error=sum(errors) / len(errors),
        wave_time_floor=sum(floors.wave_times) / len(floors.wave_times) if floors.wave_times else None,
        other_captures_error=other_captures_error([(each.trace.code_object, each.waves) for each in captures]),
        mca_wave_time_error=sum(mca_errors) / len(mca_errors) if mca_errors else None,
        wave_cycles=_wave_cycles(captures),
        blocks=tuple(_block_times(captures)),
        schedules=tuple(_schedules(captures)),
        worst=misses(waves, _WORST),
    )


class _Floors(Struct):
    """What pairs of captures of one code object and source agree on."""

    gaps: Mapping[str, Share] = field(default_factory=dict)
    executes: Executes = field(default_factory=Executes)
    order: Share = field(default_factory=Share)
    wave_times: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, captures: Sequence[_Capture]) -> _Floors:
        found = cls()
        for one, other in combinations(captures, 2):
            if (one.trace.source, one.trace.code_object) == (other.trace.source, other.trace.code_object):
                unit = one.trace.unit
                found.gaps = merged(found.gaps, floor_shares(one.waves, other.waves, unit))
                found.executes += execute_floors(one.waves, other.waves, unit)
                found.order += order_floor(one.waves, other.waves)
                found.wave_times += wave_time_floors(one.waves, other.waves)
        return found


def _answered(captures: Sequence[_Capture]) -> Iterator[tuple[_Capture, Replayed, dict[int, int]]]:
    """Waves with llvm-mca's gaps, where it was asked."""
    for capture in captures:
        for wave, answers in zip(capture.waves, capture.mca or [], strict=False):
            yield capture, wave, answers


def _mca_shares(captures: Sequence[_Capture]) -> dict[str, Share]:
    tally = Tally(captures[0].trace.unit)
    for _, wave, answers in _answered(captures):
        for gap in wave.gaps():
            if gap.place in answers:
                tally.add(class_of(wave, gap.place), gap.traced, answers[gap.place])
    return tally.shares


def _mca_errors(captures: Sequence[_Capture]) -> Iterator[float]:
    """As `wave_time_errors`, over the gaps that llvm-mca answered."""
    for _, wave, answers in _answered(captures):
        off = sum(answers[gap.place] - gap.traced for gap in wave.gaps() if gap.place in answers)
        if answers and wave.cycles:
            yield abs(off) / wave.cycles


def _wave_cycles(captures: Sequence[_Capture]) -> tuple[float, float, float | None]:
    sums = _Sums()
    for capture in captures:
        for number, wave in enumerate(capture.waves):
            answers = capture.mca[number] if capture.mca is not None else {}
            sums.executions += 1
            for gap in wave.gaps():
                sums.add(gap.traced, gap.predicted, answers.get(gap.place))
    return sums.means()


class _Sums(Struct):
    """Asked cycles summed up: traced, predicted, and by llvm-mca; `unknown` once it left a gap out."""

    executions: int = 0
    traced: int = 0
    predicted: int = 0
    mca: int = 0
    unknown: bool = False

    def add(self, traced: int, predicted: int, mca: int | None) -> None:
        self.traced += traced
        self.predicted += predicted
        self.mca += mca or 0
        self.unknown |= mca is None

    def means(self) -> tuple[float, float, float | None]:
        count = max(1, self.executions)
        return self.traced / count, self.predicted / count, None if self.unknown else self.mca / count


def _block_times(captures: Sequence[_Capture]) -> Iterator[BlockTime]:
    """Blocks by code object. A gap belongs to the block of the later instruction."""
    found: dict[tuple[str, int], _Sums] = {}
    for capture in captures:
        block_of = {i.id: block.index for block in capture.kernel.blocks for i in block.instructions}
        for number, wave in enumerate(capture.waves):
            answers = capture.mca[number] if capture.mca is not None else {}
            blocks = [block_of[step.id] for step in wave.steps]
            for place, block in enumerate(blocks):
                if not place or block != blocks[place - 1] or wave.steps[place].slot <= wave.steps[place - 1].slot:
                    found.setdefault((capture.trace.code_object, block), _Sums()).executions += 1
            for gap in wave.gaps():
                sums = found[capture.trace.code_object, blocks[gap.place]]
                sums.add(gap.traced, gap.predicted, answers.get(gap.place))
    head = captures[0].trace
    for (name, block), sums in sorted(found.items()):
        if sums.traced:
            yield BlockTime(head.target, head.kernel, name, block, sums.executions, *sums.means())


def _schedules(captures: Sequence[_Capture]) -> Iterator[Schedule]:
    """Runs of issues by what they issue (texts), each with its mean in every capture."""
    found: dict[tuple[str, ...], list[_Sums]] = {}
    for capture in captures:
        own: dict[tuple[str, ...], _Sums] = {}
        for number, wave in enumerate(capture.waves):
            answers = capture.mca[number] if capture.mca is not None else {}
            gaps = {gap.place: gap for gap in wave.gaps()}
            for run in wave.runs():
                texts = tuple(wave.wave.issues[place].text for place in run)
                sums = own.setdefault(texts, _Sums())
                sums.executions += 1
                for place in run[1:]:
                    sums.add(gaps[place].traced, gaps[place].predicted, answers.get(place))
        for texts, sums in own.items():
            found.setdefault(texts, []).append(sums)
    for texts, each in found.items():
        means = [sums.means() for sums in each]
        known = [mca for _, _, mca in means if mca is not None]
        yield Schedule(
            captures[0].trace.target,
            tuple(text.split()[0] for text in texts),
            captures[0].trace.unit,
            tuple(traced for traced, _, _ in means),
            sum(predicted for _, predicted, _ in means) / len(means),
            sum(known) / len(known) if known else None,
        )
