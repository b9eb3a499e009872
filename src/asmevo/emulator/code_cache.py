"""Machine code on disk, found by the names of the functions in it.

One SQLite file holds objects (an object file with several functions) and the names that each of them answers to.
SQLite's locking makes it safe for several processes; whoever cannot read or write it in time goes without. Names hash
everything that code depends on, this package's sources included, so nothing is ever out of date: what no longer can
be asked for ages out. When the objects together exceed the limit, those that were used longest ago go first.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from msgspec import Struct

_LIMIT = 256 << 20  # bytes of objects
_KEPT = 0.75  # of the limit, once something has to go
_FRESH = 3600.0  # seconds in which a further use is not written down
_PATIENCE = 2.0  # seconds to wait for another process
_FORMAT = 2
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS object (
    id INTEGER PRIMARY KEY, code BLOB NOT NULL, needs TEXT NOT NULL, size INTEGER NOT NULL, used REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS function (
    name TEXT PRIMARY KEY, object INTEGER NOT NULL REFERENCES object(id) ON DELETE CASCADE
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS function_of_object ON function(object);
PRAGMA user_version = {_FORMAT};
"""
_AT_ONCE = 500  # names in one question


def cache_directory() -> Path:
    """Where compiled code is kept; ASMEVO_CACHE or the user's cache directory."""
    chosen = os.environ.get("ASMEVO_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "asmevo"


class Usage(Struct, frozen=True):
    """What the cache holds; sizes in bytes."""

    file: Path
    functions: int
    size: int
    limit: int


class CachedObject(Struct, frozen=True):
    """An object, those of its functions that were asked for, and the symbols it needs from elsewhere."""

    code: bytes
    names: list[str]
    needs: list[str]


class CodeCache:
    """Never raises for what is wrong with the disk: then nothing is found, and nothing kept."""

    def __init__(self, directory: Path | None = None, limit: int = _LIMIT) -> None:
        self.file = (directory or cache_directory()) / f"code-{_FORMAT}.sqlite"
        self.limit = limit

    def objects(self, names: Sequence[str]) -> list[CachedObject]:
        """Objects that together have as many of the functions as the cache knows, with the asked names of each."""
        found: dict[int, list[str]] = {}
        try:
            if not self.file.exists():
                return []
            with self._open() as database:
                for start in range(0, len(names), _AT_ONCE):
                    part = names[start : start + _AT_ONCE]
                    marks = ",".join("?" * len(part))
                    query = f"SELECT name, object FROM function WHERE name IN ({marks})"
                    for name, number in database.execute(query, part):
                        found.setdefault(number, []).append(name)
                return [self._used(database, number, sorted(asked)) for number, asked in sorted(found.items())]
        except (OSError, sqlite3.Error, LookupError):
            return []

    def keep(self, code: bytes, names: Sequence[str], needs: Sequence[str] = ()) -> None:
        """Puts an object in; makes room if need be. Names that are known already keep their object."""
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with self._open() as database:
                database.executescript(_SCHEMA)
                row = database.execute(
                    "INSERT INTO object(code, needs, size, used) VALUES (?, ?, ?, ?)",
                    (code, " ".join(needs), len(code), time.time()),
                )
                database.executemany(
                    "INSERT OR IGNORE INTO function VALUES (?, ?)", [(name, row.lastrowid) for name in names]
                )
                self._make_room(database)
        except (OSError, sqlite3.Error):
            return

    def usage(self) -> Usage | None:
        """What is kept; None where there is no cache that can be read."""
        try:
            if not self.file.exists():
                return None
            with self._open() as database:
                size = database.execute("SELECT COALESCE(SUM(size), 0) FROM object").fetchone()[0]
                functions = database.execute("SELECT COUNT(*) FROM function").fetchone()[0]
        except (OSError, sqlite3.Error):
            return None
        return Usage(self.file, functions, size, self.limit)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A connection for one transaction; none outlives it, since processes fork."""
        with closing(sqlite3.connect(self.file, timeout=_PATIENCE)) as database:
            database.execute("PRAGMA foreign_keys = ON")
            database.execute("PRAGMA synchronous = OFF")  # a lost cache is no loss
            with database:
                yield database

    def _used(self, database: sqlite3.Connection, number: int, asked: list[str]) -> CachedObject:
        row = database.execute("SELECT code, used, needs FROM object WHERE id = ?", (number,)).fetchone()
        if row is None:
            raise LookupError(number)
        now = time.time()
        if now - row[1] > _FRESH:
            database.execute("UPDATE object SET used = ? WHERE id = ?", (now, number))
        return CachedObject(bytes(row[0]), asked, row[2].split())

    def _make_room(self, database: sqlite3.Connection) -> None:
        total = database.execute("SELECT SUM(size) FROM object").fetchone()[0]
        if total <= self.limit:
            return
        for number, size in database.execute("SELECT id, size FROM object ORDER BY used, id").fetchall():
            if total <= _KEPT * self.limit:
                break
            database.execute("DELETE FROM object WHERE id = ?", (number,))
            total -= size
