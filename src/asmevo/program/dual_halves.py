"""The two halves of a dual instruction, each as the single instruction that computes the same.

`v_dual_X a, b, c` is `v_X a, b, c`; the select reads VCC without naming it, where a single one prints it. Both
halves read all their sources before either writes.
"""

from __future__ import annotations

from functools import cache

from msgspec import Struct

from asmevo.program.instruction import Decoded, Operand
from asmevo.program.registers import NAMED_SPANS
from asmevo.target.opcodes import opcode_info, opcode_mnemonics

_DUAL = "v_dual_"
_FORMS = ("_e32", "_e64")
_VCC = "vcc_lo"  # dual instructions exist in waves of 32 only
_IMPLICIT = {"exec": NAMED_SPANS["exec_lo"], "vcc": NAMED_SPANS["vcc_lo"], "mode": NAMED_SPANS["mode"]}


class DualHalf(Struct, frozen=True):
    """`text` is the single instruction in LLVM's syntax without an encoding's ending.

    `first_operand` is the place of its first operand among those of the dual instruction. `reads` are register units,
    implicit ones included; `reads_vcc` says that it reads VCC without naming it.
    """

    mnemonic: str
    text: str
    operands: tuple[Operand, ...]
    first_operand: int
    reads: int
    reads_vcc: bool


def dual_name(mnemonic: str, family: str) -> str | None:
    """The name that a single instruction has as half of a dual one; None where it cannot be one."""
    name = _DUAL + stem(mnemonic).removeprefix("v_")
    return name if mnemonic.startswith("v_") and name in _dual_names(family) else None


@cache
def stem(mnemonic: str) -> str:
    """A mnemonic without the ending of its encoding."""
    return next((mnemonic.removesuffix(form) for form in _FORMS if mnemonic.endswith(form)), mnemonic)


def halves_of(decoded: Decoded) -> tuple[DualHalf, DualHalf]:
    """The halves of a dual instruction. Raises ValueError for one that is none."""
    texts = [part.strip() for part in decoded.text.split("::")]
    if len(texts) != 2:
        raise ValueError(f"`{decoded.text}` is no dual instruction")
    starts = [place for place, operand in enumerate(decoded.operands) if operand.written]
    if len(starts) != 2:
        raise ValueError(f"`{decoded.text}` does not have two results")
    return (
        _half(texts[0], decoded.operands[: starts[1]], 0, decoded.family),
        _half(texts[1], decoded.operands[starts[1] :], starts[1], decoded.family),
    )


def half_text(single: str, name: str) -> str:
    """The text of a single instruction as half of a dual one called `name`."""
    operands = single.partition(" ")[2]
    select = "cndmask" in name
    return f"{name} {operands.removesuffix(f', {_VCC}') if select else operands}"


def _half(text: str, operands: tuple[Operand, ...], first: int, family: str) -> DualHalf:
    name, _, rest = text.partition(" ")
    info = opcode_info(name, family, operands=len(operands))
    implicit = info.implicit_reads if info is not None else ()
    reads_vcc = "vcc" in implicit and all(operand.text != _VCC for operand in operands)
    reads = 0
    for span in (*(each.registers for each in operands if each.read), *map(_IMPLICIT.get, implicit)):
        reads |= span.mask if span is not None else 0
    mnemonic = "v_" + name.removeprefix(_DUAL)
    shown = f"{rest}, {_VCC}" if reads_vcc else rest
    return DualHalf(mnemonic, f"{mnemonic} {shown}", operands, first, reads, reads_vcc)


@cache
def _dual_names(family: str) -> frozenset[str]:
    return frozenset(name for name in opcode_mnemonics(family) if name.startswith(_DUAL))
