"""Compaction: fewer vector registers for a whole kernel, so that more waves fit on a SIMD.

What a wave is given follows from the highest register that the code names, and compilers leave holes: a kernel with
122 VGPRs of which never more than 118 are in use at once may run with 120. Webs (`live_ranges`) are whole values with
all their reads and writes, so each may be anywhere where nothing else is while it lives. For the next occupancy steps,
from near to far:

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

from msgspec.structs import replace

from asmevo.analysis.occupancy import occupancy
from asmevo.analysis.pressure import register_use
from asmevo.program.edit import EditScript, script_between
from asmevo.program.kernel import Block, Kernel
from asmevo.program.register_counts import register_counts
from asmevo.program.registers import RegisterFile
from asmevo.proposers.compaction_layout import Layout, with_marks
from asmevo.proposers.pressure_relief import blocks_over, lowered
from asmevo.proposers.proposer import Facts
from asmevo.proposers.register_room import descriptor_with, waves_by_vgprs

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
        waves = occupancy(kernel).waves
        for limit in _steps(kernel):
            if facts.out_of_time():
                return
            blocks = _within(facts, limit)
            if blocks is None:
                return
            descriptor = descriptor_with(kernel, limit)
            gained = occupancy(replace(kernel, descriptor=descriptor).with_blocks(blocks)).waves
            words = f"{self.name}: {limit} VGPRs, {gained} waves a SIMD instead of {waves}"
            yield script_between(kernel, blocks, words, descriptor)


def _within(facts: Facts, limit: int) -> tuple[Block, ...] | None:
    """The kernel's blocks with no register from `limit` on; None where no way was found."""
    kernel = facts.kernel
    if register_use(kernel).vgprs <= limit:
        return kernel.blocks
    for spare in _SPARE:
        lower = kernel if not blocks_over(kernel, limit - spare, facts.liveness) else lowered(facts, limit - spare)
        if lower is None:
            return None
        blocks = Layout(lower, RegisterFile.VGPR).within(limit)
        blocks = with_marks(replace(facts, kernel=lower), blocks) if blocks is not None else None
        if blocks is not None:
            return blocks
    return None


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
