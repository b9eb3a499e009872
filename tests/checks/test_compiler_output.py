"""The false-alarm bar: no check finds anything in what compilers write.

The 413 objects (13 targets, clang and Triton) have passed the compilers' own passes for waits and hazards,
which are more careful than the hardware asks for, so an error or a warning on one of them is a mistake of a check.
"""

from __future__ import annotations

import pytest
from compiled_programs import all_files, names

from asmevo.checks.finding import Finding, Severity
from asmevo.checks.hazards import check_hazards
from asmevo.checks.resources import check_resources
from asmevo.checks.waits import check_waits
from asmevo.program.codeobject import CodeObject
from asmevo.program.kernel import Kernel
from asmevo.program.reading import read_kernels

OBJECTS = names(".hsaco")
TARGETS = sorted({name.split("/")[0] for name in OBJECTS})


def complaints(kernel: Kernel) -> list[Finding]:
    findings = (*check_waits(kernel), *check_hazards(kernel), *check_resources(kernel))
    return [finding for finding in findings if finding.severity in (Severity.ERROR, Severity.WARNING)]


def test_all_objects_are_there() -> None:
    assert (len(OBJECTS), len(TARGETS)) == (413, 13)


@pytest.mark.parametrize("target", TARGETS)
def test_nothing_is_found_in_what_compilers_write(target: str) -> None:
    for name in OBJECTS:
        if name.startswith(f"{target}/"):
            for kernel in read_kernels(CodeObject(all_files()[name], name)):
                assert not complaints(kernel), (name, kernel.name)
