"""Compaction: fewer vector registers for a whole kernel, so that more waves fit on a SIMD.

What a wave is given follows from the highest register that the code names, and compilers leave holes: a kernel with
122 VGPRs of which never more than 118 are in use at once may run with 120. Webs (`live_ranges`) are whole values with
all their reads and writes, so each may be anywhere where nothing else is while it lives. For the next occupancy steps,
from near to far:

0. a step that no order and no value made again can reach is not tried (`pressure_bound`), nor any behind it;
1. where more VGPRs are alive at once than the step has, values are made again where they are needed
   (`rematerialisation`), and blocks are put in an order that needs fewer (`pressure_relief`);
2. webs that lie wholly below the new limit stay where they are, those that reach over it look for a hole, the widest
   and longest first;
3. if one finds none, all webs that may move are dealt out again (`compaction_layout`), and if that fails, once more
   with fewer alive.

The descriptor is resized to what the step allows. Webs that come from the launch stay where they are. A kernel whose
code names fewer registers than its descriptor gives is only resized. All of it is one script.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from functools import cached_property

from msgspec.structs import replace

from asmevo.analysis.occupancy import occupancy
from asmevo.analysis.pressure import register_use
from asmevo.program.edit import EditScript, script_between
from asmevo.program.kernel import Block, Kernel
from asmevo.program.register_counts import register_counts
from asmevo.program.registers import RegisterFile
from asmevo.proposers.compaction_layout import Layout, with_marks
from asmevo.proposers.pressure_bound import highest_pinned, least_vgprs
from asmevo.proposers.pressure_relief import blocks_over, lowered
from asmevo.proposers.proposer import Facts
from asmevo.proposers.register_room import descriptor_with, waves_by_vgprs
from asmevo.proposers.rematerialisation import Rematerialisation

_STEPS = 3
_SPARE = (0, 2, 4, 8)
"""VGPRs below the limit that may be alive at once, one after the other: wide values need neighbours, too."""


class Compaction:
    """Proposes the kernel with as many VGPRs as one, two, ... waves a SIMD more allow."""

    name = "compaction"

    def propose(self, facts: Facts) -> Generator[EditScript, bool | None, None]:
        """See Proposer.propose."""
        kernel = facts.kernel
        if kernel.descriptor is None:
            return
        waves, way = occupancy(kernel).waves, _Way(facts)
        for limit in _steps(kernel):
            if facts.out_of_time():
                return
            blocks = way.within(limit)
            if blocks is None:
                return
            descriptor = descriptor_with(kernel, limit)
            gained = occupancy(replace(kernel, descriptor=descriptor).with_blocks(blocks)).waves
            words = f"{self.name}: {limit} VGPRs, {gained} waves a SIMD instead of {waves}"
            yield script_between(kernel, blocks, words, descriptor)


class _Way:
    """Ways to fewer registers for one kernel."""

    def __init__(self, facts: Facts) -> None:
        self._facts, self._kernel = facts, facts.kernel

    @cached_property
    def _layout(self) -> Layout:
        return Layout(self._kernel, RegisterFile.VGPR)

    @cached_property
    def _remaking(self) -> Rematerialisation:
        return Rematerialisation(self._kernel)

    def within(self, limit: int) -> tuple[Block, ...] | None:
        """The kernel's blocks with no register from `limit` on; None where no way was found."""
        kernel, facts = self._kernel, self._facts
        if register_use(kernel).vgprs <= limit:
            return kernel.blocks
        if self._is_out_of_reach(limit):
            return None
        for spare in _SPARE:
            lower: Kernel | None = kernel
            if blocks_over(kernel, limit - spare, facts.liveness):
                lower = lowered(facts, limit - spare, self._remaking)
            if lower is None:
                return None
            layout = self._layout if lower is kernel else Layout(lower, RegisterFile.VGPR)
            blocks = layout.within(limit)
            blocks = with_marks(replace(facts, kernel=lower), blocks) if blocks is not None else None
            if blocks is not None:
                return blocks
        return None

    def _is_out_of_reach(self, limit: int) -> bool:
        liveness = self._facts.liveness
        return highest_pinned(self._layout) > limit or any(
            least_vgprs(self._layout, self._remaking, liveness, block) > limit
            for block in blocks_over(self._kernel, limit, liveness)
        )


def _steps(kernel: Kernel) -> Iterator[int]:
    """Limits on VGPRs with which a SIMD holds more waves, one step after the other."""
    assert kernel.descriptor is not None
    given = register_counts(kernel.descriptor, kernel.target, kernel.wave_size)
    waves_with, waves, found = waves_by_vgprs(kernel), occupancy(kernel).waves, 0
    for limit in range(given.vgprs, 0, -1):
        if waves_with(limit) > waves:
            yield limit
            waves, found = waves_with(limit), found + 1
            if found == _STEPS:
                return
