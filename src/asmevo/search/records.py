"""The chain of records: one SQLite table in which every row carries the hash of the row before it.

    hash(n) = SHA-256(hash(n-1), n, kind, run, name, body)

A changed, removed or reordered row breaks the chain at that row; a row `head` holds the last number and hash,
so that rows missing at the end are noticed too. Whoever may rewrite the whole file can make a new chain: against
that, note the head elsewhere; a head once noted must be the hash of some record for ever after.

Writers take SQLite's write lock before they read the head, so that two processes extend one chain in
turn. The database is in WAL mode: a commit is one append, a killed process leaves whole transactions only, and
readers never wait. A commit survives the death of the process at once; with `durable` also that of the machine.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from asmevo.search.artifacts import BrokenLedgerError, LedgerError

FIRST = "0" * 64
_FORMAT = 1
_LOCK_SECONDS = 60.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS records (
  number INTEGER PRIMARY KEY, kind TEXT NOT NULL, run TEXT NOT NULL, name TEXT NOT NULL UNIQUE,
  body TEXT NOT NULL, hash TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS by_kind ON records (kind, number);
CREATE INDEX IF NOT EXISTS by_run ON records (run, number);
CREATE TABLE IF NOT EXISTS head (one INTEGER PRIMARY KEY CHECK (one = 1), number INTEGER NOT NULL, hash TEXT NOT NULL);
"""


class Entry(Struct, frozen=True):
    """What is to be recorded: `name` is unique in the ledger, `body` is JSON text."""

    kind: str
    run: str
    name: str
    body: str


class Record(Struct, frozen=True):
    """A row as it is stored. `hash` is what the row claims; `chained` computes what it should be."""

    number: int
    entry: Entry
    hash: str

    def data(self) -> dict[str, Any]:
        """The body as JSON data. Raises BrokenLedgerError."""
        try:
            value = json.loads(self.entry.body)
        except ValueError as error:
            raise BrokenLedgerError(self.entry.name, f"record {self.number} is no JSON") from error
        if not isinstance(value, dict):
            raise BrokenLedgerError(self.entry.name, f"record {self.number} is no JSON object")
        return value


def chained(previous: str, number: int, entry: Entry) -> str:
    """The hash of record `number`; parts are framed by JSON, so that none can run into the next."""
    parts = [previous, number, entry.kind, entry.run, entry.name, entry.body]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


class Records:
    """The table. Made by the first write; a reader of a ledger that is not there gets LedgerError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = None

    def close(self) -> None:
        """Closes the database; it opens again when it is needed."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def append(self, entries: Sequence[Entry], durable: bool = False) -> list[Record]:
        """Appends in one transaction: all or none."""
        with self.writing(durable) as writer:
            return [writer.add(entry) for entry in entries]

    @contextmanager
    def writing(self, durable: bool = False) -> Iterator[Writer]:
        """One transaction under the write lock. Raises LedgerError."""
        with self._errors():
            connection = self._open(create=True)
            connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
            connection.execute("BEGIN IMMEDIATE")
            try:
                writer = Writer(connection)
                yield writer
                writer.finish()
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def read(self, where: str = "", values: Sequence[Any] = ()) -> Iterator[Record]:
        """Rows in order; `where` is the end of a statement, with `values` for its marks. Raises LedgerError."""
        with self._errors():
            statement = f"SELECT number, kind, run, name, body, hash FROM records {where} ORDER BY number"
            for number, kind, run, name, body, hash_ in self._open(create=False).execute(statement, tuple(values)):
                yield Record(number, Entry(kind, run, name, body), hash_)

    def head(self) -> tuple[int, str]:
        """Number and hash of the last record as the head row has them."""
        with self._errors():
            return _head(self._open(create=False))

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """All reads inside see the ledger as it is now, whoever writes meanwhile."""
        with self._errors():
            connection = self._open(create=False)
            connection.execute("BEGIN")
            try:
                yield
            finally:
                connection.execute("ROLLBACK")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise LedgerError(str(self.path), f"the ledger's database does not answer: {error}") from error

    def _open(self, create: bool) -> sqlite3.Connection:
        if self._connection is None:
            if not create and not self.path.is_file():
                raise LedgerError(str(self.path), "there is no ledger; `asmevo optimize` makes one")
            if create:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = _connect(self.path)
        return self._connection


class Writer:
    """Extends the chain inside one transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._number, self._hash = _head(connection)

    def add(self, entry: Entry) -> Record:
        """One more record at the end."""
        self._number += 1
        self._hash = chained(self._hash, self._number, entry)
        row = (self._number, entry.kind, entry.run, entry.name, entry.body, self._hash)
        self._connection.execute("INSERT INTO records VALUES (?, ?, ?, ?, ?, ?)", row)
        return Record(self._number, entry, self._hash)

    def taken(self, names: Iterable[str]) -> str:
        """The first of `names` that no record has yet."""
        for name in names:
            if self._connection.execute("SELECT 1 FROM records WHERE name = ?", (name,)).fetchone() is None:
                return name
        raise ValueError("every name is taken")

    def finish(self) -> None:
        """Writes the head."""
        self._connection.execute("INSERT OR REPLACE INTO head VALUES (1, ?, ?)", (self._number, self._hash))


def _head(connection: sqlite3.Connection) -> tuple[int, str]:
    row = connection.execute("SELECT number, hash FROM head").fetchone()
    return (row[0], row[1]) if row is not None else (0, FIRST)


def _connect(path: Path) -> sqlite3.Connection:
    """Opens the database; changing to WAL does not wait for locks by itself, so that is tried until it works."""
    connection = sqlite3.connect(path, timeout=_LOCK_SECONDS, isolation_level=None)
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            _prepare(connection, path)
            return connection
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                connection.close()
                raise
            time.sleep(0.01)
        except BaseException:
            connection.close()
            raise


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    found = connection.execute("PRAGMA user_version").fetchone()[0]
    if found not in (0, _FORMAT):
        raise LedgerError(str(path), f"the ledger has format {found}, this version reads {_FORMAT}")
    if found == 0:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version={_FORMAT}; COMMIT;")
