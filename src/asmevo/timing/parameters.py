"""Facts the cycle model needs and the target files do not hold (yet), in the same form: value, source, how
well known.

A fact of the target's own `timing` always goes before one of these. Keys are the target's families, since no
fact here is known to differ between members of one.
"""

from __future__ import annotations

from asmevo.target import Target
from asmevo.target.facts import Fact, Known
from asmevo.target.model import Number

_TRACES = "SQTT traces of tinygrad a9069c1 (gfx1100, gfx1201)"
_CLRX = "CLRX doc/GcnTimings.md"


def _fact(value: Number, source: str, known: Known, note: str = "") -> Fact[Number]:
    return Fact[Number](value=value, source=source, known=known, note=note, unit="cycles")


_RDNA = {
    "smem_issue_to_execute": _fact(4, _TRACES, "measured", "236 of 236"),
    "vmem_issue_to_execute": _fact(3, _TRACES, "measured", "minimum; later ones queue"),
    "lds_issue_to_execute": _fact(3, _TRACES, "measured", "minimum; later ones queue"),
    "end_after_valu": _fact(23, _TRACES, "measured", "6 of 8; s_endpgm is stamped when the wave ends"),
    "valu_lanes": _fact(32, "RDNA ISA documents: a wave64 is two passes", "vendor"),
    "matrix_in_flight": _fact(
        8, "SQTT traces of tinygrad a9069c1 (gfx1201 custom_handwritten)", "measured", "entries"
    ),
    "matrix_release": _fact(-1, "the same", "measured", "end of the 8th last to the next issue of the wave"),
    "sleep_unit": _fact(64, "RDNA ISA documents, s_sleep", "vendor"),
}
_CDNA = {
    "valu_sgpr_to_salu_issue": _fact(16, _CLRX, "secondhand", "gfx950 traces: v_cmp to SALU 20 in 6 of 8"),
    "barrier_release": _fact(
        16, "gfx1100's 14 in whole issue intervals", "assumed", "LLVM's 2000 includes the others"
    ),
    "sleep_unit": _fact(64, "CDNA3 ISA document, s_sleep", "vendor"),
}
_RDNA2 = _RDNA | {
    "barrier_release": _fact(14, "as gfx1100", "assumed", "LLVM's 2000 includes the waiting for others"),
}
_FAMILIES = {
    "gfx10": _RDNA2,
    "gfx11": _RDNA,
    "gfx12": _RDNA,
    "gfx1250": {name: fact for name, fact in _RDNA.items() if name != "valu_lanes"},
}

DEFAULT_TRIP_COUNT: Fact[Number] = Fact[Number](
    value=10,
    source="convention of this model",
    known="assumed",
    note="iterations of a loop whose trip count nobody gave",
    unit="iterations",
)


def timing_fact(target: Target, name: str) -> Fact[Number] | None:
    """The target's timing fact of this name, else the one of this file, else None (the model has no such
    rule).
    """
    own = target.timing.get(name)
    return own if own is not None else _FAMILIES.get(target.family.value, _CDNA).get(name)
