"""A kernel as machine code at an address: branches from their labels, references from where things lie.

Everything else is the instruction's own bytes, so a kernel that nobody edited comes out as it was read.
"""

from __future__ import annotations

from collections.abc import Mapping

from asmevo.program.errors import WriteError
from asmevo.program.instruction import Instruction, Reference
from asmevo.program.kernel import Kernel
from asmevo.program.reading import PC_READS, branch_distance

_DWORD = 4  # bytes; branch distances count in dwords from the end of the branch
_MOST, _LEAST = (1 << 15) - 1, -(1 << 15)
_LITERAL_SIZE = 4


def encode_kernel(kernel: Kernel, address: int, symbols: Mapping[str, int] | None = None) -> bytes:
    """The machine code of a kernel that starts at `address` (bytes).

    `symbols` gives the addresses of other functions, for branches and calls that leave the kernel. Raises
    WriteError when a branch goes nowhere or farther than its 16 bits reach.
    """
    places = instruction_addresses(kernel, address)
    labels = dict(symbols or {}) | block_addresses(kernel, address)
    return b"".join(
        _encode(kernel, instruction, place, labels, places)
        for instruction, place in zip(kernel.instructions, places.values(), strict=True)
    )


def instruction_addresses(kernel: Kernel, address: int) -> dict[int, int]:
    """The address of each instruction by id, in the order of the code."""
    places = {}
    for instruction in kernel.instructions:
        places[instruction.id] = address
        address += instruction.size
    if len(places) != len(kernel.instructions):
        raise WriteError(kernel.name, "two instructions have the same id")
    return places


def block_addresses(kernel: Kernel, address: int) -> dict[str, int]:
    """The address of each label."""
    labels = {}
    for block in kernel.blocks:
        labels.update(dict.fromkeys(block.labels, address))
        address += sum(instruction.size for instruction in block.instructions)
    return labels


def reference_literal(reference: Reference, getpc_end: int) -> int:
    """The 32 bits that stand for (half of) the distance from the end of the `s_getpc`."""
    difference = (reference.address - getpc_end) & 0xFFFFFFFFFFFFFFFF
    return difference >> 32 if reference.high else difference & 0xFFFFFFFF


def _encode(
    kernel: Kernel, instruction: Instruction, place: int, labels: Mapping[str, int], places: Mapping[int, int]
) -> bytes:
    code = instruction.decoded.code
    if instruction.target is not None:
        goal = labels.get(instruction.target)
        if goal is None:
            raise WriteError(kernel.name, f"`{instruction.text}` goes to a label that does not exist")
        return _branch(kernel, instruction, goal - place - len(code)) + code[2:]
    reference = instruction.reference
    if reference is None or reference.open:
        return code
    getpc = places.get(reference.getpc)
    if getpc is None:
        raise WriteError(kernel.name, f"`{instruction.text}` refers to a s_getpc_b64 that was deleted")
    literal = reference_literal(reference, getpc + kernel.by_id[reference.getpc].size)
    return code[:-_LITERAL_SIZE] + literal.to_bytes(_LITERAL_SIZE, "little")


def _branch(kernel: Kernel, instruction: Instruction, distance: int) -> bytes:
    dwords = distance // _DWORD
    if distance % _DWORD or not _LEAST <= dwords <= _MOST:
        words = f"`{instruction.text}` is {distance} bytes from its label, farther than a branch reaches"
        raise WriteError(kernel.name, words)
    return dwords.to_bytes(2, "little", signed=True)


def tied_to_its_place(kernel: Kernel) -> Instruction | None:
    """An instruction that is right only where it stands.

    That is a branch whose goal is no place that is known, or a read of the program counter of which it is
    not known what is added to it.
    """
    followed = {each.reference.getpc for each in kernel.instructions if each.reference is not None}
    for instruction in kernel.instructions:
        stray = instruction.target is None and branch_distance(instruction.decoded) is not None
        if stray or (instruction.mnemonic in PC_READS and instruction.id not in followed):
            return instruction
    return None
