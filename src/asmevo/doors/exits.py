"""Exit codes of every command, and the one place where errors become sentences."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

GOOD = 0
DEFINITE_NO = 1
BAD_INPUT = 2
UNDECIDED = 3


@contextmanager
def sentences() -> Iterator[None]:
    """Turns the project's own errors into one sentence on standard error and exit code 2.

    Anything else is a defect of the project and keeps its traceback.
    """
    import typer

    from asmevo.program import EditError, ProgramError
    from asmevo.target import UnknownTargetError
    from asmevo.toolchain import ToolchainError

    try:
        yield
    except (ProgramError, ToolchainError, UnknownTargetError, EditError) as error:
        print(f"asmevo: {error}", file=sys.stderr)
        raise typer.Exit(BAD_INPUT) from None
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        print(f"asmevo: {place}{error.strerror or error}", file=sys.stderr)
        raise typer.Exit(BAD_INPUT) from None
