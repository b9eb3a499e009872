"""Milliseconds to prove a rescheduled block, beside running the block on random states.

The block is 300 instructions of a compiled kernel in a row, without waits and jumps; the rescheduled version is a
random order that keeps every dependence of `analysis.dependence`. Three ways to compare the two: by
structure (what the equivalence gate tries first), in terms (what it tries where structure does not show it; no
question goes to the solver here), and the baseline: the same states for both on the emulator's reference engine,
which shows a difference but proves nothing. Prints the median of some runs, and the ratio to the baseline.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from asmevo.analysis.dependence import DependenceGraph
from asmevo.program import open_program
from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Block, Kernel
from asmevo.prover import Answer, prove_equivalent
from asmevo.prover.product import Product
from asmevo.prover.replay import Replay

ROOT = Path(__file__).resolve().parent.parent
KERNEL = ROOT / "tests" / "data" / "kernels" / "gfx942" / "matmul_f16.hsaco"
INSTRUCTIONS = 300
STATES = 16
TARGET = 50.0  # ms, by structure
_CONTROL = ("s_wait", "s_nop", "s_barrier", "s_cbranch", "s_branch", "s_endpgm", "s_getpc")
# Stores are left out: in terms no load comes behind one that may change what it reads (prover.effects).
_LEFT_OUT = (*_CONTROL, "ds_write", "buffer_store")


def straight(kernel: Kernel) -> Kernel:
    """A function of one block of INSTRUCTIONS instructions; every register is seen behind it."""
    code = [each for each in kernel.instructions if not each.mnemonic.startswith(_LEFT_OUT)][:INSTRUCTIONS]
    return replace(kernel, blocks=(Block(0, (), tuple(code)),), descriptor=None, metadata=None)


def rescheduled(kernel: Kernel, seed: int) -> Kernel:
    """Another order of the block."""
    (block,) = kernel.blocks
    graph, chance = DependenceGraph.for_block(block), random.Random(seed)
    waiting = [len({edge.before for edge in edges}) for edges in graph.predecessors]
    followers = [{edge.after for edge in edges} for edges in graph.successors]
    ready = [place for place, count in enumerate(waiting) if not count]
    order: list[Instruction] = []
    while ready:
        place = ready.pop(chance.randrange(len(ready)))
        order.append(block.instructions[place])
        for follower in followers[place]:
            waiting[follower] -= 1
            if not waiting[follower]:
                ready.append(follower)
    return kernel.with_blocks((Block(0, (), tuple(order)),))


def by_structure(before: Kernel, after: Kernel) -> bool:
    """Whether structure proves them equal."""
    return prove_equivalent(before, after).answer is Answer.EQUIVALENT


def in_terms(before: Kernel, after: Kernel) -> bool:
    """Whether terms do."""
    return Product(before, after).compare_blocks([0]).proved


def by_running(before: Kernel, after: Kernel) -> bool:
    """Whether STATES states show no difference."""
    return Replay(before, after).search([], STATES, seconds=600.0) is None


def milliseconds(work: Callable[[Kernel, Kernel], bool], before: Kernel, versions: list[Kernel]) -> float:
    """The median over the versions, each of which must come out equal; the first one warms up and does not count."""
    times = []
    for after in versions:
        start = time.perf_counter()
        if not work(before, after):
            raise SystemExit(f"{work.__name__} does not find a rescheduled block equal")
        times.append(time.perf_counter() - start)
    return 1000 * statistics.median(times[1:])


def main() -> None:
    """Prints the table; exit code 1 if the target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15, help="versions that are proved")
    runs = parser.parse_args().runs
    before = straight(open_program(KERNEL).select()[0])
    versions = [rescheduled(before, seed) for seed in range(runs + 1)]
    quick, deep = milliseconds(by_structure, before, versions), milliseconds(in_terms, before, versions)
    base = milliseconds(by_running, before, versions[:3])
    print(f"{INSTRUCTIONS} instructions, by structure: {quick:8.2f} ms (target {TARGET:g} ms)")
    print(f"{INSTRUCTIONS} instructions, in terms:     {deep:8.2f} ms")
    print(f"baseline, {STATES} states on the reference engine: {base:8.2f} ms")
    print(f"ratio to the baseline: {base / quick:.0f} by structure, {base / deep:.0f} in terms")
    raise SystemExit(quick > TARGET)


if __name__ == "__main__":
    main()
