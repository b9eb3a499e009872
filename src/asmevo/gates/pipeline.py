"""The ordered row of gates. The first gate that does not accept ends it; its reason is the answer."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from asmevo.checks.constraints import Compiled
from asmevo.gates.assemble import AssembleGate
from asmevo.gates.constraints import ConstraintsGate
from asmevo.gates.equivalence import EquivalenceGate
from asmevo.gates.findings_gate import FindingsGate
from asmevo.gates.gate import Gate, Verdict
from asmevo.gates.resources import ResourcesGate
from asmevo.gates.waits import WaitsGate
from asmevo.program.candidate import Candidate
from asmevo.program.kernel import Kernel
from asmevo.prover import FloatPolicy


class Level(Enum):
    """How much is asked of a candidate. `draft` leaves equivalence out and is for looking around only.

    `release` asks for a launch, and for the hardware gate where a GPU is there; a patch says what was not asked.
    """

    DRAFT = "draft"
    STANDARD = "standard"
    RELEASE = "release"


class Judgement(Struct, frozen=True):
    """All verdicts about one candidate, in the order of the gates; the last one decided."""

    candidate: Candidate
    verdicts: tuple[Verdict, ...]

    @property
    def accepted(self) -> bool:
        """Whether every gate accepted."""
        return all(verdict.accepted for verdict in self.verdicts)


class Pipeline:
    """The gates of one level, made for one parent kernel; `constraints` are the target's built-in ones by default.

    `policy` is what counts as equal in floating point.
    """

    def __init__(
        self,
        parent: Kernel,
        level: Level = Level.STANDARD,
        constraints: Compiled | None = None,
        policy: FloatPolicy = FloatPolicy.EXACT,
    ) -> None:
        self.parent = parent
        self.level = level
        self.gates: list[Gate] = [
            AssembleGate(parent),
            ConstraintsGate(parent, constraints),
            WaitsGate(parent),
            FindingsGate("hazards", parent, "every hazard has the wait states it needs, clauses are whole"),
            ResourcesGate(parent),
        ]
        if level is not Level.DRAFT:
            self.gates.append(EquivalenceGate(parent, policy))

    def judge(self, candidate: Candidate) -> Judgement:
        """Sends a candidate through the gates until one does not accept."""
        verdicts = []
        for gate in self.gates:
            verdicts.append(gate.judge(candidate))
            if not verdicts[-1].accepted:
                break
        return Judgement(candidate, tuple(verdicts))
