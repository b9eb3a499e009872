"""All code of a program as one sequence, so that calls and jumps are numbers like branches are.

A place is an instruction's number in that sequence. Guest addresses are the image's own plus the load base.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from asmevo.program.decode import DecodingContext, decode_one
from asmevo.program.instruction import Decoded, Instruction
from asmevo.program.kernel import Kernel
from asmevo.program.program import Program
from asmevo.semantics.expression import Meaning

MeaningOf = Callable[[Decoded, DecodingContext], Meaning]

NOWHERE = -1


class Step(Struct, frozen=True):
    """One instruction in its place. `behind` is the guest address of the next instruction; `branch` the place its
    label stands for, or NOWHERE."""

    place: int
    instruction: Instruction
    kernel: Kernel
    meaning: Meaning
    behind: int
    branch: int


class Code:
    """The steps of a program's kernels and functions, by place and by guest address."""

    def __init__(self, program: Program, kernel: Kernel, load_base: int, meaning_of: MeaningOf) -> None:
        """`kernel` stands for the one of its name in the program."""
        self.load_base = load_base
        kernels = [kernel if each.name == kernel.name else each for each in program.kernels]
        starts: dict[str, int] = {}
        labels: dict[tuple[str, str], int] = {}
        entries: list[tuple[Instruction, Kernel, int]] = []
        for each in kernels:
            starts[each.name] = len(entries)
            address = each.address
            behind_getpc = _ends_by_id(each)
            for block in each.blocks:
                for label in block.labels:
                    labels[each.name, label] = len(entries)
                for instruction in block.instructions:
                    address += instruction.size
                    entries.append((_with_reference(instruction, each, behind_getpc), each, address))
        self.place_of_address = {
            load_base + address - instruction.size: place for place, (instruction, _, address) in enumerate(entries)
        }
        self.steps = [
            Step(
                place,
                instruction,
                each,
                meaning_of(instruction.decoded, each.context),
                load_base + address,
                _branch_place(instruction, each, labels, starts),
            )
            for place, (instruction, each, address) in enumerate(entries)
        ]

    def place_at(self, address: int) -> int:
        """The place of a guest address, NOWHERE when no instruction starts there."""
        return self.place_of_address.get(address, NOWHERE)


def _ends_by_id(kernel: Kernel) -> dict[int, int]:
    """Image address behind each instruction, by id."""
    ends, address = {}, kernel.address
    for instruction in kernel.instructions:
        address += instruction.size
        ends[instruction.id] = address
    return ends


def _with_reference(instruction: Instruction, kernel: Kernel, ends: dict[int, int]) -> Instruction:
    """A literal that counts from a `s_getpc`, set for the place where that stands in an edited kernel."""
    reference = instruction.reference
    if reference is None or reference.open or reference.getpc not in ends:
        return instruction
    difference = (reference.address - ends[reference.getpc]) & 0xFFFFFFFF_FFFFFFFF
    literal = (difference >> 32 if reference.high else difference & 0xFFFFFFFF).to_bytes(4, "little")
    decoded = instruction.decoded
    if decoded.code[-4:] == literal:
        return instruction
    return replace(instruction, decoded=decode_one(decoded.code[:-4] + literal, kernel.context))


def _branch_place(
    instruction: Instruction, kernel: Kernel, labels: dict[tuple[str, str], int], starts: dict[str, int]
) -> int:
    if instruction.target is None:
        return NOWHERE
    return labels.get((kernel.name, instruction.target), starts.get(instruction.target, NOWHERE))
