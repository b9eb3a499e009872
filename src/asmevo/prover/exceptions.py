"""Whether anybody may notice the exceptions of arithmetic: then it is no longer a value alone.

An operation on floating point numbers (or a division by zero) may set a flag or enter a trap handler. By terms two
versions are the same that do other arithmetic, or do it in lanes and on ways where the version before did none. That is
right as long as exceptions are ignored, which is so unless

* the descriptor turns one on (`compute_pgm_rsrc2`, ENABLE_EXCEPTION_*; AMDGPUUsage, "Kernel Descriptor"),
* code does: it writes the enables in MODE (bits from 12 on, below gfx12) or TRAP_CTRL (from gfx12 on), or
* code looks at the flags: TRAPSTS, EXCP_FLAG_USER, EXCP_FLAG_PRIV (the ISA documents' tables of hardware registers).

Where the code of a kernel is not all there is (a call, a function by itself) others are taken to ignore them.
"""

from __future__ import annotations

from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Kernel
from asmevo.semantics.hardware_registers import register_field

_FIRST_ENABLE = 12
_MODE = "MODE"
_WATCHED = frozenset({"TRAPSTS", "TRAP_CTRL", "EXCP_FLAG_USER", "EXCP_FLAG_PRIV"})


def exceptions_matter(kernel: Kernel) -> bool:
    """Whether a kernel turns exceptions of arithmetic on, or looks at their flags."""
    if kernel.descriptor is not None and kernel.descriptor.field("enabled_exceptions"):
        return True
    return any(_watches(each) for each in kernel.instructions if each.mnemonic.startswith(("s_getreg", "s_setreg")))


def _watches(instruction: Instruction) -> bool:
    fields = (register_field(operand.text) for operand in instruction.decoded.operands)
    return any(
        field.name in _WATCHED
        or (
            field.name == _MODE
            and field.offset + field.size > _FIRST_ENABLE
            and instruction.mnemonic.startswith("s_setreg")
        )
        for field in fields
        if field is not None
    )
