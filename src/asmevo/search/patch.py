"""The patch document: what an optimisation offers, with everything that is needed to judge and apply it.

One JSON document, `schema: asmevo.patch/1`. It names the file it is for by hash, holds up to three
candidates best first, and for each its edits, a sentence, registers, occupancy and cycles before and
after, and every gate's verdict with evidence.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from asmevo.program import ProgramError
from asmevo.program.edit import EditScript

FloatingPoint = Literal["exact", "nan", "contract", "reassoc", "fast"]
SCHEMA: Literal["asmevo.patch/1"] = "asmevo.patch/1"


class PatchError(ProgramError):
    """A patch document cannot be read or does not fit the file."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Measures(_Model):
    """One version of the kernel in numbers.

    Cycles are the cycle model's, by waves on a SIMD; those of iterations by loop header block, for a lone wave.
    `dual_pairs` counts dual-issue instructions (VOPD).
    """

    instructions: int
    code_bytes: int
    waits: int
    nops: int
    dual_pairs: int
    vgprs: int
    agprs: int
    sgprs: int
    occupancy: int
    limiter: str
    cycles: dict[str, float]
    cycles_per_iteration: dict[str, float]
    pressure_profile: tuple[int, ...]


class OccupancyStep(_Model):
    """A SIMD filled with all waves that fit, as the cycle model sees it (at most 16 waves are simulated).

    `waves` are (the original's, this version's). `throughput` is the share by which more waves end in a cycle,
    `by_waves` that of it which their number alone brings.
    """

    waves: tuple[int, int]
    throughput: float
    by_waves: float


class PatchCandidate(_Model):
    """One offer. `why` says what makes it faster, `relies_on` what must hold for that.

    `gain_known` are shares of the cycles that are saved, by how well the number behind them is known; `gain_elsewhere`
    is the predicted gain under the other memory scenarios, `gain_crowded` with more waves on the SIMD than
    `predicted_gain` is about. `occupancy_step` where another number of waves fits than of the original.
    """

    rank: int
    script: EditScript
    why: str
    relies_on: str
    after: Measures
    predicted_gain: float
    gain_known: dict[str, float] = Field(default_factory=dict)
    gain_elsewhere: dict[str, float] = Field(default_factory=dict)
    gain_crowded: dict[str, float] = Field(default_factory=dict)
    occupancy_step: OccupancyStep | None = None
    verdicts: tuple[dict[str, Any], ...]


class Patch(_Model):
    """The document. `before` are the measures of the kernel as it came; `launch` the smallest launch that runs it,
    `floating_point` the policy under which the candidates are equal to it, `whole_waves` the user's word that no
    launch has a wave with lanes missing, `not_run` the gates of the level that were not run, each with the reason."""

    schema_: Literal["asmevo.patch/1"] = Field(alias="schema")
    tool_version: str
    base: str
    file: str
    target: str
    kernel: str
    kernel_hash: str
    seed: int
    level: str
    floating_point: FloatingPoint = "exact"
    whole_waves: bool = False
    before: Measures
    candidates: tuple[PatchCandidate, ...]
    estimate_note: str
    launch: str | None = None
    not_run: dict[str, str] = Field(default_factory=dict)

    def to_json(self) -> str:
        """The document as it is written."""
        return self.model_dump_json(indent=1, by_alias=True) + "\n"


def read_patch(path: Path) -> Patch:
    """Reads a patch document. Raises PatchError in one sentence."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PatchError(str(path), f"cannot be read as a patch ({error.__class__.__name__})") from error
    try:
        return Patch.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise PatchError(str(path), f"not a patch of schema {SCHEMA}: {place or 'document'}: {first['msg']}") from error
