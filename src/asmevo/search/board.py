"""The board: what a run has found so far, from whichever process it came, and the ledger's only writer."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct, field
from msgspec.structs import replace

from asmevo.gates.gate import Verdict
from asmevo.gates.timing import MINIMUM_GAIN
from asmevo.program.edit import EditScript
from asmevo.search.ledger import LedgerRun
from asmevo.search.options import Tally
from asmevo.search.tried import Tried


class Found(Struct, frozen=True):
    """An accepted candidate: its script for the original, and its cost."""

    cost: float
    script: EditScript


class Board(Struct):
    """`found` are the accepted candidates by the hash of their kernel; `refused` counts by gate."""

    ledger: LedgerRun
    found: dict[str, Found] = field(default_factory=dict)
    tallies: dict[str, Tally] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    best: float = 1.0
    not_offered: str = ""

    @property
    def tried(self) -> int:
        """Candidates sent to the gates."""
        return sum(tally.tried for tally in self.tallies.values())

    def note(self, tried: Tried) -> None:
        """One candidate: into the ledger, and counted."""
        self.ledger.record(tried)
        gain = max(0.0, self.best - tried.cost) if tried.cost is not None else 0.0
        self.best -= gain
        old = self.tallies.get(tried.proposer, Tally())
        self.tallies[tried.proposer] = replace(
            old, tried=old.tried + 1, accepted=old.accepted + tried.accepted, gain=old.gain + gain
        )
        if tried.cost is None or tried.kernel_hash is None:
            self.refused[tried.verdicts[-1].gate] += 1
        else:
            self.found.setdefault(tried.kernel_hash, Found(tried.cost, tried.script))

    def refuse_offer(self, verdict: Verdict) -> None:
        """A version that the search kept, but that is not offered; the first one's reason is told."""
        self.refused[verdict.gate] += 1
        self.not_offered = self.not_offered or verdict.reason

    def failed(self, proposer: str, words: str) -> None:
        """A proposer that had to be given up."""
        self.failures.append(f"proposer {proposer} {words}")
        self.ledger.record_failure(proposer, words)

    def why_nothing(self) -> str:
        """Why there may be nothing to offer, with what was tried."""
        failures = "; ".join(self.failures)
        if not self.tried:
            return f"no proposer had an idea; {failures}" if failures else "no proposer had an idea"
        best = min((found.cost for found in self.found.values()), default=1.0)
        saved = f"the best accepted one saves {100 * (1 - best):.2f} % (at least {100 * MINIMUM_GAIN:.1f} % is asked)"
        if self.not_offered:
            saved = f"the best accepted one is not offered: {self.not_offered}"
        asked = ", ".join(f"{name} {tally.tried} ({tally.accepted})" for name, tally in self.tallies.items())
        refused = ", ".join(f"{gate} refused {count}" for gate, count in self.refused.most_common())
        return "; ".join(part for part in (saved, f"tried (accepted): {asked}", refused, failures) if part)
