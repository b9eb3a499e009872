"""What a gate is: a judge of candidates that a proposer cannot talk to.

A gate answers accepted, rejected or undecided, with evidence that can be checked again. What a gate
cannot decide counts as "no": it fails closed.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Protocol

from msgspec import Struct, field

from asmevo.program.candidate import Candidate


class VerdictKind(Enum):
    """The three answers."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    UNDECIDED = "undecided"


class Verdict(Struct, frozen=True):
    """A gate's answer: one sentence, the instructions it is about (ids), and evidence as plain data."""

    gate: str
    kind: VerdictKind
    reason: str
    instructions: tuple[int, ...] = ()
    evidence: dict[str, Any] = field(default_factory=dict)

    @property
    def accepted(self) -> bool:
        """Whether the candidate may go on."""
        return self.kind is VerdictKind.ACCEPTED

    def to_dict(self) -> dict[str, Any]:
        """As JSON data."""
        return {
            "gate": self.gate,
            "kind": self.kind.value,
            "reason": self.reason,
            "instructions": list(self.instructions),
            "evidence": self.evidence,
        }


class Gate(Protocol):
    """One gate, made for one parent kernel so that the parent is analysed once."""

    name: str

    def judge(self, candidate: Candidate) -> Verdict:
        """The verdict about one candidate. Never raises for a bad candidate."""
        ...
