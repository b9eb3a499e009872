"""Mutants of a kernel: one wait weakened in one counter, or left out."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from asmevo.analysis.events import wait_values
from asmevo.program.codeobject import CodeObject
from asmevo.program.decode import decode_one
from asmevo.program.kernel import Block, Kernel
from asmevo.program.reading import read_kernels


class Mutation(Struct, frozen=True):
    """`value` is what the wait now says of the counter; None: nothing."""

    wait: int
    counter: str
    before: int
    value: int | None


def kernels_of(file: Path) -> tuple[Kernel, ...]:
    return read_kernels(CodeObject(file.read_bytes(), file.name))


def mutations_of(kernel: Kernel, chance: random.Random) -> Iterator[Mutation]:
    """For each counter of each wait: once without it, once with a value one to four higher."""
    for instruction in kernel.instructions:
        if "wait" not in instruction.mnemonic:
            continue
        for counter, value in (wait_values(instruction.decoded, kernel.target) or {}).items():
            yield Mutation(instruction.id, counter, value, None)
            higher = value + chance.randint(1, 4)
            if higher < kernel.target.wait.counters[counter].maximum.value:
                yield Mutation(instruction.id, counter, value, higher)


def mutated(kernel: Kernel, mutation: Mutation) -> Kernel:
    """The kernel with the mutation; only the block concerned is new."""
    blocks = tuple(
        block
        if all(each.id != mutation.wait for each in block.instructions)
        else Block(block.index, block.labels, _weakened(kernel, block, mutation))
        for block in kernel.blocks
    )
    return kernel.with_blocks(blocks)


def _weakened(kernel: Kernel, block: Block, mutation: Mutation):
    result = []
    for instruction in block.instructions:
        if instruction.id != mutation.wait:
            result.append(instruction)
            continue
        waits = dict(wait_values(instruction.decoded, kernel.target) or {})
        del waits[mutation.counter]
        if mutation.value is not None:
            waits[mutation.counter] = mutation.value
        if waits:
            word = kernel.target.encode_wait(waits, instruction.mnemonic)
            code = word.to_bytes(2, "little") + instruction.decoded.code[2:]
            result.append(replace(instruction, decoded=decode_one(code, kernel.context)))
    return tuple(result)
