"""The contract of the toolchain door: what the rest of the project may ask of LLVM.

Two implementations answer it, the library in this process (`library.py`) and external tools
(`external.py`). Both take and give bytes and text only, so nothing of LLVM leaks into other rooms.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from msgspec import Struct

TRIPLE = "amdgcn-amd-amdhsa"


class DecodedWord(NamedTuple):
    """One step of a linear disassembly: `size` bytes at `offset`; `text` is None where nothing decodes.

    `exact` is False where the text would assemble to other bytes (see decoding.py).
    """

    offset: int
    size: int
    text: str | None
    exact: bool = True


class Processor(Struct, frozen=True):
    """What LLVM must be told of the chip: the processor name and LLVM's feature string."""

    cpu: str
    features: str = ""


class Toolchain(Protocol):
    """Assembles, disassembles, links and compiles. Implementations are safe to share within a thread."""

    @property
    def version(self) -> str:
        """LLVM's version, as the tools print it."""
        ...

    def assemble(self, source: str, processor: Processor, file: str = "<source>") -> bytes:
        """Assembly text to a relocatable ELF object. Raises AssemblyError with every bad place."""
        ...

    def disassemble(self, code: bytes, processor: Processor, address: int = 0) -> list[DecodedWord]:
        """Machine code to text, linear, from the first byte on. Where nothing decodes: steps of 4 bytes."""
        ...

    def link(self, relocatable: bytes, *, addresses: Mapping[str, int] | None = None) -> bytes:
        """One relocatable object to a loadable code object. Raises LinkError.

        `addresses` pins sections of the result, by name, to virtual addresses.
        """
        ...

    def compile_ir(self, ir: str, processor: Processor, file: str = "<ir>") -> bytes:
        """LLVM IR text to a relocatable object. Raises CompilationError."""
        ...

    def compile_opencl(self, source: str, processor: Processor, file: str = "<opencl>") -> bytes:
        """OpenCL C to a relocatable object, where a clang is installed.

        Raises ToolchainMissingError, CompilationError.
        """
        ...
