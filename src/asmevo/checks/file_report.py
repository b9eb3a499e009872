"""One file checked: everything a report needs as plain data, so that it can come from another process.

A finding knows instructions by id and blocks by index; here they get the places that a person looks for: the line of
a `.s`, else the address and the offset from the kernel's start, and the label in front. A file that cannot be read is
a report with an `error`, so that it does not hide what is said about others; where the text names forms that its
target dropped, those are findings beside the error.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from asmevo.checks import check_kernel
from asmevo.checks.constraints import Violation, constraints_for, refused_forms, violations
from asmevo.checks.dual_issue import refused_pairs
from asmevo.checks.finding import Finding
from asmevo.checks.suppression import Ledger, Suppression, complaints, suppressions_in
from asmevo.checks.wait_notes import refused_waits
from asmevo.program import KernelNotFoundError, Program, ProgramError, open_program
from asmevo.program.kernel import Kernel
from asmevo.program.source import source_variants
from asmevo.target import UnknownTargetError, load_target, parse_target_id
from asmevo.toolchain import ToolchainError


class CheckOptions(Struct, frozen=True):
    """What is asked of `check`. `constraints` are files, `wave_size` is for code that does not say its own."""

    kernel: str | None = None
    gpu: str | None = None
    wave_size: int | None = None
    rocm: str | None = None
    constraints: tuple[str, ...] = ()
    suppressions: tuple[Suppression, ...] = ()


class Place(Struct, frozen=True):
    """Where an instruction is. `line` in the source; `address` virtual, `offset` from the kernel's start (bytes)."""

    instruction: int
    text: str
    line: int | None
    address: int
    offset: int
    label: str

    def to_dict(self) -> dict[str, Any]:
        """As JSON data."""
        return {
            "id": self.instruction,
            "text": self.text,
            "line": self.line,
            "address": self.address,
            "offset": self.offset,
            "label": self.label,
        }


class PlacedFinding(Struct, frozen=True):
    """A finding with its places (the one to blame first), its path as labels, and the proof of a constraint's.

    `line` is the line where there is no instruction (text that does not assemble, suppressions), `file` that of the
    line. `reason` says why it is suppressed, None if it is not.
    """

    finding: Finding
    file: str
    places: tuple[Place, ...] = ()
    path: tuple[str, ...] = ()
    line: int | None = None
    edge: dict[str, Any] | None = None
    reason: str | None = None

    @property
    def at_line(self) -> int | None:
        """The line of the source it is at, if one is known."""
        return self.places[0].line if self.places else self.line

    def to_dict(self) -> dict[str, Any]:
        """As JSON data (docs/check.schema.json)."""
        return self.finding.to_dict() | {
            "file": self.file,
            "line": self.at_line,
            "places": [place.to_dict() for place in self.places],
            "path_labels": list(self.path),
            "constraint": self.edge,
            "suppressed": self.reason,
        }


class FileReport(Struct, frozen=True):
    """All about one file. `error` is one sentence, or empty; `kernels` counts kernels and functions checked."""

    file: str
    target: str = ""
    kernels: int = 0
    findings: tuple[PlacedFinding, ...] = ()
    notes: tuple[str, ...] = ()
    error: str = ""
    used: tuple[Suppression, ...] = field(default=())

    @property
    def has_errors(self) -> bool:
        """Whether a finding of error severity is left that nobody suppressed."""
        return any(each.finding.severity.value == "error" and each.reason is None for each in self.findings)

    @property
    def is_undecided(self) -> bool:
        """Whether an instruction without a meaning is left, so that silence says nothing about it."""
        return any(each.finding.rule.endswith(".unknown") and each.reason is None for each in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """As JSON data (docs/check.schema.json)."""
        return {
            "file": self.file,
            "target": self.target,
            "kernels": self.kernels,
            "error": self.error or None,
            "notes": list(self.notes),
            "findings": [each.to_dict() for each in self.findings],
        }


def check_file(file: Path, options: CheckOptions) -> FileReport:
    """Reads and checks one file. Raises nothing for a bad program; DocumentError for bad constraints."""
    try:
        program = open_program(file, gpu=options.gpu, wave_size=options.wave_size)
        chosen = program.kernels if options.kernel is None else program.select(options.kernel)
    except KernelNotFoundError as error:
        return FileReport(str(file), error=str(error))
    except (ProgramError, ToolchainError, UnknownTargetError) as error:
        return _unreadable(file, options, str(error))
    constraints = constraints_for(program.target.name, options.constraints, options.rocm)
    own = suppressions_in(program.source.text, program.file) if program.source is not None else ()
    ledger = Ledger((*own, *options.suppressions))
    found: list[PlacedFinding] = []
    for kernel in chosen:
        locate = _Locator(program, kernel)
        found += [locate.placed(finding, ledger) for finding in check_kernel(kernel)]
        found += [locate.placed(each.finding, ledger, each) for each in violations(kernel, constraints)]
    in_scope = own if options.kernel is None else tuple(each for each in own if each in ledger.used)
    found += [PlacedFinding(finding, each.file, line=each.line) for each, finding in complaints(in_scope, ledger.used)]
    notes = (*program.notes, *constraints.notes)
    used = tuple(each for each in options.suppressions if each in ledger.used)
    return FileReport(program.file, program.target.name, len(chosen), tuple(found), notes, used=used)


def unused_in_files(suppressions: Iterable[Suppression], reports: Iterable[FileReport]) -> tuple[PlacedFinding, ...]:
    """What is to be said about the rows of suppression files, once all programs are checked."""
    used = {each for report in reports for each in report.used}
    return tuple(PlacedFinding(finding, each.file, line=each.line) for each, finding in complaints(suppressions, used))


def _unreadable(file: Path, options: CheckOptions, error: str) -> FileReport:
    """The error, and the forms in the text that the target does not have."""
    try:
        text = file.read_bytes().decode("utf-8-sig")
        variants, _ = source_variants(text, str(file), options.gpu, options.wave_size)
    except (OSError, ValueError, ProgramError):
        return FileReport(str(file), error=error)
    target = parse_target_id(variants[0].gpu).name
    constraints = constraints_for(target, options.constraints, options.rocm)
    refused = (
        *refused_forms(text, constraints),
        *refused_pairs(text, load_target(target), variants[0].processor),
        *refused_waits(text, load_target(target)),
    )
    in_order = sorted(refused, key=itemgetter(0))
    findings = tuple(PlacedFinding(finding, str(file), line=line) for line, finding in in_order)
    return FileReport(str(file), target, 0, findings, constraints.notes, error)


class _Locator:
    """Places in one kernel; addresses are counted only when a finding asks for them."""

    def __init__(self, program: Program, kernel: Kernel) -> None:
        self._program = program
        self._kernel = kernel

    @cached_property
    def _offsets(self) -> dict[int, int]:
        offsets, offset = {}, 0
        for instruction in self._kernel.instructions:
            offsets[instruction.id] = offset
            offset += instruction.size
        return offsets

    @cached_property
    def _labels(self) -> tuple[list[int], list[str]]:
        """Offsets at which labelled blocks begin, and their labels."""
        starts, labels = [], []
        for block in self._kernel.blocks:
            if block.instructions and block.labels:
                starts.append(self._offsets[block.instructions[0].id])
                labels.append(block.labels[0])
        return starts, labels

    def _place(self, id_: int) -> Place:
        instruction = self._kernel.by_id[id_]
        offset = self._offsets[id_]
        starts, labels = self._labels
        index = bisect.bisect_right(starts, offset) - 1
        label = labels[index] if index >= 0 else ""
        return Place(id_, instruction.text, instruction.line, self._kernel.address + offset, offset, label)

    def placed(self, finding: Finding, ledger: Ledger, violation: Violation | None = None) -> PlacedFinding:
        """A finding with its places, and whether it is suppressed."""
        places = tuple(self._place(each) for each in finding.instructions if each in self._kernel.by_id)
        line = places[0].line if places else None
        name = self._program.file
        return PlacedFinding(
            finding,
            name,
            places,
            tuple(self._block_name(index) for index in finding.path),
            None,
            violation.to_dict() if violation is not None else None,
            ledger.reason(finding, name, line),
        )

    def _block_name(self, index: int) -> str:
        block = self._kernel.blocks[index]
        if block.labels:
            return block.labels[0]
        return "entry" if index == 0 else f"block {index}"
