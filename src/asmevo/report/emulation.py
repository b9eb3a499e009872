"""What a run of the emulator came to, in words."""

from __future__ import annotations

from asmevo.emulator.run import Outcome, RunResult

_MOST_NOTES = 5
_WORDS = {
    Outcome.MATCHES: "the results are as expected",
    Outcome.RAN: "it ran to its end; the manifest expects nothing to compare with",
    Outcome.DIFFERS: "the results differ",
    Outcome.FAULT: "a fault",
    Outcome.LIMIT: "not decided",
    Outcome.UNSUPPORTED: "not decided",
}


def run_lines(kernel: str, result: RunResult) -> list[str]:
    """One line for a good run; problems and notes on lines of their own."""
    rate = result.instructions / result.seconds / 1e6 if result.seconds else 0.0
    lines = [
        f"{kernel}: {_WORDS[result.outcome]} ({result.instructions} wave-instructions in {result.seconds:.2f} s, "
        f"{rate:.2f} million a second)"
    ]
    lines += [f"  {words}" for words in result.problems]
    lines += [f"  note: {words}" for words in result.notes[:_MOST_NOTES]]
    if len(result.notes) > _MOST_NOTES:
        lines.append(f"  and {len(result.notes) - _MOST_NOTES} more notes (all with --json)")
    approximate = sum(result.fidelity.approximate.values())
    if approximate:
        names = ", ".join(result.fidelity.approximate)
        lines.append(f"  {approximate} of them have approximate meanings: {names}")
    return lines
