"""What a kernel costs on a whole device: the cycle model times the rounds of workgroups, or its memory traffic.

The cycle model predicts one SIMD that holds some waves. A launch needs as many rounds as its waves fill the device's
SIMDs at the kernel's occupancy; every round is charged alike, with the waves spread evenly over the rounds, and none
overlaps another. The model answers memory after fixed times and knows no bandwidth, so the traffic that no order can
avoid (each operand read once, the result written once, at full bandwidth) is a second lower bound, and the larger one
counts. Iterations of loops are those that the emulator counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from asmevo.analysis.occupancy import occupancy
from asmevo.fusion.chain import Chain
from asmevo.fusion.devices import Device
from asmevo.fusion.kernels import BuiltKernel, workgroups
from asmevo.fusion.plan import F32_BYTES, Group
from asmevo.fusion.source import parameters
from asmevo.timing import estimate
from asmevo.timing.trips import trips_from_counts


class Cost(Struct, frozen=True):
    """Cycles of one kernel. `model_cycles` by the cycle model for `rounds` rounds of `waves` waves a SIMD.

    `memory_cycles` is the least time for `traffic` bytes. `occupancy` in waves a SIMD.
    """

    model_cycles: float
    memory_cycles: float
    rounds: int
    waves: int
    occupancy: int
    traffic: int

    @property
    def cycles(self) -> float:
        """The larger bound rules."""
        return max(self.model_cycles, self.memory_cycles)

    @property
    def limit(self) -> str:
        """Which one that is."""
        return "memory" if self.memory_cycles > self.model_cycles else "model"

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self) | {"cycles": self.cycles, "limit": self.limit}


def traffic(chain: Chain, group: Group) -> int:
    """Bytes: input and parameters once in, result once out."""
    moved = chain.rows * (chain.width(group.start) + chain.width(group.stop))
    moved += sum(prod(chain.parameter_shape(place) or ()) for place in parameters(chain, group))
    return moved * F32_BYTES


def cost_of(chain: Chain, built: BuiltKernel, executed: Mapping[int, int], device: Device) -> Cost:
    """The cost at the chain's number of rows; `executed` are counts of an emulated run, by instruction id."""
    kernel = built.kernel
    simds = device.compute_units * kernel.target.limits.simds_per_cu.value
    each = -(-prod(built.workgroup) // kernel.wave_size)
    waves = prod(workgroups(chain, built.plan, chain.rows)) * each
    most = max(1, occupancy(kernel).waves)
    rounds = -(-waves // (simds * most))
    resident = max(-(-waves // (simds * rounds)), -(-each // kernel.target.limits.simds_per_cu.value))
    resident = min(resident, most)
    found = estimate(kernel, waves=resident, trip_count=trips_from_counts(kernel, executed))
    moved = traffic(chain, built.plan.group)
    return Cost(found.cycles * rounds, device.memory_cycles(moved), rounds, resident, most, moved)
