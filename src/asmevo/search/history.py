"""Reading the ledger back: lists, one entry with its lineage, the check of the chain, and rollback.

Lineage goes from an entry to the original. Inside a run a candidate was made from a version that another
candidate made, or from the run's input; the input may be a program that an earlier run offered, and so on until an
input that no run made.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from asmevo.program import read_program, write_program
from asmevo.program.candidate import Candidate
from asmevo.program.edit import EditScript
from asmevo.proposers.versions import version_hash
from asmevo.search.artifacts import BrokenLedgerError, LedgerError
from asmevo.search.ledger import Ledger
from asmevo.search.records import FIRST, Record, chained


class Checked(Struct, frozen=True):
    """The whole ledger looked at: how much there is, the head, and the first thing broken, if any."""

    records: int
    artifacts: int
    head: str
    broken: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """As JSON data."""
        return asdict(self) | {"whole": self.broken is None}


class RunLine(Struct, frozen=True):
    """One run in a line; `state` is `ended` or `cut off` (or still going)."""

    id: str
    file: str
    kernel: str
    target: str
    seed: int
    candidates: int
    accepted: int
    offers: int
    state: str

    def to_dict(self) -> dict[str, Any]:
        """As JSON data."""
        return asdict(self)


def run_lines(ledger: Ledger) -> list[RunLine]:
    """All runs in the order in which they began."""
    with ledger.records.snapshot():
        return [_run_line(ledger, record) for record in ledger.records.read("WHERE kind = 'run'")]


def _run_line(ledger: Ledger, record: Record) -> RunLine:
    asked, run = record.data(), record.entry.name
    tried = ledger.candidates(run)
    kinds = [each.entry.kind for each in ledger.records.read("WHERE run = ? AND kind IN ('offer', 'end')", (run,))]
    return RunLine(
        id=run,
        file=asked["file"],
        kernel=asked["kernel"],
        target=asked["target"],
        seed=asked["seed"],
        candidates=len(tried),
        accepted=sum(body["accepted"] for body in tried),
        offers=kinds.count("offer"),
        state="ended" if "end" in kinds else "cut off",
    )


def find(ledger: Ledger, name: str) -> Record:
    """The record with this id, or with the only id that begins so. Raises LedgerError."""
    exact = list(ledger.records.read("WHERE name = ?", (name,)))
    if exact:
        return exact[0]
    begins = [each for each in ledger.records.read("WHERE kind = 'run'") if each.entry.name.startswith(name)]
    if len(begins) == 1 and name:
        return begins[0]
    words = f"{len(begins)} ids begin with {name}" if begins and name else f"there is no {name or 'empty id'}"
    raise LedgerError(str(ledger.records.path), f"{words}; `asmevo log` lists what there is")


def describe(ledger: Ledger, name: str) -> dict[str, Any]:
    """A record as JSON data: id, kind, number, hash, lineage (ids, the original first), and its body."""
    record = find(ledger, name)
    _check_own_hash(ledger, record)
    return _plain(record) | {"lineage": lineage(ledger, record)}


def _plain(record: Record) -> dict[str, Any]:
    entry = record.entry
    names = {"id": entry.name, "kind": entry.kind, "run": entry.run, "number": record.number, "hash": record.hash}
    return names | {"body": record.data()}


def export(ledger: Ledger) -> dict[str, Any]:
    """Everything but the artifacts' content, as one JSON document; hashes allow to check the chain again."""
    with ledger.records.snapshot():
        number, head = ledger.records.head()
        return {
            "schema": "asmevo.ledger/1",
            "head": {"number": number, "hash": head},
            "records": [_plain(record) | {"text": record.entry.body} for record in ledger.records.read()],
        }


def lineage(ledger: Ledger, record: Record) -> list[str]:
    """Ids from the original on, the record itself last."""
    chain = [record.entry.name]
    seen = {record.entry.name}
    while (earlier := _made_from(ledger, record)) is not None and earlier.entry.name not in seen:
        chain.append(earlier.entry.name)
        seen.add(earlier.entry.name)
        record = earlier
    return chain[::-1]


def _made_from(ledger: Ledger, record: Record) -> Record | None:
    entry, body = record.entry, record.data()
    if entry.kind == "run":
        return _first(_offers_of_program(ledger, body["artifacts"]["base"], record.number))
    if entry.kind == "offer":
        return find(ledger, body["candidate"])
    if entry.kind == "candidate":
        same = ledger.records.read(
            "WHERE run = ? AND kind = 'candidate' AND number < ? "
            "AND json_extract(body, '$.kernel_hash') = ? AND json_extract(body, '$.accepted')",
            (entry.run, record.number, body["parent"]),
        )
        return _first(same) or find(ledger, entry.run)
    return find(ledger, entry.run)


def _offers_of_program(ledger: Ledger, digest: str, before: int) -> Iterator[Record]:
    return ledger.records.read(
        "WHERE kind = 'offer' AND number < ? AND json_extract(body, '$.artifacts.program') = ?", (before, digest)
    )


def _first(records: Iterator[Record]) -> Record | None:
    return next(iter(list(records)), None)


def restore(ledger: Ledger, name: str) -> bytes:
    """The program of an id byte for byte: a run's input, an offer as it was written, a candidate written anew.

    A candidate's kernel must have the hash that was recorded when it passed the gates. Raises LedgerError for what
    never was verified, BrokenLedgerError for what is not what was recorded.
    """
    record = find(ledger, name)
    _check_own_hash(ledger, record)
    kind, body = record.entry.kind, record.data()
    if kind == "run":
        return ledger.artifacts.read(body["artifacts"]["base"])
    if kind == "offer" and "program" in body["artifacts"]:
        return ledger.artifacts.read(body["artifacts"]["program"])
    if kind == "offer":
        return restore(ledger, body["candidate"])
    if kind != "candidate":
        raise LedgerError(record.entry.name, f"is a record of kind {kind}, which has no program")
    if not body["accepted"]:
        last = body["verdicts"][-1]
        words = f"never was verified: gate {last['gate']} {last['kind']}: {last['reason']}"
        raise LedgerError(record.entry.name, words)
    return _written_anew(ledger, record, body)


def _written_anew(ledger: Ledger, record: Record, body: dict[str, Any]) -> bytes:
    asked = find(ledger, record.entry.run).data()
    base = ledger.artifacts.read(asked["artifacts"]["base"])
    program = read_program(base, asked["file"], gpu=asked["target"])
    kernel = program.kernel(asked["kernel"])
    made = Candidate.make(kernel, EditScript.model_validate(body["script"])).kernel
    if version_hash(made) != body["kernel_hash"]:
        raise BrokenLedgerError(record.entry.name, "its edits no longer make the kernel that was verified")
    return write_program(program, {kernel.name: made})


def check(ledger: Ledger, noted_head: str | None = None) -> Checked:
    """Looks at every record and artifact; stops at the first that is not what was recorded.

    `noted_head`: a hash that an earlier check reported; it must still be the hash of some record.
    """
    with ledger.records.snapshot():
        number, hash_, noted = 0, FIRST, noted_head in (None, FIRST)
        artifacts: set[str] = set()
        for record in ledger.records.read():
            wanted = chained(hash_, number + 1, record.entry)
            if record.number != number + 1 or record.hash != wanted:
                return Checked(number, len(artifacts), hash_, _break(record, number))
            number, hash_ = record.number, record.hash
            noted = noted or hash_ == noted_head
            if (broken := _broken_artifact(ledger, record, artifacts)) is not None:
                return Checked(number, len(artifacts), hash_, broken)
        if ledger.records.head() != (number, hash_):
            at = ledger.records.head()[0]
            return Checked(number, len(artifacts), hash_, f"record {number + 1} is missing: the head is number {at}")
    broken = None if noted else f"no record has the hash {noted_head}: the chain was written anew"
    return Checked(number, len(artifacts), hash_, broken)


def _break(record: Record, last_good: int) -> str:
    if record.number != last_good + 1:
        return f"record {last_good + 1} is missing (record {record.number}, {record.entry.name}, follows {last_good})"
    return f"record {record.number} ({record.entry.kind} {record.entry.name}) has changed: its hash does not fit"


def _broken_artifact(ledger: Ledger, record: Record, seen: set[str]) -> str | None:
    for role, digest in record.data().get("artifacts", {}).items():
        if digest in seen:
            continue
        try:
            ledger.artifacts.read(digest)
        except BrokenLedgerError as error:
            place = f"record {record.number} ({record.entry.kind} {record.entry.name})"
            return f"{place}, its {role}: {error.words} ({digest})"
        seen.add(digest)
    return None


def _check_own_hash(ledger: Ledger, record: Record) -> None:
    before = list(ledger.records.read("WHERE number = ?", (record.number - 1,)))
    previous = before[0].hash if before else FIRST
    if record.hash != chained(previous, record.number, record.entry):
        raise BrokenLedgerError(record.entry.name, f"record {record.number} has changed; `asmevo verify` tells more")
