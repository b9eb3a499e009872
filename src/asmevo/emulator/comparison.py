"""Original and changed program beside each other: the same launches must leave the same bytes.

A trial is one launch: data, an order of waves, and whether memory answers late (the asynchronous mode). The
original runs each trial once. A trial in which the original itself does not end well says nothing about the change
and is left out, with its reason kept; so are reports of unwritten values that the original gives as well. A trial in
which only the changed version was given up (a limit, an instruction without a meaning) says nothing either: it is no
difference, and the versions are not known to be equal. Results that depend on the order in which waves reach an
atomic may differ between orders, so both versions run with the same one.

Data: the manifest's own; the same with floating-point inputs replaced by edge values (zeros of both signs,
infinities, NaNs, the smallest and largest numbers) among random bits; the same with whole numbers shuffled among
the values that the buffer holds (they may be indices, so no new ones). In the trials after the first, memory of
pure results is poisoned: nobody has written it.

A difference is shrunk: both versions run again and tell who stored the elements that differ. Of these the one that
the original stored first is shown with both instructions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from asmevo.emulator.machine import Limits
from asmevo.emulator.manifest import (
    Array,
    BufferArgument,
    LaunchManifest,
    Unwritten,
    from_bf16,
    make_buffers,
)
from asmevo.emulator.run import RunOptions, RunResult, run
from asmevo.emulator.store_watch import Store, StoreWatch
from asmevo.program.kernel import Kernel
from asmevo.program.program import Program

Unequal = Callable[[BufferArgument, Array, Array], Array]
"""True for each element of the second array that counts as different from the first."""

_EDGE_SHARE = 0.25
_FLOATS = ("f16", "f32", "f64")
_WHOLE = ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")
_WATCHED = 64  # elements that are watched when a difference is shrunk
_SHRINK_LIMITS = Limits(instructions=2_000_000, seconds=20.0)


class Trial(Struct, frozen=True):
    """One launch that both versions run. `name` is for messages."""

    name: str
    manifest: LaunchManifest
    buffers: Mapping[str, Array]
    seed: int = 0
    asynchronous: bool = False
    limits: Limits = Limits()

    def run(self, program: Program, kernel: Kernel, options: RunOptions | None = None) -> RunResult:
        """Runs it; `options` for seed and mode count from the trial, and limits where none are given."""
        options = replace(options or RunOptions(limits=self.limits), seed=self.seed, asynchronous=self.asynchronous)
        return run(program, kernel, self.manifest, buffers=self.buffers, options=options)


class Difference(Struct, frozen=True):
    """What a change did in one trial: one sentence, and the ids of the changed program's instructions in it."""

    trial: str
    words: str
    instructions: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"with {self.trial}: {self.words}"


class Unfinished(Struct, frozen=True):
    """A trial in which a changed version was given up, neither equal nor different, and why."""

    trial: str
    words: str

    def __str__(self) -> str:
        return f"with {self.trial}: {self.words}"


class _Known(Struct, frozen=True):
    """A trial with what the original leaves."""

    trial: Trial
    original: RunResult


class Witness:
    """The original's side of every comparison, made once.

    `refusals` are the reasons of trials that the original itself does not pass, by the trial's name. `unequal`
    says which elements of a result count as different; by default those that differ in a bit.
    """

    def __init__(
        self, program: Program, kernel: Kernel, trials: Iterator[Trial], unequal: Unequal | None = None
    ) -> None:
        self._unequal = unequal or bits_differ
        self.program = program
        self.kernel = kernel
        self.known: list[_Known] = []
        self.refusals: dict[str, str] = {}
        for trial in trials:
            result = trial.run(program, kernel)
            if result.outcome.is_end:
                self.known.append(_Known(trial, result))
            else:
                self.refusals[trial.name] = _first_problem(result)

    @property
    def instructions(self) -> int:
        """Wave-instructions that the original ran in all trials."""
        return sum(each.original.instructions for each in self.known)

    @property
    def result_bytes(self) -> int:
        """Bytes compared in each trial."""
        return sum(output.nbytes for output in self.known[0].original.outputs.values()) if self.known else 0

    def examine(self, program: Program, kernel: Kernel, unwritten: bool = True) -> Difference | Unfinished | None:
        """The first trial in which another version does something else or is given up; None when all bytes are equal.

        `unwritten`: a read of what nobody wrote, which the original does not have, counts too, whatever comes of it.
        """
        for each in self.known:
            result = each.trial.run(program, kernel)
            if not result.outcome.is_end:
                kind = Difference if result.outcome.is_definite else Unfinished
                return kind(each.trial.name, _first_problem(result))
            if unwritten and result.notes and not each.original.notes:
                return Difference(each.trial.name, result.notes[0])
            difference = self.difference(each, result, program, kernel)
            if difference is not None:
                return difference
        return None

    def difference(self, known: _Known, result: RunResult, program: Program, kernel: Kernel) -> Difference | None:
        """What the result of another version, which ended, left differently; None when all bytes are equal."""
        place = self._differing(known, result)
        return None if place is None else self._shrunk(known, result, program, kernel, *place)

    def _differing(self, known: _Known, result: RunResult) -> tuple[str, Array] | None:
        """The first buffer that counts as different, and the indices of its elements that do."""
        arguments = {each.name: each for each in known.trial.manifest.buffers}
        for name, before in known.original.outputs.items():
            places = np.flatnonzero(self._unequal(arguments[name], before, result.outputs[name]).reshape(-1))
            if places.size:
                return name, places
        return None

    def _shrunk(
        self, known: _Known, result: RunResult, program: Program, kernel: Kernel, name: str, elements: Array
    ) -> Difference:
        """The difference at the element that the original stored first."""
        size = known.original.outputs[name].dtype.itemsize
        watched = elements[:_WATCHED]
        before = _stores(known.trial, self.program, self.kernel, StoreWatch(name, watched, size))
        after = _stores(known.trial, program, kernel, StoreWatch(name, watched, size))
        first = min(map(int, watched), key=lambda element: _order(before.get(element), after.get(element)))
        words = _words(name, first, len(elements), known.original.outputs[name], result.outputs[name])
        old, new = before.get(first), after.get(first)
        if old is None and new is None:
            return Difference(known.trial.name, words)
        words = f"{words}; stored by {new or 'nobody'}, in the original by {old or 'nobody'}"
        ids = (new.step.instruction.id,) if new is not None else ()
        return Difference(known.trial.name, words, ids)


def standard_trials(
    manifest: LaunchManifest,
    seeds: int = 2,
    edges: bool = True,
    signaling: bool = True,
    limits: Limits | None = None,
) -> Iterator[Trial]:
    """The trials of the emulation gate: the manifest's data, fuzzed data, and `seeds` asynchronous runs.

    Without `edges` there are no edge values: where results may be rounded differently, they tell nothing. Without
    `signaling` no NaN among them is a signaling one: where it counts as a quiet one, it tells nothing.
    """
    plain, limits = make_buffers(manifest), limits or Limits()
    yield Trial("the manifest's data", manifest, plain, limits=limits)
    poisoned = _poisoned(manifest)
    rng = np.random.default_rng(1)
    if edges and any(_is_input(manifest, name, _FLOATS) for name in plain):
        edge_values = _with_edges(manifest, plain, rng, signaling)
        yield Trial("edge values", poisoned, edge_values, seed=1, limits=limits)
    if any(_is_input(manifest, name, _WHOLE) for name in plain):
        yield Trial("shuffled whole numbers", poisoned, _shuffled(manifest, plain, rng), seed=2, limits=limits)
    for seed in range(1, seeds + 1):
        yield Trial(f"asynchronous memory, seed {seed}", poisoned, plain, seed, asynchronous=True, limits=limits)


def _first_problem(result: RunResult) -> str:
    return result.problems[0] if result.problems else result.outcome.value


def _poisoned(manifest: LaunchManifest) -> LaunchManifest:
    arguments = [
        each.model_copy(update={"init": Unwritten(kind="unwritten"), "sha256": None})
        if each.kind == "buffer" and each.direction == "out"
        else each
        for each in manifest.arguments
    ]
    return manifest.model_copy(update={"arguments": arguments})


def _is_input(manifest: LaunchManifest, name: str, types: tuple[str, ...]) -> bool:
    return any(each.name == name and each.direction != "out" and each.dtype in types for each in manifest.buffers)


def _with_edges(
    manifest: LaunchManifest, plain: Mapping[str, Array], rng: np.random.Generator, signaling: bool
) -> dict[str, Array]:
    return {
        name: _edges_among(values, rng, signaling) if _is_input(manifest, name, _FLOATS) else values
        for name, values in plain.items()
    }


def _edges_among(values: Array, rng: np.random.Generator, signaling: bool) -> Array:
    kind = values.dtype
    info = np.finfo(kind)
    edges = np.array(
        [0.0, -0.0, np.inf, -np.inf, np.nan, info.tiny, -info.tiny, info.smallest_subnormal, info.max, info.min], kind
    )
    noise = np.frombuffer(rng.bytes(values.nbytes), kind).reshape(values.shape)
    if not signaling:
        noise = np.where(np.isnan(noise), np.array(np.nan, kind), noise)
    choice = rng.random(values.shape)
    mixed = np.where(choice < _EDGE_SHARE, rng.choice(edges, values.shape), values)
    return np.where(choice > 1 - _EDGE_SHARE, noise, mixed).astype(kind)


def _shuffled(manifest: LaunchManifest, plain: Mapping[str, Array], rng: np.random.Generator) -> dict[str, Array]:
    return {
        name: rng.permutation(values.reshape(-1)).reshape(values.shape) if _is_input(manifest, name, _WHOLE) else values
        for name, values in plain.items()
    }


def bits_differ(argument: BufferArgument, want: Array, got: Array) -> Array:
    """True where two arrays of a buffer are not the same to the bit."""
    raw = np.dtype(f"u{want.dtype.itemsize}")
    differ: Array = want.view(raw) != got.view(raw)
    return differ


def numbers_differ(argument: BufferArgument, want: Array, got: Array) -> Array:
    """True where two arrays of a buffer are not the same to the bit; but any NaN is as good as another."""
    before, after = (from_bf16(want), from_bf16(got)) if argument.dtype == "bf16" else (want, got)
    both_nan: Array = (before != before) & (after != after)
    return bits_differ(argument, want, got) & ~both_nan


def _words(name: str, element: int, count: int, want: Array, got: Array) -> str:
    place = tuple(int(i) for i in np.unravel_index(element, want.shape))
    index = ", ".join(map(str, place))
    more = f" ({count} elements differ)" if count > 1 else ""
    return f"{name}[{index}] is {got[place]!s}, the original has {want[place]!s}{more}"


def _stores(trial: Trial, program: Program, kernel: Kernel, watch: StoreWatch) -> dict[int, Store]:
    """The last store of each watched element; a run that is too long for the slow engine tells what it saw."""
    trial.run(program, kernel, RunOptions(poison="ignore", watch=watch, limits=_SHRINK_LIMITS))
    return watch.finish()


def _order(old: Store | None, new: Store | None) -> tuple[int, int]:
    """When the original stored an element; elements it never stored come last, in the other version's order."""
    return (0, old.order) if old is not None else (1, new.order if new is not None else 0)
