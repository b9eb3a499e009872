"""Built-in proposers that do harm, one for each way, in this process and in a search's worker processes.

A worker is started afresh and knows nothing of what a test put in place; so the settlement that is sent to it puts the
hostile proposer in place there when it arrives.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Generator, Sequence
from typing import Any

from msgspec.structs import astuple

from asmevo.program.edit import EditScript, script_between
from asmevo.proposers import BuiltIn, Facts, ProposerError, built_in_named
from asmevo.search import island
from asmevo.search.executors import Settlement

NAME = "waits"  # the built-in whose place it takes


class Hostile:
    """Proposes once, then does harm."""

    name = NAME

    def __init__(self, harm: Callable[[], Any]) -> None:
        self.harm = harm

    def propose(self, facts: Facts) -> Generator[EditScript, bool | None, None]:
        """See Proposer.propose."""
        yield script_between(facts.kernel, facts.kernel.blocks, "harmless")
        yield self.harm()


def _raise(error: BaseException) -> None:
    raise error


def _sink() -> None:
    _sink()


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


CRASHES: dict[str, tuple[Callable[[], Any], str]] = {
    "its own error": (lambda: _raise(ProposerError("gave up")), "gave up"),
    "a key error": (lambda: {}["v7"], r"broke off with KeyError: 'v7' \(hostile_built_ins.py, line \d+\)"),
    "no memory": (lambda: _raise(MemoryError()), r"broke off with MemoryError \("),
    "endless recursion": (_sink, "broke off with RecursionError: maximum recursion"),
    "an exit": (lambda: sys.exit(3), "broke off with SystemExit: 3"),
    "a stray stop": (lambda: _raise(StopIteration()), "broke off with RuntimeError: generator raised StopIteration"),
    "no script": (lambda: 7, "answered with int, which is no edit script"),
}
"""What a crash looks like from inside, and what must be said of it."""

DEATHS: dict[str, Callable[[], Any]] = {"killed": _kill}
"""How a process can end without a word."""


def put_in_place(kind: str, put: Callable[[Any, str, Any], None] = setattr) -> None:
    """Lets islands of this process find the hostile proposer of that kind."""
    harm = DEATHS[kind] if kind in DEATHS else CRASHES[kind][0]
    hostile = BuiltIn(NAME, "does harm", lambda policy: Hostile(harm))

    def named(names: Sequence[str]) -> tuple[BuiltIn, ...]:
        return tuple(hostile if each.name == NAME else each for each in built_in_named(names))

    put(island, "built_in_named", named)


class HostileSettlement(Settlement, frozen=True):
    """One that brings the hostile proposer of a kind with it."""

    kind: str = ""

    def __reduce__(self) -> tuple[Any, ...]:
        *fields, kind = astuple(self)
        return _arrived, (kind, *fields)


def _arrived(kind: str, *fields: Any) -> Settlement:
    put_in_place(kind)
    return Settlement(*fields)


def hostile(settlement: Settlement, kind: str) -> HostileSettlement:
    """The same settlement with the hostile proposer of that kind."""
    return HostileSettlement(*astuple(settlement), kind)
