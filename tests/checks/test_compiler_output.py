"""The false-alarm bar: no check finds anything in what compilers write, but for warnings that were looked at.

The 413 objects (13 targets, clang and Triton) have passed the compilers' own passes for waits and hazards,
which are more careful than the hardware asks for, so an error on one of them is a mistake of a check. The warnings
that are left are listed here one by one, each with what the look at it showed.
"""

from __future__ import annotations

import pytest
from compiled_programs import all_files, names

from asmevo.checks import check_kernel
from asmevo.checks.finding import Finding, Severity
from asmevo.program.codeobject import CodeObject
from asmevo.program.kernel import Kernel
from asmevo.program.reading import read_kernels

OBJECTS = names(".hsaco")
TARGETS = sorted({name.split("/")[0] for name in OBJECTS})

# (rule, dual instruction, instruction in front) by object. All are pairs that the compiler made by the older rule,
# "different banks", directly behind the producer of one of the sources: what the report on the newer rule is about.
_PARITY = "hazards.vopd-parity"
REVIEWED = {
    "gfx1100/attention_fwd.hsaco": [(_PARITY, 705, 704)],
    "gfx1100/linear_recurrence.hsaco": [(_PARITY, 30, 29)],
    "gfx1151/attention_fwd.hsaco": [(_PARITY, 331, 330), (_PARITY, 692, 691)],
    "gfx1151/linear_recurrence.hsaco": [(_PARITY, 30, 29)],
}


def complaints(kernel: Kernel) -> list[Finding]:
    """Errors and warnings."""
    return [finding for finding in check_kernel(kernel) if finding.blocks_candidate]


def test_all_objects_are_there() -> None:
    assert (len(OBJECTS), len(TARGETS)) == (413, 13)
    assert set(REVIEWED) <= set(OBJECTS)


@pytest.mark.parametrize("target", TARGETS)
def test_nothing_but_reviewed_warnings_in_what_compilers_write(target: str) -> None:
    for name in OBJECTS:
        if name.startswith(f"{target}/"):
            kernels = read_kernels(CodeObject(all_files()[name], name))
            found = [each for kernel in kernels for each in complaints(kernel)]
            assert [each.message for each in found if each.severity is Severity.ERROR] == [], name
            assert [(each.rule, *each.instructions) for each in found] == REVIEWED.get(name, []), name
