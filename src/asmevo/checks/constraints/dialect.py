"""What a text names that its target dropped or never had, though LLVM's assembler only says "not a valid operand".

Text that does not assemble has no decoded code to check. But edges that mnemonic and modifiers alone decide can be
walked on the text of a line: `v_mov_b32_dpp v0, v1 row_bcast:15 ...` for gfx10 names a form that the target dropped,
and the edge knows the replacement. Words of a line are compared, comments and labels are left out; a line inside a
macro counts like any other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from asmevo.checks.constraints.graph import Compiled, Edge, InstructionNode, Relation
from asmevo.checks.finding import Finding, Severity
from asmevo.program.statements import mask_comments

_STATEMENT = re.compile(r"^\s*(?:[\w.$@]+:\s*)*([a-z][a-z0-9_]*)(.*)$")
_WORD = re.compile(r"(?<![\w.$])([a-z][a-z0-9_]*)(?![\w.$(])")


def refused_forms(text: str, constraints: Compiled) -> tuple[tuple[int, Finding], ...]:
    """(line, finding) for every line that names a form which the target does not have, lines from 1."""
    edges = tuple(edge for edge in constraints.edges if _about_text(edge))
    found = []
    for number, line in enumerate(mask_comments(text).split("\n"), 1):
        statement = _STATEMENT.match(line)
        if statement is not None:
            found += [(number, finding) for finding in _refused(statement[1], statement[2], edges, constraints.target)]
    return tuple(found)


def _about_text(edge: Edge) -> bool:
    node = edge.source
    known = not edge.when.model_dump(exclude_none=True)
    matcher = node.matcher if isinstance(node, InstructionNode) else None
    return edge.relation is Relation.STANDS_IN and known and matcher is not None and matcher.about_text


def _refused(mnemonic: str, rest: str, edges: tuple[Edge, ...], target: str) -> Iterator[Finding]:
    words = set(_WORD.findall(rest))
    for edge in edges:
        assert isinstance(edge.source, InstructionNode)
        matcher = edge.source.matcher
        if matcher is not None and matcher.fits_mnemonic(mnemonic) and matcher.fits_modifiers(words):
            asked = matcher.selector.modifiers
            name = next((word for word in asked if word in words), mnemonic) if asked else mnemonic
            yield Finding(
                rule=edge.rule,
                severity=Severity(edge.severity),
                kernel="",
                message=f"`{name}` in `{(mnemonic + rest).strip()}`, for {target}: {edge.reason} [{edge.entry}]",
                missing=edge.replacement,
                mend=f"use {edge.replacement}",
                subject=edge.entry,
            )
