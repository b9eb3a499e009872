"""Proofs that two versions of a kernel do the same, or the first thing that differs."""

from asmevo.prover.equivalence import Answer, Proof, Prover, prove_equivalent

__all__ = ["Answer", "Proof", "Prover", "prove_equivalent"]
