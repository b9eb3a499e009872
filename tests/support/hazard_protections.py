"""What compilers put in against hazards, and when it was not needed: `reason` looks at the code around it only.

* alignment: on RDNA an `s_nop` that stands before another `s_nop` or at a loop head pads the code; no RDNA
  hazard but NSA, the denormal mode and the hand-back of VGPRs asks for wait states,
* packed: LLVM takes the `op_sel_hi` bit of a packed operation for a write of the upper half (gfx940 family),
* dpp: LLVM keeps two states before every VGPR that a DPP instruction reads, the hardware needs them for src0,
* untouched: what the next instruction reads are no SGPRs written after a VALU instruction read from their pair
  (SALU needs no wait for what VALU wrote). LLVM 22 asks all the same where VALU read a trap register: it takes
  `ttmp` registers for `s0`, whose number their pseudo registers have in LLVM's tables,
* covered: what stands there is repeated by another such instruction on every way out or in.
"""

from __future__ import annotations

from asmevo.analysis.control_flow import ControlFlow
from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Block, Kernel
from asmevo.program.registers import SGPR_MASK, VCC_MASK, VGPR_MASK

PROTECTIONS = frozenset({"s_nop", "v_nop", "s_waitcnt_depctr", "s_wait_alu"})


def without(kernel: Kernel, block: int, place: int) -> Kernel:
    blocks = list(kernel.blocks)
    old = blocks[block]
    rest = old.instructions[:place] + old.instructions[place + 1 :]
    blocks[block] = Block(old.index, old.labels, rest)
    return kernel.with_blocks(tuple(blocks))


def neighbours(kernel: Kernel, block: int, place: int) -> tuple[Instruction | None, Instruction | None]:
    instructions = kernel.blocks[block].instructions
    before = instructions[place - 1] if place else None
    return before, instructions[place + 1] if place + 1 < len(instructions) else None


def reason(kernel: Kernel, block: int, place: int) -> str:
    """Why the protection at this place is not needed, from the code around it; "" if nothing explains it."""
    instructions = kernel.blocks[block].instructions
    mine = instructions[place]
    before, after = neighbours(kernel, block, place)
    rdna = kernel.target.family.value.startswith(("gfx10", "gfx11", "gfx12"))
    if mine.mnemonic == "s_nop" and rdna:
        return "alignment"
    if before is not None and "packed" in before.flags:
        return "packed"
    recent = [each for each in instructions[max(0, place - 2) : place]]
    readers = [each for each in instructions[place + 1 : place + 3] if "dpp" in each.flags]
    if any(reader.reads & each.writes & VGPR_MASK for reader in readers for each in recent):
        return "dpp"
    if mine.mnemonic == "s_wait_alu" and after is not None and not _touches(kernel, block, place, after):
        return "untouched"
    if is_repeated(kernel, block, place):
        return "covered"
    return ""


def _touches(kernel: Kernel, block: int, place: int, after: Instruction) -> bool:
    by_salu, by_valu = rewritten_after_valu(kernel, block, place)
    return bool(after.reads & (by_salu if "salu" in after.flags else by_salu | by_valu))


def rewritten_after_valu(kernel: Kernel, block: int, place: int) -> tuple[int, int]:
    """SGPRs that SALU and that VALU may have written after a VALU instruction read from their 64-bit pair.

    Seen from this place. The order counts in the block itself, where a scalar or buffer memory instruction and a
    wait end what is under way; in blocks before it, all is taken to have been read first.
    """
    into = ControlFlow(kernel).predecessors
    seen: set[int] = set()
    waiting = list(into[block])
    while waiting:
        index = waiting.pop()
        if index not in seen:
            seen.add(index)
            waiting += into[index]
    before = [each for index in seen for each in kernel.blocks[index].instructions]
    read = by_salu = by_valu = 0
    for each in before:
        read |= _pairs(each.reads) if "valu" in each.flags else 0
    for each in before:
        by_salu |= each.writes & read if "salu" in each.flags else 0
        by_valu |= each.writes & read if "valu" in each.flags else 0
    for each in kernel.blocks[block].instructions[:place]:
        ends_all = "smem" in each.flags or "buffer" in each.mnemonic
        by_salu = 0 if ends_all or "sa_sdst(0)" in each.text else by_salu
        by_valu = 0 if ends_all or "va_sdst(0)" in each.text else by_valu
        read |= _pairs(each.reads) if "valu" in each.flags else 0
        by_salu |= each.writes & read if "salu" in each.flags else 0
        by_valu |= each.writes & read if "valu" in each.flags else 0
    return by_salu, by_valu


def _pairs(mask: int) -> int:
    """The SGPRs of a set with the other halves of their pairs."""
    scalar = mask & (SGPR_MASK | VCC_MASK)
    low = sum(1 << unit for unit in range(0, scalar.bit_length() + 1, 2))
    return scalar | (scalar & low) << 1 | (scalar & ~low) >> 1


def is_repeated(kernel: Kernel, block: int, place: int) -> bool:
    """The same protection at both or all ends: right behind, or at the start of every neighbouring block."""
    mine = kernel.blocks[block].instructions[place].text
    _, after = neighbours(kernel, block, place)
    if after is not None and after.mnemonic in PROTECTIONS:
        return True
    into = ControlFlow(kernel).predecessors[block]
    return (
        place == 0
        and bool(into)
        and all(any(each.text == mine for each in kernel.blocks[index].instructions) for index in into)
    )
