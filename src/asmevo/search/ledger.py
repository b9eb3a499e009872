"""The ledger: what every optimisation saw and decided, in one database with whole files beside it.

    <root>/ledger.sqlite       chained records (`records`)
    <root>/artifacts/ab/ab...  inputs, patches and offered programs by SHA-256 (`artifacts`)

Records and their names, which are the ids that `asmevo log` and `show` speak of:

    run        R           what was asked: file, kernel, target, seed, level, versions; the input as an artifact
    candidate  R/N         the N-th candidate: origin, the version it was made from, edits, every verdict, the estimate
    proposer   R/proposer-N   a proposer that failed, and how
    exchange   R/exchange-N   what was said to and by a language model
    offer      R/offer-N   the N-th best of the patch: candidate, gain, verdicts; the patched program as an artifact
    end        R/end       the patch as an artifact, counts

Candidates are committed in groups: when there are many, when the oldest is a second old, and always before the search
tells anybody about them. So a run that is killed loses nothing that it had reported.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from msgspec import Struct, field

from asmevo.search.artifacts import Artifacts
from asmevo.search.records import Entry, Record, Records
from asmevo.search.tried import Tried

DEFAULT_ROOT = Path(".asmevo")
_BATCH = 256
_BATCH_SECONDS = 1.0
_SHOWN_OF_A_MISFIT = 2000


class Offered(Struct, frozen=True):
    """An offer of the patch: its data, the kernel's hash, and the patched program where one could be written."""

    body: dict[str, Any]
    kernel_hash: str
    program: bytes | None


class Ledger:
    """Opens runs under one directory, which is made when the first run needs it."""

    def __init__(self, root: Path = DEFAULT_ROOT) -> None:
        self.root = root
        self.records = Records(root / "ledger.sqlite")
        self.artifacts = Artifacts(root / "artifacts")

    def runs(self) -> list[str]:
        """Ids of the runs that are there, in the order in which they began."""
        if not self.records.path.is_file():
            return []
        return [record.entry.name for record in self.records.read("WHERE kind = 'run'")]

    def candidates(self, run: str) -> list[dict[str, Any]]:
        """The bodies of all candidates of a run, in the order in which they were tried."""
        return [record.data() for record in self.records.read("WHERE run = ? AND kind = 'candidate'", (run,))]

    def refusals(self, run: str, gate: str) -> list[dict[str, Any]]:
        """The verdicts with which a gate refused candidates of a run, in order."""
        last = (body["verdicts"][-1] for body in self.candidates(run))
        return [verdict for verdict in last if verdict["gate"] == gate and verdict["kind"] != "accepted"]

    def exchanges(self, run: str) -> list[dict[str, Any]]:
        """What language models were told and said in a run, in order."""
        return [record.data() for record in self.records.read("WHERE run = ? AND kind = 'exchange'", (run,))]

    def open_run(self, request: dict[str, Any], base: bytes) -> LedgerRun:
        """Starts a run: keeps the input, then records what was asked. Its id is the request's hash and a number."""
        body = request | {"began": time.time(), "artifacts": {"base": self.artifacts.keep(base)}}
        key = hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()[:12]
        with self.records.writing(durable=True) as writer:
            name = writer.taken(f"{key}-{number}" for number in itertools.count(1))
            writer.add(Entry("run", name, name, json.dumps(body)))
        return LedgerRun(self, name)


class LedgerRun(Struct):
    """One run being recorded; a context manager, so that what waits is written however the run ends."""

    ledger: Ledger
    id: str
    _names: dict[str, str] = field(default_factory=dict)
    _waiting: list[Entry] = field(default_factory=list)
    _written: float = field(default_factory=time.monotonic)
    _candidates: int = 0
    _failures: int = 0
    _exchanges: int = 0

    def __enter__(self) -> LedgerRun:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.flush()
        self.ledger.records.close()

    def record(self, tried: Tried) -> None:
        """A judged candidate. Of a script that fits no kernel only its beginning is kept."""
        fits = tried.kernel_hash is not None
        script = tried.script.model_dump_json()
        body = {
            "proposer": tried.proposer,
            "origin": tried.script.origin,
            "parent": tried.parent_hash,
            "kernel_hash": tried.kernel_hash,
            "accepted": tried.accepted,
            "verdicts": [verdict.to_dict() for verdict in tried.verdicts],
            "cost": tried.cost,
        } | ({} if fits else {"beginning": script[:_SHOWN_OF_A_MISFIT]})
        self._candidates += 1
        name = f"{self.id}/{self._candidates}"
        written = script if fits else "null"
        self._add(Entry("candidate", self.id, name, f'{json.dumps(body)[:-1]}, "script": {written}}}'))
        if tried.kernel_hash is not None:
            self._names.setdefault(tried.kernel_hash, name)

    def record_failure(self, proposer: str, reason: str) -> None:
        """A proposer that had to be given up, in one sentence."""
        self._failures += 1
        body = json.dumps({"proposer": proposer, "reason": reason})
        self._add(Entry("proposer", self.id, f"{self.id}/proposer-{self._failures}", body))

    def record_exchange(self, proposer: str, body: dict[str, Any]) -> None:
        """What a proposer was told and said."""
        self._exchanges += 1
        name = f"{self.id}/exchange-{self._exchanges}"
        self._add(Entry("exchange", self.id, name, json.dumps({"proposer": proposer} | body)))

    def finish(self, patch: str, offers: Sequence[Offered], counts: dict[str, Any]) -> None:
        """The end, durably: each offer, and the patch that holds them."""
        entries = []
        for number, offer in enumerate(offers, 1):
            kept = {"program": self.ledger.artifacts.keep(offer.program)} if offer.program is not None else {}
            names = {"candidate": self._names[offer.kernel_hash], "kernel_hash": offer.kernel_hash}
            body = offer.body | names | {"artifacts": kept}
            entries.append(Entry("offer", self.id, f"{self.id}/offer-{number}", json.dumps(body)))
        end = counts | {"artifacts": {"patch": self.ledger.artifacts.keep(patch.encode())}}
        entries.append(Entry("end", self.id, f"{self.id}/end", json.dumps(end)))
        self.flush(entries)

    def flush(self, last: list[Entry] | None = None) -> list[Record]:
        """Commits what waits, with `last` durably behind it."""
        entries, self._waiting = [*self._waiting, *(last or ())], []
        self._written = time.monotonic()
        return self.ledger.records.append(entries, durable=last is not None) if entries else []

    def _add(self, entry: Entry) -> None:
        self._waiting.append(entry)
        if len(self._waiting) >= _BATCH or time.monotonic() - self._written > _BATCH_SECONDS:
            self.flush()
