"""A second opinion on a kernel's cycles: llvm-mca over the same path that our own model walks.

llvm-mca knows LLVM's scheduling model of the target and nothing of memory, waits, waves or branches: it takes a
load for its scheduled latency, a wait for an instruction of one cycle, and every stretch for straight code of one
wave. Its answer is translated (cycles of the path, of each loop's iteration), not repaired; `NOTES` says what to
think of it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from asmevo.program.kernel import Kernel
from asmevo.timing.path import Stretch, TripCounts, path_of, trips_of
from asmevo.toolchain import Processor
from asmevo.toolchain.mca import McaAnswer, analyse

NOTES = (
    "one wave, straight code: memory is a fixed latency, a wait costs one cycle whatever it waits for",
    "deleting an s_waitcnt changes this answer by about one cycle",
)

_ITERATIONS = 32  # of a loop's body, so that its start weighs little
_EDGE = 8  # iterations whose cost is taken off, for the way into the steady state


@dataclass(frozen=True, slots=True)
class McaLoop:
    """One innermost loop: cycles of an iteration in the steady state, and the bound that LLVM's units set."""

    header: int
    blocks: tuple[int, ...]
    instructions: int
    cycles: float
    bound: float
    trips: int


@dataclass(frozen=True, slots=True)
class McaEstimate:
    """What llvm-mca predicts for one wave of a kernel on the estimated path, in cycles."""

    kernel: str
    target: str
    cycles: float
    loops: tuple[McaLoop, ...]
    notes: tuple[str, ...] = NOTES

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)


def ask_mca(kernel: Kernel, trip_count: TripCounts = None) -> McaEstimate:
    """Estimates a kernel with llvm-mca. Raises ToolchainMissingError and ToolchainError."""
    processor = kernel.context.processor
    total, loops = 0.0, []
    for stretch in path_of(kernel):
        text = _text(kernel, stretch)
        if not text:
            continue
        around = 1
        for header in stretch.around:
            around *= trips_of(header, trip_count)
        if stretch.loop is None:
            total += around * analyse(text, processor, 1).cycles
            continue
        trips = trips_of(stretch.loop, trip_count)
        loop = _loop(stretch, text, processor, trips)
        loops.append(loop)
        total += around * trips * loop.cycles
    return McaEstimate(kernel.name, kernel.target.name, total, tuple(loops))


def _loop(stretch: Stretch, text: str, processor: Processor, trips: int) -> McaLoop:
    assert stretch.loop is not None
    whole, edge = analyse(text, processor, _ITERATIONS), analyse(text, processor, _EDGE)
    cycles = (whole.cycles - edge.cycles) / (_ITERATIONS - _EDGE)
    return McaLoop(stretch.loop, stretch.blocks, _count(whole), cycles, whole.block_throughput, trips)


def _count(answer: McaAnswer) -> int:
    return answer.instructions // max(1, answer.iterations)


def _text(kernel: Kernel, stretch: Stretch) -> str:
    return "".join(f"{i.text}\n" for block in stretch.blocks for i in kernel.blocks[block].instructions)
