"""An archive by behaviour (MAP-Elites): the best version for each way of being, so that different good ones live on.

A behaviour is a small tuple of what a version is like, whatever it costs: the waves that its registers allow, its
VGPRs and waits in buckets, how many dual-issue pairs it has, and its mix of vector, scalar and memory instructions
by tenths. Two versions of one behaviour compete, two of different ones do not: a schedule that holds more values
in registers is not thrown away because one with few is half a percent faster at this moment.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from msgspec import Struct, field

from asmevo.analysis.events import effect_of
from asmevo.analysis.occupancy import occupancy
from asmevo.analysis.pressure import register_use
from asmevo.program.kernel import Kernel

Behaviour = tuple[int, ...]

_VGPRS_A_BUCKET = 8
_WAITS_A_BUCKET = 4
_MIX_STEPS = 10


def behaviour(kernel: Kernel) -> Behaviour:
    """(waves a SIMD, VGPR bucket, wait bucket, dual-issue pairs, tenths of vector, scalar, memory instructions)."""
    code = kernel.instructions
    waits = sum(effect_of(each.decoded, kernel.target).is_wait for each in code)
    kinds = [_kind(each.mnemonic) for each in code]
    mix = (_MIX_STEPS * kinds.count(kind) // max(1, len(code)) for kind in ("vector", "scalar", "memory"))
    pairs = sum(each.mnemonic.startswith("v_dual_") for each in code)
    use = register_use(kernel)
    return (
        occupancy(kernel).waves,
        (use.vgprs + use.agprs) // _VGPRS_A_BUCKET,
        waits // _WAITS_A_BUCKET,
        pairs,
        *mix,
    )


def _kind(mnemonic: str) -> str:
    if mnemonic.startswith("v_"):
        return "vector"
    return "scalar" if mnemonic.startswith("s_") else "memory"


class Elite(Struct, frozen=True):
    """The best version of one behaviour; `cost` as a share of the original's cycles."""

    cost: float
    kernel: Kernel


class Archive(Struct):
    """Elites by behaviour."""

    elites: dict[Behaviour, Elite] = field(default_factory=dict)

    def add(self, kernel: Kernel, cost: float) -> bool:
        """Whether the version is now the elite of its behaviour."""
        place = behaviour(kernel)
        there = self.elites.get(place)
        if there is not None and there.cost <= cost:
            return False
        self.elites[place] = Elite(cost, kernel)
        return True

    @property
    def best(self) -> Elite:
        """The cheapest elite. Raises ValueError when there is none."""
        return min(self.elites.values(), key=lambda elite: elite.cost)

    def ranked(self) -> Iterator[Elite]:
        """Cheapest first."""
        return iter(sorted(self.elites.values(), key=lambda elite: elite.cost))

    def draw(self, rng: random.Random) -> Elite:
        """An elite by a tournament of two: good ones more often, every one sometimes."""
        pair = rng.choices(list(self.elites.values()), k=2)
        return min(pair, key=lambda elite: elite.cost)
