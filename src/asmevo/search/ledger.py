"""The ledger: a directory in which every optimisation leaves what it saw and decided.

    <root>/<run>/run.json          what was asked: file, hash, kernel, target, seed, level, versions
    <root>/<run>/base.bin          the input, byte for byte, so that a run can be replayed or rolled back
    <root>/<run>/candidates.jsonl  one line a candidate: origin, edits, every verdict, the estimate
    <root>/<run>/patch.json        what was offered

Lines are appended as they happen, so that a run that is cut off keeps what it had. A run's id is the
hash of what was asked plus a running number.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from asmevo.gates.pipeline import Judgement
from asmevo.program import write_file_atomically

DEFAULT_ROOT = Path(".asmevo") / "runs"


class Ledger:
    """Opens runs under one directory, which is made when the first run needs it."""

    def __init__(self, root: Path = DEFAULT_ROOT) -> None:
        self.root = root

    def runs(self) -> list[str]:
        """Ids of the runs that are there, sorted."""
        if not self.root.is_dir():
            return []
        return sorted(entry.name for entry in self.root.iterdir() if (entry / "run.json").is_file())

    def open_run(self, request: dict[str, Any], base: bytes) -> LedgerRun:
        """Starts a run: writes what was asked and the input."""
        key = hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()[:12]
        number = 1
        while (self.root / f"{key}-{number}").exists():
            number += 1
        directory = self.root / f"{key}-{number}"
        directory.mkdir(parents=True)
        write_file_atomically(directory / "base.bin", base)
        write_file_atomically(directory / "run.json", (json.dumps(request, indent=1) + "\n").encode())
        return LedgerRun(directory)


class LedgerRun:
    """One run being recorded; a context manager, so that the file is closed however the run ends."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.id = directory.name
        self._file: TextIO = (directory / "candidates.jsonl").open("a", encoding="utf-8")

    def __enter__(self) -> LedgerRun:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def record(self, judgement: Judgement, cycles: float | None) -> None:
        """One line for a candidate; `cycles` is the model's estimate where one was made."""
        line = {
            "origin": judgement.candidate.script.origin,
            "script": judgement.candidate.script.model_dump(mode="json"),
            "kernel_hash": judgement.candidate.kernel.hash if judgement.accepted else None,
            "verdicts": [verdict.to_dict() for verdict in judgement.verdicts],
            "cycles": cycles,
        }
        self._file.write(json.dumps(line) + "\n")

    def finish(self, patch: str) -> None:
        """Stores the patch that was offered."""
        write_file_atomically(self.directory / "patch.json", patch.encode())
