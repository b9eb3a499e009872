"""Windows of compiled code, and mutants of them: one instruction with some bits of its encoding turned over.

A turned bit is another register, number, modifier or opcode, whatever stands there; it has no favourites. Only
mutants that decode to one known instruction of the same size that stays in its place in the flow are given back.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from asmevo.program.decode import decode_one
from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Block, Kernel
from asmevo.program.reading import PC_READS

_TRIES = 40
_BITS_TURNED = (1, 1, 1, 2)
_ELSEWHERE = frozenset({"terminator", "branch", "call", "return", "unknown", "side_effects"})


class Mutant(Struct, frozen=True):
    """`text` and `was` are the instruction after and before."""

    kernel: Kernel
    was: str
    text: str


def stays(instruction: Instruction) -> bool:
    """Whether it is one step in straight code."""
    tied = instruction.reference is not None or instruction.mnemonic in PC_READS
    return instruction.flags.isdisjoint(_ELSEWHERE) and not tied


def windows(kernels: tuple[Kernel, ...], length: int, chance: random.Random) -> Iterator[Kernel]:
    """Endless: stretches of straight code as functions of one block, whose registers are all seen at the end."""
    while True:
        kernel = chance.choice(kernels)
        code = [each for each in chance.choice(kernel.blocks).instructions if stays(each)]
        if len(code) < 2:
            continue
        start = chance.randrange(max(1, len(code) - length))
        block = Block(0, (), tuple(code[start : start + length]))
        yield replace(kernel, blocks=(block,), descriptor=None, metadata=None)


def mutant_of(window: Kernel, chance: random.Random) -> Mutant | None:
    """One mutant; None where none of some tries decodes."""
    (block,) = window.blocks
    for _ in range(_TRIES):
        place = chance.randrange(len(block.instructions))
        before = block.instructions[place]
        number = int.from_bytes(before.decoded.code, "little")
        for _ in range(chance.choice(_BITS_TURNED)):
            number ^= 1 << chance.randrange(8 * before.size)
        try:
            decoded = decode_one(number.to_bytes(before.size, "little"), window.context)
        except ValueError:
            continue
        after = replace(before, decoded=decoded)
        if decoded.exact and stays(after) and decoded.text != before.text:
            code = (*block.instructions[:place], after, *block.instructions[place + 1 :])
            kernel = window.with_blocks((Block(0, (), code),))
            return Mutant(kernel, before.text, decoded.text)
    return None
