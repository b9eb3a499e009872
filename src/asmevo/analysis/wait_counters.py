"""Wait counters over a whole kernel: which registers may still be under way where.

The forward analysis to its fixed point over the summaries of blocks; `wait_state` says what a state is, what
instructions do to it and why that is sound, `wait_summary` how a block is summed up. Built on it: how a hazard
comes about (`wait_witness`), what each wait is for (`wait_needs`), which waits never wait (`wait_bounds`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import cached_property

from msgspec import Struct, field

from asmevo.analysis.control_flow import ControlFlow, Exit
from asmevo.analysis.events import MARK_MASK, MARKS, UNIT_MASK, Effect, Mark, effect_of, guards_hazard, lanes_of
from asmevo.analysis.wait_state import Identities, State, Walk, join, union_of
from asmevo.analysis.wait_summary import Summary, after, sum_up
from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Kernel
from asmevo.program.registers import SGPR_MASK, VCC_MASK, VECTOR_MASK
from asmevo.target import Target

CALLERS = VECTOR_MASK | SGPR_MASK | VCC_MASK
"""What a caller may leave under way in a function's registers."""

_Points = dict[int, frozenset[int]]
"""For instructions at which memory order matters, the accesses that may be under way there; all by id."""

_BLOCKS_KEPT = 4096
_LDS_DMA = int(Mark.LDS_DMA)  # plain, since operations on enumerations are slow


class Hazard(Struct, frozen=True):
    """Something that may be under way where it must not be.

    `opened`: the units and marks concerned, all in `lane`; `age` is the largest counter value that would have
    been low enough right before `consumer` (0: only zero helps). `producer` is None for what a caller left.
    """

    consumer: int
    block: int
    lane: int
    opened: int
    age: int
    producer: int | None


class _Shared(Struct):
    """What the analyses of a kernel and its candidates have in common."""

    summaries: dict[tuple[Instruction, ...], Summary] = field(default_factory=dict)
    identities: Identities = field(default_factory=Identities)
    points: dict[tuple[tuple[Instruction, ...], State], _Points] = field(default_factory=dict)

    def trim(self) -> None:
        """Forgets blocks of long gone candidates; what is still needed is summed up again."""
        if len(self.summaries) > _BLOCKS_KEPT:
            self.summaries.clear()
            self.points.clear()


class WaitAnalysis:
    """The analysis of one kernel.

    `parent` is the analysis of the kernel it was made from (or any earlier candidate): blocks with the same
    instructions are not looked at again. Reading the results is lazy; making the object costs nothing.
    """

    def __init__(self, kernel: Kernel, parent: WaitAnalysis | None = None) -> None:
        self.kernel = kernel
        self.target: Target = kernel.target
        self.lanes = lanes_of(kernel.target)
        self.shared: _Shared = _Shared() if parent is None else parent.shared
        self.shared.trim()

    @cached_property
    def flow(self) -> ControlFlow:
        """The kernel's control flow."""
        return ControlFlow(self.kernel)

    @cached_property
    def is_callee(self) -> bool:
        """Whether this is a function that returns, so that LLVM's convention for calls binds it."""
        return not self.kernel.is_entry and Exit.INDIRECT in self.flow.exits

    @cached_property
    def summaries(self) -> list[Summary]:
        known, identities = self.shared.summaries, self.shared.identities
        found = []
        for block in self.kernel.blocks:
            summary = known.get(block.instructions)
            if summary is None:
                summary = known[block.instructions] = sum_up(block.instructions, self.target, self.lanes, identities)
            found.append(summary)
        return found

    @cached_property
    def entries(self) -> tuple[State | None, ...]:
        """The state in front of each block; None for blocks that nothing reaches."""
        flow = self.flow
        order = list(flow.reverse_postorder)
        if flow.has_indirect:
            order += [block for block in flow.unreachable if not flow.predecessors[block]]
        states: list[State | None] = [None] * len(self.kernel.blocks)
        for block in order:
            if block == 0 or not flow.predecessors[block]:
                states[block] = self._at_entry(block)
        waiting, queued = deque(order), set(order)
        while waiting:
            block = waiting.popleft()
            queued.discard(block)
            state = states[block]
            if state is None:
                continue
            behind = after(state, self.summaries[block], self.lanes)
            for following in flow.successors[block]:
                joined = join(states[following], behind)
                if joined != states[following]:
                    states[following] = joined
                    if following not in queued:
                        waiting.append(following)
                        queued.add(following)
        return tuple(states)

    def _at_entry(self, block: int) -> State:
        if block == 0 and self.is_callee:
            open_ = (CALLERS | int(Mark.CALLER),)
            return tuple(open_ if lane.settled_by_calls else () for lane in self.lanes.lanes)
        return tuple(() for _ in self.lanes.lanes)

    def state_after(self, block: int) -> State | None:
        """The state behind a block's last instruction; None for blocks that nothing reaches."""
        state = self.entries[block]
        return None if state is None else after(state, self.summaries[block], self.lanes)

    @cached_property
    def hazards(self) -> tuple[Hazard, ...]:
        """Everything that may be under way where it must not be, in the order of the code."""
        found: list[Hazard] = []
        for block, state in enumerate(self.entries):
            if state is not None and (self.summaries[block].faults or self._refuses(block, state)):
                found += self._hazards_in(block, state)
        return tuple(found)

    def _refuses(self, block: int, state: State) -> bool:
        for masks, demands in zip(state, self.summaries[block].demands, strict=True):
            if not masks:
                continue
            for limit, against in demands.items():
                for mask in masks[:limit]:
                    if mask & against:
                        return True
        return False

    def _hazards_in(self, block: int, state: State) -> Iterator[Hazard]:
        walk = Walk(self.lanes, self.shared.identities, state)
        for instruction in self.kernel.blocks[block].instructions:
            effect = effect_of(instruction.decoded, self.target)
            for lane, age, mask in walk.conflicts(effect):
                opened = mask & (UNIT_MASK | MARK_MASK)
                producer = self._producer(walk.state[lane][age], opened)
                yield Hazard(instruction.id, block, lane, opened, age, producer)
            walk.step(instruction, effect)

    def _producer(self, mask: int, opened: int) -> int | None:
        """The instruction of this age that opened (some of) the units and marks."""
        for id_ in reversed(self.shared.identities.ids_in(mask)):
            instruction = self.kernel.by_id.get(id_)
            if instruction is None:
                continue
            for issue in effect_of(instruction.decoded, self.target).issues:
                if issue.opened & opened & mask:
                    return id_
        return None

    def walk(self, block: int) -> Walk:
        """A walk that starts in front of a block. Raises ValueError for a block that nothing reaches."""
        state = self.entries[block]
        if state is None:
            raise ValueError(f"nothing reaches block {block}")
        return Walk(self.lanes, self.shared.identities, state)

    def state_before_each(self, block: int) -> Iterator[tuple[Instruction, Effect, list[list[int]]]]:
        """Instructions of a block with effect and state in front (valid until the next step)."""
        if self.entries[block] is None:
            return
        walk = self.walk(block)
        for instruction in self.kernel.blocks[block].instructions:
            effect = effect_of(instruction.decoded, self.target)
            yield instruction, effect, walk.state
            walk.step(instruction, effect)

    def order_points(self) -> dict[int, frozenset[int]]:
        """For each instruction at which memory order matters, the accesses that may be under way there.

        A candidate that has an access here which its parent had not lets other waves see another order.
        """
        found: dict[int, frozenset[int]] = {}
        for block, state in enumerate(self.entries):
            if state is not None and any(effect.orders for _, effect in self.summaries[block].events):
                key = (self.kernel.blocks[block].instructions, state)
                points = self.shared.points.get(key)
                if points is None:
                    points = self.shared.points[key] = self._points_in(block)
                found.update(points)
        return found

    def _points_in(self, block: int) -> dict[int, frozenset[int]]:
        return {
            instruction.id: frozenset(self.under_way(state, effect.orders))
            for instruction, effect, state in self.state_before_each(block)
            if effect.orders
        }

    @property
    def hazard_guards(self) -> frozenset[int]:
        """Ids of waits that may be there to break up a hazard."""
        waits = (instruction for instruction, effect in self._events() if effect.is_wait)
        return frozenset(wait.id for wait in waits if guards_hazard(wait.decoded, self.target))

    def _events(self) -> Iterator[tuple[Instruction, Effect]]:
        """The instructions that do more than touch registers, in the order of the code."""
        for block, summary in zip(self.kernel.blocks, self.summaries, strict=True):
            for place, effect in summary.events:
                yield block.instructions[place], effect

    @property
    def unknown_instructions(self) -> tuple[Instruction, ...]:
        """Those without a meaning, in the order of the code."""
        return tuple(instruction for instruction, effect in self._events() if not effect.is_known)

    @property
    def loads_into_lds(self) -> tuple[Instruction, ...]:
        """Instructions by which memory is copied into LDS, in the order of the code."""
        return tuple(
            instruction
            for instruction, effect in self._events()
            if any(issue.opened & _LDS_DMA for issue in effect.issues)
        )

    def under_way(self, state: list[list[int]], marks: int) -> list[int]:
        """Ids of accesses of these kinds that may be under way, ascending."""
        concerned = 0
        for mark in MARKS:
            if mark & marks:
                concerned |= self.shared.identities.of_mark[mark]
        return self.shared.identities.ids_in(concerned & union_of(state))
