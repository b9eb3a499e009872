"""How far times agree: the model with silicon, and two captures of one kernel with each other.

Two captures of the same code object are the noise floor: their waves are matched in the order of their start, waves
that went different ways are not compared, and a gap counts where a replay asks for it in both. No model that knows only
the code can be right more often than the captures agree.

Gaps are also told apart by the unit that the later instruction issues to (`class`), since a model can be right about
vector instructions and wrong about memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from asmevo.timing.instruction_class import Port
from asmevo.timing.replay import Replayed


class Share(Struct, frozen=True):
    """Times compared: all of them, those that are equal, and those within one unit of the clock."""

    count: int = 0
    exact: int = 0
    close: int = 0

    @property
    def share(self) -> float:
        """The equal ones; 1 where nothing was compared."""
        return self.exact / self.count if self.count else 1.0

    @property
    def close_share(self) -> float:
        """Those within one unit; 1 where nothing was compared."""
        return self.close / self.count if self.count else 1.0

    def __add__(self, other: Share) -> Share:
        return Share(self.count + other.count, self.exact + other.exact, self.close + other.close)


class Executes(Struct, frozen=True):
    """Execute packets compared: the time since the one before of the wave in its unit, and that since its issue.

    The second counts one early or late execution again for each instruction that queues behind it.
    """

    gaps: Share = Share()
    delays: Share = Share()

    def __add__(self, other: Executes) -> Executes:
        return Executes(self.gaps + other.gaps, self.delays + other.delays)


_Times = tuple[Sequence[int], Sequence[int | None]]
"""Cycles of issue and of execution of a wave's instructions."""


class Tally(Struct):
    """Counts comparisons, together and by class. `unit`: cycles of one unit of the clock."""

    unit: int
    shares: dict[str, Share] = field(default_factory=dict)

    def add(self, name: str, one: int, other: int) -> None:
        """Compares two times of class `name`."""
        own = Share(1, int(one == other), int(abs(one - other) <= self.unit))
        self.shares[name] = self.shares.get(name, Share()) + own

    @property
    def total(self) -> Share:
        """All classes together."""
        return summed(self.shares.values())


class Miss(Struct, frozen=True):
    """A pair of consecutive instructions, the cycles between them traced and predicted, and how often."""

    before: str
    instruction: str
    traced: int
    predicted: int
    count: int


def summed(shares: Iterable[Share]) -> Share:
    """All of them together."""
    return sum(shares, Share())


def class_of(wave: Replayed, place: int) -> str:
    """The unit that an instruction issues to, by name."""
    return Port(wave.steps[place].port).name.lower()


def gap_shares(waves: Iterable[Replayed], unit: int) -> dict[str, Share]:
    """Issue gaps predicted, by class."""
    tally = Tally(unit)
    for wave in waves:
        for gap in wave.gaps():
            tally.add(class_of(wave, gap.place), gap.traced, gap.predicted)
    return tally.shares


def execute_shares(waves: Iterable[Replayed], unit: int) -> Executes:
    """Execute packets predicted, where the trace has one and the model a queue."""
    gaps, delays = Tally(unit), Tally(unit)
    for wave in waves:
        traced = [issue.cycle for issue in wave.wave.issues], wave.wave.executes
        _compare_executes(wave, traced, (wave.issued, wave.executed), gaps, delays)
    return Executes(gaps.total, delays.total)


def _compare_executes(wave: Replayed, one: _Times, other: _Times, gaps: Tally, delays: Tally) -> None:
    """Compares times of issue and execution of one wave: `delays` from each to the other, `gaps` in each unit from one
    execution to the next, unless the model is told when one in between issues.
    """
    last: dict[int, tuple[int, int, int]] = {}
    told = 0
    for place, step in enumerate(wave.steps):
        told = place if place in wave.given else told
        left, right = one[1][place], other[1][place]
        if left is None or right is None:
            continue
        delays.add("", left - one[0][place], right - other[0][place])
        before = last.get(step.stream)
        if before is not None and before[0] >= told:
            gaps.add("", left - before[1], right - before[2])
        last[step.stream] = place, left, right


def wave_time_errors(waves: Iterable[Replayed]) -> Iterator[float]:
    """For each wave how far its asked gaps are off together, as a share of the wave's whole time."""
    for wave in waves:
        off = sum(gap.predicted - gap.traced for gap in wave.gaps())
        yield abs(off) / wave.cycles if wave.cycles else 0.0


def wave_time_floors(first: Sequence[Replayed], second: Sequence[Replayed]) -> Iterator[float]:
    """As `wave_time_errors`, for a second capture of one code object instead of the model."""
    for one, other in matched(first, second):
        theirs = {gap.place: gap.traced for gap in other.gaps()}
        off = sum(theirs[gap.place] - gap.traced for gap in one.gaps() if gap.place in theirs)
        yield abs(off) / one.cycles if one.cycles else 0.0


def misses(waves: Iterable[Replayed], most: int) -> tuple[Miss, ...]:
    """The gaps that are most often wrong."""
    found: Counter[tuple[str, str, int, int]] = Counter()
    for wave in waves:
        for gap in wave.gaps():
            if gap.traced != gap.predicted:
                before, own = (wave.steps[place].profile.decoded.mnemonic for place in (gap.place - 1, gap.place))
                found[before, own, gap.traced, gap.predicted] += 1
    return tuple(Miss(*key, count) for key, count in found.most_common(most))


def matched(first: Sequence[Replayed], second: Sequence[Replayed]) -> Iterator[tuple[Replayed, Replayed]]:
    """Waves of two captures in the order of their start, those that went the same way."""
    for one, other in zip(first, second, strict=False):
        if [each.offset for each in one.wave.issues] == [each.offset for each in other.wave.issues]:
            yield one, other


def floor_shares(first: Sequence[Replayed], second: Sequence[Replayed], unit: int) -> dict[str, Share]:
    """Issue gaps that two captures of one code object agree on, by class."""
    tally = Tally(unit)
    for one, other in matched(first, second):
        theirs = {gap.place: gap.traced for gap in other.gaps()}
        for gap in one.gaps():
            if gap.place in theirs:
                tally.add(class_of(one, gap.place), gap.traced, theirs[gap.place])
    return tally.shares


def execute_floors(first: Sequence[Replayed], second: Sequence[Replayed], unit: int) -> Executes:
    """Execute packets that two captures agree on, where the model has a queue."""
    gaps, delays = Tally(unit), Tally(unit)
    for one, other in matched(first, second):
        asked = replace(one, given=one.given | other.given)
        left, right = ([issue.cycle for issue in each.wave.issues] for each in (one, other))
        queued = tuple(
            None if predicted is None else traced
            for traced, predicted in zip(other.wave.executes, one.executed, strict=True)
        )
        _compare_executes(asked, (left, one.wave.executes), (right, queued), gaps, delays)
    return Executes(gaps.total, delays.total)


def merged(one: Mapping[str, Share], other: Mapping[str, Share]) -> dict[str, Share]:
    """Shares by class of two comparisons together."""
    return {name: one.get(name, Share()) + other.get(name, Share()) for name in sorted({*one, *other})}
