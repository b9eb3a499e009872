"""A memory operand of machine IR: what LLVM still knows of the IR access behind an instruction.

invariant load (s128) from %ir.base + 16, align 4, !tbaa !7, !alias.scope !9, !noalias !12, addrspace 4
"""

from __future__ import annotations

import re

from msgspec import Struct

from asmevo.compiler.splitting import split_outside

_ACCESS = re.compile(
    r"(?P<flags>(?:(?:\"[^\"]*\"|[a-z-]+)\s+)*?)"
    r"(?P<access>load store|load|store)\s+"
    r"(?P<order>(?:syncscope\(\"[^\"]*\"\)\s+|(?:unordered|monotonic|acquire|release|acq_rel|seq_cst)\s+)*)"
    r"(?P<type>\([^()]*\)|unknown-size|\d+)"
    r"(?:\s+(?:from|into|on)\s+(?P<place>.*))?"
)
_PLACE = re.compile(r"(?P<base>.*?)(?:\s+(?P<sign>[+-])\s+(?P<offset>\d+))?")
_ELEMENTS = re.compile(r"<(\d+) x ([sp])(\d+)>")
_SCALAR = re.compile(r"s(\d+)")
_RELAXED = frozenset({"unordered"})


class MemoryOperand(Struct, frozen=True):
    """See the module. `size` in bytes, None where unknown; `base` as written, '' where unknown.

    `tbaa`, `scopes` and `noalias` are metadata ids as written (`!12`), '' where there are none.
    """

    flags: frozenset[str]
    loads: bool
    stores: bool
    ordered: bool
    size: int | None
    base: str
    offset: int
    address_space: int
    tbaa: str
    scopes: str
    noalias: str


def parse_memory_operand(text: str) -> MemoryOperand:
    """Reads what stands between the brackets. Raises ValueError."""
    first, *attributes = (part.strip() for part in split_outside(text, ","))
    found = _ACCESS.fullmatch(first)
    if found is None:
        raise ValueError(f"memory operand `({text})` is no load or store")
    flags = frozenset(found["flags"].split())
    orders = {word for word in found["order"].split() if not word.startswith("syncscope")}
    named = dict(part.split(" ", 1) for part in attributes if " " in part)
    place = _PLACE.fullmatch(found["place"] or "")
    assert place is not None  # the expression fits every text
    offset = int(place["offset"] or 0) * (-1 if place["sign"] == "-" else 1)
    return MemoryOperand(
        flags=flags,
        loads="load" in found["access"],
        stores="store" in found["access"],
        ordered="volatile" in flags or bool(orders - _RELAXED),
        size=_bytes(found["type"]),
        base=place["base"].strip(),
        offset=offset,
        address_space=int(named.get("addrspace", "0")),
        tbaa=named.get("!tbaa", ""),
        scopes=named.get("!alias.scope", ""),
        noalias=named.get("!noalias", ""),
    )


def _bytes(text: str) -> int | None:
    inner = text.strip("()")
    if text.isdigit():
        return int(text)
    scalar = _SCALAR.fullmatch(inner)
    if scalar:
        return (int(scalar[1]) + 7) // 8
    vector = _ELEMENTS.fullmatch(inner)
    if vector and vector[2] == "s":
        return (int(vector[1]) * int(vector[3]) + 7) // 8
    return None
