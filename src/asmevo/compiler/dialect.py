"""What LLVM prints as machine IR and does not read again, respelled.

In kernels with waves of 32 LLVM names `$vcc_lo` where its instruction table says VCC, but its reader compares with
the table (`missing implicit register operand 'implicit $vcc'`). So on instructions whose table row says VCC, and only
there, an implicit `$vcc_lo` becomes `$vcc`. The half that nobody wrote is not read by such an instruction in a wave
of 32.
"""

from __future__ import annotations

import re

from asmevo.compiler.machine_opcodes import opcode_facts

_INSTRUCTION = re.compile(r"^    +(?:[^\n]*? = )?(?:[a-z-]+ )*([A-Z]\w*)\b[^\n]*$", re.MULTILINE)
_HALF = re.compile(r"(\bimplicit(?:-def)? (?:[a-z]+ )*)\$vcc_lo\b")


def readable(text: str, gpu: str) -> str:
    """Machine IR that LLVM reads, from machine IR that it printed."""

    def respelled(found: re.Match[str]) -> str:
        facts = opcode_facts(found[1], gpu)
        if facts is None or "implicit_vcc" not in facts.flags:
            return found[0]
        return _HALF.sub(r"\1$vcc", found[0])

    return _INSTRUCTION.sub(respelled, text)
