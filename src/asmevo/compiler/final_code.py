"""The same agents after register allocation: the final code's blocks in an agent's order, where the gates accept it.

Each block is ordered by itself, and waits, no-ops and hints are derived anew (see `proposers.placement`). The gates
that judge every proposal judge each block's new order against the code as LLVM left it, and then all of them
together; what they do not accept stays as it was.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from asmevo.gates.pipeline import Pipeline
from asmevo.program.candidate import Candidate
from asmevo.program.edit import apply_script, script_between
from asmevo.program.kernel import Block, Kernel
from asmevo.program.program import Program
from asmevo.proposers.block_region import BlockRegion
from asmevo.proposers.placement import Placement
from asmevo.proposers.proposer import Facts
from asmevo.proposers.scheduling import Agent, Choice, list_schedule
from asmevo.search.budget import Budget
from asmevo.search.ledger import Ledger
from asmevo.search.optimize import optimize
from asmevo.search.options import SearchOptions

_SMALLEST_BLOCK = 3


class SourceOrder:
    """Keeps the order of the code; what other agents' decisions on final code are counted against."""

    name = "default"

    def pick(self, choice: Choice) -> int:
        """See Agent."""
        return min(each.position for each in choice.ready)


class Rescheduled(Struct, frozen=True):
    """What came of it: blocks with a new order, and blocks whose order the gates (named with a reason) refused."""

    kernel: Kernel
    accepted: int
    refused: tuple[str, ...]


def reschedule(kernel: Kernel, agent: Agent, memory: str = "l2") -> Rescheduled:
    """A kernel with every reachable block in the agent's order that passes the gates."""
    facts, pipeline = Facts(kernel, memory), Pipeline(kernel)
    next_id = facts.next_id()
    new: dict[int, Block] = {}
    refused: list[str] = []
    for block in facts.hot_blocks:
        if len(kernel.blocks[block].instructions) < _SMALLEST_BLOCK:
            continue
        problem = BlockRegion(Placement(facts, block, next_id))
        rebuilt = problem.rebuild(list_schedule(problem.region, agent))
        if rebuilt is None or rebuilt[block].instructions == kernel.blocks[block].instructions:
            continue
        words = _refusal(pipeline, _candidate(kernel, {block: rebuilt[block]}, agent))
        if words is None:
            new[block] = rebuilt[block]
            next_id = max(next_id, *(each.id + 1 for each in rebuilt[block].instructions))
        else:
            refused.append(f"block {block}, {words}")
    return _together(pipeline, kernel, new, agent, refused)


def _together(
    pipeline: Pipeline, kernel: Kernel, new: dict[int, Block], agent: Agent, refused: list[str]
) -> Rescheduled:
    """All new blocks at once; as long as the gates do not accept that, the one found last is left out."""
    while new:
        candidate = _candidate(kernel, new, agent)
        words = _refusal(pipeline, candidate)
        if words is None:
            return Rescheduled(candidate.kernel, len(new), tuple(refused))
        block, _ = new.popitem()
        refused.append(f"block {block} with those before it, {words}")
    return Rescheduled(kernel, 0, tuple(refused))


def _candidate(kernel: Kernel, new: dict[int, Block], agent: Agent) -> Candidate:
    blocks = tuple(new.get(each.index, each) for each in kernel.blocks)
    words = ", ".join(map(str, sorted(new)))
    return Candidate.make(kernel, script_between(kernel, blocks, f"{agent.name}: blocks {words}"))


def _refusal(pipeline: Pipeline, candidate: Candidate) -> str | None:
    judgement = pipeline.judge(candidate)
    verdict = judgement.verdicts[-1]
    return None if judgement.accepted else f"{verdict.gate}: {verdict.reason}"


def searched(program: Program, kernel: Kernel, budget: Budget, seed: int = 0, memory: str = "l2") -> Kernel:
    """The best version that `asmevo optimize` finds, or the kernel as it is; nothing is kept of the run."""
    with TemporaryDirectory() as directory:
        run = optimize(
            program, kernel, SearchOptions(budget=budget, seed=seed, memory=memory, offers=1), Ledger(Path(directory))
        )
    offers = run.patch.candidates
    return apply_script(kernel, offers[0].script) if offers else kernel
