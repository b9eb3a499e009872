"""Artifacts: whole files kept beside the ledger under the SHA-256 of their content.

An artifact is written to a temporary file, synced, and renamed to its name; then its directory is synced.
So a name that exists holds the whole content, whoever is killed when, and two writers of the same content
cannot disturb each other. A record that names an artifact is written after it: records never point at nothing.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from asmevo.program import ProgramError, write_file_atomically


class LedgerError(ProgramError):
    """The ledger cannot be read or written, or does not hold what was asked for."""


class BrokenLedgerError(LedgerError):
    """Something in the ledger is not what was once recorded."""


class Artifacts:
    """Files by content under one directory; `root` need not exist before the first is kept."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, digest: str) -> Path:
        """Where the artifact with this SHA-256 (hexadecimal) lies."""
        return self.root / digest[:2] / digest

    def keep(self, data: bytes) -> str:
        """Stores `data`, durably, and returns its SHA-256. Raises OSError."""
        digest = hashlib.sha256(data).hexdigest()
        path = self.path(digest)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file_atomically(path, data)
            _sync_directory(path.parent)
        return digest

    def read(self, digest: str) -> bytes:
        """The content. Raises BrokenLedgerError when it is missing or has changed."""
        path = self.path(digest)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise BrokenLedgerError(str(path), f"the artifact cannot be read ({error.strerror})") from error
        if hashlib.sha256(data).hexdigest() != digest:
            raise BrokenLedgerError(str(path), "the artifact's content has changed: its SHA-256 is not its name")
        return data


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
