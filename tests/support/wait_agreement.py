"""Do the static waits gate and the asynchronous emulator agree on mutated waits, and if not, why?

The gate looks at all paths and all launches, the emulator at the paths of one launch. So the gate may reject what the
emulator lets pass, never the other way round. Each such case gets a reason, and each reason is checked on the trace
of the launch (by the reference engine, which knows nothing of counters) with the wait simulator, an oracle that
shares nothing with either side:

    path not executed   replayed along what each wave really executed, no register is touched too early
    bytes not shared    no wave of the launch meets the bytes of the accesses in question with a write on either side
    ordered anyway      waves that meet there have a barrier between them that comes after the access is done
    by atomics          waves meet there, and all that orders them are atomics, which the emulator trusts
"""

from __future__ import annotations

import contextlib
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from emulated_launches import launch, program_of, wanted
from msgspec import Struct, field
from wait_mutations import Mutation, mutated, mutations_of
from wait_simulator import replay

from asmevo.analysis.events import is_release_barrier
from asmevo.analysis.wait_counters import WaitAnalysis
from asmevo.checks.finding import Finding
from asmevo.checks.waits import check_order, hard_findings
from asmevo.emulator import Outcome, RunOptions, Step, Wave, run
from asmevo.emulator.wave import Reach
from asmevo.program.kernel import Kernel

AGREED, UNEXPLAINED = "agreed", "unexplained"
_REGISTER_RULES = ("waits.in-flight", "waits.expert-mode")
WaveName = tuple[tuple[int, int, int], int]


class Touched(Struct):
    """Bytes of one executed access: where (an arena, for LDS that of a workgroup), which, and how."""

    where: str
    bytes_: Any
    write: bool
    atomic: bool


class Executed(Struct):
    """One instruction of a wave's course."""

    instruction: int
    touched: list[Touched] = field(default_factory=list)


class Case(Struct, frozen=True):
    """One mutation of one launch. `result` is AGREED, UNEXPLAINED, or a reason."""

    launch: str
    target: str
    mutation: Mutation
    gate: str
    emulator: str
    result: str


@contextlib.contextmanager
def _recording(courses: dict[WaveName, list[Executed]]) -> Iterator[Any]:
    """Notes what each wave executes and touches; gives the `watch` for it."""
    current: list[tuple[WaveName, Executed]] = []
    atomics: list[bool] = []
    load, store, atomic = Reach.load, Reach.store, Reach.atomic

    def watch(wave: Wave, step: Step) -> None:
        name = (wave.group, wave.number)
        current[:] = [(name, Executed(step.instruction.id))]
        courses[name].append(current[0][1])

    def note(reach: Reach, space: Any, address: Any, size: int, active: Any, write: bool) -> None:
        (group, _), executed = current[0]
        for arena, places, _ in reach.split(space, address, active):
            if arena is not reach.scratch:
                where = f"LDS {group}" if arena is reach.lds else "memory"
                index = np.unique(places.astype(np.int64)[:, None] + np.arange(size))
                executed.touched.append(Touched(where, index, write, bool(atomics)))

    def noted_load(reach: Reach, space: Any, address: Any, size: int, active: Any) -> Any:
        note(reach, space, address, size, active, False)
        return load(reach, space, address, size, active)

    def noted_store(reach: Reach, space: Any, address: Any, content: Any, active: Any) -> None:
        note(reach, space, address, content.shape[1], active, True)
        store(reach, space, address, content, active)

    def noted_atomic(reach: Reach, *arguments: Any) -> Any:
        atomics.append(True)
        try:
            return atomic(reach, *arguments)
        finally:
            atomics.pop()

    Reach.load, Reach.store, Reach.atomic = noted_load, noted_store, noted_atomic
    try:
        yield watch
    finally:
        Reach.load, Reach.store, Reach.atomic = load, store, atomic


@lru_cache(maxsize=4)
def courses_of(name: str, target: str) -> dict[WaveName, list[Executed]]:
    """What each wave of a launch executes; a wait changes nothing about it."""
    program, manifest = program_of(name, target), launch(name)
    courses: dict[WaveName, list[Executed]] = defaultdict(list)
    with _recording(courses) as watch:
        run(program, program.kernel(manifest.symbol), manifest, options=RunOptions(watch=watch, poison="ignore"))
    return courses


def gate_findings(parent: WaitAnalysis, kernel: Kernel) -> list[Finding]:
    """What the waits gate holds against a mutant."""
    analysis = WaitAnalysis(kernel, parent)
    known = {finding.key for finding in hard_findings(parent) if finding.blocks_candidate}
    findings = (*hard_findings(analysis), *check_order(parent, analysis))
    return [finding for finding in findings if finding.blocks_candidate and finding.key not in known]


def emulated(name: str, target: str, kernel: Kernel, seeds: int) -> str:
    """The first problem of an asynchronous run, "" if all seeds are clean."""
    program, manifest = program_of(name, target), launch(name)
    for seed in range(seeds):
        options = RunOptions(asynchronous=True, seed=seed, poison="ignore")
        result = run(program, kernel, manifest, expected=wanted(name), options=options)
        if result.outcome is not Outcome.MATCHES:
            return result.problems[0]
    return ""


def judged(name: str, target: str, mutation: Mutation, parent: WaitAnalysis, seeds: int) -> Case:
    """Both verdicts and, where they differ, the reason."""
    kernel = mutated(parent.kernel, mutation)
    findings = gate_findings(parent, kernel)
    problem = emulated(name, target, kernel, seeds)
    gate = findings[0].message if findings else ""
    if bool(findings) == bool(problem):
        result = AGREED
    else:
        result = UNEXPLAINED if problem else _reason(name, target, kernel, findings)
    return Case(name, target, mutation, gate, problem, result)


def sampled(pairs: list[tuple[str, str]], each: int, seeds: int, seed: int = 1) -> Iterator[Case]:
    """Up to `each` mutations of every launch, drawn with `seed`."""
    for name, target in pairs:
        chance = random.Random(f"{seed} {name} {target}")
        kernel = program_of(name, target).kernel(launch(name).symbol)
        parent = WaitAnalysis(kernel)
        mutations = list(mutations_of(kernel, chance))
        for mutation in chance.sample(mutations, min(each, len(mutations))):
            yield judged(name, target, mutation, parent, seeds)


def summed_up(cases: list[Case]) -> Counter[str]:
    """How many of each kind: agreement on good and on bad mutants, and each reason."""
    words = (f"both {'reject' if case.gate else 'accept'}" if case.result == AGREED else case.result for case in cases)
    return Counter(words)


# --- why the gate rejects what the emulator lets pass


def _reason(name: str, target: str, kernel: Kernel, findings: list[Finding]) -> str:
    courses = courses_of(name, target)
    order = [finding for finding in findings if finding.rule not in _REGISTER_RULES]
    family = kernel.target.family.value
    done: dict[WaveName, dict[int, int]] = {}
    for wave, course in courses.items():
        kept = [place for place, each in enumerate(course) if each.instruction in kernel.by_id]
        violation, ends = replay(family, [kernel.by_id[course[place].instruction] for place in kept])
        if violation is not None:
            return UNEXPLAINED
        done[wave] = {
            place: kept[end] if end < len(kept) else len(course) for place, end in zip(kept, ends, strict=True)
        }
    if not order:
        return "path not executed"
    suspects = {each for finding in order for each in finding.instructions}
    return _met(kernel, courses, done, suspects)


def _met(
    kernel: Kernel, courses: dict[WaveName, list[Executed]], done: dict[WaveName, dict[int, int]], suspects: set[int]
) -> str:
    """How waves meet at the bytes of suspect accesses."""
    barriers = {wave: _barriers(kernel, course) for wave, course in courses.items()}
    words = "bytes not shared"
    for wave, course in courses.items():
        for place, executed in enumerate(course):
            if executed.instruction not in suspects:
                continue
            for other, there in _meetings(courses, wave, executed):
                if wave[0] != other[0]:
                    words = "by atomics" if _has_atomics(courses) else UNEXPLAINED
                elif not _ordered(barriers, done, (wave, place), (other, there)):
                    words = UNEXPLAINED
                elif words == "bytes not shared":
                    words = "ordered anyway"
                if words == UNEXPLAINED:
                    return words
    return words


def _meetings(
    courses: dict[WaveName, list[Executed]], wave: WaveName, executed: Executed
) -> Iterator[tuple[WaveName, int]]:
    for other, course in courses.items():
        if other == wave:
            continue
        for there, second in enumerate(course):
            if any(_conflict(a, b) for a in executed.touched for b in second.touched):
                yield other, there


def _conflict(a: Touched, b: Touched) -> bool:
    if a.where != b.where or not (a.write or b.write) or (a.atomic and b.atomic):
        return False
    return bool(np.intersect1d(a.bytes_, b.bytes_, assume_unique=True).size)


def _barriers(kernel: Kernel, course: list[Executed]) -> Any:
    """The number of barriers in front of each place."""
    are = [
        each.instruction in kernel.by_id and is_release_barrier(kernel.by_id[each.instruction].decoded)
        for each in course
    ]
    return np.concatenate([[0], np.cumsum(are)])


def _ordered(barriers: Any, done: Any, first: tuple[WaveName, int], second: tuple[WaveName, int]) -> bool:
    """Whether one of two places is done before a barrier that the other comes after."""

    def before(a: tuple[WaveName, int], b: tuple[WaveName, int]) -> bool:
        return bool(barriers[a[0]][done[a[0]].get(a[1], a[1])] < barriers[b[0]][b[1]])

    return before(first, second) or before(second, first)


def _has_atomics(courses: dict[WaveName, list[Executed]]) -> bool:
    return any(touched.atomic for course in courses.values() for each in course for touched in each.touched)
