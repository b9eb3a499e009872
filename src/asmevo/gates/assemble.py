"""The assemble gate: the candidate is machine code that LLVM takes, and only what the script names changed.

Three things are held: every encoding that the parent did not have decodes to a known instruction whose
text LLVM assembles to the very same bytes; instructions that the script does not name are all there, in
their old order and with their old bytes; and the code can be laid out, i.e. every branch reaches.
"""

from __future__ import annotations

from asmevo.gates.gate import Verdict, VerdictKind
from asmevo.program import WriteError, encode_kernel
from asmevo.program.candidate import Candidate
from asmevo.program.decode import UNKNOWN, DecodingContext
from asmevo.program.instruction import Instruction
from asmevo.program.instruction_text import assembles_back
from asmevo.program.kernel import Kernel

# A branch reaches 2^15 dwords either way, so in code no longer than that every branch reaches (bytes).
_ALWAYS_REACHED = 4 * (1 << 15) - 4


class AssembleGate:
    """See the module."""

    name = "assemble"

    def __init__(self, parent: Kernel) -> None:
        self._known = {instruction.decoded for instruction in parent.instructions}

    def judge(self, candidate: Candidate) -> Verdict:
        """See Gate.judge."""
        kernel = candidate.kernel
        for index in candidate.changed_blocks:
            for instruction in kernel.blocks[index].instructions:
                refused = self._refused(instruction, kernel.context)
                if refused is not None:
                    return refused
        lost = _lost_or_disturbed(candidate)
        if lost is not None:
            return self._reject(f"`{lost}` (#{lost.id}) changed, but the script does not name it", lost)
        size = kernel.code_size()
        if size > _ALWAYS_REACHED:
            try:
                encode_kernel(kernel, kernel.address)
            except WriteError as error:
                return Verdict(self.name, VerdictKind.REJECTED, str(error))
        words = f"{size} bytes (parent {candidate.parent.code_size()}), decodes back, nothing else changed"
        return Verdict(self.name, VerdictKind.ACCEPTED, words, evidence={"bytes": size})

    def _refused(self, instruction: Instruction, context: DecodingContext) -> Verdict | None:
        decoded = instruction.decoded
        if decoded in self._known:
            return None
        if UNKNOWN in decoded.flags or not assembles_back(decoded, context):
            return self._reject(f"LLVM does not assemble `{instruction}` to {decoded.code.hex()}", instruction)
        return None

    def _reject(self, reason: str, instruction: Instruction) -> Verdict:
        return Verdict(self.name, VerdictKind.REJECTED, reason, (instruction.id,))


def _lost_or_disturbed(candidate: Candidate) -> Instruction | None:
    """The first instruction of a changed block that the script does not name and that is not where it was."""
    touched = candidate.script.touched_ids
    for index in candidate.changed_blocks:
        old = [i for i in candidate.parent.blocks[index].instructions if i.id not in touched]
        new = [i for i in candidate.kernel.blocks[index].instructions if i.id not in touched]
        for before, after in zip(old, new, strict=False):
            if before is not after:
                return before
        if len(old) != len(new):
            longer = old if len(old) > len(new) else new
            return longer[min(len(old), len(new))]
    return None
