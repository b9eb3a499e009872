"""What a proposer is: something that has ideas about a kernel. Whether an idea is right is not its business."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from functools import cached_property
from typing import Any, Protocol

from msgspec import Struct, field

from asmevo.analysis.control_flow import ControlFlow
from asmevo.analysis.liveness import Liveness
from asmevo.analysis.quiet_points import QuietPoints
from asmevo.analysis.wait_counters import WaitAnalysis
from asmevo.analysis.windows import Window
from asmevo.checks.constraints import Compiled
from asmevo.gates.gate import Verdict
from asmevo.program.edit import EditScript
from asmevo.program.kernel import Kernel
from asmevo.timing.machine import Machine


class ProposerError(Exception):
    """A proposer had to be given up; `str()` says how it failed, without its name."""


class Facts(Struct, dict=True):
    """A kernel with the analyses that proposers share; each is made when it is first asked for.

    `cost` is the cycle model's opinion of a version as a share of the original's cycles. It guides, it
    does not decide. `out_of_time` says that the budget is used up. `last_verdict` is the one that decided the
    script proposed last; it is for reading only. `windows` restrict the search to their blocks, none to nothing.
    `constraints` are those of the constraints gate. `record` puts what was said to and by somebody into the ledger,
    under the proposer's name.
    """

    kernel: Kernel
    memory: str = "l2"
    rng: random.Random = field(default_factory=lambda: random.Random(0))
    cost: Callable[[Kernel], float] = lambda kernel: 1.0
    out_of_time: Callable[[], bool] = lambda: False
    last_verdict: Callable[[], Verdict | None] = lambda: None
    windows: tuple[Window, ...] = ()
    constraints: Compiled | None = None
    record: Callable[[str, dict[str, Any]], None] = lambda proposer, body: None

    @cached_property
    def flow(self) -> ControlFlow:
        """Blocks, loops, reachability."""
        return ControlFlow(self.kernel)

    @cached_property
    def waits(self) -> WaitAnalysis:
        """What is under way where."""
        return WaitAnalysis(self.kernel)

    @cached_property
    def quiet(self) -> QuietPoints:
        """Where nobody can tell whether a load is under way."""
        return QuietPoints(self.kernel)

    @cached_property
    def may_be_under_way(self) -> dict[int, frozenset[int]]:
        """For each instruction at which memory order matters, the accesses (ids) that need not be done there."""
        before = self.waits.order_points()
        quiet = self.quiet
        unseen = quiet.loads(before) if quiet.points else frozenset()
        return {point: ids | unseen if point in quiet.points else ids for point, ids in before.items()}

    @cached_property
    def liveness(self) -> Liveness:
        """Which registers are read later."""
        return Liveness(self.kernel)

    @cached_property
    def machine(self) -> Machine:
        """Latencies of the target."""
        return Machine(self.kernel.target, self.kernel.wave_size, self.memory)

    @cached_property
    def hot_blocks(self) -> tuple[int, ...]:
        """Blocks worth work that waves reach, deepest loops first, then the longest; with `windows` only theirs."""
        depth = self.flow.loop_depth
        start = self.kernel.start_block
        inside = {window.block for window in self.windows} or {block.index for block in self.kernel.blocks[start:]}
        reachable = [block for block in self.kernel.blocks if block.index in inside.difference(self.flow.unreachable)]
        ranked = sorted(reachable, key=lambda b: (-depth[b.index], -len(b.instructions), b.index))
        return tuple(block.index for block in ranked)

    def next_id(self) -> int:
        """The first id that no instruction of the kernel has."""
        return max(instruction.id for instruction in self.kernel.instructions) + 1


class Proposer(Protocol):
    """One source of edit scripts. The same facts with the same random state give the same scripts in the same order."""

    @property
    def name(self) -> str:
        """For the ledger and progress."""
        ...

    def propose(self, facts: Facts) -> Generator[EditScript, bool | None, None]:
        """Scripts against `facts.kernel`, the most promising first.

        What is sent back is whether all gates accepted the script; a proposer may learn from that. Raises
        ProposerError when it has to be given up; what it proposed before stands.
        """
        ...
