"""The equivalence gate: proved, or not accepted.

Structure first, which looks at changed blocks only and takes well under a millisecond; what it cannot show is asked
in terms: again the changed blocks only, the whole kernels where the edits moved code over block borders or changed
the graph. What is not proved here is undecided: a definite "different" takes inputs on which both were run, and
running is the emulation gate's part.

How much is tried is counted in work, not in time (`prover.solver`): the same candidate gets the same verdict on a busy
machine as on a quiet one.
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
# Steps of work, the same on any machine: a search judges many candidates, and one that takes more is not worth it.
# The seconds end what does much that is no step; only there can a busy machine answer otherwise ("undecided").
_LIMITS = ProofLimits(question=6_000, total=40_000, seconds=3.0, draws=0, whole=False, reshaped=False)


class EquivalenceGate:
    """Compares a candidate with its parent."""

    name = "equivalence"

    def __init__(self, parent: Kernel, policy: FloatPolicy = FloatPolicy.EXACT) -> None:
        self._prover = KernelProver(parent, policy, _LIMITS)

    def judge(self, candidate: Candidate) -> Verdict:
        """See Gate.judge."""
        result = self._prover.prove(candidate.kernel)
        evidence = {
            "blocks": list(result.blocks),
            "floating_point": str(result.policy),
            "method": result.method or None,
            "whole_waves": self._prover.before.whole_waves,
            "solver_questions": result.questions,
        }
        return Verdict(self.name, _KIND[result.outcome], result.reason, result.instructions, evidence)
