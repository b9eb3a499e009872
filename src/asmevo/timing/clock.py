"""Time in a simulation: whole cycles. `LONG_AGO` is before all of them."""

from __future__ import annotations

LONG_AGO = -(1 << 30)
