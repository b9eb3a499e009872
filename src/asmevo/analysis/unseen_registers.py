"""Where a kernel may use registers that its code does not name.

What the code names is all that a kernel needs only if every instruction is known, no register is indexed at run time,
and control goes nowhere but to code that is seen: a function that is called needs registers of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from asmevo.analysis.control_flow import ControlFlow, Exit
from asmevo.analysis.dependence import renumbered_places
from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Kernel

_UNSEEN = {
    "unknown": "nobody knows what it uses",
    "unlisted_def": "nobody knows what it writes",
    "call": "what it calls may need more registers",
    "indexed_def": "its register is known at run time only",
    "indexed_use": "its register is known at run time only",
}
_SEEN_EXITS = (None, Exit.ENDS)


def unseen_uses(kernel: Kernel) -> Iterator[tuple[Instruction, str]]:
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
