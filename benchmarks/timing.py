"""Speed of the cycle model on one core, in simulated wave-instructions a second of processor time.

The first load is the matrix product of the traces on gfx1100 (a loop of 93 instructions), alone on its SIMD and with
more waves. `whole` is a whole estimate as a search asks for it, of a new version each time: its code is read into
steps, they are walked, and summed up. It counts the issues that were simulated one by one; `covered` those that the
estimate stands for, since a loop is left when its iterations repeat and the rest is counted. `steady` is the walk
alone, on and on through the loop. The baseline is llvm-mca on the same kernel in the same run (as the product asks it,
process start included), in instructions of one wave.

`changed` is the incremental form: milliseconds for a version of the kernel in which neighbours of its largest block are
exchanged, each asked once, beside those for a whole estimate of it. It is measured on that loop and on straight code of
hundreds of instructions, of which a lone wave walks what is around the change. `--json FILE` writes all figures.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict, replace

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "program"))

from compiled_programs import all_files  # noqa: E402

from asmevo.doors.start import collect_seldom  # noqa: E402
from asmevo.program import read_program  # noqa: E402
from asmevo.program.codeobject import CodeObject  # noqa: E402
from asmevo.program.kernel import Kernel  # noqa: E402
from asmevo.program.reading import read_kernels  # noqa: E402
from asmevo.timing import estimate  # noqa: E402
from asmevo.timing.changed_window import ChangedWindow  # noqa: E402
from asmevo.timing.estimate import code_of  # noqa: E402
from asmevo.timing.path import path_of  # noqa: E402
from asmevo.timing.scenarios import machine_for  # noqa: E402
from asmevo.timing.schedule import schedule  # noqa: E402
from asmevo.timing.second_opinion import ask_mca  # noqa: E402
from asmevo.timing.simulator import Simulator  # noqa: E402

OBJECT = ROOT / "tests" / "data" / "traces" / "gfx1100" / "3ad1491919.co"
STRAIGHT = "gfx1100/gemm_bias_silu.hsaco"
TRIPS = 1000
_STEADY_ROUNDS = 40
_VERSIONS = 24
_LEAST_SECONDS = 1.0


class Speed(Struct, frozen=True):
    """Wave-instructions a second, by what they are of; `seconds` of a whole estimate."""

    waves: int
    seconds: float
    whole: float
    steady: float
    covered: float
    mca: float

    @property
    def ratio(self) -> float:
        """Against llvm-mca, in instructions covered."""
        return self.covered / self.mca


class Change(Struct, frozen=True):
    """Seconds for a version of a kernel: by its changed window, and whole. `instructions`: of the changed block."""

    code: str
    waves: int
    instructions: int
    changed: float
    whole: float

    @property
    def ratio(self) -> float:
        return self.whole / self.changed


def seconds(work: Callable[[], object]) -> float:
    """CPU seconds, of child processes too: the mean over about a second, after one run that warms what is kept."""
    work()
    start, runs = sum(os.times()[:4]), 0
    while sum(os.times()[:4]) - start < _LEAST_SECONDS:
        work()
        runs += 1
    return (sum(os.times()[:4]) - start) / runs


def measure(kernel: Kernel, waves: int, mca: float) -> Speed:
    walked = 0

    def count(*_: object) -> None:
        nonlocal walked
        walked += 1

    estimate(kernel, waves=waves, trip_count=TRIPS, observe=count)
    found = estimate(kernel, waves=waves, trip_count=TRIPS)
    took = seconds(lambda: estimate(kernel.with_blocks(kernel.blocks), waves=waves, trip_count=TRIPS))
    return Speed(waves, took, walked / took, steady(kernel, waves), found.ipc * found.cycles / took, mca)


def steady(kernel: Kernel, waves: int) -> float:
    """Wave-instructions a second through the kernel's loop, gone through as if it were straight."""
    machine = machine_for(kernel.target, kernel.wave_size, "l2")
    loop = next(each for each in path_of(kernel) if each.loop is not None)
    instructions, taken, _ = code_of(kernel, loop)
    (steps,) = schedule(machine, [(instructions * _STEADY_ROUNDS, taken * _STEADY_ROUNDS, False)])
    issues = waves * sum(not step.silent for step in steps)
    return issues / seconds(lambda: Simulator(machine, [(steps, False, 1)], waves, waves, 0).run())


def change(code: str, kernel: Kernel, waves: int) -> Change:
    window = ChangedWindow(kernel, waves=waves, trip_count=TRIPS)
    versions = list(exchanges(kernel))
    for each in (window.predict, lambda version: estimate(version, waves=waves, trip_count=TRIPS)):
        each(versions[0])
    start = sum(os.times()[:4])
    for version in versions[1:]:
        window.predict(version)
    between = sum(os.times()[:4])
    for version in versions[1:]:
        estimate(version, waves=waves, trip_count=TRIPS)
    end, count = sum(os.times()[:4]), len(versions) - 1
    size = max(len(block.instructions) for block in kernel.blocks)
    return Change(code, waves, size, (between - start) / count, (end - between) / count)


def exchanges(kernel: Kernel) -> Iterator[Kernel]:
    """Versions in which two neighbours of the largest block are exchanged, at places all along it."""
    block = max(kernel.blocks, key=lambda each: len(each.instructions))
    code = block.instructions
    for number in range(_VERSIONS):
        place = number * (len(code) - 2) // _VERSIONS
        order = (*code[:place], code[place + 1], code[place], *code[place + 2 :])
        blocks = tuple(replace(each, instructions=order) if each is block else each for each in kernel.blocks)
        yield kernel.with_blocks(blocks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    collect_seldom()
    kernel = read_kernels(CodeObject(OBJECT.read_bytes(), OBJECT.name))[0]
    straight = read_program(all_files()[STRAIGHT], STRAIGHT).select()[0]
    one_wave = estimate(kernel, waves=1, trip_count=TRIPS)
    mca = one_wave.ipc * one_wave.cycles / seconds(lambda: ask_mca(kernel, TRIPS))
    speeds = [measure(kernel, waves, mca) for waves in (1, 2, 4, 8)]
    print(f"{'waves':>5} {'ms':>6} {'whole/s':>10} {'steady/s':>10} {'covered/s':>12} {'llvm-mca/s':>11} {'ratio':>6}")
    for each in speeds:
        print(
            f"{each.waves:5d} {each.seconds * 1e3:6.1f} {each.whole:10,.0f} {each.steady:10,.0f} "
            f"{each.covered:12,.0f} {each.mca:11,.0f} {each.ratio:6.1f}"
        )
    changes = [change(*each) for each in (("loop", kernel, 1), ("loop", kernel, 4), ("straight", straight, 1))]
    print(f"\n{'code':>8} {'waves':>5} {'block':>5} {'changed ms':>10} {'whole ms':>8} {'ratio':>6}")
    for row in changes:
        print(
            f"{row.code:>8} {row.waves:5d} {row.instructions:5d} {row.changed * 1e3:10.2f} {row.whole * 1e3:8.2f} "
            f"{row.ratio:6.1f}"
        )
    if options.json is not None:
        found = {"speeds": [asdict(each) for each in speeds], "changes": [asdict(each) for each in changes]}
        options.json.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
