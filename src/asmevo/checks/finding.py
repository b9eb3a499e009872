"""Findings: what a check has to say about a kernel, in a form that people and programs can use."""

from __future__ import annotations

from enum import Enum
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from asmevo.program.instruction import Instruction


class Severity(Enum):
    """How bad it is. Only errors and warnings count against a candidate; `perf` and `note` inform."""

    ERROR = "error"
    WARNING = "warning"
    PERF = "perf"
    NOTE = "note"


class Finding(Struct, frozen=True):
    """One message about one kernel.

    `instructions` are instruction ids, the one to blame first. `path` are the indices of the blocks on a
    path on which it happens, in order. `missing` says what is lacking (e.g. `lgkmcnt(3) or lower, found
    lgkmcnt(4)`), `mend` how to mend it. `subject` is what it is about (a register, a counter, a field);
    with the rule and the first instruction it identifies the finding across versions of a kernel.
    """

    rule: str
    severity: Severity
    kernel: str
    message: str
    instructions: tuple[int, ...] = ()
    path: tuple[int, ...] = ()
    missing: str = ""
    mend: str = ""
    subject: str = ""

    @property
    def key(self) -> tuple[str, int, str]:
        """Identity across versions of a kernel: ids stay with instructions when they move."""
        return (self.rule, self.instructions[0] if self.instructions else -1, self.subject)

    @property
    def blocks_candidate(self) -> bool:
        """Whether a candidate that has it, and whose parent had not, is rejected."""
        return self.severity in (Severity.ERROR, Severity.WARNING)

    def to_dict(self) -> dict[str, Any]:
        """As JSON data."""
        return asdict(self) | {"severity": self.severity.value}


def named(instruction: Instruction) -> str:
    """How messages call an instruction: its mnemonic and its id."""
    return f"{instruction.text.split(' ')[0]} (#{instruction.id})"
