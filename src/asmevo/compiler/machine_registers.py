"""Registers of machine IR: what part of a virtual register an operand touches, and which physical ones overlap.

A virtual register is a row of lanes of 16 bits, the smallest piece LLVM names (`lo16`, `hi16`); parts of it are bits
of an integer, lane 0 the lowest. `sub2_sub3` is lanes 4 to 7. A physical register is a set of units, one for each
32-bit register or half of one: `$sgpr4_sgpr5` is `sgpr4` and `sgpr5`, `$vcc` is `vcc_lo` and `vcc_hi`.
"""

from __future__ import annotations

import re
from functools import cache

LANE_BITS = 16
LANES_PER_DWORD = 2

_SUB = re.compile(r"sub(\d+)")
_CLASS_BITS = re.compile(r"(?:^|_)(?:[a-z]+?)?(\d+)(?:_|$)")
_VECTOR_CLASS = re.compile(r"^(?:vgpr|vreg|agpr|areg|av)_")
_TUPLE_ITEM = re.compile(r"(?:[svat]gpr|ttmp)\d+")
_PAIRS = ("vcc", "exec", "flat_scr", "xnack_mask", "tba", "tma")
_CONSTANT = re.compile(r"^(?:noreg|sgpr_null(?:64|_hi)?|src_.*)$")


@cache
def sub_register_lanes(index: str) -> int:
    """The lanes of a sub-register index (`sub1`, `sub0_sub1`, `hi16`, `sub1_lo16`). Raises ValueError."""
    if index in ("lo16", "hi16"):
        return 1 << (index == "hi16")
    lanes = 0
    half = None
    for item in index.split("_"):
        found = _SUB.fullmatch(item)
        if found:
            lanes |= 0b11 << int(found[1]) * LANES_PER_DWORD
        elif item in ("lo16", "hi16"):
            half = item
        else:
            raise ValueError(f"unknown sub-register index {index}")
    if half is not None:
        lowest = lanes & -lanes
        return lowest if half == "lo16" else lowest << 1
    return lanes


@cache
def class_lanes(register_class: str) -> int:
    """All lanes of a register of a class (`vreg_64_align2`). Raises ValueError for a class of unknown size."""
    found = _CLASS_BITS.search(register_class)
    if found is None:
        raise ValueError(f"unknown register class {register_class}")
    return (1 << max(int(found[1]) // LANE_BITS, 1)) - 1


@cache
def is_vector_class(register_class: str) -> bool:
    """Whether registers of the class hold a value a lane (VGPRs, accumulation registers)."""
    return bool(_VECTOR_CLASS.match(register_class))


@cache
def physical_units(name: str) -> frozenset[str]:
    """The units of a physical register, named without `$`; none for registers that always read the same."""
    if _CONSTANT.match(name):
        return frozenset()
    if name in _PAIRS:
        return frozenset({f"{name}_lo", f"{name}_hi"})
    half = re.fullmatch(r"(.*\d)_(lo16|hi16)", name)
    if half and _TUPLE_ITEM.fullmatch(half[1]):
        return frozenset({f"{half[1]}.{half[2]}"})
    items = name.split("_")
    if all(_TUPLE_ITEM.fullmatch(item) for item in items):
        return frozenset(f"{item}.{part}" for item in items for part in ("lo16", "hi16"))
    return frozenset({name})
