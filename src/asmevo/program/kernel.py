"""Kernels as immutable sequences of basic blocks, and the program they belong to.

A block starts at a label or behind a branch. Labels belong to blocks, not to addresses, so an edit
moves instructions and never has to touch a branch; addresses exist again only when a kernel is written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache
from math import prod
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from asmevo.program.decode import DecodingContext
from asmevo.program.descriptor import KernelDescriptor
from asmevo.program.instruction import Instruction
from asmevo.target import Target


class Block(Struct, frozen=True):
    """Instructions with one entry, at the front, and one exit, at the end."""

    index: int
    labels: tuple[str, ...]
    instructions: tuple[Instruction, ...]


@lru_cache(maxsize=1 << 12)
def code_bytes(instructions: tuple[Instruction, ...]) -> int:
    """Bytes of a stretch of code; candidates share most stretches with their parent."""
    return sum(len(instruction.decoded.code) for instruction in instructions)


@lru_cache(maxsize=1 << 12)
def flags_in(instructions: tuple[Instruction, ...]) -> frozenset[str]:
    """The opcode flags that some instruction of a stretch has."""
    return frozenset().union(*(instruction.flags for instruction in instructions))


class Kernel(Struct, frozen=True, eq=False, dict=True):
    """One kernel, or one device function (then `descriptor` and `metadata` are None).

    `address` is the virtual address of the first instruction in the image it was read from (bytes; in
    a relocatable object the offset in its section), `size` the bytes of code there. `metadata` is the kernel's
    map in the code object's metadata note, as it stands there. `xnack` is whether the code object is for
    wavefronts whose memory accesses may be replayed (XNACK) or that are sure not to be; None if it is for
    both, or says nothing. `whole_waves` is whether all lanes of all waves are on where a launch starts, for every
    launch: since the metadata rules out any other (`metadata_asks_for_whole_waves`), or because the user says so.
    `split` is whether it runs in threadgroup split mode: by its descriptor, a function by those of all kernels there.
    """

    name: str
    target: Target
    wave_size: int
    blocks: tuple[Block, ...]
    address: int
    size: int
    descriptor: KernelDescriptor | None = None
    metadata: dict[str, Any] | None = None
    xnack: bool | None = None
    whole_waves: bool = False
    split: bool = False

    @property
    def context(self) -> DecodingContext:
        """What decoding an instruction of this kernel depends on."""
        return DecodingContext(self.target, self.wave_size, self.split)

    @property
    def is_entry(self) -> bool:
        """Whether the launch starts here: a kernel, not a function that kernels call."""
        return self.descriptor is not None

    @cached_property
    def instructions(self) -> tuple[Instruction, ...]:
        """All instructions in the order of the code."""
        return tuple(instruction for block in self.blocks for instruction in block.instructions)

    @cached_property
    def by_id(self) -> dict[int, Instruction]:
        """Instructions by their id."""
        return {instruction.id: instruction for instruction in self.instructions}

    @cached_property
    def block_of_label(self) -> dict[str, int]:
        """Block index by label."""
        return {label: block.index for block in self.blocks for label in block.labels}

    @cached_property
    def hash(self) -> str:
        """SHA-256 over the code with branches by block, so that it does not depend on where the kernel lies."""
        digest = hashlib.sha256(f"{self.target.name}/{self.wave_size}\n".encode())
        for block in self.blocks:
            digest.update(b"block\n")
            for instruction in block.instructions:
                digest.update(self._hash_part(instruction))
        return digest.hexdigest()

    def _hash_part(self, instruction: Instruction) -> bytes:
        if instruction.target is not None:
            place = self.block_of_label.get(instruction.target, instruction.target)
            return f"{instruction.mnemonic} {place}\n".encode()
        if instruction.reference is not None:
            return f"{instruction.decoded.shape} @{instruction.reference.high}\n".encode()
        return instruction.decoded.code + b"\n"

    def with_blocks(self, blocks: tuple[Block, ...]) -> Kernel:
        """The same kernel with other code."""
        return replace(self, blocks=blocks)

    def positions(self) -> Iterator[tuple[Block, int, Instruction]]:
        """(block, place in the block, instruction) over all the code."""
        for block in self.blocks:
            for place, instruction in enumerate(block.instructions):
                yield block, place, instruction

    @property
    def entry_offsets(self) -> tuple[int, ...]:
        """Where a launch may start, in bytes from the kernel's start; nowhere without a descriptor."""
        return self.descriptor.entry_offsets if self.descriptor is not None else ()

    def block_at(self, offset: int) -> int | None:
        """The block that starts so many bytes behind the kernel's start."""
        place = 0
        for block in self.blocks:
            if place == offset:
                return block.index
            place += code_bytes(block.instructions)
        return None

    @property
    def start_block(self) -> int:
        """The block that waves start with. Where arguments are preloaded it lies behind the code that loads them for
        firmware which cannot (AMDGPUUsage, "Preloaded Kernel Arguments"); that code is taken for not executed.
        """
        return self.block_at(self.entry_offsets[-1]) or 0 if self.entry_offsets else 0

    def code_size(self) -> int:
        """Bytes of code."""
        return sum(code_bytes(block.instructions) for block in self.blocks)


def metadata_asks_for_whole_waves(metadata: Mapping[str, Any], wave_size: int) -> bool:
    """Whether a launch that a kernel's note allows has nothing but whole waves.

    The note has to ask for one workgroup size, a multiple of the wave, and for whole workgroups (AMDGPUUsage, "Code
    Object Metadata": `.reqd_workgroup_size` is what a dispatch's size must be, `.uniform_work_group_size` 1 that its
    global size must be a multiple of it). A largest size rules out nothing, as any smaller one may be launched.
    """
    required = metadata.get(".reqd_workgroup_size") or (0, 0, 0)
    items = prod(map(int, required))
    return bool(items) and items % wave_size == 0 and metadata.get(".uniform_work_group_size") == 1
