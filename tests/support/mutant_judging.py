"""What becomes of a mutant: killed by the checks, by the order of memory, by the proof; or why it may live.

Killed by check: `check_kernel` has an error or warning that it has not about the original. By order: what the waits
gate says beyond that (`check_order`). By proof: the equivalence proof, with the limits of the gate, does not come out
(refuted or undecided: a gate fails closed). A mutant that passes all three must be equivalent, and that is shown by
what shares nothing with the three: the emulator runs it beside the original (fuzzed data, poisoned results, late memory
with several seeds), and the wait simulator walks its paths.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

from emulated_launches import launch, program_of
from legal_edits import legal_edits
from msgspec import Struct
from msgspec.structs import asdict
from mutations import Mutant, mutants
from wait_simulator import find_violation

from asmevo.analysis.wait_counters import WaitAnalysis
from asmevo.checks import check_kernel
from asmevo.checks.waits import check_order
from asmevo.emulator.comparison import Witness, standard_trials
from asmevo.gates import Pipeline
from asmevo.gates.equivalence import EquivalenceGate
from asmevo.gates.findings_gate import known_keys
from asmevo.program.candidate import Candidate
from asmevo.program.edit import EditScript
from asmevo.program.kernel import Kernel

CHECK, ORDER, PROOF = "check", "order", "proof"
LONGEST = 180  # instructions; longer kernels say nothing that shorter ones do not
_WALKS, _STEPS, _SEEDS = 20, 4000, 3
_EMULATED = "equal bytes in all launches"
_WRONG = "WRONG"
_HAZARD = "open: the hazard table asks for nothing here and LLVM does; the emulator, with equal bytes, knows no hazards"


class Fate(Struct, frozen=True):
    """One mutant. `killer` is empty for a survivor, whose `words` are then why it may live, or begin with WRONG."""

    launch: str
    target: str
    kind: str
    mutation: str
    killer: str
    words: str

    @property
    def wrong(self) -> bool:
        """Whether it lives and should not."""
        return not self.killer and self.words.startswith(_WRONG)

    def to_dict(self) -> dict[str, str]:
        """As JSON data."""
        return asdict(self)


class Bench:
    """One launch and kernel with all that judges its mutants; each part is made when it is first asked for."""

    def __init__(self, name: str, target: str) -> None:
        self.name = name
        self.target = target
        self.program = program_of(name, target)
        self.kernel = self.program.kernel(launch(name).symbol)

    @cached_property
    def _known(self) -> set[tuple[str, int, str]]:
        return known_keys(check_kernel(self.kernel))

    @cached_property
    def _waits(self) -> WaitAnalysis:
        return WaitAnalysis(self.kernel)

    @cached_property
    def _equivalence(self) -> EquivalenceGate:
        return EquivalenceGate(self.kernel)

    @cached_property
    def _witness(self) -> Witness:
        return Witness(self.program, self.kernel, standard_trials(launch(self.name), _SEEDS))

    def fate(self, mutant: Mutant) -> Fate:
        """What becomes of a mutant of the kernel."""
        killer, words = self.killed(mutant.kernel)
        if not killer:
            words = self._excused(mutant)
        return Fate(self.name, self.target, mutant.kind, mutant.words, killer, words)

    def killed(self, kernel: Kernel) -> tuple[str, str]:
        """(by what, rule or verdict); ("", "") for a version that passes."""
        fresh = [f for f in check_kernel(kernel) if f.blocks_candidate and f.key not in self._known]
        if fresh:
            return CHECK, fresh[0].rule
        fresh = list(check_order(self._waits, WaitAnalysis(kernel, self._waits)))
        if any(finding.blocks_candidate for finding in fresh):
            return ORDER, fresh[0].rule
        script = EditScript(base=self.kernel.hash, kernel=self.kernel.name, edits=())
        verdict = self._equivalence.judge(Candidate(self.kernel, script, kernel))
        return ("", "") if verdict.accepted else (PROOF, verdict.kind.value)

    def _excused(self, mutant: Mutant) -> str:
        """Why a survivor does no harm, or what harm it does."""
        violation = find_violation(mutant.kernel, seed=7, walks=_WALKS, steps=_STEPS)
        if violation is not None:
            return f"{_WRONG}: {violation}"
        if not self._witness.known:
            return f"{_WRONG}: the original does not run: {next(iter(self._witness.refusals.values()))}"
        difference = self._witness.examine(self.program, mutant.kernel)
        if difference is not None:
            return f"{_WRONG}: {difference}"
        if mutant.kind.startswith("no-op"):
            return _HAZARD
        return f"{_EMULATED} ({len(self._witness.known)}), every walk of its paths in order"


def benches(pairs: Iterable[tuple[str, str]]) -> Iterator[Bench]:
    """The launches whose kernels are not too long, each kernel once."""
    seen = set()
    for name, target in pairs:
        bench = Bench(name, target)
        if len(bench.kernel.instructions) <= LONGEST and bench.kernel.hash not in seen:
            seen.add(bench.kernel.hash)
            yield bench


def mutant_fates(bench: Bench, each: int, seed: int = 1) -> Iterator[Fate]:
    """Up to `each` mutants of every kind."""
    for mutant in mutants(bench.kernel, each, seed):
        yield bench.fate(mutant)


def edit_fates(bench: Bench, each: int, seed: int = 1) -> Iterator[Fate]:
    """Up to `each` legal edits of every kind through the whole pipeline; `killer` is the gate that refuses."""
    pipeline = Pipeline(bench.kernel)
    for edit in legal_edits(bench.kernel, each, seed):
        judgement = pipeline.judge(Candidate.make(bench.kernel, edit.script))
        last = judgement.verdicts[-1]
        gate, words = ("", "") if judgement.accepted else (last.gate, last.reason)
        yield Fate(bench.name, bench.target, edit.kind, edit.words, gate, words)
