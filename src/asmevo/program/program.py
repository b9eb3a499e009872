"""A program: one input file, its kernels, and everything else of it kept byte for byte."""

from __future__ import annotations

import fnmatch
import hashlib
from functools import cached_property

from msgspec import Struct

from asmevo.program.codeobject import CodeObject
from asmevo.program.errors import KernelNotFoundError
from asmevo.program.kernel import Kernel
from asmevo.program.source import SourceText
from asmevo.target import Target


class Program(Struct, frozen=True, eq=False, dict=True):
    """What was read.

    `data` is the file as it came. `image` is the code object that it is, that its bundle holds, or that its
    text assembles and links to.
    `source` is the text with the line of every instruction, for assembly files only. `notes` are
    sentences about what was accepted in spite of something, e.g. a renamed target.
    """

    file: str
    data: bytes
    image: CodeObject
    kernels: tuple[Kernel, ...]
    source: SourceText | None
    notes: tuple[str, ...] = ()

    @property
    def target(self) -> Target:
        """The GPU the program is for."""
        return self.kernels[0].target

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the file, as patches name their base."""
        return hashlib.sha256(self.data).hexdigest()

    def select(self, pattern: str | None = None) -> tuple[Kernel, ...]:
        """Kernels whose name matches a glob pattern; without one all that are launch entries.

        Raises KernelNotFoundError, which lists the names that there are.
        """
        entries = tuple(kernel for kernel in self.kernels if kernel.is_entry) or self.kernels
        if pattern is None:
            return entries
        found = tuple(kernel for kernel in self.kernels if fnmatch.fnmatchcase(kernel.name, pattern))
        if not found:
            names = ", ".join(kernel.name for kernel in entries)
            raise KernelNotFoundError(self.file, f"no kernel matches `{pattern}`; there are: {names}")
        return found

    def only(self, pattern: str | None = None) -> Kernel:
        """The one kernel that `select` finds. Raises KernelNotFoundError when there are more."""
        found = self.select(pattern)
        if len(found) != 1:
            names = ", ".join(kernel.name for kernel in found)
            raise KernelNotFoundError(self.file, f"choose one kernel with --kernel; there are: {names}")
        return found[0]

    def kernel(self, name: str) -> Kernel:
        """The kernel of exactly this name. Raises KernelNotFoundError."""
        for kernel in self.kernels:
            if kernel.name == name:
                return kernel
        raise KernelNotFoundError(self.file, f"no kernel is called `{name}`")
