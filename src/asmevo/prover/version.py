"""One of two versions of a kernel: where launches enter, and how it runs on symbols to its next decision."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from asmevo.analysis.control_flow import ControlFlow
from asmevo.analysis.liveness import ALL, Liveness, LiveState
from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Kernel
from asmevo.program.registers import VECTOR_MASK
from asmevo.prover.floating import FloatPolicy
from asmevo.prover.lifting import Lifter
from asmevo.prover.normalise import Builder
from asmevo.prover.state import State
from asmevo.prover.terms import Term
from asmevo.semantics.expression import Control

_LONGEST_WAY = 20_000  # instructions that a version runs in loops whose decisions are known numbers
_BEHIND_CALL = frozenset({"call"})


class UndecidedError(Exception):
    """Where matching failed; `instructions` are of the version before and after, as far as known."""

    def __init__(self, reason: str, *instructions: Instruction) -> None:
        super().__init__(reason)
        self.instructions = instructions


class Pace(Enum):
    """How far versions run between two comparisons.

    `DECISIONS`: to the next decision, and once round a loop that decides on nothing. `THROUGH`: as long as all
    decisions are known numbers, so that a loop with a known number of rounds is passed as a whole. `BY_ROUNDS`: to the
    next decision or the start of a loop, so that the versions need not come to loops by one decision (`rounds`).
    """

    DECISIONS = "decisions"
    THROUGH = "through"
    BY_ROUNDS = "by rounds"


class Leaving(Enum):
    """How a stretch between two decisions ends."""

    ENDS = "ends"
    FORKS = "forks"
    REPEATS = "comes to a block again without a decision in between"
    LEAVES = "leaves for code that is not seen"
    CALLS = "calls"
    TRAPS = "traps"


class Decision(Struct, frozen=True):
    """Where a stretch ends: `goals` are blocks, the branch's goal first; `condition` says whether it is taken."""

    kind: Leaving
    instruction: Instruction | None
    condition: Term | None = None
    goals: tuple[int, ...] = ()


class Version:
    """One of the two kernels: its code by block, and what is live."""

    def __init__(self, kernel: Kernel, build: Builder, policy: FloatPolicy) -> None:
        self.kernel = kernel
        self.lifter = Lifter(build, kernel, policy)
        self.liveness = Liveness(kernel)
        flow = ControlFlow(kernel)
        self.heads = frozenset(goal for source, goals in enumerate(flow.successors) for goal in goals if goal <= source)

    def live_in(self, block: int) -> LiveState:
        """What is live in front of a block; behind the last one anything may be read."""
        return self.liveness.state_in(block) if block < len(self.kernel.blocks) else LiveState(ALL, VECTOR_MASK)

    def run(self, block: int, state: State, pace: Pace) -> Decision:
        """From the start of a block to the next decision. Raises UndecidedError or NotLiftedError."""
        seen: set[int] = set()
        last: Instruction | None = None
        repeats = _LONGEST_WAY if pace is Pace.THROUGH else 0
        while block < len(self.kernel.blocks):
            if block in seen:
                repeats -= len(self.kernel.blocks[block].instructions) + 1
                if repeats < 0:
                    return Decision(Leaving.REPEATS, last, None, (block,))
            elif seen and pace is Pace.BY_ROUNDS and block in self.heads:
                return Decision(Leaving.REPEATS, last, None, (block,))
            seen.add(block)
            decision, goal = self.run_block(block, state)
            if decision is not None:
                return decision
            last = self.kernel.blocks[block].instructions[-1] if self.kernel.blocks[block].instructions else last
            block = goal
        return Decision(Leaving.LEAVES, last)

    def run_block(self, block: int, state: State) -> tuple[Decision | None, int]:
        """One block: the decision at its end, or None and the block that follows."""
        behind = block + 1
        for instruction in self.kernel.blocks[block].instructions:
            meaning = self.lifter.run(instruction, state)
            flags = instruction.flags
            if meaning.control is Control.END or "return" in flags:
                return Decision(Leaving.ENDS, instruction), behind
            if meaning.control is Control.TRAP:
                return Decision(Leaving.TRAPS, instruction, None, (behind,)), behind
            if flags & _BEHIND_CALL:
                return Decision(Leaving.CALLS, instruction, None, (behind,)), behind
            if meaning.control is Control.JUMP:
                target = next(result for result in meaning.results if result.target == "pc")
                pc = self.lifter.expression(instruction, meaning, target.value, state)
                return Decision(Leaving.LEAVES, instruction, pc), behind
            if meaning.control is Control.BRANCH:
                return self._branch(instruction, self.lifter.condition(instruction, meaning, state), behind)
        return None, behind

    def _branch(self, instruction: Instruction, condition: Term, behind: int) -> tuple[Decision | None, int]:
        goal = self.kernel.block_of_label.get(instruction.target or "")
        if condition.op == "const" and condition.value == 0:
            return None, behind
        if goal is None:
            goals = () if condition.op == "const" else (behind,)
            return Decision(Leaving.LEAVES, instruction, condition, goals), behind
        if condition.op == "const":
            return None, goal
        return Decision(Leaving.FORKS, instruction, condition, (goal, behind)), behind


def entries(before: Kernel, after: Kernel) -> list[tuple[int, int]]:
    """Pairs of blocks where launches enter. Raises UndecidedError."""
    pairs = [(0, 0)]
    offsets = before.entry_offsets
    for offset in offsets[1:]:
        places = (before.block_at(offset), after.block_at(offset))
        if places[0] is None and before.code_size() <= offset:
            continue
        if places[0] is None or places[1] is None:
            raise UndecidedError(f"launches enter {offset} bytes behind the start, where no block begins")
        pairs.append((places[0], places[1]))
    return pairs
