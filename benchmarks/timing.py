"""Speed of the cycle model on one core: wave-instructions a second, walked one by one and in steady state.

The load is the matrix product of the traces on gfx1100 (a loop of 93 instructions), alone on its SIMD and with
more waves. `walked` counts the issues that were simulated one by one; `covered` those that the estimate stands
for, since a loop is left when its iterations repeat and the rest is counted. The baseline is llvm-mca on the same
kernel in the same run (as the product asks it, process start included), in instructions of one wave. `changed` is the
incremental form: one estimate of a version whose loop has another order, against the whole estimate of it. `--json
FILE` writes all figures.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict, replace

from asmevo.program.codeobject import CodeObject
from asmevo.program.kernel import Kernel
from asmevo.program.reading import read_kernels
from asmevo.timing import estimate
from asmevo.timing.changed_window import ChangedWindow
from asmevo.timing.second_opinion import ask_mca

OBJECT = Path(__file__).parent.parent / "tests" / "data" / "traces" / "gfx1100" / "3ad1491919.co"
TRIPS = 1000
_LEAST_SECONDS = 1.0


class Speed(Struct, frozen=True):
    """Seconds for one estimate, whole and of a changed window; wave-instructions a second: simulated, and stood for."""

    waves: int
    seconds: float
    changed_seconds: float
    walked: float
    covered: float
    mca: float

    @property
    def ratio(self) -> float:
        """Against llvm-mca, in instructions covered."""
        return self.covered / self.mca


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
    took = seconds(lambda: estimate(kernel, waves=waves, trip_count=TRIPS))
    changed = seconds_of_changes(kernel, waves)
    return Speed(waves, took, changed, walked / took, found.ipc * found.cycles / took, mca)


def seconds_of_changes(kernel: Kernel, waves: int) -> float:
    """The mean over versions that exchange two neighbours of the loop, each asked once, as a search does."""
    window = ChangedWindow(kernel, waves=waves, trip_count=TRIPS)
    block = max(kernel.blocks, key=lambda each: len(each.instructions))
    code = block.instructions
    versions = []
    for place in range(len(code) - 2):
        order = (*code[:place], code[place + 1], code[place], *code[place + 2 :])
        blocks = tuple(replace(each, instructions=order) if each is block else each for each in kernel.blocks)
        versions.append(kernel.with_blocks(blocks))
    start = sum(os.times()[:4])
    for version in versions:
        window.predict(version)
    return (sum(os.times()[:4]) - start) / len(versions)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    kernel = read_kernels(CodeObject(OBJECT.read_bytes(), OBJECT.name))[0]
    one_wave = estimate(kernel, waves=1, trip_count=TRIPS)
    mca = one_wave.ipc * one_wave.cycles / seconds(lambda: ask_mca(kernel, TRIPS))
    speeds = [measure(kernel, waves, mca) for waves in (1, 2, 4, 8)]
    print(
        f"{'waves':>5} {'ms':>8} {'changed ms':>10} {'walked/s':>12} {'covered/s':>14} {'llvm-mca/s':>12} {'ratio':>8}"
    )
    for each in speeds:
        print(
            f"{each.waves:5d} {each.seconds * 1e3:8.1f} {each.changed_seconds * 1e3:10.1f} {each.walked:12,.0f} "
            f"{each.covered:14,.0f} {each.mca:12,.0f} {each.ratio:8.1f}"
        )
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(each) for each in speeds], indent=2))


if __name__ == "__main__":
    main()
