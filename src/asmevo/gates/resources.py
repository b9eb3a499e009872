"""The resources gate: registers, descriptor and note agree, and what was given up is not needed by anybody.

A candidate may ask for other numbers of registers than its parent; nothing else of a descriptor may change.

    fewer   What the code names is held against what is left, as for any kernel (`checks.resources`). That is enough
            only if the code names all that it uses (`analysis.unseen_registers`); else a smaller allocation is refused.
    more    Registers up to the next occupancy step cost nothing. Beyond it fewer waves fit, and then fewer workgroups
            run at once, on which a program that waits for other workgroups may rely: refused. In a unified file more
            VGPRs move the AGPRs up, and both count together.

The reason of an accepted change says what became of the numbers and of the waves a SIMD.
"""

from __future__ import annotations

from msgspec.structs import replace

from asmevo.analysis.occupancy import occupancy
from asmevo.analysis.unseen_registers import unseen_uses
from asmevo.gates.findings_gate import FindingsGate
from asmevo.gates.gate import Verdict, VerdictKind
from asmevo.program.candidate import Candidate
from asmevo.program.kernel import Kernel
from asmevo.program.register_counts import RegisterCounts, register_counts, with_register_counts


class ResourcesGate:
    """See the module."""

    name = "resources"

    def __init__(self, parent: Kernel) -> None:
        silent = "registers, descriptor and note agree"
        self._findings = FindingsGate(self.name, parent, silent)
        self._unseen = next(unseen_uses(parent), None)
        self._waves = occupancy(parent).waves

    def judge(self, candidate: Candidate) -> Verdict:
        """See Gate.judge."""
        old, new = candidate.parent.descriptor, candidate.kernel.descriptor
        if old is None or new is None or old == new:
            return self._findings.judge(candidate)
        target, size = candidate.parent.target, candidate.parent.wave_size
        before, after = register_counts(old, target, size), register_counts(new, target, size)
        if with_register_counts(old, after, target, size) != new:
            return Verdict(self.name, VerdictKind.REJECTED, "the descriptor changed in more than numbers of registers")
        return self._refusal(candidate, before, after) or self._explained(candidate, before, after)

    def _refusal(self, candidate: Candidate, before: RegisterCounts, after: RegisterCounts) -> Verdict | None:
        fewer = after.vgprs < before.vgprs or after.agprs < before.agprs or after.sgprs < before.sgprs
        unseen = self._unseen or next(unseen_uses(candidate.kernel), None)
        if fewer and unseen is not None:
            instruction, why = unseen
            words = f"fewer registers than before, and `{instruction}` (#{instruction.id}): {why}"
            return Verdict(self.name, VerdictKind.UNDECIDED, words, (instruction.id,))
        waves = occupancy(candidate.kernel).waves
        if waves < self._waves:
            words = f"{_change(before, after)} leave {waves} waves a SIMD of {self._waves}: ask for fewer registers"
            return Verdict(self.name, VerdictKind.REJECTED, words)
        return None

    def _explained(self, candidate: Candidate, before: RegisterCounts, after: RegisterCounts) -> Verdict:
        verdict = self._findings.judge(candidate)
        if not verdict.accepted:
            return verdict
        waves = occupancy(candidate.kernel).waves
        held = f"{waves} waves a SIMD as before" if waves == self._waves else f"{waves} waves a SIMD, not {self._waves}"
        return replace(verdict, reason=f"{verdict.reason}; {_change(before, after)}, {held}")


def _change(before: RegisterCounts, after: RegisterCounts) -> str:
    pairs = (
        ("VGPRs", before.vgprs, after.vgprs), ("AGPRs", before.agprs, after.agprs),
        ("SGPRs", before.sgprs, after.sgprs),
    )  # fmt: skip
    return ", ".join(f"{name} {was} -> {now}" for name, was, now in pairs if was != now)
