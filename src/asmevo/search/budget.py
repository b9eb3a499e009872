"""How much a search may spend: seconds, or candidates. Only a search counted in candidates repeats itself exactly."""

from __future__ import annotations

import math
import re

from msgspec import Struct

from asmevo.program import ProgramError

_TEXT = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>s|m|h)?", re.ASCII)
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}


class BudgetError(ProgramError):
    """A text that is no budget; says what one looks like."""


class Budget(Struct, frozen=True):
    """One of the two limits is finite: `seconds` of the clock, or `candidates` sent to the gates."""

    seconds: float = math.inf
    candidates: float = math.inf

    @classmethod
    def of(cls, text: str) -> Budget:
        """`30s`, `2.5m`, `1h` are time, `500` is candidates. Raises BudgetError."""
        found = _TEXT.fullmatch(text.strip())
        number = float(found["number"]) if found is not None else 0.0
        if found is None or number <= 0 or (not found["unit"] and number != int(number)):
            raise BudgetError("--budget", f"`{text}` is not one: write seconds as `30s` (or `2m`), candidates as `500`")
        if found["unit"]:
            return cls(seconds=number * _SECONDS[found["unit"]])
        return cls(candidates=int(number))

    @property
    def is_timed(self) -> bool:
        """Whether the clock decides."""
        return math.isfinite(self.seconds)

    def part(self, share: float) -> Budget:
        """That share of it; at least one candidate."""
        if self.is_timed:
            return Budget(seconds=self.seconds * share)
        return Budget(candidates=max(1, round(self.candidates * share)))

    def used(self, seconds: float, candidates: int) -> float:
        """The share that is used after so many seconds and candidates; 1 when it is all."""
        if self.seconds <= 0:
            return 1.0
        return max(seconds / self.seconds, candidates / self.candidates)

    def __str__(self) -> str:
        return f"{self.seconds:g}s" if self.is_timed else f"{int(self.candidates)}"
