"""The known reasons for disagreements, reasons.yaml."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from typing import Literal

import yaml
from compare import Disagreement
from pydantic import BaseModel, ConfigDict


class Reason(BaseModel):
    """A row of reasons.yaml; `targets` empty means all. `rules`, if given: ours that ask, and no others may."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    subject: Literal["hazard", "wait"]
    stricter: Literal["llvm", "asmevo", "both", "any"]
    involves: tuple[str, ...]
    targets: tuple[str, ...]
    rules: tuple[str, ...] = ()
    reason: str

    def fits(self, disagreement: Disagreement) -> bool:
        """Whether it is the reason of a disagreement."""
        kinds = disagreement.sample.kinds
        needed = Counter(self.involves)
        return (
            self.subject == disagreement.subject
            and self.stricter in ("any", disagreement.stricter)
            and (not self.targets or disagreement.sample.target in self.targets)
            and (not self.rules or set(disagreement.rules) == set(self.rules))
            and all(sum(kind.startswith(part) for kind in kinds) >= count for part, count in needed.items())
        )


@cache
def reasons() -> tuple[Reason, ...]:
    """All rows in order."""
    rows = yaml.safe_load((Path(__file__).parent / "reasons.yaml").read_text(encoding="utf-8"))
    return tuple(Reason.model_validate(row) for row in rows)


def reason_for(disagreement: Disagreement) -> Reason | None:
    """The first reason that fits."""
    return next((reason for reason in reasons() if reason.fits(disagreement)), None)
