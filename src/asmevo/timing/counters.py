"""Hardware counters beside the model: do as many instructions run as the estimate thinks?

A counter counts over all waves of a dispatch. Divided by the counter of waves it can be compared with the instructions
of one wave on the estimated path. Where they differ, the path or the iterations of the loops are not those of the
run, and so are the cycles.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from asmevo.target.data_files import read
from asmevo.timing.estimate import Estimate


class CounterLine(Struct, frozen=True):
    """One counter: its mean over dispatches, that of one wave, and what the estimate has for one wave.

    The latter two are None where the counter counts no instructions, or nobody counted waves.
    """

    name: str
    value: float
    of_wave: float | None
    estimated: float | None

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)


def beside(counters: Mapping[str, float], found: Estimate) -> tuple[CounterLine, ...]:
    """Counters (means over dispatches, by name in any case) beside an estimate, those that can be compared first."""
    facts = read("counters")
    named = {name.upper(): value for name, value in counters.items()}
    waves = named.get(facts["waves"])
    lines = []
    for name, value in named.items():
        units = facts["instructions"].get(name)
        if units is None or not waves:
            lines.append(CounterLine(name, value, None, None))
        else:
            lines.append(CounterLine(name, value, value / waves, sum(found.issues.get(unit, 0.0) for unit in units)))
    return tuple(sorted(lines, key=lambda line: line.of_wave is None))
