"""What no order within blocks and no value made again can get below: so that steps out of reach are not tried.

A lower bound on how many VGPRs a kernel has to name, from what relief and compaction leave as it is:

    pinned      webs that may not move keep their registers, so the highest of those is named
    borders     what is alive where a block begins and ends, whatever the order in between
    one place   an instruction's sources, or its results, are all there at once, beside what lives through the whole
                block and nobody in it writes
    parity      of these, registers of aligned values stay even or odd, and every other register is either

Values that may be made again where they are read (`rematerialisation`) count in none of the last three. Each is a
necessary condition, so a limit below the bound cannot be kept; one above it may still not be reached.
"""

from __future__ import annotations

from collections.abc import Iterator

from asmevo.analysis.liveness import Liveness
from asmevo.program.registers import VGPR_MASK
from asmevo.proposers.compaction_layout import Layout
from asmevo.proposers.rematerialisation import Rematerialisation

_EVEN = sum(1 << unit for unit in range(0, VGPR_MASK.bit_length(), 2))


def highest_pinned(layout: Layout) -> int:
    """How many VGPRs the kernel of a layout names at least for the sake of what is pinned."""
    return max(layout.fixed, default=-1) + 1


def least_vgprs(layout: Layout, remaking: Rematerialisation, liveness: Liveness, block: int) -> int:
    """How many VGPRs the kernel of a layout names at least, for the sake of one block."""
    spared = ~remaking.units(block) & VGPR_MASK
    paired = _paired(layout) & spared
    return max(_room(units & spared, paired) for units in _together(layout, liveness, block))


def _together(layout: Layout, liveness: Liveness, block: int) -> Iterator[int]:
    """Sets of units that are taken at one moment in every order of a block."""
    code = layout.kernel.blocks[block].instructions
    entering, leaving, written = liveness.live_in(block), liveness.live_out(block), 0
    for each in code:
        written |= each.writes
    through = entering & leaving & ~written
    yield entering
    yield leaving
    for each in code:
        yield through | each.reads
        yield through | each.writes


def _paired(layout: Layout) -> int:
    """The units of bundles that begin at even registers only."""
    units = 0
    for bundle in layout.bundles:
        if bundle.modulus > 1:
            for member in bundle.members:
                units |= 1 << member.unit
    return units


def _room(units: int, paired: int) -> int:
    """How many registers that many units take, where those of `paired` stay even or odd."""
    even = (units & paired & _EVEN).bit_count()
    odd = (units & paired & ~_EVEN).bit_count()
    return max(units.bit_count(), 2 * even - 1, 2 * odd)
