"""The hardware gate: original and candidate ran on a real GPU and left the same bytes.

It rests on neither the proof nor the emulator nor the cycle model, so it can find what all of them got wrong. The GPU
is handed in as a witness, for what runs kernels is a later room's (`asmevo.hardware`). The gate stands last and is
asked only at level release, and only where a GPU is there; where none is, there is no such gate and no verdict of it.

A candidate that the GPU finds slower beyond the noise of its measurement is refused, whatever was predicted. One whose
time cannot be told apart from the original's is not, since the launch at hand may be too small to show anything; the
verdict then says so, and claims no gain.
"""

from __future__ import annotations

from typing import Any, Protocol

from msgspec import Struct, field

from asmevo.gates.emulation import written
from asmevo.gates.gate import Verdict, VerdictKind
from asmevo.program import WriteError
from asmevo.program.candidate import Candidate
from asmevo.program.kernel import Kernel
from asmevo.program.program import Program


class HardwareEvidence(Struct, frozen=True):
    """What a GPU has to say about a version.

    `difference` is what the version does otherwise than the original, None if nothing was found. `decided` is False
    where the original itself gave nothing to compare with. `words` are one sentence, `data` the same for JSON.
    """

    decided: bool
    difference: str | None
    slower: bool
    words: str
    data: dict[str, Any] = field(default_factory=dict)


class HardwareWitness(Protocol):
    """A GPU with the original and the launches to make."""

    def examine(self, program: Program, kernel: Kernel) -> HardwareEvidence:
        """Runs another version beside the original. Does not raise for a version that does not end well."""
        ...


class HardwareGate:
    """Asks a witness that was made for the same program."""

    name = "hardware"

    def __init__(self, program: Program, witness: HardwareWitness) -> None:
        self._program = program
        self._witness = witness

    def judge(self, candidate: Candidate) -> Verdict:
        """See Gate.judge."""
        try:
            program = written(self._program, candidate)
        except WriteError as error:
            return Verdict(self.name, VerdictKind.REJECTED, str(error))
        evidence = self._witness.examine(program, program.kernel(candidate.parent.name))
        kind = VerdictKind.ACCEPTED if evidence.decided else VerdictKind.UNDECIDED
        if evidence.difference is not None or evidence.slower:
            kind = VerdictKind.REJECTED
        return Verdict(self.name, kind, evidence.words, evidence=evidence.data)
