"""Asking a proposer: whatever it does instead of answering, it can end nothing but itself.

A proposer is a generator. What may go wrong with one is any exception, an exit of the program, an answer that
is no edit script, and a generator that will not be closed. Each becomes one ProposerError, whose sentence says what
happened and where in the proposer. Only an interrupt by the user goes through.
"""

from __future__ import annotations

import traceback
from collections.abc import Generator
from pathlib import Path

from asmevo.program.edit import EditScript
from asmevo.proposers.proposer import Facts, Proposer, ProposerError

Scripts = Generator[EditScript, bool | None, None]

_SHOWN_CHARACTERS = 200


def begin(proposer: Proposer, facts: Facts) -> Scripts:
    """The proposer at work on a kernel. Raises ProposerError."""
    try:
        return proposer.propose(facts)
    except (Exception, SystemExit) as error:
        raise _given_up(error) from error


def next_script(scripts: Scripts, answer: bool | None) -> EditScript | None:
    """Its next script, once it is told what became of the last; None when it has no more. Raises ProposerError."""
    try:
        script = scripts.send(answer)
    except StopIteration:
        return None
    except (Exception, SystemExit) as error:
        raise _given_up(error) from error
    if not isinstance(script, EditScript):
        raise ProposerError(f"answered with {type(script).__name__}, which is no edit script")
    return script


def end(scripts: Scripts) -> None:
    """Closes it. Raises ProposerError."""
    try:
        scripts.close()
    except (Exception, SystemExit) as error:
        raise _given_up(error) from error


def what_happened(error: BaseException) -> str:
    """An exception in one line: its kind, its words, and the place that it came from."""
    words = " ".join(str(error).split())[:_SHOWN_CHARACTERS]
    kind = f"{type(error).__name__}: {words}" if words else type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    return f"{kind} ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else kind


def _given_up(error: BaseException) -> ProposerError:
    return error if isinstance(error, ProposerError) else ProposerError(f"broke off with {what_happened(error)}")
