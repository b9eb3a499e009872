"""Kernels for tests: from a few lines of assembly, and the compiled ones under tests/data."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from asmevo.program.codeobject import CodeObject
from asmevo.program.kernel import Block, Kernel
from asmevo.program.reading import read_kernels
from asmevo.toolchain import Processor, toolchain

COMPILED = Path(__file__).parent.parent / "data" / "kernels"


@cache
def written(text: str, gpu: str = "gfx942", features: str = "") -> Kernel:
    """A function with this code; blocks start at its labels and behind its branches."""
    source = f".text\n.globl f\n.type f,@function\nf:\n{text}\n"
    return read_kernels(CodeObject(toolchain().assemble(source, Processor(gpu, features)), "test.o"))[0]


def block_of(text: str, gpu: str = "gfx942") -> Block:
    """Straight code as one block."""
    kernel = written(text, gpu)
    assert len(kernel.blocks) == 1
    return kernel.blocks[0]


@cache
def compiled_kernels() -> tuple[Kernel, ...]:
    """All kernels and functions of the compiled objects."""
    return tuple(
        kernel
        for path in sorted(COMPILED.glob("*/*.hsaco"))
        for kernel in read_kernels(CodeObject(path.read_bytes(), path.name))
    )
