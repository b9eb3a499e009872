"""The compilers' own outputs that the tests read; see tests/data/compiled_programs.README.md."""

from __future__ import annotations

import functools
import tarfile
from pathlib import Path

_ARCHIVE = Path(__file__).parent.parent / "data" / "compiled_programs.tar.xz"


@functools.cache
def all_files() -> dict[str, bytes]:
    """Content by path in the archive."""
    with tarfile.open(_ARCHIVE) as archive:
        members = [member for member in archive.getmembers() if member.isfile()]
        return {member.name: archive.extractfile(member).read() for member in members}  # type: ignore[union-attr]


def names(suffix: str, every: int = 1) -> list[str]:
    """The paths with that ending, or every so many-th of them."""
    return sorted(name for name in all_files() if name.endswith(suffix))[::every]
