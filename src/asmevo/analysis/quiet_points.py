"""Where nobody can tell whether a load from global memory is still under way: quiet barriers.

A compiler waits for all loads at a barrier, since another wave might overwrite behind it what was to be read in front
of it, or since a cache is invalidated there. In the main loop of a matrix kernel, which reads global memory and writes
LDS, there is no such writer. Let an instruction be *loud* if other waves, workgroups or the host may see its effect or
take it as a signal: whatever writes global memory (exports and the like with it), atomics, accesses that ask for
coherence, fences other than workgroup barriers and cache invalidations, and all that is unknown. A point (a barrier, a
cache invalidation) is *quiet* if

    before    no loud instruction comes before it on any path from the entry;
    behind    no loud instruction comes behind it on any path before the next barrier (of split barriers: before the
              next wait, from a signal on before the wait after its own);
    together  all waves of the workgroup come by the same barriers in the same order (`uniformity`: no barrier in a
              divergent block), all of which are plain workgroup barriers.

Claim: at a quiet point a plain load from global memory that the parent had settled may as well be under way. What it
reads could differ only if somebody wrote the place after the point and before the load is done. A wave of the same
workgroup comes to its first loud instruction only behind another barrier (behind, together), at which this wave has
arrived: there the load is done or the point is quiet as well, and so on. Other workgroups and the host are ordered
behind the point only by something loud that this workgroup did since; there is nothing. (Who writes without such an
order races with the load in the parent, too.) What an invalidation at the point is to make visible was written by
this workgroup before (nothing was: before), or by others who told so by something that this workgroup took as a signal,
a coherent access (before). Loads of this wave behind the point see the same memory with the load under way or not.

A plain load may also be moved across a quiet instruction, from behind it to in front or the other way. What it reads
could differ only if somebody wrote the place in the meantime. All that time this wave is in front of the next barrier
(of split barriers: has not signalled the next one), so that waves of its workgroup have done nothing loud yet (before,
behind); of others see above. The wait of a split barrier is no point, since no parent settles anything there, but it is
crossed like one (`crossed`). Scalar loads see the same memory, and a wave's scratch is its own: a quiet instruction
leaves all memory but LDS and GDS as it is (`prover.symbolic`, `prover.lifting`). A version that makes the same effects
in the same order has the same quiet instructions: what is loud and what waves come by is part of that order.

Code that is not seen may be loud: calls and jumps through registers are, and a function has no quiet instructions,
as nothing is known of what comes before it.

An instruction has one name for all its executions. So a load counts only if no execution of it is under way at any
point that is not quiet (`QuietPoints.loads`).

Plain means: no LDS, no cache bits beyond the own wave, a vector memory load into registers. The registers are the
matter of the waits themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from msgspec import Struct

from asmevo.analysis.control_flow import ControlFlow
from asmevo.analysis.events import is_cache_operation, writes_back
from asmevo.analysis.forward import entry_states
from asmevo.analysis.memory import GLOBAL, LDS, SCALAR, SCRATCH, MemoryKind, memory_effect
from asmevo.analysis.uniformity import Uniformity
from asmevo.program.instruction import Decoded, Instruction
from asmevo.program.kernel import Kernel

_JOINT, _SIGNAL, _WAIT = "s_barrier", "s_barrier_signal", "s_barrier_wait"
_UNSEEN_JUMP = "s_setpc"
_WORKGROUP = "-1"
"""The number of the barrier that all waves of a workgroup take part in (split barriers)."""


class QuietPoints(Struct, frozen=True, dict=True):
    """The analysis of one kernel."""

    kernel: Kernel

    def loads(self, under_way: Mapping[int, frozenset[int]]) -> frozenset[int]:
        """Ids of the plain loads of which no execution is under way (ids by point) at a point that is not quiet."""
        loud = frozenset[int]().union(*(ids for point, ids in under_way.items() if point not in self.points))
        plain = (each.id for each in self.kernel.instructions if is_plain_load(each.decoded))
        return frozenset(plain) - loud

    @cached_property
    def points(self) -> frozenset[int]:
        """Ids of the quiet barriers and cache invalidations."""
        return frozenset(id_ for id_ in self.crossed if _is_point(self.kernel.by_id[id_].decoded))

    @cached_property
    def crossed(self) -> frozenset[int]:
        """Ids of what plain loads may be moved across: the points, and the quiet waits of split barriers."""
        if not self.kernel.is_entry or not self._waves_stay_together:
            return frozenset()
        return frozenset(
            instruction.id
            for block, place, instruction in self.kernel.positions()
            if _may_be_quiet(instruction.decoded) and self._is_quiet(block.index, place)
        )

    def lets_loads_cross(self, instruction: Instruction) -> bool:
        """Whether an instruction of the kernel is one of `crossed`."""
        return _may_be_quiet(instruction.decoded) and instruction.id in self.crossed

    @cached_property
    def _flow(self) -> ControlFlow:
        return ControlFlow(self.kernel)

    @cached_property
    def _waves_stay_together(self) -> bool:
        with_barriers = set()
        for block, _, instruction in self.kernel.positions():
            if "workgroup_barrier" in instruction.flags:
                if not _is_plain_barrier(instruction.decoded):
                    return False
                with_barriers.add(block.index)
        return not with_barriers & Uniformity(self.kernel).divergent_blocks

    @cached_property
    def _loud_before(self) -> dict[int, bool]:
        """Whether something loud may have come before a block; for blocks that can be reached."""
        loud = [any(is_loud(each.decoded) for each in block.instructions) for block in self.kernel.blocks]
        return entry_states(self._flow, False, lambda block, state: state or loud[block], lambda a, b: bool(a) or b)

    def _is_quiet(self, block: int, place: int) -> bool:
        instructions = self.kernel.blocks[block].instructions
        if self._loud_before.get(block, True) or any(is_loud(each.decoded) for each in instructions[:place]):
            return False
        waiting, seen = [(block, place + 1, self._barriers_ahead(block, place))], set[tuple[int, int]]()
        while waiting:
            at, start, barriers = waiting.pop()
            left = self._barriers_left(at, start, barriers)
            if left is None:
                return False
            for following in self._flow.successors[at] if left else ():
                if (following, left) not in seen:
                    seen.add((following, left))
                    waiting.append((following, 0, left))
        return True

    def _barriers_ahead(self, block: int, place: int) -> int:
        """At which barrier from here on the other waves stand until this one gets there: the next, or that behind it.

        Behind a signal whose wait is still to come it is the second one; where that cannot be seen, too.
        """
        barriers = [
            instruction.mnemonic
            for instruction in self.kernel.blocks[block].instructions[: place + 1]
            if "workgroup_barrier" in instruction.flags
        ]
        joint = not any(instruction.mnemonic == _SIGNAL for instruction in self.kernel.instructions)
        return 1 if joint or (barriers and barriers[-1] == _WAIT) else 2

    def _barriers_left(self, block: int, start: int, barriers: int) -> int | None:
        """Barriers still to come behind a block; 0 if the last is in it, None if something loud comes first."""
        for instruction in self.kernel.blocks[block].instructions[start:]:
            if is_loud(instruction.decoded):
                return None
            if instruction.mnemonic in (_JOINT, _WAIT):
                barriers -= 1
                if not barriers:
                    return 0
        return barriers


def is_plain_load(decoded: Decoded) -> bool:
    """Whether an instruction only brings global (or private) memory into registers, for its own wave."""
    effect = memory_effect(decoded)
    plain = effect.kind is MemoryKind.LOAD and not effect.ordered and "vmem" in decoded.flags
    return plain and effect.reads <= {GLOBAL, SCRATCH, SCALAR}


def is_loud(decoded: Decoded) -> bool:
    """Whether others may see what an instruction does, or take it as a signal."""
    effect = memory_effect(decoded)
    if effect.kind in (MemoryKind.NONE, MemoryKind.CONTROL):
        return "call" in decoded.flags or decoded.mnemonic.startswith(_UNSEEN_JUMP)
    if effect.kind in (MemoryKind.LOAD, MemoryKind.STORE):
        return effect.ordered or not effect.writes <= {LDS}
    return not (decoded.mnemonic == "s_endpgm" or _may_be_quiet(decoded))


def _may_be_quiet(decoded: Decoded) -> bool:
    """Whether this is a barrier of the workgroup, a part of one, or the invalidation of a cache."""
    return _is_point(decoded) or _is_plain_barrier(decoded)


def _is_point(decoded: Decoded) -> bool:
    """Where a compiler waits for loads: a barrier, or the invalidation of a cache."""
    if "workgroup_barrier" in decoded.flags:
        return _is_plain_barrier(decoded) and decoded.mnemonic != _WAIT
    return is_cache_operation(decoded) and not writes_back(decoded.mnemonic)


def _is_plain_barrier(decoded: Decoded) -> bool:
    if decoded.mnemonic == _JOINT:
        return True
    if decoded.mnemonic == _SIGNAL:
        return decoded.operands[0].text == _WORKGROUP
    return decoded.mnemonic == _WAIT and int(decoded.operands[0].text, 0) & 0xFFFF == 0xFFFF
