"""The constraints for a kernel: the built-in set of its target, and over it the files that a user names."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from msgspec.structs import replace

from asmevo.checks.constraints.graph import Compiled, compile_set
from asmevo.checks.constraints.reading import (
    ConstraintSet,
    built_in_set,
    layered,
    read_constraints,
    refuse_bad_version,
)


def constraints_for(target: str, files: tuple[str, ...] = (), rocm: str | None = None) -> Compiled:
    """The graph for a target. Raises DocumentError for a file or a version that cannot be read.

    A file that is not meant for the target is left out, with a note.
    """
    return _compiled(target, tuple(_read_once(file, _stamp(file)) for file in files), rocm)


def check_constraint_files(files: tuple[str, ...], rocm: str | None = None) -> None:
    """Reads files and version for the sake of their errors. Raises DocumentError."""
    for file in files:
        read_constraints(file)
    refuse_bad_version(rocm)


@lru_cache(maxsize=1 << 6)
def _read_once(file: str, stamp: tuple[int, int]) -> ConstraintSet:
    """`stamp` tells a file from what it was before somebody changed it."""
    return read_constraints(file)


def _stamp(file: str) -> tuple[int, int]:
    try:
        found = Path(file).stat()
    except (OSError, ValueError):
        return (0, 0)
    return (found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=1 << 6)
def _compiled(target: str, files: tuple[ConstraintSet, ...], rocm: str | None) -> Compiled:
    base = built_in_set(target, rocm)
    meant = [each for each in files if each.holds_for(target)]
    left_out = tuple(
        f"{each.file}: not for {target} but for {', '.join(each.targets)}, left out"
        for each in files
        if each not in meant
    )
    whole = layered([base, *meant])
    return compile_set(replace(whole, notes=(*whole.notes, *left_out)), target)
