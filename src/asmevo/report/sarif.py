"""Findings as SARIF 2.1.0, the format that code scanning services read.

One run holds all files. Severities become levels (`perf` is a note). Places in text are lines; in machine code they
are addresses, with the kernel as logical location. What a person suppressed stays in, marked with the reason. Files
that could not be read are notifications of the invocation. The fingerprint of a result does not contain the line,
so that a finding stays the same when code in front of it changes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from asmevo.checks.file_report import FileReport, Place, PlacedFinding
from asmevo.checks.registry import PAGE, Rule, rules

SCHEMA_URI = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {"error": "error", "warning": "warning", "perf": "note", "note": "note"}
Json = dict[str, Any]


def sarif_document(reports: Sequence[FileReport], others: Sequence[PlacedFinding] = ()) -> Json:
    """The document for some files; `others` are findings that belong to no program."""
    found = [each for report in reports for each in report.findings] + list(others)
    ids = sorted({each.finding.rule for each in found})
    index = {id_: number for number, id_ in enumerate(ids)}
    driver = {
        "name": "asmevo",
        "semanticVersion": version("asm-evo-skill"),
        "rules": [_rule(id_, rules().get(id_)) for id_ in ids],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"SRCROOT": {"description": {"text": "The directory the command ran in."}}},
        "invocations": [_invocation(reports)],
        "results": [_result(each, index[each.finding.rule]) for each in found],
    }
    return {"$schema": SCHEMA_URI, "version": "2.1.0", "runs": [run]}


def _rule(id_: str, rule: Rule | None) -> Json:
    if rule is None:
        return {"id": id_, "helpUri": PAGE}
    markdown = f"{rule.meaning}\n\nExample: {rule.example}\n\nMend: {rule.mend}\n\nSource: {rule.source}"
    return {
        "id": id_,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.meaning},
        "help": {"text": f"{rule.meaning} Mend: {rule.mend}.", "markdown": markdown},
        "helpUri": f"{PAGE}#{rule.anchor}",
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": {"tags": ["performance" if rule.severity == "perf" else "correctness", "amdgpu"]},
    }


def _invocation(reports: Sequence[FileReport]) -> Json:
    unread = [report for report in reports if report.error]
    notes = [(report, note) for report in reports for note in report.notes]
    notifications = [_notification(report.file, report.error, "error") for report in unread]
    notifications += [_notification(report.file, note, "note") for report, note in notes]
    return {"executionSuccessful": not unread, "toolExecutionNotifications": notifications}


def _notification(file: str, text: str, level: str) -> Json:
    location = {"physicalLocation": {"artifactLocation": _artifact(file)}}
    return {"level": level, "message": {"text": text}, "locations": [location]}


def _result(placed: PlacedFinding, rule_index: int) -> Json:
    finding = placed.finding
    mend = f" Mend: {finding.mend}." if finding.mend and finding.mend not in finding.message else ""
    result: Json = {
        "ruleId": finding.rule,
        "ruleIndex": rule_index,
        "level": _LEVELS[finding.severity.value],
        "message": {"text": f"{finding.message}.{mend}"},
        "locations": [_location(placed, placed.places[0] if placed.places else None)],
        "partialFingerprints": {"asmevo/v1": _fingerprint(placed)},
    }
    if len(placed.places) > 1:
        result["relatedLocations"] = [
            {"id": number, "message": {"text": place.text}, **_location(placed, place)}
            for number, place in enumerate(placed.places[1:], 1)
        ]
    properties: Json = {"path": list(placed.path)} if len(placed.path) > 1 else {}
    if placed.edge is not None:
        properties["constraint"] = placed.edge
    if properties:
        result["properties"] = properties
    if placed.reason is not None:
        result["suppressions"] = [{"kind": "external", "justification": placed.reason}]
    return result


def _location(placed: PlacedFinding, place: Place | None) -> Json:
    physical: Json = {"artifactLocation": _artifact(placed.file)}
    line = place.line if place is not None else placed.line
    if line is not None:
        physical["region"] = {"startLine": line}
    elif place is not None:
        physical["address"] = {"absoluteAddress": place.address, "kind": "instruction", "name": place.text}
    location: Json = {"physicalLocation": physical}
    kernel = placed.finding.kernel
    if kernel:
        name = f"{kernel}+{place.offset:#x}" if place is not None else kernel
        location["logicalLocations"] = [{"name": kernel, "fullyQualifiedName": name, "kind": "function"}]
    return location


def _artifact(file: str) -> Json:
    path = PurePath(file)
    if path.is_absolute():
        return {"uri": path.as_uri()}
    return {"uri": quote(path.as_posix()), "uriBaseId": "SRCROOT"}


def _fingerprint(placed: PlacedFinding) -> str:
    finding = placed.finding
    texts = [place.text for place in placed.places] or [finding.message]
    parts = (finding.rule, finding.kernel, finding.subject, *texts)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]
