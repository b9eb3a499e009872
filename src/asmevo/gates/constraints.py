"""The constraints gate: the candidate keeps what its target, its ROCm release and its project ask of code.

The constraint set may be stricter than the hardware: registers that belong to somebody, instructions that must stand
together, lengths of runs, switches that forbid an edit to merge or to pair. Findings that the parent has do not count,
and a switch asks only about instructions that the edits put in. What an encoding or a block says is remembered, so
a candidate pays for the blocks that it changed.
"""

from __future__ import annotations

from asmevo.checks.constraints import Compiled, constraints_for, violations
from asmevo.gates.findings_gate import known_keys, verdict_of
from asmevo.gates.gate import Verdict
from asmevo.program.candidate import Candidate
from asmevo.program.kernel import Kernel


class ConstraintsGate:
    """Keeps what the parent violates; `constraints` is the built-in set of its target unless another is given."""

    name = "constraints"

    def __init__(self, parent: Kernel, constraints: Compiled | None = None) -> None:
        self._constraints = constraints if constraints is not None else constraints_for(parent.target.name)
        self._known = known_keys(violation.finding for violation in violations(parent, self._constraints))
        self._silent = f"keeps the constraints {self._constraints.name}"

    def judge(self, candidate: Candidate) -> Verdict:
        """See Gate.judge. The evidence of a rejection has the edge of each finding."""
        found = violations(candidate.kernel, self._constraints, candidate.parent)
        verdict = verdict_of(self.name, (each.finding for each in found), self._known, self._silent)
        if not verdict.accepted:
            fresh = [each for each in found if each.finding.blocks_candidate and each.finding.key not in self._known]
            verdict.evidence["edges"] = [each.to_dict() for each in fresh]
        return verdict
