"""What can be wrong with an input: one clear sentence with file and place, each kind a named exception."""

from __future__ import annotations


class ProgramError(Exception):
    """Base of every error about a program handed in; `str()` is one sentence with the file in front."""

    def __init__(self, file: str, words: str, line: int | None = None) -> None:
        self.file = file
        self.words = words
        self.line = line
        place = f"{file}:{line}" if line is not None else file
        super().__init__(f"{place}: {words}")


class NotAProgramError(ProgramError):
    """The file is no AMDGPU program: another format, another machine, empty, or cut off."""


class UnreadableProgramError(ProgramError):
    """The file is an AMDGPU program, but a part of it cannot be read; the sentence says which."""


class KernelNotFoundError(ProgramError):
    """No kernel of the program matches the name that was asked for."""


class EditError(Exception):
    """An edit script does not fit the kernel it is applied to."""


class WriteError(ProgramError):
    """A kernel cannot be put back into its program."""
