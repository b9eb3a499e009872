"""Findings where register numbers mean other registers than they say (`dependence.renumbered_places`).

Analyses read the numbers of the encoding. Behind `s_set_vgpr_msb` v30 may be v286, so that two accesses of "v30" need
not meet, and an error about them would be more than is known: it becomes a warning that says so. It stays a finding,
because the two may well meet, and a candidate must not bring it in anew.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from asmevo.analysis.dependence import renumbered_places
from asmevo.checks.finding import Finding, Severity
from asmevo.program.kernel import Kernel

_DOUBT = "; register numbers mean others here than they say, so it may be none"


def doubted(findings: Iterable[Finding], kernel: Kernel) -> tuple[Finding, ...]:
    """The findings, errors about instructions at renumbered places as warnings."""
    found = tuple(findings)
    if all(finding.severity is not Severity.ERROR for finding in found):
        return found
    places = _renumbered(kernel)
    return tuple(_doubted(finding, places) for finding in found) if places else found


def _doubted(finding: Finding, places: set[int]) -> Finding:
    if finding.severity is not Severity.ERROR or places.isdisjoint(finding.instructions):
        return finding
    return replace(finding, severity=Severity.WARNING, message=finding.message + _DOUBT)


def _renumbered(kernel: Kernel) -> set[int]:
    """The ids of the instructions at such places."""
    return {block.instructions[place].id for block in kernel.blocks for place in renumbered_places(block.instructions)}
