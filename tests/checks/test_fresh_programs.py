"""The false-alarm bar once more, for code that no corpus holds: LLVM 22 compiles one source anew at several levels.

At -O0 code is full of FLAT accesses, spills and functions that keep LLVM's calling convention; LDS in a function
becomes a trap; calls set up scratch that nobody uses. What is left are warnings that were looked at.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from fresh_programs import fresh_kernels
from machine_ir import needs_llvm

from asmevo.checks import check_kernel
from asmevo.checks.finding import Severity
from asmevo.target import target_names

LEVELS = (("-O0",), ("-O1",), ("-O3",))
SPLIT = tuple((target, (level, "-mtgsplit")) for target in ("gfx90a", "gfx942", "gfx950") for level in ("-O0", "-O3"))
WAVE64 = tuple((target, ("-O3", "-mwavefrontsize64")) for target in ("gfx1010", "gfx1030", "gfx1100", "gfx1201"))
MODES = (
    ("gfx1100", ("-O2", "-mcumode")),
    ("gfx1030", ("-O2", "-mno-cumode")),
    ("gfx90a", ("-O2", "-munsafe-fp-atomics", "-g")),
    ("gfx906:xnack+", ("-O2",)),
    ("gfx90a:xnack+:sramecc-", ("-O1",)),
    ("gfx942", ("-O0", "-c", "-mtgsplit")),
    ("gfx1100", ("-O1", "-c")),
)
"""Ways to compile that change what an instruction means or what is known of it; `-c` leaves functions unlinked."""
REVIEWED = {
    "gfx1100": {"hazards.vopd-parity"},
    "gfx1102": {"hazards.vopd-parity"},
    "gfx1151": {"hazards.vopd-parity"},
    # LLVM counts no buffer_wbl2, so the wait that its memory model puts behind one is dropped again
    "gfx942": {"waits.write-back"},
    "gfx950": {"waits.write-back"},
    # LLVM 22 has no early-clobber form for wide scalar loads here, and loses one xcnt at a loop's back edge
    "gfx1250": {"replay.own-address", "replay.overwritten"},
}
"""Rules by target."""

pytestmark = needs_llvm


def complaints(target: str, options: tuple[str, ...], folder: Path) -> tuple[list[str], set[str]]:
    """Messages of errors, and rules of warnings, in what clang makes of the source."""
    kernels = fresh_kernels(target, options, folder)
    assert len(kernels) > 20
    found = [each for kernel in kernels for each in check_kernel(kernel)]
    errors = [each.message for each in found if each.severity is Severity.ERROR]
    return errors, {each.rule for each in found if each.severity is Severity.WARNING}


@pytest.mark.parametrize(
    ("target", "options"),
    [
        ("gfx1010", ("-O0",)),
        ("gfx942", ("-O0",)),
        ("gfx90a", ("-O3",)),
        ("gfx1100", ("-O3",)),
        ("gfx1250", ("-O0",)),
        SPLIT[2],
        WAVE64[2],
    ],
)
def test_nothing_new_in_fresh_code(target: str, options: tuple[str, ...], tmp_path: Path) -> None:
    errors, warnings = complaints(target, options, tmp_path)
    assert errors == []
    assert warnings <= REVIEWED.get(target, set())


@pytest.mark.long
@pytest.mark.parametrize("target", target_names())
def test_nothing_new_in_fresh_code_at_any_level(target: str, tmp_path: Path) -> None:
    more = [options for name, options in (*WAVE64, *SPLIT) if name == target]
    for options in (*LEVELS, *more):
        errors, warnings = complaints(target, options, tmp_path)
        assert errors == [], options
        assert warnings <= REVIEWED.get(target, set()), options


@pytest.mark.long
@pytest.mark.parametrize(("target", "options"), MODES)
def test_nothing_new_in_code_of_another_mode(target: str, options: tuple[str, ...], tmp_path: Path) -> None:
    errors, warnings = complaints(target, options, tmp_path)
    assert errors == []
    assert warnings <= REVIEWED.get(target, set())
