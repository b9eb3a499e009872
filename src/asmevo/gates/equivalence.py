"""The equivalence gate: proved, or not accepted."""

from __future__ import annotations

from asmevo.analysis.liveness import Liveness
from asmevo.gates.gate import Verdict, VerdictKind
from asmevo.program.candidate import Candidate
from asmevo.program.kernel import Kernel
from asmevo.prover import Answer, prove_equivalent

_KIND = {
    Answer.EQUIVALENT: VerdictKind.ACCEPTED,
    Answer.DIFFERENT: VerdictKind.REJECTED,
    Answer.UNDECIDED: VerdictKind.UNDECIDED,
}


class EquivalenceGate:
    """Compares the blocks that changed, with the parent's liveness."""

    name = "equivalence"

    def __init__(self, parent: Kernel) -> None:
        self._liveness = Liveness(parent)

    def judge(self, candidate: Candidate) -> Verdict:
        """See Gate.judge."""
        proof = prove_equivalent(candidate.parent, candidate.kernel, self._liveness)
        evidence = {"blocks": list(proof.blocks), "floating_point": "exact"}
        return Verdict(self.name, _KIND[proof.answer], proof.reason, proof.instructions, evidence)
