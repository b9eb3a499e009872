"""Software pipelining, as far as it can be proved: the head of a loop's body goes over the back edge.

A compiler's loop often begins with scalar and vector arithmetic that ends in the addresses of its first loads, while
the end of the body waits for something. Let X be a set of pure arithmetic instructions that can stand first in the
body, and R the rest. The loop runs X R X R ... X R. With a copy of X in front of the loop and X behind R in the body it
runs X | R X | R X ... R X: the same instructions in the same order, and X once more at the end. That once more harms
nobody if what X writes is dead where the loop is left. No register is needed beside one for SCC (below), and in the
new body X may move up beside R as far as registers allow; so the body is scheduled anew, with and without renaming.

    closed    X holds all that its instructions depend on in the body, so that it can stand first
    pure      scalar and vector arithmetic: no memory, no EXEC, nothing that orders
    dead      no register that X writes is alive at any exit of the loop, nor where the block in front of it may go else
    branch    where X writes SCC and the loop's branch asks for it, SCC is kept in a free register in between

Loads do not go over the back edge: one more at the end of the loop would read a place that the original did not read,
which may not be mapped, and the equivalence gate says so. Loops of one block with one way in are looked at.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from asmevo.analysis.dependence import DependenceGraph
from asmevo.analysis.memory import MemoryKind, memory_effect
from asmevo.program.edit import EditScript, apply_script, script_between
from asmevo.program.instruction import Instruction
from asmevo.program.instruction_text import encode_text
from asmevo.program.kernel import Block
from asmevo.program.registers import EXEC_MASK, SCC_MASK, SGPR_MASK, unit_span, units_of
from asmevo.proposers.block_region import BlockRegion
from asmevo.proposers.list_scheduler import ListScheduler
from asmevo.proposers.placement import Placement
from asmevo.proposers.proposer import Facts, Proposer
from asmevo.proposers.renaming import Renamer
from asmevo.proposers.wait_spreading import mended

_SMALLEST_HEAD = 2
_LOOPS_TRIED = 3


class Rotation(Struct, frozen=True, dict=True):
    """One loop of one block, its way in, and what may go over its back edge."""

    facts: Facts
    body: int
    front: int

    @classmethod
    def of_loops(cls, facts: Facts) -> Iterator[Rotation]:
        """For each loop of one block that is entered one way, hottest first."""
        flow = facts.flow
        for block in facts.hot_blocks:
            loop = flow.innermost_loop(block)
            outside = [each for each in flow.predecessors[block] if each != block]
            if loop is not None and loop.blocks == {block} and len(outside) == 1:
                yield cls(facts, block, outside[0])

    @cached_property
    def _problem(self) -> BlockRegion:
        return BlockRegion(Placement(self.facts, self.body))

    @cached_property
    def _dead_end(self) -> int:
        """Registers that X must not write: alive where the loop is left, or where the front may go else."""
        flow, live = self.facts.flow, self.facts.liveness
        others = [each for block in (self.body, self.front) for each in flow.successors[block] if each != self.body]
        alive = 0
        for each in others:
            alive |= live.live_in(each)
        return alive

    @cached_property
    def head(self) -> tuple[int, ...]:
        """Places (in the body without marks) of X: what the first loads of global memory need, as far as it may go."""
        graph = self._problem.graph
        code = graph.instructions
        closed: set[int] = set()
        for place, instruction in enumerate(code):
            before = {edge.before for edge in graph.predecessors[place]}
            bundled = any(place in bundle for bundle in graph.bundles)
            if before <= closed and not bundled and _is_pure(instruction) and not instruction.writes & self._dead_end:
                closed.add(place)
        return tuple(sorted(closed & _ancestors(graph, _first_loads(code))))

    def blocks(self) -> tuple[Block, ...] | None:
        """The kernel's blocks with the loop rotated; None where it cannot be."""
        facts, kernel = self.facts, self.facts.kernel
        code = self._problem.body
        moved = [code[place] for place in self.head]
        rest = [each for place, each in enumerate(code) if place not in set(self.head)]
        if len(moved) < _SMALLEST_HEAD or "terminator" not in code[-1].flags:
            return None
        written = 0
        for each in moved:
            written |= each.writes
        kept = self._branch_kept(rest, written)
        entry = kernel.blocks[self.front].instructions
        end = len(entry) - ("terminator" in entry[-1].flags) if entry else 0
        if kept is None or any(each.reads & written for each in entry[end:]):
            return None
        next_id = facts.next_id()
        copies = [Instruction(next_id + number, each.decoded) for number, each in enumerate(moved)]
        next_id += len(copies)
        saving = [Instruction(next_id + number, encode_text(text, kernel.context)) for number, text in enumerate(kept)]
        next_id += len(saving)
        order = [*rest[:-1], *saving[:1], *moved, *saving[1:], rest[-1]]
        rotated = Placement(facts, self.body, next_id).rebuild(order)
        if rotated is None:
            return None
        front = replace(kernel.blocks[self.front], instructions=(*entry[:end], *copies, *entry[end:]))
        return mended(facts, kernel.with_blocks(tuple(front if b.index == self.front else b for b in rotated)))

    def _branch_kept(self, rest: list[Instruction], written: int) -> tuple[str, ...] | None:
        """What keeps the branch's condition while X runs: nothing, or SCC to a register and back; None if neither."""
        asked = rest[-1].reads & written
        if not asked:
            return ()
        free = self._free_sgpr
        return (f"s_cselect_b32 {free}, 1, 0", f"s_cmp_lg_u32 {free}, 0") if asked == SCC_MASK and free else None

    @cached_property
    def _free_sgpr(self) -> str | None:
        """A scalar register that the kernel has and the loop neither uses nor keeps."""
        kernel, live = self.facts.kernel, self.facts.liveness
        named = used = 0
        for instruction in kernel.instructions:
            named |= instruction.reads | instruction.writes
        for instruction in kernel.blocks[self.body].instructions:
            used |= instruction.reads | instruction.writes
        free = named & SGPR_MASK & ~used & ~live.live_in(self.body) & ~live.live_out(self.body)
        return str(unit_span(next(units_of(free)))) if free else None


class Pipeliner:
    """Proposes loops with their heads over the back edge, the bodies scheduled anew."""

    name = "pipeliner"

    def propose(self, facts: Facts) -> Generator[EditScript, bool | None, None]:
        """See Proposer.propose."""
        for _, rotation in zip(range(_LOOPS_TRIED), Rotation.of_loops(facts), strict=False):
            blocks = rotation.blocks()
            if blocks is None:
                continue
            words = f"{self.name}: {len(rotation.head)} instructions over the back edge of block {rotation.body}"
            yield script_between(facts.kernel, blocks, words)
            rotated = replace(facts, kernel=facts.kernel.with_blocks(blocks))
            proposers: tuple[Proposer, ...] = (ListScheduler(), Renamer())
            for proposer in proposers:
                for script in proposer.propose(rotated):
                    if facts.out_of_time():
                        return
                    again = apply_script(rotated.kernel, script)
                    yield script_between(facts.kernel, again.blocks, f"{words}; {script.origin}")


def _is_pure(instruction: Instruction) -> bool:
    """Arithmetic on registers, all lanes as they are."""
    effect = memory_effect(instruction.decoded)
    plain = effect.kind is MemoryKind.NONE and "terminator" not in instruction.flags
    return plain and bool(instruction.flags & {"salu", "valu"}) and not instruction.writes & EXEC_MASK


def _first_loads(code: Iterable[Instruction]) -> list[int]:
    """Places of the loads of global memory."""
    return [
        place
        for place, instruction in enumerate(code)
        if "vmem" in instruction.flags and memory_effect(instruction.decoded).kind is MemoryKind.LOAD
    ]


def _ancestors(graph: DependenceGraph, places: Iterable[int]) -> set[int]:
    """All places that these depend on."""
    found: set[int] = set()
    waiting = list(places)
    while waiting:
        for edge in graph.predecessors[waiting.pop()]:
            if edge.before not in found:
                found.add(edge.before)
                waiting.append(edge.before)
    return found
