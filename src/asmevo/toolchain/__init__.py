"""The only door to LLVM: assemble, disassemble, link, compile.

`toolchain()` answers with the library in this process, or with the external tools of the directory
that the environment variable ASMEVO_LLVM names.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

from asmevo.toolchain.base import TRIPLE, DecodedWord, Processor, Toolchain
from asmevo.toolchain.errors import (
    AssemblyError,
    CompilationError,
    Diagnostic,
    LinkError,
    ToolchainError,
    ToolchainMissingError,
)

__all__ = [
    "TRIPLE",
    "AssemblyError",
    "CompilationError",
    "DecodedWord",
    "Diagnostic",
    "LinkError",
    "Processor",
    "Toolchain",
    "ToolchainError",
    "ToolchainMissingError",
    "toolchain",
]


@functools.cache
def _toolchain_in(directory: str) -> Toolchain:
    if directory:
        from asmevo.toolchain.external import ExternalToolchain

        return ExternalToolchain(Path(directory))
    from asmevo.toolchain.library import LibraryToolchain

    return LibraryToolchain()


def toolchain() -> Toolchain:
    """The toolchain in force; reads ASMEVO_LLVM at every call and keeps one object for each value."""
    return _toolchain_in(os.environ.get("ASMEVO_LLVM", ""))
