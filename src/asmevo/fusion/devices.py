"""What a device brings beside its compute units' facts: how many there are, bandwidth, clock. Data with sources."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict

from asmevo.target.facts import Fact, Known

_FILE = Path(__file__).parent / "data" / "devices.yaml"


class Device(BaseModel):
    """One product. `bandwidth` of its memory in GB/s, `clock` in MHz."""

    model_config = ConfigDict(frozen=True, extra="forbid")
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


class DeviceTable(BaseModel):
    """The data file."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    launch_cost: Fact[float]
    devices: dict[str, Device]
    source: str
    known: Known


@cache
def device_table() -> DeviceTable:
    """The devices, by target."""
    return DeviceTable.model_validate(yaml.safe_load(_FILE.read_text(encoding="utf-8")))
