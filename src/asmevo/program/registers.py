"""Registers as bits: every 32-bit register of a wavefront is one unit, a set of registers is one integer.

A kernel analysis asks over and over "do these two sets meet" and "what remains"; with one bit for each
32-bit register both are a single operation on a Python integer. A unit is a place in that numbering:

    v0..v1023, a0..a511, s0..s127, ttmp0..ttmp15, then the named ones (VCC, EXEC, M0, SCC, ...).

16-bit halves are not units of their own: a write to one half counts as reading and writing the whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from functools import cache

from msgspec import Struct
from msgspec.structs import force_setattr


class RegisterFile(Enum):
    """Which file a register lives in; the value is the letter or name that assembly uses."""

    VGPR = "v"
    AGPR = "a"
    SGPR = "s"
    TTMP = "ttmp"
    NAMED = ""


_VGPR_BASE, _VGPR_COUNT = 0, 1024
_AGPR_BASE, _AGPR_COUNT = 1024, 512
_SGPR_BASE, _SGPR_COUNT = 1536, 128
_TTMP_BASE, _TTMP_COUNT = 1664, 16
_NAMED_BASE = 1680

# The order is the numbering; a pair is two neighbours, low half first.
NAMED_UNITS = (
    "vcc_lo",
    "vcc_hi",
    "exec_lo",
    "exec_hi",
    "m0",
    "scc",
    "mode",
    "flat_scratch_lo",
    "flat_scratch_hi",
    "xnack_mask_lo",
    "xnack_mask_hi",
    "trapsts",
    "hwreg",
)

_BASES = {
    RegisterFile.VGPR: (_VGPR_BASE, _VGPR_COUNT),
    RegisterFile.AGPR: (_AGPR_BASE, _AGPR_COUNT),
    RegisterFile.SGPR: (_SGPR_BASE, _SGPR_COUNT),
    RegisterFile.TTMP: (_TTMP_BASE, _TTMP_COUNT),
    RegisterFile.NAMED: (_NAMED_BASE, len(NAMED_UNITS)),
}

UNIT_COUNT = _NAMED_BASE + len(NAMED_UNITS)


class RegisterSpan(Struct, frozen=True, gc=False):
    """`count` consecutive 32-bit registers of one file, from `first` on.

    `base_unit` is the unit of the first register, `mask` the span as a set of units: asked for so often that they are
    worked out once, whatever is given for them.
    """

    file: RegisterFile
    first: int
    count: int = 1
    base_unit: int = 0
    mask: int = 0

    def __post_init__(self) -> None:
        base = _BASES[self.file][0] + self.first
        force_setattr(self, "base_unit", base)
        force_setattr(self, "mask", ((1 << self.count) - 1) << base)

    @property
    def units(self) -> range:
        """The units of the span, in register order."""
        return range(self.base_unit, self.base_unit + self.count)

    @property
    def bits(self) -> int:
        """Width in bits."""
        return 32 * self.count

    def __str__(self) -> str:
        if self.file is RegisterFile.NAMED:
            name = NAMED_UNITS[self.first]
            return name.removesuffix("_lo") if self.count == 2 else name
        letter = self.file.value
        if self.count == 1:
            return f"{letter}{self.first}"
        return f"{letter}[{self.first}:{self.first + self.count - 1}]"


@cache
def span(file: RegisterFile, first: int, count: int = 1) -> RegisterSpan | None:
    """A span, or None when it does not fit the file."""
    limit = _BASES[file][1]
    if first < 0 or count < 1 or first + count > limit:
        return None
    return RegisterSpan(file, first, count)


def _named(name: str, count: int) -> RegisterSpan:
    return RegisterSpan(RegisterFile.NAMED, NAMED_UNITS.index(name), count)


# Names that assembly writes, beside the numbered registers.
NAMED_SPANS: dict[str, RegisterSpan] = {name: _named(name, 1) for name in NAMED_UNITS} | {
    "vcc": _named("vcc_lo", 2),
    "exec": _named("exec_lo", 2),
    "flat_scratch": _named("flat_scratch_lo", 2),
    "xnack_mask": _named("xnack_mask_lo", 2),
    "src_vccz": _named("vcc_lo", 2),
    "src_execz": _named("exec_lo", 2),
    "src_scc": _named("scc", 1),
}


def file_mask(file: RegisterFile) -> int:
    """All units of one file."""
    base, count = _BASES[file]
    return ((1 << count) - 1) << base


VGPR_MASK = file_mask(RegisterFile.VGPR)
AGPR_MASK = file_mask(RegisterFile.AGPR)
SGPR_MASK = file_mask(RegisterFile.SGPR)
VECTOR_MASK = VGPR_MASK | AGPR_MASK
EXEC_MASK = NAMED_SPANS["exec"].mask
VCC_MASK = NAMED_SPANS["vcc"].mask
SCC_MASK = NAMED_SPANS["scc"].mask
M0_MASK = NAMED_SPANS["m0"].mask
MODE_MASK = NAMED_SPANS["mode"].mask


def units_of(mask: int) -> Iterator[int]:
    """The units of a set, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def unit_span(unit: int) -> RegisterSpan:
    """The single register that a unit stands for. Raises ValueError for a number that is no unit."""
    for file, (base, count) in _BASES.items():
        if base <= unit < base + count:
            return RegisterSpan(file, unit - base)
    raise ValueError(f"{unit} is not a register unit")


def spans_of(mask: int) -> list[RegisterSpan]:
    """A set of units as the longest spans, ascending; for messages."""
    spans: list[RegisterSpan] = []
    for unit in units_of(mask):
        single = unit_span(unit)
        last = spans[-1] if spans else None
        joins = last is not None and last.file is single.file and last.first + last.count == single.first
        if last is not None and joins and single.file is not RegisterFile.NAMED:
            spans[-1] = RegisterSpan(last.file, last.first, last.count + 1)
        elif last is not None and joins and NAMED_UNITS[single.first] == NAMED_UNITS[last.first][:-2] + "hi":
            spans[-1] = RegisterSpan(last.file, last.first, 2)
        else:
            spans.append(single)
    return spans


def register_names(mask: int) -> str:
    """A set of units in words, e.g. `v[0:3], s5, vcc`."""
    return ", ".join(map(str, spans_of(mask)))
