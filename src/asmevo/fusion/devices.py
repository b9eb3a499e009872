"""What a device brings beside its compute units' facts: how many there are, bandwidth, clock. Data with sources."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from msgspec import convert

from asmevo.target import data_files
from asmevo.target.facts import Fact, Frozen, Known

_FILE = Path(__file__).parent / "data" / "devices.yaml"


class Device(Frozen, frozen=True):
    """One product. `bandwidth` of its memory in GB/s, `clock` in MHz."""

    product: str
    compute_units: int
    bandwidth: int
    clock: int

    def memory_cycles(self, traffic: int) -> float:
        """Cycles that moving so many bytes takes at full bandwidth."""
        return traffic * self.clock / (self.bandwidth * 1000)

    def cycles(self, microseconds: float) -> float:
        """A time in cycles of the clock."""
        return microseconds * self.clock


class DeviceTable(Frozen, frozen=True):
    """The data file."""

    launch_cost: Fact[float]
    devices: dict[str, Device]
    source: str
    known: Known


@cache
def device_table() -> DeviceTable:
    """The devices, by target."""
    return convert(data_files.load(_FILE), DeviceTable)
