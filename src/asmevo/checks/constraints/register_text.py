"""Register names as assembly writes them, as sets of register units."""

from __future__ import annotations

import re
from functools import cache

from asmevo.program.registers import NAMED_SPANS, RegisterFile, span

_FILES = {"v": RegisterFile.VGPR, "a": RegisterFile.AGPR, "s": RegisterFile.SGPR, "ttmp": RegisterFile.TTMP}
_NUMBERED = re.compile(r"(ttmp|v|a|s)(?:(\d{1,4})|\[(\d{1,4}):(\d{1,4})\])", re.ASCII)


@cache
def parse_registers(text: str) -> int:
    """The set of units that `text` names. Raises ValueError for anything that is no register."""
    if text in NAMED_SPANS:
        return NAMED_SPANS[text].mask
    found = _NUMBERED.fullmatch(text)
    if found is None:
        raise ValueError(f"`{text}` is no register; write v40, s[30:39], ttmp[0:15], vcc, exec or m0")
    first = int(found[2] or found[3])
    last = int(found[4] or first)
    registers = span(_FILES[found[1]], first, last - first + 1)
    if registers is None:
        raise ValueError(f"`{text}` is not in the register file")
    return registers.mask


def register_set(texts: tuple[str, ...] | None) -> int:
    """The union of several names; nothing for None."""
    mask = 0
    for text in texts or ():
        mask |= parse_registers(text)
    return mask
