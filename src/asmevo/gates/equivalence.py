"""The equivalence gate: proved, or not accepted.

Structure first (`prover.equivalence`), which looks at changed blocks only and takes well under a millisecond; what
it cannot show is asked in terms: again the changed blocks only, the whole kernel if the edits moved code over block
borders or changed the graph. A candidate that is not proved here is undecided: a definite "different" takes inputs
on which the two were run, and running is the emulation gate's part.
"""

from __future__ import annotations

from asmevo.gates.gate import Verdict, VerdictKind
from asmevo.program.candidate import Candidate
from asmevo.program.kernel import Kernel
from asmevo.prover import FloatPolicy, KernelProver, Outcome, ProofLimits

_KIND = {
    Outcome.PROVED: VerdictKind.ACCEPTED,
    Outcome.REFUTED: VerdictKind.REJECTED,
    Outcome.UNDECIDED: VerdictKind.UNDECIDED,
}
_LIMITS = ProofLimits(question=0.5, total=2.0, draws=0, whole=False)


class EquivalenceGate:
    """Compares what the edits can have changed with the parent."""

    name = "equivalence"

    def __init__(self, parent: Kernel, policy: FloatPolicy = FloatPolicy.EXACT) -> None:
        self._prover = KernelProver(parent, policy, _LIMITS)

    def judge(self, candidate: Candidate) -> Verdict:
        """See Gate.judge."""
        proof = self._prover.prove(candidate.kernel)
        evidence = {
            "blocks": list(proof.blocks),
            "floating_point": str(proof.policy),
            "method": proof.method or None,
            "solver_questions": proof.questions,
        }
        return Verdict(self.name, _KIND[proof.outcome], proof.reason, proof.instructions, evidence)
