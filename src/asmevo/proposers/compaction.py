"""Compaction: a whole kernel's vector registers closer together, so that more waves fit on a SIMD.

What a wave is given follows from the highest register that the code names, and compilers leave holes: a kernel with
122 VGPRs of which never more than 118 are in use at once may run with 120. Webs (`live_ranges`) are whole values with
all their reads and writes, so each may be anywhere where nothing else is while it lives. For the next occupancy step
within reach, from near to far:

1. webs that lie wholly below the new limit stay where they are, those that reach over it look for a hole, the widest
   and longest first;
2. if one finds none, all webs that may move are dealt out again, in that order.

The descriptor is resized to what the step allows. Webs that come from the launch stay where they are. A kernel whose
code names fewer registers than its descriptor gives is only resized.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace

from asmevo.analysis.liveness import Liveness
from asmevo.analysis.occupancy import occupancy
from asmevo.analysis.pressure import register_use
from asmevo.program.edit import EditScript, script_between
from asmevo.program.kernel import Kernel
from asmevo.program.register_counts import RegisterCounts, register_counts, with_register_counts
from asmevo.program.registers import VGPR_MASK, RegisterFile
from asmevo.proposers.compaction_layout import Layout, with_marks
from asmevo.proposers.proposer import Facts


class Compaction:
    """Proposes the kernel with as many VGPRs as one, two, ... waves a SIMD more allow."""

    name = "compaction"

    def propose(self, facts: Facts) -> Generator[EditScript, bool | None, None]:
        """See Proposer.propose."""
        kernel = facts.kernel
        if kernel.descriptor is None:
            return
        waves = occupancy(kernel).waves
        layout, highest = Layout(kernel, RegisterFile.VGPR), register_use(kernel).vgprs
        for limit in _steps(kernel):
            blocks = layout.within(limit) if highest > limit else kernel.blocks
            blocks = with_marks(facts, blocks) if blocks is not None else None
            if blocks is None:
                return
            smaller = _resized(kernel, limit)
            gained = occupancy(smaller.with_blocks(blocks)).waves
            if gained > waves:
                words = f"{self.name}: {limit} VGPRs, {gained} waves a SIMD instead of {waves}"
                yield script_between(kernel, blocks, words, smaller.descriptor)
                waves = gained


def _steps(kernel: Kernel) -> Iterator[int]:
    """Limits on VGPRs with which a SIMD holds one wave more, then two, ... as far as what is live allows."""
    target, size = kernel.target, kernel.wave_size
    use = register_use(kernel)
    assert kernel.descriptor is not None
    given = register_counts(kernel.descriptor, target, size)
    least = _most_live(kernel)

    def waves(vgprs: int) -> int:
        return target.waves_for_vgprs(replace(use, vgprs=vgprs).total_vgprs(target), size)

    now = target.waves_for_vgprs(replace(use, vgprs=given.vgprs, agprs=_agprs(given, kernel)).total_vgprs(target), size)
    for limit in range(given.vgprs, max(least, 1) - 1, -1):
        if waves(limit) > now:
            yield limit
            now = waves(limit)


def _most_live(kernel: Kernel) -> int:
    """The most VGPRs that hold something some lane may read, at any one point."""
    liveness = Liveness(kernel)
    states = (state for block in kernel.blocks for state in liveness.states(block.index))
    return max(((state.any_lane & VGPR_MASK).bit_count() for state in states), default=0)


def _agprs(given: RegisterCounts, kernel: Kernel) -> int:
    return given.agprs if kernel.target.vgpr.agprs.value == "unified" else register_use(kernel).agprs


def _resized(kernel: Kernel, vgprs: int) -> Kernel:
    assert kernel.descriptor is not None
    given = register_counts(kernel.descriptor, kernel.target, kernel.wave_size)
    wanted = replace(given, vgprs=vgprs, agprs=register_use(kernel).agprs)
    return replace(
        kernel, descriptor=with_register_counts(kernel.descriptor, wanted, kernel.target, kernel.wave_size)
    )
