"""A second opinion on a kernel's cycles: llvm-mca over the same path that our own model walks.

llvm-mca knows LLVM's scheduling model of the target and nothing of memory, waits, waves or branches: it takes a
load for its scheduled latency, a wait for an instruction of one cycle, and every stretch for straight code of one
wave. Its answer is translated (cycles of the path, of each loop's iteration), not repaired; `NOTES` says what to
think of it. LLVM counts in issue slots, which are four cycles long on CDNA and GCN; here all is in cycles.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from msgspec import Struct, to_builtins

from asmevo.program.kernel import Kernel
from asmevo.target.data_files import read
from asmevo.timing.path import Stretch, TripCounts, path_of, trips_of
from asmevo.toolchain import Processor
from asmevo.toolchain.errors import ToolchainError, ToolchainMissingError
from asmevo.toolchain.mca import McaAnswer, analyse, issue_cycles

NOTES = (
    "one wave, straight code: memory is a fixed latency, a wait costs one cycle whatever it waits for",
    "deleting an s_waitcnt changes this answer by about one cycle",
)

_ITERATIONS = 32  # of a loop's body, so that its start weighs little
_EDGE = 8  # iterations whose cost is taken off, for the way into the steady state


class McaLoop(Struct, frozen=True):
    """One innermost loop: cycles of an iteration in the steady state, and the bound that LLVM's units set."""

    header: int
    blocks: tuple[int, ...]
    instructions: int
    cycles: float
    bound: float
    trips: int


class McaEstimate(Struct, frozen=True):
    """What llvm-mca predicts for one wave of a kernel on the estimated path, in cycles."""

    kernel: str
    target: str
    cycles: float
    loops: tuple[McaLoop, ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        data: dict[str, Any] = to_builtins(self)
        return data


def ask_mca(kernel: Kernel, trip_count: TripCounts = None) -> McaEstimate:
    """Estimates a kernel with llvm-mca. Raises ToolchainMissingError and ToolchainError."""
    processor, slot = kernel.context.processor, _cycles_of_slot(kernel)
    total, loops = 0.0, []
    for stretch in path_of(kernel):
        text = _text(kernel, stretch)
        if not text:
            continue
        around = 1
        for header in stretch.around:
            around *= trips_of(header, trip_count)
        if stretch.loop is None:
            total += around * analyse(text, processor, 1).cycles * slot
            continue
        trips = trips_of(stretch.loop, trip_count)
        loop = _loop(stretch, text, processor, trips, slot)
        loops.append(loop)
        total += around * trips * loop.cycles
    return McaEstimate(kernel.name, kernel.target.name, total, tuple(loops), (*NOTES, _error_note(kernel)))


def _error_note(kernel: Kernel) -> str:
    name = kernel.target.name
    error = read("model_errors").get(name)
    if error is None:
        return f"no traces of {name}: neither it nor the own model was checked against silicon"
    ours = f"the own model by {error['beside_it']:.1%}"
    return f"on traces of {name} its waves were off by {error['llvm_mca']:.1%}, {ours}, waits given to both"


def _loop(stretch: Stretch, text: str, processor: Processor, trips: int, slot: int) -> McaLoop:
    assert stretch.loop is not None
    whole, edge = analyse(text, processor, _ITERATIONS), analyse(text, processor, _EDGE)
    cycles = (whole.cycles - edge.cycles) / (_ITERATIONS - _EDGE)
    bound = whole.block_throughput * slot
    return McaLoop(stretch.loop, stretch.blocks, _count(whole), cycles * slot, bound, trips)


def _cycles_of_slot(kernel: Kernel) -> int:
    return int(kernel.target.timing["issue_interval"].value)


def _count(answer: McaAnswer) -> int:
    return answer.instructions // max(1, answer.iterations)


class McaGaps:
    """Issue gaps of straight runs of one kernel by llvm-mca, each run asked once."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._answers: dict[tuple[int, ...], tuple[int, ...] | None] = {}

    def of(self, ids: Sequence[int]) -> tuple[int, ...] | None:
        """Cycles between the issues of each two neighbours of a run of instructions; None where it does not know one.

        Raises ToolchainMissingError.
        """
        key = tuple(ids)
        if key not in self._answers:
            self._answers[key] = self._asked(key)
        return self._answers[key]

    def _asked(self, ids: tuple[int, ...]) -> tuple[int, ...] | None:
        text = "".join(f"{self._kernel.by_id[place].text}\n" for place in ids)
        try:
            cycles = issue_cycles(text, self._kernel.context.processor)
        except ToolchainMissingError:
            raise
        except ToolchainError:
            return None
        if len(cycles) != len(ids):
            return None
        slot = _cycles_of_slot(self._kernel)
        return tuple((behind - before) * slot for before, behind in pairwise(cycles))


def _text(kernel: Kernel, stretch: Stretch) -> str:
    return "".join(f"{i.text}\n" for block in stretch.blocks for i in kernel.blocks[block].instructions)
