"""Findings that a person has judged: each suppression names the rule and the reason.

In a `.s` a comment `; asmevo: ignore RULE reason` suppresses findings at its own line, or, where it stands alone, at
the next line that is no comment. A suppression file (YAML, docs/constraints.md) names rule, reason, and as far as
needed file, kernel and a part of the subject by shell patterns; it is the only way for code objects and for
findings about a whole kernel. RULE is an id or a shell pattern of ids. What suppresses nothing, gives no reason, or
names no rule is itself reported. A suppressed finding stays in the JSON and SARIF output, marked with its reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Struct, field
from pydantic import BaseModel, ConfigDict, Field

from asmevo.checks.documents import line_of, read_document
from asmevo.checks.finding import Finding, Severity
from asmevo.checks.registry import rules

_COMMENT = re.compile(r"(?:;|//)[ \t]*asmevo:[ \t]*ignore\b[ \t]*(\S*)[ \t]*(.*?)[ \t]*$")
_ONLY_COMMENT = re.compile(r"^[ \t]*(?:;|//|#|$)")
_Words = Annotated[str, Field(min_length=1)]


class _Row(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    rule: _Words
    reason: Annotated[str, Field(pattern=r"\S")]
    file: _Words = "*"
    kernel: _Words = "*"
    subject: _Words = "*"


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    schema_: Literal["asmevo.suppressions/1"] = Field(alias="schema")
    suppressions: tuple[_Row, ...]


class Suppression(Struct, frozen=True):
    """One suppression, from `file` at `line`; `covers` is the line of the source it is about, None for a file's."""

    rule: str
    reason: str
    file: str
    line: int
    covers: int | None = None
    row: _Row | None = None

    def fits(self, finding: Finding, name: str, line: int | None) -> bool:
        """Whether it is about a finding at `line` of the file `name`."""
        if not self.reason or not fnmatchcase(finding.rule, self.rule):
            return False
        if self.row is None:
            return line is not None and line == self.covers
        row = self.row
        in_file = fnmatchcase(name, row.file) or fnmatchcase(Path(name).name, row.file)
        return in_file and fnmatchcase(finding.kernel, row.kernel) and fnmatchcase(finding.subject, row.subject)


class Ledger(Struct, frozen=True):
    """The suppressions for one program, and which of them were used."""

    suppressions: tuple[Suppression, ...]
    used: set[Suppression] = field(default_factory=set)

    def reason(self, finding: Finding, name: str, line: int | None) -> str | None:
        """Why a finding is suppressed, None if it is not."""
        for each in self.suppressions:
            if each.fits(finding, name, line):
                self.used.add(each)
                return each.reason
        return None


def suppressions_in(text: str, file: str) -> tuple[Suppression, ...]:
    """The suppressions in the comments of a `.s`."""
    lines = text.split("\n")
    found = []
    for number, line in enumerate(lines, 1):
        match = _COMMENT.search(line)
        if match is not None:
            covers = _next_statement(lines, number) if _ONLY_COMMENT.match(line) else number
            found.append(Suppression(match[1], match[2], file, number, covers))
    return tuple(found)


def _next_statement(lines: Sequence[str], number: int) -> int:
    for later in range(number, len(lines)):
        if not _ONLY_COMMENT.match(lines[later]):
            return later + 1
    return number


def read_suppressions(file: Path) -> tuple[Suppression, ...]:
    """A suppression file. Raises DocumentError."""
    document, node = read_document(file, str(file), _Document)
    return tuple(
        Suppression(row.rule, row.reason, str(file), line_of(node, ("suppressions", index)), None, row)
        for index, row in enumerate(document.suppressions)
    )


def complaints(suppressions: Iterable[Suppression], used: Iterable[Suppression]) -> list[tuple[Suppression, Finding]]:
    """What is to be said about suppressions themselves."""
    asked = tuple(suppressions)
    known = rules() if asked else {}
    hits = set(used)
    found = []
    for each in asked:
        if not any(fnmatchcase(id_, each.rule) for id_ in known) and not each.rule.startswith("hazards."):
            words = f"`{each.rule}` is no rule" if each.rule else "names no rule"
            found.append((each, _about("unknown-rule", words, Severity.WARNING, "take the name from the finding")))
        elif not each.reason:
            words = f"a suppression of {each.rule} without a reason does not count"
            found.append((each, _about("no-reason", words, Severity.WARNING, "write the reason behind the rule")))
        elif each not in hits:
            words = f"nothing of {each.rule} is found here any more"
            found.append((each, _about("unused", words, Severity.NOTE, "take it out")))
    return found


def _about(rule: str, words: str, severity: Severity, mend: str) -> Finding:
    return Finding(rule=f"suppressions.{rule}", severity=severity, kernel="", message=words, mend=mend)
