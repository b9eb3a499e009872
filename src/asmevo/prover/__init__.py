"""Proofs that two versions of a kernel do the same, or inputs on which they do not. Start with `prove_kernels`."""

from asmevo.prover.equivalence import Answer, Proof, Prover, prove_equivalent
from asmevo.prover.floating import FloatPolicy
from asmevo.prover.programs import NamedProof, prove_programs
from asmevo.prover.proving import KernelProver, Outcome, ProofLimits, ProofResult, prove_kernels
from asmevo.prover.replay import Counterexample

__all__ = [
    "Answer",
    "Counterexample",
    "FloatPolicy",
    "KernelProver",
    "NamedProof",
    "Outcome",
    "Proof",
    "ProofLimits",
    "ProofResult",
    "Prover",
    "prove_equivalent",
    "prove_kernels",
    "prove_programs",
]
