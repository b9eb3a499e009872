"""The resources gate: registers, descriptor and note agree, and what was given up is not needed by anybody.

A candidate may ask for fewer registers than its parent. What the code names is then held against what is left, as for
any kernel (`checks.resources`). That is enough only if the code names all that it uses: not where registers are
indexed at run time, where an instruction is unknown, or where control goes to code that is not seen (a function that
is called needs registers of its own). There a smaller allocation is refused. Nothing else of a descriptor may change.
"""

from __future__ import annotations

from collections.abc import Iterator

from asmevo.analysis.control_flow import ControlFlow, Exit
from asmevo.analysis.dependence import renumbered_places
from asmevo.checks.resources import check_resources
from asmevo.gates.findings_gate import FindingsGate
from asmevo.gates.gate import Verdict, VerdictKind
from asmevo.program.candidate import Candidate
from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Kernel
from asmevo.program.register_counts import register_counts, with_register_counts

_UNSEEN = {
    "unknown": "nobody knows what it uses",
    "unlisted_def": "nobody knows what it writes",
    "call": "what it calls may need more registers",
    "indexed_def": "its register is known at run time only",
    "indexed_use": "its register is known at run time only",
}
_SEEN_EXITS = (None, Exit.ENDS)


class ResourcesGate:
    """See the module."""

    name = "resources"

    def __init__(self, parent: Kernel) -> None:
        silent = "registers, descriptor and note agree"
        self._findings = FindingsGate(self.name, parent, check_resources, silent)
        self._bound = next(_bound(parent), None)

    def judge(self, candidate: Candidate) -> Verdict:
        """See Gate.judge."""
        old, new = candidate.parent.descriptor, candidate.kernel.descriptor
        if old is None or new is None or old == new:
            return self._findings.judge(candidate)
        target, size = candidate.parent.target, candidate.parent.wave_size
        before, after = register_counts(old, target, size), register_counts(new, target, size)
        if with_register_counts(old, after, target, size) != new:
            return Verdict(self.name, VerdictKind.REJECTED, "the descriptor changed in more than numbers of registers")
        fewer = after.vgprs < before.vgprs or after.agprs < before.agprs or after.sgprs < before.sgprs
        bound = self._bound or next(_bound(candidate.kernel), None)
        if fewer and bound is not None:
            instruction, why = bound
            words = f"fewer registers than before, and `{instruction}` (#{instruction.id}): {why}"
            return Verdict(self.name, VerdictKind.UNDECIDED, words, (instruction.id,))
        return self._findings.judge(candidate)


def _bound(kernel: Kernel) -> Iterator[tuple[Instruction, str]]:
    """Instructions because of which a kernel may use registers that it does not name, and why."""
    exits = ControlFlow(kernel).exits
    for block in kernel.blocks:
        if exits[block.index] not in _SEEN_EXITS and block.instructions:
            yield block.instructions[-1], "the code behind it may need more registers"
        renumbered = renumbered_places(block.instructions)
        for place, instruction in enumerate(block.instructions):
            flag = next((flag for flag in _UNSEEN if flag in instruction.flags), None)
            if flag is not None:
                yield instruction, _UNSEEN[flag]
            elif place in renumbered:
                yield instruction, "register numbers mean others here"
