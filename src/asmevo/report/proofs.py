"""A proof in words."""

from __future__ import annotations

from asmevo.prover import Outcome, ProofResult

_HOW = {
    "structure": "every changed block holds the same operations",
    "terms": "all values are equal in normal form",
    "solver": "equal in normal form, the rest by the solver",
}


def proof_lines(name: str, result: ProofResult) -> list[str]:
    """The answer first, then what it rests on."""
    lines = [f"{name}: {result.outcome.value}: {result.reason}"]
    if result.outcome is Outcome.PROVED:
        asked = f" ({result.questions} questions)" if result.questions else ""
        lines.append(f"  how: {_HOW[result.method]}{asked}")
    found = result.counterexample
    if found is not None and found.launch:
        lines.append(f"  replayed: the launch with {found.launch}")
    elif found is not None:
        registers = ", ".join(f"{register}={value}" for register, value in found.registers.items())
        lines.append(f"  replayed with seed {found.seed}, exec={found.exec_mask:#x}; {registers}")
    lines.append(f"  floating point: {result.policy}; assumes that each value is ready when it is read")
    return lines
