"""The emulation gate: original and candidate run on the same data and must leave the same bytes.

The proof says so already; this is an independent witness, for it rests on what instructions compute and not on the
symbolic argument. What is run and compared is `emulator.comparison`'s to say. Where the original itself does not
end well in any trial, or the candidate was given up in one, the gate cannot decide.
"""

from __future__ import annotations

from collections.abc import Iterator

from asmevo.emulator import Difference, LaunchManifest, Trial, Unfinished, Witness, standard_trials
from asmevo.emulator.comparison import Unequal, bits_differ, numbers_differ
from asmevo.emulator.manifest import differences
from asmevo.gates.gate import Verdict, VerdictKind
from asmevo.program import WriteError, read_program, write_program
from asmevo.program.candidate import Candidate
from asmevo.program.kernel import Kernel
from asmevo.program.program import Program
from asmevo.prover import FloatPolicy

_SAMENESS: dict[FloatPolicy, tuple[Unequal, str]] = {
    FloatPolicy.EXACT: (bits_differ, ""),
    FloatPolicy.NAN: (numbers_differ, " as numbers, whatever NaN"),
    FloatPolicy.CONTRACT: (differences, " within the manifest's tolerance"),
}
"""What counts as different under a policy and the looser ones up to the next, and how the verdict says it."""


def sameness(policy: FloatPolicy) -> tuple[Unequal, str]:
    """What counts as different in results that were computed under a policy, and how a verdict says it."""
    return _SAMENESS[min(policy, FloatPolicy.CONTRACT)]


def gate_trials(manifest: LaunchManifest, policy: FloatPolicy, seeds: int = 2) -> Iterator[Trial]:
    """The trials of a gate, `seeds` of them with late memory; no edge values that tell nothing under the policy."""
    exact = policy is FloatPolicy.EXACT
    return standard_trials(manifest, seeds, edges=policy < FloatPolicy.CONTRACT, signaling=exact)


def written(program: Program, candidate: Candidate) -> Program:
    """The program with a candidate in it, as it is read back from its bytes. Raises WriteError."""
    return read_program(write_program(program, {candidate.parent.name: candidate.kernel}), program.file)


class EmulationGate:
    """Runs the original when it is made, candidates when asked."""

    name = "emulation"

    def __init__(
        self,
        program: Program,
        kernel: Kernel,
        manifest: LaunchManifest,
        policy: FloatPolicy = FloatPolicy.EXACT,
    ) -> None:
        self._program = program
        self._manifest = manifest
        unequal, self._equal = sameness(policy)
        self._witness = Witness(program, kernel, gate_trials(manifest, policy), unequal)

    def judge(self, candidate: Candidate) -> Verdict:
        """See Gate.judge."""
        if not self._witness.known:
            refusal = next(iter(self._witness.refusals.values()))
            return Verdict(self.name, VerdictKind.UNDECIDED, f"the original does not run: {refusal}")
        try:
            program = written(self._program, candidate)
        except WriteError as error:
            return Verdict(self.name, VerdictKind.REJECTED, str(error))
        found = self._witness.examine(program, program.kernel(candidate.parent.name))
        match found:
            case Difference():
                return Verdict(self.name, VerdictKind.REJECTED, str(found), found.instructions)
            case Unfinished():
                return Verdict(self.name, VerdictKind.UNDECIDED, str(found))
        return self._accepted()

    def _accepted(self) -> Verdict:
        witness = self._witness
        names = [each.trial.name for each in witness.known]
        count = len(witness.known[0].original.outputs)
        words = (
            f"{len(names)} launches of {self._manifest.name} ({', '.join(names)}): "
            f"all {witness.result_bytes} bytes of {count} results equal{self._equal}"
        )
        evidence = {
            "launches": names,
            "left out": witness.refusals,
            "bytes": witness.result_bytes,
            "instructions": witness.instructions,
        }
        return Verdict(self.name, VerdictKind.ACCEPTED, words, evidence=evidence)
