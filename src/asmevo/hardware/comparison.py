"""Original and changed program beside each other on a real GPU: same launches, same bytes, every time.

A trial is one set of data (`emulator.standard_trials`, without late memory, which is the emulator's own). In each
trial both versions run in several rounds, in alternating order, each time in a process of its own and several times in
it. So a version cannot spoil what the other finds, and a fault has one possible author.

What is found, in this order:

    a fault or a store outside of a buffer     of the original: the trial says nothing and is left out, with the reason;
                                               of the other version: a difference; but one that did not end in time
                                               leaves the question open
    results that differ between launches       likewise: the original is unstable, or the other version is
    results that differ between the versions   a difference, shown at the first element

Last, both run alternately in one process for their times (`measurement`); their results count there, too. If something
befalls the original there that did not when it was alone, nobody knows whose fault it is, and the question is open.

A store far outside of a buffer that hits other memory of the process, and reads outside of buffers that fault nowhere,
are not noticed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from msgspec import Struct, field

from asmevo.emulator import Trial
from asmevo.emulator.arguments import Shape
from asmevo.emulator.comparison import Unequal, bits_differ
from asmevo.emulator.manifest import Array, LaunchManifest
from asmevo.hardware.device import Device, Session
from asmevo.hardware.errors import DeviceLostError, GpuFaultError, GpuTimeLimitError
from asmevo.hardware.measurement import TIMED, WARM_UP, Timing, judge, launch_order
from asmevo.hardware.messages import Ran, Version
from asmevo.hardware.request import arrays_of, run_of, shape_of, version_of
from asmevo.program.kernel import Kernel
from asmevo.program.program import Program

ORIGINAL, NEW = "the original", "the new version"
_NAMES = (ORIGINAL, NEW)


class Plan(Struct, frozen=True):
    """How often each version runs in a trial: processes, launches in each. Without `timed` no times are taken."""

    rounds: int = 2
    launches: int = 3
    timed: bool = True


class Examination(Struct, frozen=True):
    """What a GPU found. `left_out` are reasons by trial. `result_bytes` were compared after each launch.

    `difference` is one sentence, None where none was found; `undecided` one about what leaves the question open, e.g. a
    new version that had to be given up. `timing` is None where no times were taken.
    """

    device: Device
    trials: tuple[str, ...]
    left_out: dict[str, str]
    result_bytes: int
    launches: int
    difference: str | None = None
    undecided: str | None = None
    timing: Timing | None = None

    @property
    def decided(self) -> bool:
        """Whether anything was established."""
        return self.difference is not None or (bool(self.trials) and self.undecided is None)

    def to_dict(self) -> dict[str, Any]:
        """As JSON data."""
        return {
            "gpu": str(self.device),
            "architecture": self.device.architecture,
            "hip": self.device.runtime,
            "launches": list(self.trials),
            "left_out": self.left_out,
            "bytes": self.result_bytes,
            "launches_each": self.launches,
            "equal": None if not self.decided else self.difference is None,
            "difference": self.difference,
            "undecided": self.undecided,
            "timing": self.timing.to_dict() if self.timing is not None else None,
        }


class _Pair(Struct, frozen=True):
    """The two versions as they are launched."""

    versions: tuple[Version, Version]
    shape: Shape


class _UnusableTrialError(Exception):
    """The original gives nothing to compare with."""


class _DifferentError(Exception):
    """The other version does something else."""


class _UndecidedError(Exception):
    """Nobody knows whether the other version does something else."""


_AUTHOR: tuple[type[Exception], type[Exception]] = (_UnusableTrialError, _DifferentError)
"""What it means when a version does not end well, by the version's number."""


class _Results(Struct):
    """What each version left so far in one trial, every different result once."""

    manifest: LaunchManifest
    unequal: Unequal
    kept: tuple[list[dict[str, Array]], list[dict[str, Array]]] = field(default_factory=lambda: ([], []))

    def add(self, ran: Ran, numbers: Sequence[int]) -> None:
        """Takes in what a run's versions left; `numbers` says which of the two each is. Raises for stores outside."""
        for damage in sorted(ran.damage, key=lambda each: numbers[each.version]):
            number, buffer = numbers[damage.version], self.manifest.buffers[damage.allocation].name
            raise _AUTHOR[number](f"{_NAMES[number]} stores outside of {buffer}, {damage}")
        for version, contents in enumerate(ran.results):
            number = numbers[version]
            self.kept[number].extend(arrays_of(self.manifest, each) for each in contents)
            if any(each.version == version and each.result >= len(contents) for each in ran.launches):
                raise _AUTHOR[number](f"{_NAMES[number]} is unstable: more than {len(contents)} different results")

    def check(self) -> None:
        """Every launch of a version left the same, and both versions did. Raises where not."""
        for number, kept in enumerate(self.kept):
            for other in kept[1:]:
                words = self._difference(kept[0], other, "in one launch, in another")
                if words is not None:
                    raise _AUTHOR[number](f"{_NAMES[number]} is unstable, its results differ between launches: {words}")
        before, after = self.kept
        words = self._difference(after[0], before[0], "the original has")
        if words is not None:
            raise _DifferentError(words)

    def _difference(self, got: dict[str, Array], want: dict[str, Array], between: str) -> str | None:
        for argument in self.manifest.buffers:
            unequal = self.unequal if argument.is_result else bits_differ
            one, other = got[argument.name], want[argument.name]
            places = np.flatnonzero(unequal(argument, other, one).reshape(-1))
            if places.size:
                place = tuple(int(i) for i in np.unravel_index(int(places[0]), one.shape))
                more = f" ({places.size} elements differ)" if places.size > 1 else ""
                index = ", ".join(map(str, place))
                return f"{argument.name}[{index}] is {one[place]!s}, {between} {other[place]!s}{more}"
        return None

    @property
    def size(self) -> int:
        """Bytes of all results."""
        first = self.kept[0][0]
        return sum(first[argument.name].nbytes for argument in self.manifest.buffers if argument.is_result)


def compare(
    session: Session,
    original: tuple[Program, Kernel],
    new: tuple[Program, Kernel],
    trials: Iterable[Trial],
    unequal: Unequal = bits_differ,
    plan: Plan | None = None,
) -> Examination:
    """Runs both versions on all trials up to the first difference.

    Raises WrongTargetError and NotLaunchableError before anything runs, and DeviceLostError.
    """
    plan = plan or Plan()
    for program, _ in (original, new):
        session.device.refuse_other_target(program)
    names: list[str] = []
    left_out: dict[str, str] = {}
    size, timing, difference, undecided = 0, None, None, None
    for trial in trials:
        pair = _pair(original, new, trial)
        results = _Results(trial.manifest, unequal)
        try:
            _rounds(session, pair, trial, results, plan)
            if plan.timed and timing is None:
                timing = _timed(session, pair, trial, results)
        except _UnusableTrialError as reason:
            left_out[trial.name] = str(reason)
        except _DifferentError as words:
            difference = f"with {trial.name}: {words}"
            break
        except _UndecidedError as words:
            undecided = f"with {trial.name}: {words}"
            break
        else:
            names.append(trial.name)
            size = results.size
    return Examination(
        session.device, tuple(names), left_out, size, plan.rounds * plan.launches, difference, undecided, timing
    )  # fmt: skip


def _pair(original: tuple[Program, Kernel], new: tuple[Program, Kernel], trial: Trial) -> _Pair:
    before, after = (
        version_of(name, *version, trial.manifest)
        for name, version in zip(_NAMES, (original, new), strict=True)
    )  # fmt: skip
    return _Pair((before, after), shape_of(trial.manifest, original[1]))


def _rounds(session: Session, pair: _Pair, trial: Trial, results: _Results, plan: Plan) -> None:
    """Rounds of both versions, each in a process of its own; the original goes first in the first."""
    for turn in range(plan.rounds):
        for number in (0, 1) if turn % 2 == 0 else (1, 0):
            order = (0,) * plan.launches
            request = run_of(session.device.index, (pair.versions[number],), trial, pair.shape, order)
            try:
                results.add(session.run(request), (number,))
            except GpuFaultError as error:
                words = f"{_NAMES[number]}: {error}{_and_the_device(session)}"
                given_up = number == 1 and isinstance(error, GpuTimeLimitError)
                raise (_UndecidedError if given_up else _AUTHOR[number])(words) from error
    results.check()


def _timed(session: Session, pair: _Pair, trial: Trial, results: _Results) -> Timing:
    """Both in one process. What befalls the original there did not when it was alone: that leaves the question open."""
    order = launch_order(WARM_UP + TIMED)
    request = run_of(session.device.index, pair.versions, trial, pair.shape, order)
    try:
        ran = session.run(request)
        results.add(ran, (0, 1))
        results.check()
    except GpuFaultError as error:
        words = f"{error.version or 'one of the two'}, in turns with the other: {error}{_and_the_device(session)}"
        mine = error.version == NEW and not isinstance(error, GpuTimeLimitError)
        raise (_DifferentError if mine else _UndecidedError)(words) from error
    except _UnusableTrialError as error:
        raise _UndecidedError(f"in turns with the new version {error}") from error
    before, after = (
        [each.milliseconds for each in ran.launches if each.version == number][WARM_UP:] for number in (0, 1)
    )
    return judge(before, after)


def _and_the_device(session: Session) -> str:
    """What a fault did to the GPU, as words behind a sentence."""
    try:
        session.look()
    except DeviceLostError as error:
        return f"; and now: {error.words}"
    return ""
