"""What is asked of a search, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from asmevo.analysis.windows import Window
from asmevo.checks.constraints import Compiled
from asmevo.emulator import LaunchManifest
from asmevo.gates import HardwareGate, HardwareWitness, Level
from asmevo.program import ProgramError
from asmevo.proposers import BUILT_IN, Proposer
from asmevo.prover import FloatPolicy
from asmevo.search.budget import Budget
from asmevo.search.patch import Patch

DEFAULT_BUDGET = Budget(seconds=45.0)


class LevelError(ProgramError):
    """A level asks for something that the options do not give."""


class SearchOptions(Struct, frozen=True):
    """`budget` may not be used up: a search ends when nobody has an idea left. `memory` is the cycle model's scenario.

    With a `launch` every offer has also run on the emulator beside the original. `constraints` are those of the
    constraints gate; by default the target's built-in ones. `proposers` are the user's own, asked first, once;
    `built_in` names those that share the rest of the budget. With `windows` nothing outside of their blocks may
    change. `floating_point` is what counts as equal. `whole_waves` is the user's word that no launch has a
    wave with lanes missing (see `analysis.full_exec`). `workers` processes search beside each other, on the machines
    that `executor` reaches: this one (`processes`), or a Ray cluster (`ray`). At most `offers` versions are offered.
    Level release needs a `launch`, and the `hardware` that runs it too, or else `no_hardware`, why none does.
    """

    level: Level = Level.STANDARD
    budget: Budget = DEFAULT_BUDGET
    seed: int = 0
    memory: str = "l2"
    launch: LaunchManifest | None = None
    constraints: Compiled | None = None
    proposers: tuple[Proposer, ...] = ()
    windows: tuple[Window, ...] = ()
    built_in: tuple[str, ...] = tuple(BUILT_IN)
    floating_point: FloatPolicy = FloatPolicy.EXACT
    whole_waves: bool = False
    workers: int = 1
    executor: str = "processes"
    offers: int = 3
    hardware: HardwareWitness | None = None
    no_hardware: str = ""

    def refuse_unfounded_level(self, file: str) -> None:
        """Raises LevelError if the level would claim more than what is asked about."""
        if self.level is not Level.RELEASE:
            return
        if self.launch is None:
            raise LevelError(file, "level release runs every offer: give it a launch manifest (--launch)")
        if self.hardware is None and not self.no_hardware:
            raise LevelError(file, "level release needs a GPU, or the reason why there is none")

    @property
    def not_run(self) -> dict[str, str]:
        """Gates of the level that are not run, each with the reason."""
        missing = self.level is Level.RELEASE and self.hardware is None
        return {HardwareGate.name: self.no_hardware} if missing else {}

    @property
    def blocks(self) -> frozenset[int] | None:
        """Blocks that may change; None for all."""
        return frozenset(window.block for window in self.windows) or None


class Tally(Struct, frozen=True):
    """One proposer's work in a run. `gain` is the share of the original's cycles that it took off the best version."""

    tried: int = 0
    accepted: int = 0
    gain: float = 0.0


class OptimizationRun(Struct, frozen=True):
    """A finished run: the patch, how many candidates were tried and accepted on the way, and by whom.

    `failures` are sentences about proposers and workers that had to be given up; the others went on.
    """

    id: str
    patch: Patch
    tried: int
    accepted: int
    why_nothing: str
    tallies: Mapping[str, Tally]
    failures: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """All but the patch as JSON data; `run` is the id."""
        return {
            "run": self.id,
            "tried": self.tried,
            "accepted": self.accepted,
            "why_nothing": self.why_nothing if not self.patch.candidates else None,
            "proposers": {name: asdict(tally) for name, tally in self.tallies.items()},
            "failures": list(self.failures),
        }
