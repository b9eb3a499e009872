"""The equivalence gate: proved, or not accepted."""

from __future__ import annotations

from asmevo.gates.gate import Verdict, VerdictKind
from asmevo.program.candidate import Candidate
from asmevo.program.kernel import Kernel
from asmevo.prover import Answer, Prover

_KIND = {
    Answer.EQUIVALENT: VerdictKind.ACCEPTED,
    Answer.DIFFERENT: VerdictKind.REJECTED,
    Answer.UNDECIDED: VerdictKind.UNDECIDED,
}


class EquivalenceGate:
    """Compares the blocks that changed with the parent's."""

    name = "equivalence"

    def __init__(self, parent: Kernel) -> None:
        self._prover = Prover(parent)

    def judge(self, candidate: Candidate) -> Verdict:
        """See Gate.judge."""
        proof = self._prover.prove(candidate.kernel)
        evidence = {"blocks": list(proof.blocks), "floating_point": "exact"}
        return Verdict(self.name, _KIND[proof.answer], proof.reason, proof.instructions, evidence)
