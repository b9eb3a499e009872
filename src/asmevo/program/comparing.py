"""Whether a kernel that was written and read again is the kernel that was meant, instruction by instruction.

Two kernels are the same code when their instructions have the same bytes in the same order, branches go to
the same instruction, and references name the same place. Blocks and labels may differ, since labels that
no branch uses are not there after reading.
"""

from __future__ import annotations

from asmevo.program.encoding import block_addresses
from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Kernel

_PADDING = frozenset({"s_code_end", "s_nop", ".long"})


def code_difference(meant: Kernel, found: Kernel, addresses: bool) -> str:
    """Where `found` is not `meant`, in words; "" when it is.

    With `addresses` references must go to equal addresses, else to equally named ones.
    """
    ours, theirs = meant.instructions, found.instructions
    our_labels, their_labels = block_addresses(meant, 0), block_addresses(found, 0)
    for place, (mine, other) in enumerate(zip(ours, theirs, strict=False)):
        if _code(mine, addresses) != _code(other, addresses) or mine.size != other.size:
            return f"instruction {place} is `{other.text}` instead of `{mine.text}`"
        if _goal(our_labels, mine) != _goal(their_labels, other):
            return f"instruction {place}, `{mine.text}`, goes elsewhere"
    if len(theirs) < len(ours) or any(extra.mnemonic not in _PADDING for extra in theirs[len(ours) :]):
        return f"it has {len(theirs)} instructions instead of {len(ours)}"
    return ""


def _code(instruction: Instruction, addresses: bool) -> object:
    code, reference = instruction.decoded.code, instruction.reference
    if instruction.target is not None:
        return code[2:]
    if reference is None:
        return code
    where: object = reference.symbol
    if addresses and not reference.open:
        where = reference.address
    return code[:-4], reference.high, where


def _goal(labels: dict[str, int], instruction: Instruction) -> object:
    """The offset that a branch goes to, or the name when that is outside the kernel."""
    if instruction.target is None:
        return None
    return labels.get(instruction.target, instruction.target)


def unchanged(old: Kernel, new: Kernel) -> bool:
    """Whether nothing of a kernel has been edited: code, descriptor and metadata."""
    if old is new:
        return True
    same_code = old.instructions == new.instructions or not code_difference(old, new, addresses=True)
    return same_code and len(old.instructions) == len(new.instructions) and same_launch(old, new)


def same_launch(old: Kernel, new: Kernel) -> bool:
    """Whether descriptor and metadata are the same."""
    return old.descriptor == new.descriptor and old.metadata == new.metadata
