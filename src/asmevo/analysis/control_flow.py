"""Control flow: which block may follow which, and what shape the whole has.

A block has one entry and one exit, so only its last instruction decides where control goes:

    last instruction                              successors                  how it leaves the kernel
    s_endpgm and kin (flag `return`)              none                        ENDS
    s_setpc, s_rfe, s_add_pc                      none that the code names    INDIRECT
    s_branch L                                    block of L                  OUTSIDE if L is elsewhere
    s_cbranch_* L, s_subvector_loop_* L           block of L, next block      OUTSIDE if L is elsewhere
    s_call L                                      next block, block of L      (a callee comes back)
    s_swappc                                      next block                  (a callee comes back)
    s_trap                                        next block, if there is one TRAPS
    anything else                                 next block                  FALLS_OFF behind the last block

A trap handler may come back (and without one installed s_trap does nothing), so the next block stays a
successor; code that ends in a trap does not count as running off its end.

Every edge that an execution can take inside the kernel is in `successors`, except those that start at an
INDIRECT exit. An analysis has to assume the worst there: `has_indirect` says that such an exit exists, and
then a block without predecessors may be the goal of a jump table. Without such exits, what no path from
block 0 reaches (padding of s_nop and s_code_end behind the last s_endpgm) is never executed.

Dominators are found by the iteration of Cooper, Harvey and Kennedy ("A Simple, Fast Dominance Algorithm",
2001) over reverse postorder. An edge that does not lead forward in that order is a back edge if its goal
dominates its source; one that is not makes the flow irreducible. The natural loop of a header is the header
with all blocks that reach a back edge's source without passing it.

The result depends on labels and block ends only. Kernels that agree in these (a candidate that moves
instructions inside blocks) share one result.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from functools import cached_property, lru_cache

from msgspec import Struct

from asmevo.program.instruction import Decoded
from asmevo.program.kernel import Block, Kernel

Edges = tuple[tuple[int, ...], ...]
"""For each block the indices of other blocks."""

_INDIRECT = ("s_setpc", "s_set_pc", "s_rfe", "s_add_pc")
_UNCONDITIONAL = frozenset({"s_branch"})
_TRAPS = frozenset({"s_trap"})


class Exit(Enum):
    """How control may leave a kernel at the end of a block."""

    ENDS = "ends the wave"
    INDIRECT = "goes to an address in registers"
    OUTSIDE = "goes to another function"
    TRAPS = "enters the trap handler"
    FALLS_OFF = "runs off the end of the code"


class Loop(Struct, frozen=True):
    """A natural loop: block indices; `back_edges` are the sources of the edges to `header`.

    `depth` is 1 for an outermost loop; `parent` is the header of the loop around it.
    """

    header: int
    blocks: frozenset[int]
    back_edges: tuple[int, ...]
    depth: int
    parent: int | None


# Labels, last instruction and branch label of one block: all that control flow depends on.
_BlockEnd = tuple[tuple[str, ...], Decoded | None, str | None]


class ControlFlow:
    """The flow graph of one kernel; block 0 is the entry. Everything is in block indices."""

    def __new__(cls, kernel: Kernel) -> ControlFlow:
        """Shared between kernels with the same labels and block ends."""
        return _flow_of(tuple(_block_end(block) for block in kernel.blocks))

    def _settle(self, ends: tuple[_BlockEnd, ...]) -> None:
        goals = {label: index for index, (labels, _, _) in enumerate(ends) for label in labels}
        found = [_leave(ends, index, goals) for index in range(len(ends))]
        self.successors: Edges = tuple(successors for successors, _ in found)
        self.exits: tuple[Exit | None, ...] = tuple(leaves for _, leaves in found)

    @cached_property
    def predecessors(self) -> Edges:
        """For each block those it may come from, ascending."""
        into: list[list[int]] = [[] for _ in self.successors]
        for source, goals in enumerate(self.successors):
            for goal in goals:
                into[goal].append(source)
        return tuple(map(tuple, into))

    @property
    def has_indirect(self) -> bool:
        """Whether control may go to an address that the code does not name (return, jump table)."""
        return Exit.INDIRECT in self.exits

    @cached_property
    def reverse_postorder(self) -> tuple[int, ...]:
        """Reachable blocks, each before its successors except along retreating edges."""
        return _reverse_postorder(self.successors)

    @cached_property
    def reachable(self) -> frozenset[int]:
        """Blocks that a path from block 0 reaches."""
        return frozenset(self.reverse_postorder)

    @property
    def unreachable(self) -> tuple[int, ...]:
        """The other blocks, ascending."""
        return tuple(index for index in range(len(self.successors)) if index not in self.reachable)

    @cached_property
    def immediate_dominators(self) -> tuple[int | None, ...]:
        """The nearest strict dominator; None for block 0 and unreachable blocks."""
        return _immediate_dominators(self.reverse_postorder, self.predecessors)

    def dominates(self, first: int, second: int) -> bool:
        """Whether every path from block 0 to `second` passes `first` (a block dominates itself)."""
        block: int | None = second
        while block is not None and block != first:
            block = self.immediate_dominators[block]
        return block == first and second in self.reachable

    @cached_property
    def _retreating(self) -> tuple[tuple[int, int], ...]:
        place = {block: at for at, block in enumerate(self.reverse_postorder)}
        edges = ((source, goal) for source in self.reverse_postorder for goal in self.successors[source])
        return tuple((source, goal) for source, goal in edges if place[goal] <= place[source])

    @property
    def irreducible(self) -> bool:
        """Whether some cycle has more than one entry, so that it is no natural loop."""
        return any(not self.dominates(goal, source) for source, goal in self._retreating)

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        """Natural loops, outer ones before the loops in them."""
        sources: dict[int, list[int]] = {}
        for source, goal in self._retreating:
            if self.dominates(goal, source):
                sources.setdefault(goal, []).append(source)
        bodies = {header: self._natural_loop(header, ends) for header, ends in sources.items()}
        return _nest(bodies, sources)

    def _natural_loop(self, header: int, back_edges: Sequence[int]) -> frozenset[int]:
        blocks = {header}
        waiting = [block for block in back_edges if block != header]
        while waiting:
            block = waiting.pop()
            if block not in blocks:
                blocks.add(block)
                waiting += [each for each in self.predecessors[block] if each in self.reachable]
        return frozenset(blocks)

    @cached_property
    def loop_depth(self) -> tuple[int, ...]:
        """For each block how many natural loops it is in."""
        blocks = range(len(self.successors))
        return tuple(sum(block in loop.blocks for loop in self.loops) for block in blocks)

    def innermost_loop(self, block: int) -> Loop | None:
        """The smallest natural loop with this block."""
        return next((loop for loop in reversed(self.loops) if block in loop.blocks), None)


def successors(kernel: Kernel) -> Edges:
    """For each block those that may follow it: the branch's goal first, then the next block."""
    return ControlFlow(kernel).successors


def predecessors(kernel: Kernel) -> Edges:
    """For each block those it may come from, ascending."""
    return ControlFlow(kernel).predecessors


@lru_cache(maxsize=512)
def _flow_of(ends: tuple[_BlockEnd, ...]) -> ControlFlow:
    flow = object.__new__(ControlFlow)
    flow._settle(ends)
    return flow


def _block_end(block: Block) -> _BlockEnd:
    if not block.instructions:
        return block.labels, None, None
    last = block.instructions[-1]
    return block.labels, last.decoded, last.target


def _leave(ends: tuple[_BlockEnd, ...], index: int, goals: dict[str, int]) -> tuple[tuple[int, ...], Exit | None]:
    """The successors of a block, and how control may leave the kernel at its end."""
    _, last, label = ends[index]
    behind = (index + 1,) if index + 1 < len(ends) else ()
    falls = None if behind else Exit.FALLS_OFF
    if last is None:
        return behind, falls
    if "return" in last.flags:
        return (), Exit.ENDS
    if last.mnemonic.startswith(_INDIRECT):
        return (), Exit.INDIRECT
    if last.mnemonic in _TRAPS:
        return behind, Exit.TRAPS
    goal = goals.get(label) if label is not None else None
    there = () if goal is None else (goal,)
    if "call" in last.flags:
        return _distinct(behind + there), falls
    if "branch" not in last.flags:
        return behind, falls
    outside = Exit.OUTSIDE if goal is None else None
    if last.mnemonic in _UNCONDITIONAL:
        return there, outside
    return _distinct(there + behind), falls or outside


def _distinct(blocks: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(blocks))


def _reverse_postorder(edges: Edges) -> tuple[int, ...]:
    """Depth-first from block 0, without recursion: kernels may have thousands of blocks in a row."""
    if not edges:
        return ()
    done: list[int] = []
    seen = {0}
    stack = [(0, iter(edges[0]))]
    while stack:
        block, rest = stack[-1]
        following = next((goal for goal in rest if goal not in seen), None)
        if following is None:
            done.append(block)
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, iter(edges[following])))
    return tuple(reversed(done))


def _immediate_dominators(order: tuple[int, ...], into: Edges) -> tuple[int | None, ...]:
    place = {block: at for at, block in enumerate(order)}
    nearest: dict[int, int] = {0: 0}

    def meet(first: int, second: int) -> int:
        while first != second:
            while place[first] > place[second]:
                first = nearest[first]
            while place[second] > place[first]:
                second = nearest[second]
        return first

    changed = True
    while changed:
        changed = False
        for block in order[1:]:
            known = [each for each in into[block] if each in nearest]
            found = known[0]
            for each in known[1:]:
                found = meet(found, each)
            if nearest.get(block) != found:
                nearest[block], changed = found, True
    return tuple(nearest.get(block) if block else None for block in range(len(into)))


def _nest(bodies: dict[int, frozenset[int]], sources: dict[int, list[int]]) -> tuple[Loop, ...]:
    """Two natural loops with different headers are nested or disjoint, so size orders a nest."""
    loops: list[Loop] = []
    for header in sorted(bodies, key=lambda each: (-len(bodies[each]), each)):
        around = [loop for loop in loops if header in loop.blocks]
        inner = max(around, key=lambda loop: loop.depth, default=None)
        depth = inner.depth + 1 if inner is not None else 1
        parent = inner.header if inner is not None else None
        loops.append(Loop(header, bodies[header], tuple(sources[header]), depth, parent))
    return tuple(loops)
