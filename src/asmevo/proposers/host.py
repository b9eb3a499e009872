"""The program that runs a Python entry point as a proposer: `python -m asmevo.proposers.host NAME`.

The entry point is a callable that takes the task (plain JSON data) and returns a generator of scripts, each a
mapping with `edits` and perhaps `origin`; the generator is sent the verdict on each. What it prints goes to standard
error, so that it cannot disturb the conversation.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Generator, Mapping
from importlib.metadata import entry_points
from typing import Any, BinaryIO

Propose = Callable[[dict[str, Any]], Generator[Mapping[str, Any], dict[str, Any] | None, None]]


def converse(propose: Propose, hear: BinaryIO, say: BinaryIO) -> None:
    """Runs one conversation: task in, scripts out, until the generator ends."""
    task = json.loads(hear.readline())
    kernel = task["kernel"]
    scripts = propose(task)
    verdict: dict[str, Any] | None = None
    while True:
        try:
            script = scripts.send(verdict)
        except StopIteration:
            break
        _say(say, {"type": "script", "base": kernel["hash"], "kernel": kernel["name"]} | dict(script))
        verdict = json.loads(hear.readline())
    _say(say, {"type": "done"})


def _say(say: BinaryIO, message: dict[str, Any]) -> None:
    say.write(json.dumps(message).encode() + b"\n")
    say.flush()


def main() -> None:
    """Loads the entry point and lends it the conversation; a failure is a traceback and a non-zero exit."""
    (found,) = {each for each in entry_points(group="asmevo.proposers", name=sys.argv[1])}
    say, sys.stdout = sys.stdout.buffer, sys.stderr
    converse(found.load(), sys.stdin.buffer, say)


if __name__ == "__main__":
    main()
