"""Proposers that others wrote: a program that speaks JSON in lines, or a Python entry point.

Both run in a child process (`child`) and speak the same words (`conversation`); an entry point of the
group `asmevo.proposers` is loaded by a host program in the child (`host`), never here. Whatever it does, it
can only hand in scripts, which the gates judge as anybody's.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Generator
from importlib.metadata import entry_points

from msgspec import Struct, field

from asmevo.program.edit import EditScript
from asmevo.proposers.child import Child, Limits
from asmevo.proposers.conversation import TaskLimits, feedback_line, read_answer, task_line
from asmevo.proposers.proposer import Facts, ProposerError

GROUP = "asmevo.proposers"


class ExternalProposer(Struct, frozen=True):
    """`command` with its arguments; `name` is for the ledger."""

    name: str
    command: tuple[str, ...]
    limits: Limits = field(default_factory=Limits)

    def propose(self, facts: Facts) -> Generator[EditScript, bool | None, None]:
        """See Proposer. The child lives as long as the generator."""
        bounds = TaskLimits(
            seconds=self.limits.seconds, message_bytes=self.limits.message_bytes, scripts=self.limits.scripts
        )
        message = task_line(facts, bounds)
        with Child(self.command, self.limits, facts.out_of_time) as child:
            for _ in range(self.limits.scripts):
                script = read_answer(child.ask(message), self.name, facts)
                if script is None:
                    return
                accepted = yield script
                message = feedback_line(bool(accepted), facts.last_verdict())
        raise ProposerError(f"sent more than {self.limits.scripts} scripts")


def command_proposer(line: str, limits: Limits | None = None) -> ExternalProposer:
    """A program with its arguments, split as a shell would, but run without one. Raises ProposerError."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise ProposerError(f"`{line}` is not a command line: {error}") from error
    if not words:
        raise ProposerError("the command line is empty")
    return ExternalProposer(words[0], tuple(words), limits or Limits())


def entry_point_proposer(name: str, limits: Limits | None = None) -> ExternalProposer:
    """An installed entry point by its name. Raises ProposerError, with the names that there are."""
    names = sorted({each.name for each in entry_points(group=GROUP)})
    if name not in names:
        there = f"there are: {', '.join(names)}" if names else "none is installed"
        raise ProposerError(f"no entry point {name} in group {GROUP}; {there}")
    return ExternalProposer(name, (sys.executable, "-m", "asmevo.proposers.host", name), limits or Limits())
