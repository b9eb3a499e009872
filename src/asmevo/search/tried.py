"""One candidate as it went through the gates: plain data, so that it travels between processes and into the ledger."""

from __future__ import annotations

from msgspec import Struct

from asmevo.gates.gate import Verdict
from asmevo.program.edit import EditScript


class Tried(Struct, frozen=True):
    """`script` is for the original; for what fits no kernel (`kernel_hash` None) it is the script as it came.

    `parent_hash` names the version that it was made from. `cost` is there for accepted ones: see gates.timing.
    """

    proposer: str
    script: EditScript
    parent_hash: str
    kernel_hash: str | None
    verdicts: tuple[Verdict, ...]
    cost: float | None = None

    @property
    def accepted(self) -> bool:
        """Whether every gate accepted."""
        return self.cost is not None
