"""What can go wrong at the door to LLVM, each with a place and LLVM's own words."""

from __future__ import annotations

from msgspec import Struct


class ToolchainError(Exception):
    """Base of every error that the toolchain room raises."""


class ToolchainMissingError(ToolchainError):
    """A tool that the request needs is not installed; the message says which one and how to get it."""


class Diagnostic(Struct, frozen=True):
    """One message of LLVM about a source text (line and column count from 1)."""

    file: str
    line: int
    column: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.message}"


class AssemblyError(ToolchainError):
    """LLVM refused a source text; `diagnostics` holds every complaint in source order."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...]) -> None:
        self.diagnostics = diagnostics
        more = f" (and {len(diagnostics) - 1} more)" if len(diagnostics) > 1 else ""
        super().__init__(f"{diagnostics[0]}{more}")


class CompilationError(ToolchainError):
    """A compiler refused its input; the message is the compiler's first error line."""


class LinkError(ToolchainError):
    """A relocatable object cannot be made into a code object; the message names symbol or relocation."""
