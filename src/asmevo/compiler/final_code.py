"""The same agents after register allocation: the final code's blocks in an agent's order, where the gates accept it.

Each block is ordered by itself, in the order of the code, and waits, no-ops and hints are derived anew (see
`proposers.placement`). The gates that judge every proposal judge each block's new order against the code as LLVM left
it; what they do not accept stays as it was.
"""

from __future__ import annotations

from dataclasses import dataclass

from asmevo.gates.pipeline import Pipeline
from asmevo.program.candidate import Candidate
from asmevo.program.edit import script_between
from asmevo.program.errors import EditError
from asmevo.program.kernel import Kernel
from asmevo.proposers.block_region import BlockRegion
from asmevo.proposers.placement import Placement
from asmevo.proposers.proposer import Facts
from asmevo.proposers.scheduling import Agent, Choice, list_schedule

_SMALLEST_BLOCK = 3


class SourceOrder:
    """Keeps the order of the code; what other agents' decisions on final code are counted against."""

    name = "default"

    def pick(self, choice: Choice) -> int:
        """See Agent."""
        return min(each.position for each in choice.ready)


@dataclass(frozen=True, slots=True)
class Rescheduled:
    """What came of it: blocks with a new order, and blocks whose order the gates (named with a reason) refused."""

    kernel: Kernel
    accepted: int
    refused: tuple[str, ...]


def reschedule(kernel: Kernel, agent: Agent, memory: str = "l2") -> Rescheduled:
    """A kernel with every reachable block in the agent's order that passes the gates."""
    pipeline = Pipeline(kernel)
    now = kernel
    accepted, refused = 0, []
    for block in Facts(kernel, memory).hot_blocks:
        if len(kernel.blocks[block].instructions) < _SMALLEST_BLOCK:
            continue
        candidate = _candidate(kernel, now, block, agent, memory)
        if candidate is None or candidate.kernel.instructions == now.instructions:
            continue
        judgement = pipeline.judge(candidate)
        if judgement.accepted:
            now, accepted = candidate.kernel, accepted + 1
        else:
            verdict = judgement.verdicts[-1]
            refused.append(f"block {block}, {verdict.gate}: {verdict.reason}")
    return Rescheduled(now, accepted, tuple(refused))


def _candidate(parent: Kernel, now: Kernel, block: int, agent: Agent, memory: str) -> Candidate | None:
    problem = BlockRegion(Placement(Facts(now, memory), block))
    blocks = problem.rebuild(list_schedule(problem.region, agent))
    if blocks is None:
        return None
    try:
        return Candidate.make(parent, script_between(parent, blocks, f"block {block}, {agent.name}"))
    except EditError:
        return None
