"""What `asmevo check` prints for people: each finding with place, path and mend; short by default."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from asmevo.checks.file_report import FileReport, Place, PlacedFinding
from asmevo.checks.registry import PAGE, Rule


def text_lines(
    reports: Sequence[FileReport], others: Sequence[PlacedFinding] = (), debug_constraint: bool = False
) -> Iterator[str]:
    """All lines about some files; `others` are findings that belong to no program (suppression files)."""
    for report in reports:
        for note in report.notes:
            yield f"note: {note}"
        for placed in report.findings:
            if placed.reason is None:
                yield from _finding_lines(placed, debug_constraint)
        if not report.error:
            yield _summary(report)
    for placed in others:
        yield from _finding_lines(placed, debug_constraint)
    if len(reports) > 1:
        errors = sum(report.has_errors for report in reports)
        unread = sum(bool(report.error) for report in reports)
        yield f"{len(reports)} files: {errors} with errors, {unread} could not be read"


def _finding_lines(placed: PlacedFinding, debug_constraint: bool) -> Iterator[str]:
    finding = placed.finding
    yield f"{_where(placed)}: {finding.severity.value}: {finding.message}"
    if len(placed.path) > 1:
        yield f"    path: {' -> '.join(placed.path)}"
    if finding.mend and finding.mend not in finding.message:
        yield f"    mend: {finding.mend}"
    if debug_constraint and placed.edge is not None:
        yield from edge_lines(placed.edge)
    yield f"    [{finding.rule}]"


def edge_lines(edge: Mapping[str, Any]) -> Iterator[str]:
    """A constraint's proof: the failing edge, its condition, the state it saw, and the root cause."""
    parts = edge["edge"]
    yield f"    edge: {parts['from']} --{parts['relation']}--> {parts['to']} [{edge['entry']}]"
    yield f"    condition: {edge['condition']}"
    yield f"    state: {edge['state']}"
    yield f"    cause: {edge['cause']}"


def _where(placed: PlacedFinding) -> str:
    """file:line for text; file, kernel and offset in it for machine code."""
    if placed.at_line is not None:
        return f"{placed.file}:{placed.at_line}"
    if not placed.places:
        return f"{placed.file}: {placed.finding.kernel}" if placed.finding.kernel else placed.file
    return f"{placed.file}: {place_words(placed.finding.kernel, placed.places[0])}"


def place_words(kernel: str, place: Place) -> str:
    """A place in machine code: `kernel+0x1c (0x1a1c, behind .LBB0_1)`."""
    behind = f", behind {place.label}" if place.label and place.label != kernel else ""
    return f"{kernel}+{place.offset:#x} ({place.address:#x}{behind})"


def _summary(report: FileReport) -> str:
    counts = Counter(each.finding.severity.value for each in report.findings if each.reason is None)
    words = ", ".join(f"{count} {severity}" for severity, count in sorted(counts.items())) or "nothing to say"
    silent = sum(each.reason is not None for each in report.findings)
    words += f" ({silent} suppressed)" if silent else ""
    kind = "kernel or function" if report.kernels == 1 else "kernels and functions"
    return f"{report.file}: {report.target}, {report.kernels} {kind}: {words}"


def json_document(reports: Sequence[FileReport], others: Sequence[PlacedFinding] = ()) -> dict[str, Any]:
    """The same for programs: docs/check.schema.json."""
    return {
        "schema": "asmevo.check/1",
        "files": [report.to_dict() for report in reports],
        "suppressions": [each.to_dict() for each in others],
    }


def rule_lines(rule: Rule) -> Iterator[str]:
    """All that is documented about one rule."""
    yield f"{rule.id} ({rule.severity}): {rule.title}"
    yield ""
    yield rule.meaning
    yield ""
    yield f"example: {rule.example}"
    yield f"mend: {rule.mend}"
    yield f"source: {rule.source}"
    yield f"page: {PAGE}#{rule.anchor}"
