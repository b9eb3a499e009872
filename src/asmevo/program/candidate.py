"""Candidates: what a proposal makes of a kernel, before anybody has judged it."""

from __future__ import annotations

from msgspec import Struct

from asmevo.program.edit import EditScript, apply_script
from asmevo.program.kernel import Kernel


class Candidate(Struct, frozen=True):
    """A parent kernel, the edit script against it, and the kernel that results."""

    parent: Kernel
    script: EditScript
    kernel: Kernel

    @classmethod
    def make(cls, parent: Kernel, script: EditScript) -> Candidate:
        """Applies the script. Raises EditError when it does not fit."""
        return cls(parent, script, apply_script(parent, script))

    @property
    def changed_blocks(self) -> tuple[int, ...]:
        """Indices of blocks that are not the parent's own."""
        pairs = zip(self.parent.blocks, self.kernel.blocks, strict=False)
        return tuple(new.index for old, new in pairs if old is not new)
