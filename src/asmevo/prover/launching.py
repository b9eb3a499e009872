"""Refutation by a launch: both versions of a kernel on the data of a manifest, and on variants of that data.

Drawn states (`replay`) seldom get far into a kernel that follows pointers or calls functions; a launch does. Only
bytes of result buffers count, in trials that both versions end.
"""

from __future__ import annotations

from msgspec.structs import replace

from asmevo.emulator import LaunchManifest, Witness, standard_trials
from asmevo.program.kernel import Kernel
from asmevo.program.program import Program
from asmevo.prover import proving
from asmevo.prover.proving import ProofResult
from asmevo.prover.replay import Counterexample


def settled_by_launch(
    result: ProofResult, before: tuple[Program, Kernel], after: tuple[Program, Kernel], manifest: LaunchManifest
) -> ProofResult:
    """An undecided result, refuted if a launch shows a difference. Raises LaunchError and ManifestError."""
    witness = Witness(*before, standard_trials(manifest, seeds=0))
    for known in witness.known:
        other = known.trial.run(*after)
        difference = witness.difference(known, other, *after) if other.outcome.is_end else None
        if difference is not None:
            words = str(difference)
            found = Counterexample(known.trial.seed, 0, {}, words, launch=known.trial.name)
            return replace(result, outcome=proving.Outcome.REFUTED, reason=words, counterexample=found)
    return result
