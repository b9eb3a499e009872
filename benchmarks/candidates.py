"""Candidates a second through the gates, beside a pipeline that starts LLVM's tools for each candidate.

Both sides judge the same candidates, list schedules of the hot loop of a compiled matmul. Ours are judged from
`assemble` to `equivalence` in this process. The baseline does what a script around LLVM does: it writes the
candidate's text and starts `llvm-mc` to assemble it and `llvm-mca` to estimate it; it proves nothing.
Prints candidates a second for each and their ratio; with two processes also for two cores.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from asmevo.gates import Pipeline
from asmevo.program import open_program
from asmevo.program.candidate import Candidate
from asmevo.program.edit import script_between
from asmevo.program.kernel import Kernel
from asmevo.proposers import Facts
from asmevo.proposers.block_region import BlockRegion
from asmevo.proposers.local_orders import Orders
from asmevo.proposers.placement import Placement

ROOT = Path(__file__).resolve().parent.parent
KERNEL = ROOT / "tests" / "data" / "kernels" / "gfx942" / "matmul_f16.hsaco"


def make_candidates(kernel: Kernel, count: int, seed: int) -> list[Candidate]:
    """Different random schedules of the hottest block, with waits placed anew."""
    facts = Facts(kernel, rng=random.Random(seed))
    block = BlockRegion(Placement(facts, facts.hot_blocks[0]))
    orders = Orders(block.region)
    order = orders.start
    found: dict[str, Candidate] = {}
    while len(found) < count:
        order = orders.neighbour(order, 3, facts.rng)
        blocks = block.rebuild(order)
        if blocks is not None:
            candidate = Candidate.make(kernel, script_between(kernel, blocks, "benchmark"))
            found.setdefault(candidate.kernel.hash, candidate)
    return list(found.values())


def rate(work: Callable[[Candidate], None], candidates: list[Candidate]) -> float:
    """Candidates a second."""
    start = time.perf_counter()
    for candidate in candidates:
        work(candidate)
    return len(candidates) / (time.perf_counter() - start)


def through_gates(count: int, seed: int) -> tuple[float, int]:
    """(candidates a second, how many were accepted), one process."""
    kernel = open_program(KERNEL).select()[0]
    candidates = make_candidates(kernel, count, seed)
    pipeline = Pipeline(kernel)
    pipeline.judge(candidates[0])
    accepted = 0

    def judge(candidate: Candidate) -> None:
        nonlocal accepted
        accepted += pipeline.judge(candidate).accepted

    return rate(judge, candidates), accepted


def through_tools(count: int, llvm_mc: str, llvm_mca: str) -> float:
    """The baseline's candidates a second."""
    kernel = open_program(KERNEL).select()[0]
    candidates = make_candidates(kernel, count, 0)
    cpu = f"-mcpu={kernel.target.name}"

    with tempfile.TemporaryDirectory() as work:
        source, result = Path(work) / "candidate.s", Path(work) / "candidate.o"

        def judge(candidate: Candidate) -> None:
            lines = []
            for block in candidate.kernel.blocks:
                lines += [f"{label}:" for label in block.labels] + [str(i) for i in block.instructions]
            source.write_text("\n".join(lines) + "\n")
            assemble = [llvm_mc, "--triple=amdgcn-amd-amdhsa", cpu, "-filetype=obj", str(source), "-o", str(result)]
            for command in (assemble, [llvm_mca, "--mtriple=amdgcn-amd-amdhsa", cpu, str(source)]):
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        return rate(judge, candidates)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1500, help="candidates through the gates")
    arguments = parser.parse_args()
    one, accepted = through_gates(arguments.count, 0)
    print(f"gates, one process:  {one:7.0f} candidates/s ({accepted} of {arguments.count} accepted)")
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        both = pool.starmap(through_gates, [(arguments.count, 1), (arguments.count, 2)])
    print(f"gates, two processes:{sum(each for each, _ in both):7.0f} candidates/s")
    tools = [shutil.which(f"{name}-22") or shutil.which(name) for name in ("llvm-mc", "llvm-mca")]
    if None in tools:
        print("baseline: llvm-mc and llvm-mca are not installed, so there is no ratio")
        return
    base = through_tools(40, *map(str, tools))
    print(f"llvm-mc + llvm-mca:  {base:7.1f} candidates/s (one at a time)")
    print(f"ratio, one process:  {one / base:7.1f}")


if __name__ == "__main__":
    main()
